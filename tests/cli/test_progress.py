"""Following a deployment: how it ends, and what is said when the view of it ends before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner

from vetro.cli import LazyGroup
from vetro.cli.client import deployment_progress as progress
from vetro.cli.client.connection import Connection
from vetro.cli.client.deployment_progress import await_deployment, follow_deployment
from vetro.cli.compute.servers import wait_task
from vetro.cli.environments.deployment import described_action, history_row
from vetro.http import Fault
from vetro.http.client import SyncClient, TransportError

ENVIRONMENT = {"id": "e1", "name": "web"}
Line = str | type[BaseException] | BaseException


def event(name: str, **data: Any) -> list[Line]:
    """The lines of a server-sent event."""
    return [f"event: {name}", f"data: {json.dumps(data)}", ""]


def report(number: int, text: str, level: str = "info") -> list[Line]:
    """The lines of a report."""
    return event("report", id=str(number), text=text, level=level, created="2026-11-22T16:21:47")


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> list[list[Line]]:
    """What each request for the events brings: lines, and errors in their place."""
    waiting: list[list[Line]] = []

    def stream_lines(_: SyncClient, *__: Any, **___: Any) -> Iterator[str]:
        if not waiting:
            raise TransportError("refused")
        for line in waiting.pop(0):
            if not isinstance(line, str):
                raise line
            yield line

    monkeypatch.setenv("VETRO_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("VETRO_TOKEN", "t")
    monkeypatch.setattr(SyncClient, "stream_lines", stream_lines)
    return waiting


def follow(*options: str, quietly: bool = False, seconds: float | None = None) -> tuple[int, str]:
    """Exit code and output of a command that follows a deployment."""

    @click.command(cls=LazyGroup, invoke_without_command=True)
    @click.option("--json", "as_json", is_flag=True)
    @click.pass_context
    def command(ctx: click.Context, as_json: bool) -> None:
        ctx.meta["vetro.json"] = as_json
        with Connection() as connection:
            how = await_deployment if quietly else follow_deployment
            ctx.exit(how(connection, ENVIRONMENT, "d1", seconds))

    done = CliRunner().invoke(command, list(options))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


OPENING = [*event("state", state="running"), *report(1, "opening")]


@pytest.mark.parametrize(
    ("outcome", "code", "word", "hint"),
    [
        ("success", 0, "Deployment done", None),
        ("failed", 1, "Deployment failed", "correct what the report names"),
        ("cancelled", 1, "Deployment cancelled", "env destroy"),
        ("interrupted", 1, "Deployment interrupted", "'vetro env deploy web'"),
        (None, 1, "Deployment failed", "correct what the report names"),
    ],
)
def test_the_word_and_the_hint_fit_the_end(
    streams: list[list[Line]], outcome: str | None, code: int, word: str, hint: str | None
) -> None:
    """Who cancels a deployment, or stops the service, has made no mistake in the environment."""
    state = "success" if outcome == "success" else "completed_w_errors"
    said = {"outcome": outcome} if outcome else {}  # a service of an older version names none
    streams.append([*OPENING, *event("end", state=state, **said)])
    found, text = follow()
    assert (found, word in text) == (code, True)
    assert ("Hint:" in text, "failed" in text) == (hint is not None, word.endswith("failed"))
    assert hint is None or hint in text


@pytest.mark.parametrize("more", [":", TransportError("timed out")], ids=["heartbeat", "silence"])
def test_who_waits_no_longer_is_told_that_it_goes_on(streams: list[list[Line]], more: Line) -> None:
    """Exit 1, what was seen so far, and how to see or end it."""
    streams.append([*OPENING, more])
    code, text = follow(seconds=1e-9)
    assert (code, "is still being deployed after 1e-09 seconds" in text) == (1, True)
    assert "vetro deployment cancel web" in text


@pytest.mark.parametrize("quietly", [False, True])
@pytest.mark.parametrize("error", [TransportError("reset"), None])
def test_a_service_that_stops_is_no_failure(
    streams: list[list[Line]], error: TransportError | None, quietly: bool
) -> None:
    """Its stream breaks, or ends in order: the outcome is not known, and how to see it is said."""
    streams.append([*OPENING, *([error] if error else [])])
    code, text = follow(quietly=quietly)
    assert code == 1
    assert "failed" not in text
    assert "the result is not known" in text
    assert "vetro env follow web" in text


def test_a_stream_that_is_cut_is_taken_up_again(streams: list[list[Line]]) -> None:
    """Something in between closed it: each report is shown once, and the end is the real one."""
    streams.append([*OPENING])
    streams.append([*OPENING, *report(2, "more"), *event("end", state="success")])
    code, text = follow()
    assert (code, text.count("opening"), text.count("more")) == (0, 1, 1)


@pytest.mark.parametrize("quietly", [False, True])
def test_whoever_stops_looking_is_told_that_it_goes_on(
    streams: list[list[Line]], quietly: bool
) -> None:
    """Ctrl-C ends the command alone: how to see the rest, and how to end it."""
    streams.append([*OPENING, KeyboardInterrupt()])
    code, text = follow(quietly=quietly)
    assert code == progress.INTERRUPTED
    for words in ("goes on", "vetro env follow web", "vetro deployment cancel web"):
        assert words in text


def test_whoever_stops_waiting_for_a_machine_is_told_where_its_task_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C while a node works ends the command alone, and names the call that shows the task."""

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Connection, "decoded", interrupted)
    with pytest.raises(click.exceptions.Exit) as ended:
        wait_task(object.__new__(Connection), "t1")
    assert ended.value.exit_code == progress.INTERRUPTED
    assert "The task t1 goes on: 'vetro cnapi /tasks/t1' shows it." in capsys.readouterr().err


