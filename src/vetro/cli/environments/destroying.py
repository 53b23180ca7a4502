"""``vetro env destroy``: what it takes away, and that it is gone."""

from __future__ import annotations

import sys

import click

from vetro.cli.client.answers import Environment
from vetro.cli.client.connection import Connection, find_environment
from vetro.cli.client.deployment_progress import follow_deployment, latest_deployment, wait_option
from vetro.cli.client.name_completion import ENVIRONMENT
from vetro.cli.environments.objects import application_name, is_machine, objects_of
from vetro.cli.environments.sessions import forget_session, opened_sessions
from vetro.cli.terminal.confirmation import agree, some_of, yes_option
from vetro.cli.terminal.output import PrintingCommand, counted, done


@click.command(
    "destroy", short_help="Remove environments and everything they made.", cls=PrintingCommand
)
@click.argument("environments", nargs=-1, required=True, type=ENVIRONMENT)
@click.option("--abandon", is_flag=True, help="Forget them; leave their machines as they are.")
@yes_option
@wait_option
def destroy(environments: tuple[str, ...], abandon: bool, wait: bool) -> None:
    """Remove ENVIRONMENTS and everything they made: machines and what is on their disks.

    Several are removed one after another; if one cannot be removed, the others still are, and the exit code
    is 1.
    """
    code = 0
    with Connection() as connection:
        rows = [find_environment(connection, one) for one in dict.fromkeys(environments)]
        lost = [what_is_lost(connection, row, abandon=abandon) for row in rows]
        agree("; ".join(lost), "Destroy it" if len(rows) == 1 else "Destroy them")
        for row in rows:
            code = _destroy(connection, row, abandon=abandon, wait=wait) or code
    if code:
        sys.exit(code)


def _destroy(connection: Connection, row: Environment, *, abandon: bool, wait: bool) -> int:
    """Remove one environment; the exit code."""
    params = {"abandon": "true"} if abandon else {}
    connection.request("DELETE", f"/v1/environments/{row['id']}", params=params)
    forget_session(row)
    if abandon or not wait:
        what = "abandoned" if abandon else "is being deleted"
        done(f"Environment {row['name']} {what}", environment=row["name"], state=what)
        return 0
    remaining = connection.get("/v1/environments")["environments"]
    if any(item["id"] == row["id"] for item in remaining):
        deployment = latest_deployment(connection, row["id"])
        code = follow_deployment(connection, row, deployment["id"])
        if code:
            return code
    done(f"Environment {row['name']} is gone", environment=row["name"], state="gone")
    return 0


def what_is_lost(connection: Connection, environment: Environment, *, abandon: bool) -> str:
    """What goes with an environment, in words: applications, machines, changes that wait."""
    services = connection.get(f"/v1/environments/{environment['id']}")["services"]
    names = [str(application_name(one) or one["?"]["id"]) for one in services]
    machines = [node["name"] for one in services for _, node in objects_of(one) if is_machine(node)]
    held = opened_sessions(connection, environment)
    waiting = [one["summary"] for one in held if one["changes"]]
    parts = [
        f"{counted(len(names), 'application')} ({some_of(names)})" if names else "",
        "" if abandon or not machines else f"{counted(len(machines), 'machine')} and their disks",
        f"changes that wait ({'; '.join(waiting)})" if waiting else "",
        "its history",
    ]
    left = f"; its machines ({len(machines)}) stay, and nothing knows them any more"
    return (
        f"Environment {environment['name']} would be {'forgotten' if abandon else 'destroyed'} with"
        f" {', '.join(part for part in parts if part)}{left if abandon and machines else ''}"
    )
