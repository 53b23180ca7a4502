"""The session that the command line edits, and the changes that wait in it and in others.

The server keeps any number of sessions. The command line remembers its last one for each environment, so
that several ``vetro env add`` go into one deployment; what waits in one of the user's others is never
passed over without a word.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import click

from vetro.cli.client.answers import Environment, JsonObject, OpenSession, OvertakenSession
from vetro.cli.client.connection import Connection, error_text, hint_for
from vetro.cli.terminal.confirmation import agree_or
from vetro.cli.terminal.documents import read_json
from vetro.cli.terminal.output import fail, remark, word
from vetro.http.client import SyncResponse

SESSION = click.option(
    "--session", metavar="ID", help="Another session than the one that commands change."
)


def opened_sessions(connection: Connection, environment: Environment) -> list[OpenSession]:
    """The opened sessions of an environment with the changes they hold, newest first."""
    return connection.get(f"/v1/environments/{environment['id']}/sessions")["sessions"]


def open_session_of(
    connection: Connection, environment: Environment, *, create_one: bool = True
) -> str | None:
    """The id of the session this user edits, opened when there is none (and ``create_one``).

    The remembered one, else one of the user's that holds changes. Ends the command when changes of
    the user's were overtaken: they would be passed over.
    """
    own = [one for one in opened_sessions(connection, environment) if one["own"]]
    valid = [one for one in own if not one["overtaken"]]
    remembered = session_store().get(environment["id"])
    if any(one["id"] == remembered for one in valid):
        return remembered
    holding = [one for one in valid if one["changes"]]
    if not create_one:
        return holding[0]["id"] if holding else None
    name = environment["name"]
    lost = next((one for one in own if one["overtaken"] and one["changes"]), None)
    if lost is not None:
        fail(
            f"Another deployment of {name} has overtaken your changes: {lost['summary']}",
            f"'vetro env changes {word(name)} --take-over' keeps them for the next deploy; with --discard"
            " they are dropped.",
        )
    if holding:
        remark(f"Your session {holding[0]['id']} goes on: {holding[0]['summary']}")
        return remember_session(environment, holding[0]["id"])
    path = f"/v1/environments/{environment['id']}/configure"
    return remember_session(environment, connection.request("POST", path).json()["id"])


def remember_session(environment: Environment, session: str) -> str:
    """Edit this session from now on."""
    store = session_store()
    store[environment["id"]] = session
    save_session_store(store)
    return session


def forget_session(environment: Environment) -> None:
    """Edit none of an environment any more."""
    store = session_store()
    if store.pop(environment["id"], None):
        save_session_store(store)


def post_unless_pending(
    connection: Connection,
    path: str,
    *,
    json: object = None,
    agreed: bool,
    question: str,
    option: str,
    may_lose: Sequence[str],
) -> tuple[SyncResponse, list[OvertakenSession]]:
    """POST what would overtake sessions; the answer, and the sessions with changes that it overtook.

    When there are any the user is asked, or the command ends with what they hold; ``agreed``: the
    user has agreed already, with ``option``. ``may_lose``: the keys of what it may lose.
    """
    lets_go = {"mayLose": may_lose or [""]}
    answer = connection.answer("POST", path, json=json, params={"pending": "refuse", **lets_go})
    overtaken: list[OvertakenSession] = []
    if answer.status == 409 and '"PendingChanges"' in answer.text:
        error: JsonObject = answer.json()["error"]
        overtaken = error["pending"]
        agree_or(
            str(error["message"]),
            question,
            option=option,
            agreed=agreed,
            hint=f"Deploy or drop them first, or give {option}.",
        )
        answer = connection.answer("POST", path, json=json, params=lets_go)
    if answer.status >= 400:
        fail(error_text(answer), hint_for(answer))
    return answer, overtaken


def take_over(connection: Connection, environment: Environment, session: str) -> OpenSession | None:
    """Carry a session's changes to the model of now and edit that; ``None``, said, when it fails."""
    path = f"/v1/environments/{environment['id']}/sessions/{session}/rebase"
    answer = connection.answer("POST", path)
    if answer.status >= 400:
        remark(f"Not taken over: {error_text(answer)}")
        return None
    opened: OpenSession = answer.json()
    remember_session(environment, opened["id"])
    return opened


def _session_file() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local/state")
    return Path(base) / "vetro" / "sessions.json"


def session_store() -> dict[str, str]:
    """The remembered sessions: environment id to session id."""
    try:
        found = read_json(_session_file().read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return cast("dict[str, str]", found) if isinstance(found, dict) else {}


def save_session_store(store: dict[str, str]) -> None:
    """Remember sessions for later commands."""
    path = _session_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(store), encoding="utf-8")