def test_what_is_gone_was_destroyed(streams: list[list[Line]]) -> None:
    """404 for the events: the deletion has taken its environment away. Else a refusal is an error."""
    streams.append([Fault("gone", status=404)])
    assert follow()[0] == 0
    streams.append([Fault("not yours", status=403)])
    code, text = follow()
    assert (code, "not yours" in text) == (1, True)


def test_programs_get_the_state(streams: list[list[Line]]) -> None:
    """A line for each report, and the outcome; "unknown" when nobody knows it."""
    streams.append(OPENING)
    _, text = follow("--json")
    last = [json.loads(line) for line in text.splitlines() if line.startswith("{")][-1]
    assert last == {"deployment": "d1", "environment": "web", "state": "unknown", "outcome": None}
    streams.append([*OPENING, *event("end", state="completed_w_errors", outcome="cancelled")])
    _, text = follow("--json")
    assert json.loads(text.splitlines()[-1])["outcome"] == "cancelled"


def test_the_history_says_what_and_who() -> None:
    """deploy, delete, or an action with its application; the user by name where it is known."""
    services = [{"?": {"id": "a1", "type": "t", "name": "site"}, "x": {"?": {"id": "b1"}}}]
    row: dict[str, Any] = {
        "id": "d1", "environment_id": "e1", "description": {"services": services},
        "started": "2026-11-22T16:00:00", "finished": "2026-11-22T16:00:09",
        "user_id": "u1", "user_name": "ann",
    }  # fmt: skip
    assert described_action({**row, "action": None}) == "delete"
    assert described_action({**row, "action": {"method": "deploy", "object_id": "e1"}}) == "deploy"
    for of, words in (("a1", "status of site"), ("b1", "status of b1"), ("c1", "status of c1")):
        assert described_action({**row, "action": {"method": "status", "object_id": of}}) == words
    shown = history_row({**row, "action": None}, {"e1": "web"})
    assert (shown["who"], shown["took"], shown["environment"]) == ("ann", "9 s", "web")
    assert history_row({**row, "action": None, "user_name": ""}, {})["who"] == "u1"
