"""``vetro deployment``: the history of deployments and their reports."""

from __future__ import annotations

import click

from vetro.cli.connection import Connection, find_environment
from vetro.cli.output import emit_json, emit_rows, json_option, wants_json
from vetro.cli.progress import print_report

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
@click.argument("environment", required=False)
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
@click.argument("environment")
@click.argument("deployment_id")
@json_option
def show(environment: str, deployment_id: str) -> None:
    """Print the reports of one deployment."""
    with Connection() as connection:
        row = find_environment(connection, environment)
        path = f"/v1/environments/{row['id']}/deployments/{deployment_id}"
        reports = connection.get(path)["reports"]
    if wants_json():
        emit_json(reports)
        return
    for report in reports:
        print_report(report)
