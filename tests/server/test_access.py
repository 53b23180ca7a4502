"""Who may make each call: every route of every face, as other projects, as members, as readers, as nobody.

The routes come from the applications that ``vetro up`` assembles. On the compute and identity faces a
route that is not named here is for operators, and must refuse everybody else; on the others every route
is named. So a new one cannot be open by being forgotten.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from litestar.routes import HTTPRoute

from vetro.compute.wire import node_key
from vetro.compute.work.agents import AgentClient
from vetro.http import ConnectionLimits, assemble
from vetro.http.client import HttpClient, Response
from vetro.messaging import Mailboxes
from vetro.node.work.api import TaskApi
from vetro.node.work.endpoints import ENDPOINTS
from vetro.server import up as up_module
from vetro.server.isolation import choose_instances
from vetro.server.settings import load_settings
from vetro.storage import Database, ManualClock

from .access_table import (
    CLOSED,
    GUESTS,
    MEMBERS,
    PASSWORD,
    SERVER,
    SHARED,
    TABLES,
    Names,
    Place,
    Row,
)

pytestmark = pytest.mark.usefixtures("quick_passwords")
#: Faces that answer for another project's things as for none (catalog-api.md wants 403 of its own).
SILENT = {"compute", "identity"}
_SHARED_BELOW = re.compile(
    r"[A-Z]+ (/v1/catalog)?"
    r"/(packages/{package_id}|categories/{category_id}|networks/{uuid}|images/{uuid})"
)


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    """What ``vetro up`` assembles, without its sockets, engines and node."""

    async def run(_self: Any, _agent: Any, call: Any) -> dict[str, Any]:
        data = {"user-data": "secret-data", "root_pw": "secret-password"}
        vm = {**call.params, "state": "running", "customer_metadata": data}
        return vm if call.task == "machine_load" else {"vm": vm}

    monkeypatch.setattr(AgentClient, "run", run)
    # The one heartbeat lasts: a server that fell silent would be a changed row, on a slow machine only.
    clock = ManualClock(datetime.now(UTC))
    monkeypatch.setattr(Database, "open", partial(Database.open, clock=clock))
    settings = load_settings(
        {
            "server.data_dir": str(tmp_path),
            "identity.admin_password": PASSWORD,
            "node.enabled": False,
            "engine.static_call_timeout": 0.01,
            "compute.prefetch_images": "none",  # nothing changes but by what is asked
        },
        environ={},
    )
    for name in ("packages", "images", "notify", "logs"):
        (tmp_path / name).mkdir(exist_ok=True)
    engine = SimpleNamespace(service_key="service-key", mailbox_url="")
    parts: Any = (settings, engine, None, choose_instances(settings, ""), ConnectionLimits(), ())
    whole: Any = up_module._Up(*parts)
    async with whole._rooms(8082) as (faces, agents, database, _):
        assembly = assemble([*faces, agents])
        async with (
            assembly.running(),
            HttpClient(app=assembly, base_url="http://vetro", timeout_seconds=240) as http,
        ):
            one = Place(http, [*faces, agents], database, tmp_path / "vetro.db")
            await people(one, (tmp_path / "node-key").read_text().strip())
            yield one


async def people(place: Place, key: str) -> None:
    """An operator; two members and a reader of our project, a member of another; a node and a stranger;
    two guests."""

    async def log_in(name: str, project: str) -> None:
        password = {"user": {"name": name, "domain": {"id": "default"}, "password": PASSWORD}}
        scope = {"project": {"name": project, "domain": {"id": "default"}}}
        body = {"auth": {"identity": {"methods": ["password"], "password": password},
                         "scope": scope}}  # fmt: skip
        answer = await place.call("", "POST", "/identity/v3/auth/tokens", body)
        assert answer.status == 201, answer.text
        place.tokens[name] = answer.headers["x-subject-token"]
        place.users[name] = answer.json()["token"]["user"]["id"]

    await log_in("admin", "admin")
    place.tokens["root"] = place.tokens["admin"]
    roles = (await place.ok("root", "GET", "/identity/v3/roles"))["roles"]
    named = {one["name"]: one["id"] for one in roles}
    for project in ("ours", "others"):
        body = {"project": {"name": project}}
        made = await place.ok("root", "POST", "/identity/v3/projects", body)
        place.projects[project] = made["project"]["id"]
    for name, project, role in (
        ("ann", "ours", "member"),
        ("bob", "ours", "member"),
        ("rob", "ours", "reader"),
        ("eve", "others", "member"),
    ):
        body = {"user": {"name": name, "password": PASSWORD}}
        user = (await place.ok("root", "POST", "/identity/v3/users", body))["user"]["id"]
        where = f"/identity/v3/projects/{place.projects[project]}/users/{user}/roles/{named[role]}"
        await place.ok("root", "PUT", where)
        await log_in(name, project)
    info = {"UUID": SERVER, "Hostname": "secret-host", "Setup": True, "Admin IP": "127.0.0.1",
            "MiB of Memory": "8192", "Live Image": "secret-platform"}  # fmt: skip
    path = f"/compute/servers/{SERVER}/sysinfo"
    await place.ok(node_key(key, SERVER), "POST", path, {"sysinfo": info})
    place.tokens["node"] = node_key(key, SERVER)
    place.tokens["other node"] = node_key(key, SERVER.replace("a001", "a002"))
    mailboxes = Mailboxes(place.database)
    for guest in ("ours", "others"):
        await mailboxes.declare(f"guest-{guest}")
        place.known.add(f"guest-{guest}")
        place.tokens[f"guest {guest}"] = await mailboxes.issue_credential(f"guest-{guest}")


def routes_of(face: Any) -> Iterator[tuple[str, str]]:
    """Method and path of every route of a face's application, its description left out."""
    for route in face.app.app.routes:
        assert isinstance(route, HTTPRoute), f"{face.name} has a route of another kind: {route}"
        path = re.sub(r"{(\w+)(:\w+)?}", r"{\1}", route.path_format)
        for method in sorted(set(route.methods) - {"OPTIONS", "HEAD"}):
            if not path.startswith("/schema"):
                yield method, path


