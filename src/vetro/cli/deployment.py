"""``vetro deployment``: the history of deployments and their reports."""

from __future__ import annotations

from typing import Any

import click

from vetro.cli.connection import Connection, find_environment, segment
from vetro.cli.names import ENVIRONMENT
from vetro.cli.output import emit_json, emit_rows, fail, json_option, say, wants_json
from vetro.cli.progress import follow_deployment, print_report

COLUMNS = [
    ("ID", "id"),
    ("STATE", "state"),
    ("CREATED", "created"),
    ("FINISHED", "finished"),
    ("ENVIRONMENT", "environment_id"),
]


@click.group()
def deployment() -> None:
    """Deployments and their reports."""


@deployment.command("list")
@click.argument("environment", required=False, type=ENVIRONMENT)
@json_option
def list_(environment: str | None) -> None:
    """List the deployments of ENVIRONMENT, or of the whole project."""
    with Connection() as connection:
        path = "/v1/deployments"
        if environment:
            row = find_environment(connection, environment)
            path = f"/v1/environments/{row['id']}/deployments"
        emit_rows(connection.get(path)["deployments"], COLUMNS)


@deployment.command("show")
@click.argument("environment", type=ENVIRONMENT)
@click.argument("deployment_id")
@json_option
def show(environment: str, deployment_id: str) -> None:
    """Print the reports of one deployment."""
    with Connection() as connection:
        row = find_environment(connection, environment)
        base = f"/v1/environments/{row['id']}/deployments"
        hint = f"'vetro deployment list {environment}' shows them."
        path = f"{base}/{segment(deployment_id)}"
        reports = connection.request("GET", path, hint=hint).json()["reports"]
        every: list[dict[str, Any]] = [] if wants_json() else connection.get(base)["deployments"]
    if wants_json():
        emit_json(reports)
        return
    for report in reports:
        print_report(report)
    for one in every:
        if one["id"] == deployment_id and one.get("waiting_on"):
            click.echo(f"It waits on {one['waiting_on']}")


@deployment.command("cancel")
@click.argument("environment", type=ENVIRONMENT)
@click.argument("deployment_id", required=False)
@click.option("--reason", default="", help="Why: it is in the deployment's reports.")
@click.option("--wait/--no-wait", default=True, help="Follow it to its end (default).")
@json_option
def cancel(environment: str, deployment_id: str | None, reason: str, wait: bool) -> None:
    """End the deployment of ENVIRONMENT that runs or waits.

    What it has built by then stays: deploy again to finish it, or destroy the environment.
    """
    with Connection() as connection:
        row = find_environment(connection, environment)
        base = f"/v1/environments/{row['id']}/deployments"
        if deployment_id is None:
            newest = connection.get(base)["deployments"][:1]
            if not newest or newest[0]["finished"]:
                fail(
                    f"No deployment of {row['name']} is going on",
                    f"'vetro deployment list {row['name']}' shows those that were.",
                )
            deployment_id = str(newest[0]["id"])
        body = {"reason": reason} if reason else {}
        ended = connection.request("POST", f"{base}/{segment(deployment_id)}/cancel", json=body)
        if wants_json():
            emit_json(ended.json())
        elif wait:
            follow_deployment(connection, row, deployment_id)
        else:
            say("Cancelled" if ended.json()["finished"] else "It is going to end")
