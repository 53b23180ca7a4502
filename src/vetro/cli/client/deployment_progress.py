"""A deployment as it goes: its reports live in a terminal, as plain lines in a pipe, or as JSON."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Generator

import click

from vetro.cli.client.answers import Deployment, Environment, Report
from vetro.cli.client.connection import Connection, StreamBroke, WaitedEnough
from vetro.cli.terminal.output import emit_json_line, fail, wants_json, word
from vetro.cli.terminal.times import clock
from vetro.http import Fault

INTERRUPTED = 130
UNKNOWN = "unknown"
MARKS = {
    "info": ("•", "cyan"),
    "warning": ("!", "yellow"),
    "error": ("✗", "red"),
}
wait_option = click.option("--wait/--no-wait", default=True, help="Follow it to its end (default).")
timeout_option = click.option(
    "--timeout",
    "seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Follow it no longer than that: exit 1 then, and it goes on.",
)


def latest_deployment(connection: Connection, environment_id: str) -> Deployment:
    """The newest deployment of an environment."""
    path = f"/v1/environments/{environment_id}/deployments"
    rows: list[Deployment] = connection.get(path)["deployments"]
    if not rows:
        fail("This environment was never deployed", "Deploy it with 'vetro env deploy'.")
    return max(rows, key=lambda row: (row["started"] or row["created"], row["created"]))


def print_report(report: Report) -> None:
    """One report as a line: time of day, mark, text, and its details below."""
    if wants_json():
        emit_json_line(report)
        return
    mark, colour = MARKS.get(str(report.get("level")), MARKS["info"])
    when = clock(report.get("created"))
    text = str(report.get("text", "")).rstrip()
    first, *rest = text.splitlines() or [""]
    click.echo(f"{click.style(when, dim=True)} {click.style(mark, fg=colour, bold=True)} {first}")
    below = " " * (len(when) + 3)
    for line in rest:
        click.echo(f"{below}{line}")
    details = report.get("details")
    if details:
        for line in str(details).splitlines():
            click.echo(click.style(f"{below}{line}", dim=True))
    sys.stdout.flush()


@contextlib.contextmanager
def goes_on(what: str) -> Generator[None]:
    """Ctrl-C in this block ends only the command: print that ``what`` continues, and how to follow or end
    it."""
    try:
        yield
    except KeyboardInterrupt as error:
        click.echo(f"\n{what}", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from error


def follow_deployment(
    connection: Connection,
    environment: Environment,
    deployment_id: str,
    seconds: float | None = None,
) -> int:
    """Print reports until the deployment ends; 0 when it succeeded, 1 when it did not.

    ``seconds``: the command ends when it takes longer.

    With ``--json`` a line for each report, and a last one with the outcome. Ends the command when the
    service stops answering: how the deployment ends is not known then.
    """
    name = environment["name"]
    state, ended = _watch(connection, environment, deployment_id, print_report, seconds)
    if wants_json():
        line = {"deployment": deployment_id, "environment": name, "state": state}
        emit_json_line({**line, "outcome": ended or None})
    refuse_unknown(name, state)
    ok = state in ("success", "completed_w_warnings")
    if not wants_json():
        word, hint = in_words(name, state, ended)
        click.echo(f"Deployment {click.style(word, fg='green' if ok else 'red')}: {name} ({state})")
        if hint:
            click.echo(f"Hint: {hint}", err=True)
    return 0 if ok else 1


def await_deployment(
    connection: Connection,
    environment: Environment,
    deployment_id: str,
    seconds: float | None = None,
) -> int:
    """The same without a word; for a command whose output is something else."""
    state, _ = _watch(connection, environment, deployment_id, lambda _: None, seconds)
    refuse_unknown(environment["name"], state)
    return 0 if state in ("success", "completed_w_warnings") else 1


def refuse_unknown(name: str, state: str) -> None:
    """End the command when it is not known how a deployment ends."""
    if state == UNKNOWN:
        fail(
            f"The service stopped while {name} was being deployed: the result is not known",
            f"When it runs again, 'vetro env follow {word(name)}' shows it.",
        )


def in_words(name: str, state: str, outcome: str) -> tuple[str, str | None]:
    """How a deployment ended, in a word, and what to do now."""
    if state in ("success", "completed_w_warnings"):
        return "done", None
    if outcome == "cancelled":
        return "cancelled", (
            f"what it had built stays: 'vetro env deploy {word(name)}' finishes it,"
            f" 'vetro env destroy {word(name)}' removes it."
        )
    if outcome == "interrupted":
        return (
            "interrupted",
            f"nothing is wrong with {name}: 'vetro env deploy {word(name)}' finishes it.",
        )
    return "failed", (
        "correct what the report names, then deploy again;"
        f" 'vetro deployment list {word(name)}' keeps the history."
    )


def _watch(
    connection: Connection,
    environment: Environment,
    deployment_id: str,
    show: Callable[[Report], None],
    seconds: float | None = None,
) -> tuple[str, str]:
    """The state in which a deployment ended, and its outcome. A stream that ends is opened again."""
    name = environment["name"]
    path = f"/v1/environments/{environment['id']}/deployments/{deployment_id}/events"
    seen: set[str] = set()
    until = None if seconds is None else time.monotonic() + seconds
    with goes_on(
        f"The deployment of {name} goes on: 'vetro env follow {word(name)}' shows it again,"
        f" 'vetro deployment cancel {word(name)}' ends it."
    ):
        while True:
            answered = False
            try:
                for event, data in connection.events(path, until):
                    answered = True
                    if event == "report" and data["id"] not in seen:
                        seen.add(data["id"])
                        show(data)
                    elif event == "end":
                        return str(data.get("state")), str(data.get("outcome") or "")
            except WaitedEnough:
                fail(
                    f"{name} is still being deployed after {seconds:g} seconds; the deployment continues",
                    f"'vetro env follow {word(name)}' shows it,"
                    f" 'vetro deployment cancel {word(name)}' ends it.",
                )
            except StreamBroke:
                return UNKNOWN, ""
            except Fault as fault:
                if fault.status == 404:
                    # An environment goes with its last deployment, the one that destroys it.
                    return "success", "success"
                fail(f"The deployment of {name} cannot be followed: {fault.message}")
            if not answered:
                return UNKNOWN, ""