def filled(path: str, names: Names) -> str:
    """A path with what is meant by its parameters; anything well-formed for what is not made."""
    usual = {"server_uuid": SERVER, "dataset": "pool", "class_name": "a.B", "method_names": "m"}

    def value(match: re.Match[str]) -> str:
        name = match[1]
        given = names.get(name) or usual.get(name) or str(uuid.UUID(int=7))
        return given.lstrip("/")

    return re.sub(r"{(\w+)}", value, path)


def test_every_route_is_accounted_for(place: Place) -> None:
    """The table names every route of the open faces, no other routes, and every shared one."""
    shared = {f"{method} {path}" for method, path, *_ in SHARED}
    for face in place.faces:
        there = {f"{method} {path}" for method, path in routes_of(face)}
        assert len(there) >= 4
        named = set(TABLES[face.name])
        assert named <= there, (face.name, named - there)
        if face.name not in CLOSED:
            assert there <= named, (face.name, there - named)
        below = {
            one.replace(" ", f" {face.prefix}", 1) for one in there if _SHARED_BELOW.match(one)
        }
        assert below <= shared, below - shared


def nobodys(names: Names) -> Names:
    """The same names for what nobody has."""
    return {name: value if value == SERVER else str(uuid.uuid4()) for name, value in names.items()}


def anonymous(answer: Response, names: Names) -> tuple[int, str]:
    """An answer without the names that were asked for, nor its own."""
    said = answer.text
    for one in (*names.values(), answer.headers.get("x-request-id", "-")):
        said = said.replace(one, "…")
    return answer.status, said


def reader_may(face: str, method: str, path: str, row: Row) -> bool | None:
    """Whether who only reads may make a call of a project; ``None``: it is no project's."""
    if row.kind not in ("people", "list", "owned", "operators"):
        return None
    if face == "identity":
        # What is one's own account's is no project's.
        return None if row.kind != "operators" else False
    reads = method == "GET" and f"{method} {path}" not in MEMBERS
    return reads and row.kind != "operators"


