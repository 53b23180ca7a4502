"""``vetro env patch`` and ``session``: for scripts that change an environment by a JSON Patch."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, TextIO, cast

import click

from vetro.cli.client.answers import JsonObject
from vetro.cli.client.connection import Connection, find_environment
from vetro.cli.client.name_completion import ENVIRONMENT
from vetro.cli.environments.editing import session_and_services
from vetro.cli.environments.sessions import SESSION, open_session_of
from vetro.cli.terminal.documents import json_in
from vetro.cli.terminal.output import (
    PrintingCommand,
    done,
    emit_json,
    emit_object,
    fail,
    shown,
    wants_json,
    word,
)
from vetro.cli.terminal.paths import TEXT
from vetro.cli.terminal.typed import note
from vetro.http.client import SyncResponse

MODEL_PATCH = "application/env-model-json-patch"
REFUSE_USED = {"uses": "refuse"}
"""Of a request that may take out what other applications use: it is refused then."""
_PLACE = re.compile(r"===id(\d+)===")


@click.command("patch", short_help="Change applications by a JSON Patch.", cls=PrintingCommand)
@click.argument("environment", type=ENVIRONMENT)
@click.argument("file", type=TEXT, default="-")
@click.option("--model", is_flag=True, help="Paths begin at the model, not at its applications.")
@SESSION
def patch(environment: str, file: TextIO, model: bool, session: str | None) -> None:
    """Change the applications of ENVIRONMENT by a JSON Patch in FILE, by default standard input.

    Paths begin at the list of applications ('/0/port', '/-'); each ===id1=== in a text is replaced by a
    new id, the same everywhere. With --model they begin at the model ('/region', '/services/0/port'),
    the operations are add, replace and remove, and the changed model is printed. The change waits in
    your session, as that of 'env add' does.

    \b
    Example:
      echo '[{"op": "replace", "path": "/0/port", "value": 8082}]' | vetro env patch web
    """
    steps = json_in(file, "A JSON Patch is a list of operations.")
    if not isinstance(steps, list):
        fail(f"{file.name}: a JSON Patch is a list of operations", exit_code=2)
    steps = with_ids(cast("list[object]", steps))
    for step in steps:
        if isinstance(step, dict):
            given = cast("JsonObject", step)
            note({str(given.get("path")).rpartition("/")[2]: given.get("value")})
    with Connection() as connection:
        row = find_environment(connection, environment)
        base = f"/v1/environments/{row['id']}"
        with session_and_services(connection, row, session) as (headers, services):
            if model:
                emit_json(shown(patch_model(connection, base, steps, headers).json()))
                return
            changed = _patched(services, steps, file.name)
            stored = connection.request(
                "PUT", f"{base}/services", json=changed, headers=headers, params=REFUSE_USED
            ).json()
    done(
        f"Changed; 'vetro env changes {word(row['name'])}' shows what waits to be deployed",
        services=stored,
    )


def patch_model(
    connection: Connection, base: str, steps: Sequence[object], headers: Mapping[str, str]
) -> SyncResponse:
    """Change a session's model by a JSON Patch, which lets nothing go that others use."""
    return connection.request(
        "PATCH",
        f"{base}/model/",
        content=json.dumps(steps).encode(),
        headers={**headers, "Content-Type": MODEL_PATCH},
        params=REFUSE_USED,
    )


@click.command("session", short_help="Print the session that commands change.", cls=PrintingCommand)
@click.argument("environment", type=ENVIRONMENT)
def session(environment: str) -> None:
    """Print the id of your session of ENVIRONMENT; opens one when there is none.

    It is what 'env add' and 'env deploy' use, and the value of the header X-Configuration-Session.
    """
    with Connection() as connection:
        row = find_environment(connection, environment)
        found = open_session_of(connection, row)
    if wants_json():
        emit_object({"id": found})
    else:
        click.echo(found)


def with_ids(steps: list[object]) -> list[object]:
    """The operations with a new id for each ``===idN===``, the same one for the same number."""
    new: dict[str, str] = {}

    def replaced(value: object) -> object:
        if isinstance(value, str):
            return _PLACE.sub(lambda found: new.setdefault(found[1], uuid.uuid4().hex), value)
        if isinstance(value, dict):
            members = cast("JsonObject", value).items()
            return {replaced(key): replaced(item) for key, item in members}
        if isinstance(value, list):
            return [replaced(item) for item in cast("list[object]", value)]
        return value

    return [replaced(step) for step in steps]


def _patched(services: list[JsonObject], steps: list[Any], name: str) -> list[object]:
    """The applications after the operations; the command ends when one cannot be done."""
    from jsonpath import JSONPatch
    from jsonpath.exceptions import JSONPatchError, JSONPointerError

    try:
        changed: Any = JSONPatch(steps).apply(services)
    except (JSONPatchError, JSONPointerError, TypeError, KeyError) as error:
        fail(f"{name}: {error}", "Nothing was changed.")
    if not isinstance(changed, list):
        fail(f"{name}: the patched value is not a list of applications", "Nothing was changed.")
    return cast("list[object]", changed)
