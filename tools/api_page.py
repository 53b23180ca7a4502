"""Writes docs/api.md from the OpenAPI documents of the faces and tools/api_examples.sh; `make docs` calls it.

The examples are a script in parts, each below a line `#: PART`; tests/cli/stock/test_commands.py runs
all of them, in the order of the page, against a service.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import api_documents

from vetro.http import Face
from vetro.messaging import Mailboxes
from vetro.repository import Repository, RepositorySection, repository_face
from vetro.storage import Database

Json = dict[str, Any]
EXAMPLES = Path(__file__).with_name("api_examples.sh")
HEAD = """# HTTP API

Written by `make docs` from the faces' OpenAPI documents and `tools/api_examples.sh`. How the calls behave
together (sessions, limits, conditional requests, policy) is told in [api-guide.md](api-guide.md); the calls
of the compute service are in [compute/endpoints.md](compute/endpoints.md).

All faces share a port (8082), unless they are served alone. Each describes itself at
`PREFIX/schema/openapi.json`, whose types are those below.

| prefix | face |
|---|---|
{faces}| `/compute` | [compute nodes, machines, images, networks, addresses](compute/endpoints.md) |
| `/healthz`, `/readyz`, `/metrics` | operations ([metrics.md](metrics.md)) |

A token goes into `X-Auth-Token` (`vetro token` prints one). In *takes* a name with `*` is required, `?name`
is a query parameter; what is neither this nor a header is a property of the body. *Answers* names the
successful answer and the errors that are the call's own. These every call can have: {common};
with a body also 413, 415 and 507; a GET also 304; of the catalog 429.

