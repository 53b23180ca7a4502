"""A deployment as it goes: its reports live in a terminal, as plain lines in a pipe, or as JSON."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

import click

from vetro.cli.client.answers import Deployment, Environment, Loss, Report
from vetro.cli.client.connection import Connection, StreamBroke, WaitedEnough
from vetro.cli.terminal.output import emit_json_line, fail, remark, wants_json, word
from vetro.cli.terminal.times import clock
from vetro.http import Fault

INTERRUPTED = 130
UNKNOWN = "unknown"
SUCCESS = ("success", "completed_w_warnings")
"""States of a deployment that did what it was to do."""
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


@dataclass(frozen=True)
class Ended:
    """How a deployment ended. ``losses``: what it would have lost, if that is why it failed."""

    state: str
    outcome: str = ""
    losses: list[Loss] = field(default_factory=list[Loss])

    @property
    def code(self) -> int:
        """0 when it succeeded, 1 when it did not."""
        return 0 if self.state in SUCCESS else 1


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
        remark(f"\n{what}")
        raise click.exceptions.Exit(INTERRUPTED) from error


def follow_deployment(
    connection: Connection,
    environment: Environment,
    deployment_id: str,
    seconds: float | None = None,
) -> int:
    """Print reports until the deployment ends; 0 when it succeeded, 1 when it did not.

    See ``end_of``.
    """
    return end_of(connection, environment, deployment_id, seconds).code


def end_of(
    connection: Connection,
    environment: Environment,
    deployment_id: str,
    seconds: float | None = None,
) -> Ended:
    """Print reports until the deployment ends.

    ``seconds``: the command ends when it takes longer.

    With ``--json`` a line for each report, and a last one with the outcome. Ends the command when the
    service stops answering: how the deployment ends is not known then.
    """
    name = environment["name"]
    ended = _watch(connection, environment, deployment_id, print_report, seconds)
    if wants_json():
        line = {"deployment": deployment_id, "environment": name, "state": ended.state}
        losses = {"losses": ended.losses} if ended.losses else {}
        emit_json_line({**line, "outcome": ended.outcome or None, **losses})
    refuse_unknown(name, ended.state)
    if not wants_json() and not ended.losses:
        word, hint = in_words(name, ended.state, ended.outcome)
        colour = "red" if ended.code else "green"
        click.echo(f"Deployment {click.style(word, fg=colour)}: {name} ({ended.state})")
        if hint:
            remark(f"Hint: {hint}")
    return ended


def await_deployment(
    connection: Connection,
    environment: Environment,
    deployment_id: str,
    seconds: float | None = None,
) -> int:
    """The same without a word; for a command whose output is something else."""
    return quiet_end_of(connection, environment, deployment_id, seconds).code


def quiet_end_of(
    connection: Connection,
    environment: Environment,
    deployment_id: str,
    seconds: float | None = None,
) -> Ended:
    """How a deployment ends, without a word."""
    ended = _watch(connection, environment, deployment_id, lambda _: None, seconds)
    refuse_unknown(environment["name"], ended.state)
    return ended


def refuse_unknown(name: str, state: str) -> None:
    """End the command when it is not known how a deployment ends."""
    if state == UNKNOWN:
        fail(
            f"The service stopped while {name} was being deployed: the result is not known",
            f"When it runs again, 'vetro env follow {word(name)}' shows it.",
        )


def in_words(name: str, state: str, outcome: str) -> tuple[str, str | None]:
    """How a deployment ended, in a word, and what to do now."""
    if state in SUCCESS:
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
) -> Ended:
    """How a deployment ended. A stream that ends is opened again."""
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
                        outcome = str(data.get("outcome") or "")
                        return Ended(str(data.get("state")), outcome, data.get("losses") or [])
            except WaitedEnough:
                fail(
                    f"{name} is still being deployed after {seconds:g} seconds; the deployment continues",
                    f"'vetro env follow {word(name)}' shows it,"
                    f" 'vetro deployment cancel {word(name)}' ends it.",
                )
            except StreamBroke:
                return Ended(UNKNOWN)
            except Fault as fault:
                if fault.status == 404:
                    # An environment goes with its last deployment, the one that destroys it.
                    return Ended("success", "success")
                fail(f"The deployment of {name} cannot be followed: {fault.message}")
            if not answered:
                return Ended(UNKNOWN)