async def test_no_segment_of_a_path_is_left_out(place: Place) -> None:
    """Where a path has nothing between two slashes, or a slash written as ``%2F``, there is no call: 404."""
    problems: list[str] = []
    for face in place.faces:
        trees = {one.path for one in face.app.app.routes if ":path}" in one.path}
        trees = {re.sub(r"{(\w+)(:\w+)?}", r"{\1}", one) for one in trees}
        for method, path in routes_of(face):
            fixed = path.strip("/").split("/")[: -1 if path in trees else None]
            parts = filled(path, {}).strip("/").split("/")
            for at in range(1, len(fixed)):
                # The names of datasets have slashes.
                encoded = () if "{dataset}" in path else ("%2F", "/%2f")
                for between in ("//", *encoded):
                    target = "/".join(parts[:at]) + between + "/".join(parts[at:])
                    answer = await place.call("root", method, f"{face.prefix}/{target}")
                    if answer.status != 404 or "a segment of it" not in answer.text:
                        problems.append(f"{method} {target}: {answer.status} {answer.text[:100]}")
    assert not problems, "\n".join(problems)


async def refused(
    place: Place, problems: list[str], where: str, answer: Response, *statuses: int
) -> None:
    """Note an answer that has none of these statuses."""
    if answer.status not in statuses:
        problems.append(f"{where}: {answer.status} {answer.text[:200]}")


@pytest.mark.sampled(only=["agents", "catalog", "identity", "repository"])
@pytest.mark.parametrize("name", sorted(TABLES))
async def test_every_route_of_a_face_as_everybody(place: Place, name: str) -> None:
    """Without a token it is 401; users of other projects see and change nothing of this one; owners are
    admitted."""
    face = next(one for one in place.faces if one.name == name)
    problems: list[str] = []
    for method, path in routes_of(face):
        row = TABLES[name].get(f"{method} {path}", Row("operators"))
        names = await row.make(place) if row.make is not None else {}
        target = face.prefix + filled(path, names) + row.query
        where = f"{method} {face.prefix}{path}"
        more = {"Content_Type": row.type} if row.type else {}
        if "session_id" in names:
            more["X_Configuration_Session"] = names["session_id"]

        async def ask(who: str, at: str = target, one: Row = row, how: str = method,
                      headers: dict[str, str] = more) -> Response:  # fmt: skip
            return await place.call(who, how, at, one.body, **headers)

        before = place.rows()
        if row.kind != "public":
            for who in ("", "forged"):
                await refused(place, problems, f"{where} by {who!r}", await ask(who), 401)
        strangers = {
            "operators": ("ann", "eve", "node", "guest ours"),
            "node": ("ann", "eve", "other node", "guest ours"),
            "guest": ("ann", "node", "guest others"),
            "owned": ("eve", "node", "guest ours"),
            "list": ("eve", "node", "guest ours"),
        }.get(row.kind, ())
        if name == "identity":
            strangers = tuple(one for one in strangers if one in place.users)
        for who in strangers:
            answer = await ask(who)
            looks = row.kind == "list" or (row.kind, who) == ("guest", "guest others")
            allowed = (401, 403, 404) if not looks else (200, 202, 204, 400, 401, 403, 404)
            if who == "node" and "/images" in path and name == "compute":
                continue  # nodes fetch images: tests/compute says which
            await refused(place, problems, f"{where} by {who}", answer, *allowed)
            own = {value for value in names.values() if value in target}
            leaked = [one for one in place.known - own if one in answer.text]
            if leaked or "secret-" in answer.text:
                problems.append(f"{where} by {who} shows {leaked}: {answer.text[:300]}")
        if name in SILENT and "eve" in strangers and row.kind == "owned":
            said = {one: anonymous(await ask("eve", face.prefix + filled(path, of) + row.query), of)
                    for one, of in (("ours", names), ("nobody's", nobodys(names)))}  # fmt: skip
            if said["ours"] != said["nobody's"]:
                problems.append(f"{where} by eve tells whose it is: {said}")
        reader = reader_may(name, method, path, row)
        if reader is False:
            right = (403, 404) if name == "identity" else (403,)
            await refused(place, problems, f"{where} by a reader", await ask("rob"), *right)
        if (strangers or reader is False) and (after := place.rows()) != before:
            changed = {one for one in after if after[one] != before.get(one)}
            changed -= GUESTS if row.kind == "guest" else set()
        else:
            changed = set()
        if changed:
            problems.append(f"{where}: strangers, or readers, changed {changed}")
        if name == "catalog" and row.kind == "owned" and path.count("{") > 1 and "path" not in path:
            # A parent of one's own opens nothing that hangs on another's.
            theirs = await place.ok("eve", "POST", "/v1/environments", {"name": uuid.uuid4().hex})
            mixed = filled(path, {**names, "environment_id": theirs["id"]})
            if "environment_id" in path and "instance_id" not in path:
                answer = await ask("eve", mixed)
                await refused(place, problems, f"{where} below another", answer, 400, 403, 404)
        owner = {"operators": "root", "node": "node", "guest": "guest ours", "people": "eve"}.get(
            row.kind, "ann"
        )
        if row.kind == "operators" and row.make is None:
            continue  # their own tests say what these do
        if path.endswith("/events"):
            await place.call("ann", "POST", target.replace("/events", "/cancel"))
        if reader:
            # A session is its user's alone.
            right = (200, 202, 204, *row.good, *([401] if "{session_id}" in path else []))
            answer = await ask("rob")
            await refused(place, problems, f"{where} by a reader", answer, *right)
            if "secret-" in answer.text:
                problems.append(f"{where} by a reader shows a secret: {answer.text[:300]}")
        answer = await ask(owner)
        if answer.status not in row.good and answer.status >= 300:
            problems.append(f"{where} by {owner}: {answer.status} {answer.text[:300]}")
        if row.kind == "list" and not any(one in answer.text for one in (*names.values(),)):
            problems.append(f"{where} by {owner} lacks {names}: {answer.text[:300]}")
    assert not problems, "\n".join(problems)