The examples of this page are one script, in its order; the tests run it. It needs an `openrc` sourced.
It begins:
"""
FACES = {
    "": "catalog, environments, deployments, templates; without `/v1` the v0.3 dialect ([v03.md](v03.md))",
    "/identity": "Keystone v3: tokens, users, projects, roles ([identity.md](identity.md))",
    "/repository": "metadata repository of v0.3 services ([v03.md](v03.md))",
    "/agents": "mailboxes of guests ([guest.md](guest.md))",
    "/dashboard": "sessions of the dashboard ([dashboard.md](dashboard.md))",
}
COMMON = (400, 401, 403, 406, 408, 414, 431, 500, 503)
WITH_BODY = (413, 415, 507)
VERBS = ("get", "post", "put", "patch", "delete")
#: The parts of the catalog face: a heading, the part of the examples, and the paths.
TOPICS = (
    ("Environments", "environments", r"/v1/environments(/\{environment_id\})?$"),
    ("Sessions", "sessions", r"/v1/environments/\{environment_id\}/(configure|sessions)"),
    ("Applications", "services", r"/v1/environments/\{environment_id\}/services"),
    ("Object model", "model", r"/v1/environments/\{environment_id\}/model"),
    (
        "Deployments",
        "deployments",
        r"/v1/(deployments|environments/\{environment_id\}/(depl|last))",
    ),
    ("Actions", "", r"/v1/(actions|environments/\{environment_id\}/actions)"),
    ("Categories", "categories", r"/v1/catalog/categories"),
    ("Packages", "packages", r"/v1/catalog/"),
    ("Environment templates", "templates", r"/v1/templates"),
    ("Versions of packages", "", r"/v1/(upgrades|environments/\{environment_id\}/(upgr|pack))"),
    ("Schemas", "schemas", r"/v1/schemas"),
    ("Forms", "", r"/v1/wizards"),
    ("Sizes and statistics", "flavors", r"/v1/"),
    ("The v0.3 dialect", "", r"/environments"),
    ("Versions of the API", "", r"/"),
)


async def faces(directory: Path) -> list[Face]:
    """Every face of the page, without compute, on an empty database."""
    database = await Database.open(f"sqlite:///{directory}/more.db", data_dir=directory)
    try:
        known = await api_documents.faces(directory)
        tokens = known[0].app.authenticator
        assert tokens is not None
        repository = Repository(database, RepositorySection(), directory)
        found = [*known, repository_face(repository, tokens), Mailboxes(database).face()]
        order = list(FACES)
        chosen = [face for face in found if face.prefix in order]
        return sorted(chosen, key=lambda face: order.index(face.prefix))
    finally:
        await database.close()


def examples() -> dict[str, str]:
    """The parts of the script, as blocks of the page."""
    parts = re.split(r"^#: (\w+)\n", EXAMPLES.read_text(encoding="utf-8"), flags=re.M)[1:]
    return {
        name: f"\n```sh\n{text}```\n" for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


def page() -> str:
    """The whole page. Errors: ``SystemExit`` when a part of the examples has no place in it."""
    with tempfile.TemporaryDirectory() as directory:
        served = asyncio.run(faces(Path(directory)))
    shown = examples()
    rows = "".join(
        f"| {f'`{prefix}`' if prefix else '`/v1`'} | {text} |\n" for prefix, text in FACES.items()
    )
    common = ", ".join(map(str, COMMON))
    parts = [HEAD.format(faces=rows, common=common), shown.pop("start")]
    for face in served:
        document = face.document()
        title = document["info"]["title"].removeprefix("Vetro ")
        parts.append(f"\n## {title[0].upper()}{title[1:]}\n")
        if not face.prefix:
            for heading, example, calls in _by_topic(document):
                parts.append(f"\n### {heading}\n{_table(calls, '')}{shown.pop(example, '')}")
        else:
            example = shown.pop(face.prefix[1:], "")
            parts.append(_table(list(document["paths"].items()), face.prefix) + example)
        parts.append(_types(document["components"]["schemas"]))
    if shown:
        raise SystemExit(f"{EXAMPLES.name}: no part of docs/api.md is called {', '.join(shown)}")
    return "".join(parts)


def _by_topic(document: Json) -> Iterator[tuple[str, str, list[tuple[str, Json]]]]:
    left = dict(document["paths"])
    for heading, example, pattern in TOPICS:
        paths = [path for path in left if re.match(pattern, path)]
        yield heading, example, [(path, left.pop(path)) for path in paths]


def _table(paths: Iterable[tuple[str, Json]], prefix: str) -> str:
    lines = ["\n| call | | takes | answers |\n|---|---|---|---|\n"]
    for path, item in paths:
        for verb in VERBS:
            if verb in item:
                call = item[verb]
                about = " ".join((call.get("description") or "").split("\n\n")[0].split())
                cells = (about.replace("``", "`"), _taken(call), _answers(call, prefix))
                escaped = " | ".join(one.replace("|", "\\|") for one in cells)
                lines.append(f"| {verb.upper()} `{prefix}{path}` | {escaped} |\n")
    return "".join(lines)


def _taken(call: Json) -> str:
    names: list[str] = []
    parameters: list[Json] = call.get("parameters") or []
    for one in parameters:
        if one["in"] != "path":
            sign = "?" if one["in"] == "query" else ""
            names.append(f"`{sign}{one['name']}`{'*' if one['required'] else ''}")
    body: dict[str, Json] = cast("Json", call.get("requestBody") or {}).get("content", {})
    for kind, content in body.items():
        schema: Json = content.get("schema") or {}
        needed: list[str] = schema.get("required") or []
        fields = [
            f"`{name}`{'*' if name in needed else ''}" for name in schema.get("properties") or ()
        ]
        names += fields or ["any JSON" if kind == "application/json" else ""]
        if kind != "application/json":
            names.append(f"as `{kind}`")
    return ", ".join(one for one in names if one)


def _answers(call: Json, prefix: str) -> str:
    said: list[str] = []
    usual = {304, *COMMON, *(WITH_BODY if "requestBody" in call else ())}
    usual |= set() if prefix else {429}
    for code, one in sorted(call["responses"].items()):
        if int(code) in usual:
            continue
        if int(code) >= 300:
            said.append(str(code))
            continue
        kinds = [
            _kind(content["schema"]) if media.endswith("json") else f"`{media}`"
            for media, content in one.get("content", {}).items()
        ]
        said.append(f"{code} {', '.join(kinds)}".strip())
    return "; ".join(said)


def _kind(schema: Json) -> str:
    """A schema in a word or two."""
    if "$ref" in schema:
        return "`" + str(schema["$ref"]).rpartition("/")[2] + "`"
    if "anyOf" in schema or "oneOf" in schema:
        return " or ".join(_kind(one) for one in schema.get("anyOf") or schema["oneOf"])
    kind: str | list[str] = schema.get("type", "any JSON")
    if kind == "array":
        return f"list of {_kind(schema.get('items') or {})}"
    if kind == "object" and schema.get("properties"):
        return "{" + ", ".join(f"`{name}`" for name in schema["properties"]) + "}"
    return " or ".join(kind) if isinstance(kind, list) else kind


def _types(schemas: Json) -> str:
    lines = [] if not schemas else ["\nTypes (what may be absent is marked `?`):\n\n"]
    for name, schema in sorted(schemas.items()):
        needed: list[str] = schema.get("required") or []
        properties: dict[str, Json] = schema.get("properties") or {}
        fields = [
            f"`{one}{'' if one in needed else '?'}` {_kind(form)}"
            for one, form in properties.items()
        ]
        if fields:
            lines.append(f"- **{name}**: {', '.join(fields)}\n")
    return "".join(lines)
