"""``vetro action``: call what deployed applications offer."""

from __future__ import annotations

import sys
from typing import cast

import click

from vetro.cli.catalog.package import WHICH
from vetro.cli.catalog.package_lookup import newest_with_class
from vetro.cli.client.answers import JsonObject, OvertakenSession
from vetro.cli.client.connection import Connection, find_environment, segment
from vetro.cli.client.deployment_progress import (
    await_deployment,
    end_of,
    goes_on,
    quiet_end_of,
    timeout_option,
    wait_option,
)
from vetro.cli.client.name_completion import ENVIRONMENT
from vetro.cli.environments.applications import application_row
from vetro.cli.environments.editing import parse_settings
from vetro.cli.environments.losing import unless_lost, without_asking
from vetro.cli.environments.sessions import post_unless_pending, take_over
from vetro.cli.terminal.confirmation import yes_option
from vetro.cli.terminal.output import (
    PrintingGroup,
    done,
    emit_json,
    emit_rows,
    fail,
    wants_json,
)


@click.group(cls=PrintingGroup)
def action() -> None:
    """Actions of deployed applications."""


def all_actions(value: object) -> list[JsonObject]:
    """Every action below a model value, with the object it belongs to."""
    found: list[dict[str, object]] = []
    if isinstance(value, dict):
        node = cast("JsonObject", value)
        header = node.get("?")
        if isinstance(header, dict):
            name = application_row(node)["name"]
            for key, body in cast("JsonObject", header.get("_actions") or {}).items():
                found.append({"id": key, "object": name or header.get("id"), **body})
        for item in node.values():
            found.extend(all_actions(item))
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            found.extend(all_actions(item))
    return found


@action.command("list")
@click.argument("environment", type=ENVIRONMENT)
def list_(environment: str) -> None:
    """List the actions of everything in ENVIRONMENT."""
    with Connection() as connection:
        row = find_environment(connection, environment)
        model = connection.get(f"/v1/environments/{row['id']}/model/")
    emit_rows(
        all_actions(model),
        [("ACTION", "name"), ("OF", "object"), ("ENABLED", "enabled"), ("ID", "id")],
    )


@action.command("call", short_help="Call an action and print its result.")
@click.argument("environment", type=ENVIRONMENT)
@click.argument("name_or_id")
@click.option("--arg", "arguments", multiple=True, metavar="NAME=VALUE", help="An argument.")
@click.option(
    "--keep-pending",
    is_flag=True,
    help="Also when changes wait to be deployed; yours are kept for the next deploy.",
)
@yes_option
@wait_option
@timeout_option
def call(
    environment: str,
    name_or_id: str,
    arguments: tuple[str, ...],
    keep_pending: bool,
    wait: bool,
    seconds: float | None,
) -> None:
    """Call an action by id (or name, where it is unique), follow it and print its result.

    When it would replace or remove a machine, a volume or an address, it is refused before that: it says
    what would be lost, and asks. Without a terminal it ends; with --yes it goes on and loses it. With
    --no-wait nobody is asked: it fails, or with --yes loses what it must.

    When changes wait to be deployed, it asks, or ends with what they are: the action works on what
    is deployed, and overtakes them. Yours are then taken over when it has ended; with --no-wait and
    after a --timeout they wait for 'vetro env changes --take-over'.

    \b
    Examples:
      vetro action call web status
      vetro action call web restore --arg backup=monday
    """
    values = parse_settings(arguments, "--arg")
    with Connection() as connection:
        row = find_environment(connection, environment)
        base = f"/v1/environments/{row['id']}"
        known = all_actions(connection.get(f"{base}/model/"))
        matching = [a for a in known if name_or_id in (a["id"], a["name"])]
        if len(matching) != 1:
            choice = (
                ", ".join(str(a["id"]) for a in (matching or known)) or "none yet: deploy first"
            )
            word = "Several actions are called" if matching else "There is no action"
            fail(f"{word} '{name_or_id}'", f"Action ids: {choice}.")
        overtaken: list[OvertakenSession] = []

        def send(may_lose: list[str], *, again: bool = False) -> str:
            answer, others = post_unless_pending(
                connection,
                f"{base}/actions/{segment(matching[0]['id'])}",
                json=values,
                agreed=keep_pending or again,
                question="Call it now? Your changes are kept for the next deploy",
                option="--keep-pending",
                may_lose=may_lose,
            )
            overtaken[:] = others
            return answer.json()["task_id"]

        if not wait:
            task = send(without_asking())
            result_is = f"vetro action result {row['name']} {task}"
            done(f"Called; '{result_is}' prints its result", task_id=task)
            return
        see = quiet_end_of if wants_json() else end_of
        task, ended = unless_lost(
            row,
            lambda may_lose: send(may_lose, again=bool(may_lose)),
            lambda task: see(connection, row, task, seconds),
            is_action=True,
        )
        result = connection.get(f"{base}/actions/{task}")
        for one in overtaken:
            if one["own"]:
                take_over(connection, row, one["session"])
        emit_json(result.get("result"))
        sys.exit(1 if result.get("isException") else ended.code)


@action.command("result", short_help="Print the result of an action that was called.")
@click.argument("environment", type=ENVIRONMENT)
@click.argument("task")
@click.option("--wait/--no-wait", default=False, help="Wait until it has ended.")
@timeout_option
def result(environment: str, task: str, wait: bool, seconds: float | None) -> None:
    """Print the result of the action TASK, an id that 'action call --no-wait' or 'deployment list' shows.

    Exit 1 when the action failed, or has not ended yet.
    """
    with Connection() as connection:
        row = find_environment(connection, environment)
        path = f"/v1/environments/{row['id']}/actions/{segment(task)}"
        found = connection.get(path)
        if not found and wait:
            await_deployment(connection, row, task, seconds)
            found = connection.get(path)
    if not found:
        fail(f"The action {task} has not ended yet", "With --wait this command waits for it.")
    emit_json(found.get("result"))
    sys.exit(1 if found.get("isException") else 0)


@action.command("static", short_help="Call a static action of a class.")
@click.argument("class_name")
@click.argument("method")
@click.option("--arg", "arguments", multiple=True, metavar="NAME=VALUE", help="An argument.")
@click.option("--class-version", help="Which versions will do (>=1, =0) [the newest there is].")
@click.option("--package", "package_name", help="The package that has the class.")
def static(
    class_name: str,
    method: str,
    arguments: tuple[str, ...],
    class_version: str | None,
    package_name: str | None,
) -> None:
    """Call a static action of a class, wait for it and print its result as JSON.

    It needs no environment: METHOD is public and static, CLASS_NAME in a package of the catalog.
    """
    body: dict[str, object] = {
        "className": class_name,
        "methodName": method,
        "parameters": parse_settings(arguments, "--arg"),
        "packageName": package_name,
    }
    with Connection() as connection:
        newest = class_version or newest_with_class(connection, class_name, package_name)
        body["classVersion"] = newest
        with goes_on(
            f"The call of {class_name}.{method} goes on until it ends; its result is not kept."
        ):
            emit_json(connection.request("POST", "/v1/actions", json=body, hint=WHICH).json())