async def test_what_is_shared_is_read_by_all_and_changed_by_operators(place: Place) -> None:
    """Members of any project read a public package, a category, the external network, an image."""
    problems: list[str] = []
    for method, path, make, body, type_, reads in SHARED:
        names = await make(place)
        before = place.rows()
        for who in ("ann", "eve"):
            more = {"Content_Type": type_} if type_ else {}
            answer = await place.call(who, method, filled(path, names), body, **more)
            await refused(
                place, problems, f"{method} {path} by {who}", answer, 200 if reads else 403
            )
        if place.rows() != before:
            problems.append(f"{method} {path} changed something")
    assert not problems, "\n".join(problems)


async def test_a_nodes_own_calls_need_its_key() -> None:
    """Every agent call but ping refuses a missing key, another node's key or another uuid."""

    async def ask(method: str, path: str, **headers: str) -> int:
        sent: list[dict[str, Any]] = []
        scope = {
            "type": "http", "method": method, "path": path, "query_string": b"",
            "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
        }  # fmt: skip

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"{}", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await api(scope, receive, send)
        return int(sent[0]["status"])

    key = node_key("the installation's", SERVER)
    stand_in: Any = type("Runner", (), {"paused": False, "history": type("H", (), {"shown": list})})
    api = TaskApi(stand_in, SERVER, key, "1")
    assert len(ENDPOINTS) >= 6
    other = node_key("the installation's", SERVER.replace("a001", "a002"))
    for endpoint in ENDPOINTS:
        path, method = endpoint.path, endpoint.verbs
        if endpoint.path_names:
            continue  # an image's file: its digest admits, too
        refused = [
            await ask(method, path),
            await ask(method, path, authorization=f"Bearer {other}"),
            await ask(method, path, authorization=f"Basic {base64.b64encode(key.encode())!r}"),
        ]
        public = path in ("/ping", "/openapi.json")
        assert endpoint.key is not public
        assert refused == ([200] * 3 if public else [401] * 3), path
        allowed = await ask(method, path, authorization=f"Bearer {key}")
        assert allowed not in (401, 403, 404), path
        wrong = {"authorization": f"Bearer {key}", "x-server-uuid": str(uuid.uuid4())}
        assert await ask(method, path, **wrong) == (200 if public else 404)
