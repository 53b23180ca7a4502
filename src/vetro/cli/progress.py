"""A deployment as it goes: its reports live in a terminal, as plain lines in a pipe, or as JSON."""

from __future__ import annotations

import sys
from typing import Any

import click

from vetro.cli.connection import Connection
from vetro.cli.output import emit_json_line, wants_json

MARKS = {
    "info": ("•", "cyan"),
    "warning": ("!", "yellow"),
    "error": ("✗", "red"),
}


def print_report(report: dict[str, Any]) -> None:
    """One report as a line: time, mark, text, and its details below."""
    if wants_json():
        emit_json_line(report)
        return
    mark, colour = MARKS.get(str(report.get("level")), MARKS["info"])
    clock = str(report.get("created", ""))[11:19]
    text = str(report.get("text", "")).rstrip()
    first, *rest = text.splitlines() or [""]
    click.echo(f"{click.style(clock, dim=True)} {click.style(mark, fg=colour, bold=True)} {first}")
    for line in rest:
        click.echo(f"           {line}")
    details = report.get("details")
    if details:
        for line in str(details).splitlines():
            click.echo(click.style(f"           {line}", dim=True))
    sys.stdout.flush()


def follow_deployment(
    connection: Connection, environment: dict[str, Any], deployment_id: str
) -> int:
    """Print reports until the deployment ends; 0 when it succeeded, 1 when it did not.

    With ``--json`` a line for each report, and a last one with the outcome.
    """
    path = f"/v1/environments/{environment['id']}/deployments/{deployment_id}/events"
    state = "running"
    seen: set[str] = set()
    for name, data in connection.events(path):
        if name == "report":
            if data["id"] not in seen:
                seen.add(data["id"])
                print_report(data)
        elif name in ("state", "end"):
            state = str(data.get("state", state))
            if name == "end" or not state.startswith("running"):
                break
    ok = state in ("success", "completed_w_warnings")
    if wants_json():
        outcome = {"deployment": deployment_id, "environment": environment["name"], "state": state}
        emit_json_line(outcome)
    else:
        word = click.style("done", fg="green") if ok else click.style("failed", fg="red")
        click.echo(f"Deployment {word}: {environment['name']} ({state})")
        if not ok:
            click.echo(
                "Hint: mend what the report says, then deploy again;"
                f" 'vetro deployment list {environment['name']}' keeps the history.",
                err=True,
            )
    return 0 if ok else 1
