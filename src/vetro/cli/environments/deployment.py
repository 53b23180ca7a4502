"""``vetro deployment``: the history of deployments and their reports."""

from __future__ import annotations

import json

import click

from vetro.cli.client.answers import Environment, JsonObject
from vetro.cli.client.connection import Connection, find_environment, segment
from vetro.cli.client.deployment_progress import follow_deployment, print_report, wait_option
from vetro.cli.client.name_completion import ENVIRONMENT
from vetro.cli.environments.objects import application_name, objects_of
from vetro.cli.terminal.output import (
    PrintingGroup,
    emit_json,
    emit_object,
    emit_rows,
    fail,
    say,
    wants_json,
    word,
)
from vetro.cli.terminal.times import took

COLUMNS = [
    ("ID", "id"),
    ("ACTION", "what"),
    ("STATE", "state"),
    ("OUTCOME", "outcome"),
    ("BY", "who"),
    ("STARTED", "started"),
    ("TOOK", "took"),
    ("ENVIRONMENT", "environment"),
]


@click.group(cls=PrintingGroup)
def deployment() -> None:
    """Deployments and their reports."""


def history_of(connection: Connection, environment: str) -> str:
    """The id of an environment that is there, or that is gone and still has a history."""
    there: list[Environment] = connection.get(ENVIRONMENT.path)["environments"]
    if not any(environment in (one["id"], one["name"]) for one in there):
        gone: list[str] = [
            one["environment_id"]
            for one in connection.get("/v1/deployments")["deployments"]
            if one.get("environment_gone")
            and environment in (one["environment_id"], one.get("environment_name"))
        ]
        known = list(dict.fromkeys(gone))
        if len(known) > 1:
            fail(
                f"{len(known)} deleted environments were called {environment}",
                f"Give the id of one: {', '.join(known)}",
            )
        if known:
            return known[0]
    return str(find_environment(connection, environment)["id"])


@deployment.command("list")
@click.argument("environment", required=False, type=ENVIRONMENT)
@click.option("--env", "named", help="The same as ENVIRONMENT: a name or an id.")
def list_(environment: str | None, named: str | None) -> None:
    """List the deployments of ENVIRONMENT, or of the whole project.

    The newest come first. Those of environments that were destroyed are among them, as long as the
    service keeps them (history.days); ENVIRONMENT may be one of these. OUTCOME separates those that failed
    from those that somebody cancelled, that were interrupted because their engine ended, and that were
    abandoned with their environment.
    """
    environment = environment or named
    with Connection() as connection:
        path = "/v1/deployments"
        if environment:
            path = f"/v1/environments/{segment(history_of(connection, environment))}/deployments"
        rows: list[JsonObject] = connection.get(path)["deployments"]
        if wants_json():
            emit_json(rows)
            return
        names = {one["id"]: one["name"] for one in connection.get(ENVIRONMENT.path)["environments"]}
    emit_rows([history_row(one, names) for one in rows], COLUMNS)


def history_row(one: dict[str, object], names: dict[str, str]) -> JsonObject:
    """A deployment in a table. ``names``: those of environments, by their ids."""
    home = str(one["environment_id"])
    return {
        **one,
        "what": described_action(one),
        "who": one.get("user_name") or one.get("user_id"),
        "took": took(one["started"], one["finished"]),
        "environment": one.get("environment_name") or names.get(home) or home,
    }


def described_action(one: JsonObject) -> str:
    """What was done: ``deploy``, ``delete``, or an action and the application that it is of."""
    action: JsonObject | None = one.get("action")
    if action is None:
        return "delete"
    method, of = str(action.get("method")), action.get("object_id")
    if of in (None, one["environment_id"]):
        return method
    description: JsonObject = one.get("description") or {}
    for _, node in objects_of(description.get("services")):
        if node["?"].get("id") == of:
            return f"{method} of {application_name(node) or of}"
    return f"{method} of {of}"


@deployment.command("show")
@click.argument("environment", type=ENVIRONMENT)
@click.argument("deployment_id")
def show(environment: str, deployment_id: str) -> None:
    """Print the reports of one deployment.

    ENVIRONMENT may have been destroyed since.
    """
    with Connection() as connection:
        base = f"/v1/environments/{segment(history_of(connection, environment))}/deployments"
        hint = f"'vetro deployment list {word(environment)}' shows them."
        path = f"{base}/{segment(deployment_id)}"
        reports = connection.request("GET", path, hint=hint).json()["reports"]
        every: list[JsonObject] = [] if wants_json() else connection.get(base)["deployments"]
    if wants_json():
        emit_json(reports)
        return
    this = next((one for one in every if one["id"] == deployment_id), None)
    if this is not None:
        emit_object(history_row(this, {}), ["what", "who", "state", "outcome", "started", "took"])
        click.echo()
    for report in reports:
        print_report(report)
    if this is not None and this.get("waiting_on"):
        click.echo(f"It waits on {this['waiting_on']}")


@deployment.command("trace")
@click.argument("environment", type=ENVIRONMENT)
@click.argument("deployment_id", required=False)
def trace(environment: str, deployment_id: str | None) -> None:
    """Say which rules of XML workflows fired in a deployment, and why.

    Per round: what each rule matched, what it changed, what it sent. Secrets are masked, long texts
    cut. Without DEPLOYMENT_ID the newest. Applications have no workflows, and so no trace.
    """
    with Connection() as connection:
        base = f"/v1/environments/{segment(history_of(connection, environment))}/deployments"
        if deployment_id is None:
            newest = connection.get(base)["deployments"][:1]
            if not newest:
                fail(f"{environment} was never deployed", "'vetro env deploy' deploys it.")
            deployment_id = str(newest[0]["id"])
        hint = f"'vetro deployment list {word(environment)}' shows them."
        path = f"{base}/{segment(deployment_id)}/trace"
        rounds: list[JsonObject] = connection.request("GET", path, hint=hint).json()["rounds"]
    if wants_json():
        emit_json(rounds)
        return
    for one in rounds:
        click.echo(f"round {one['round']}")
        for event in one["events"]:
            click.echo(event_line(event))
    if not rounds:
        say("No rules ran: this deployment has no XML workflows")


def event_line(event: dict[str, object]) -> str:
    """An event of a trace: its kind, subject, place and details."""
    details = json.dumps(event["details"], ensure_ascii=False) if event["details"] else ""
    return f"  {event['kind']:8} {event['subject']}  {event['at']}  {details}".rstrip()


@deployment.command("cancel")
@click.argument("environment", type=ENVIRONMENT)
@click.argument("deployment_id", required=False)
@click.option("--reason", default="", help="Why: it is in the deployment's reports.")
@wait_option
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
                    f"'vetro deployment list {word(row['name'])}' shows those that were.",
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
