"""``vetro env upgrade``: applications move to other versions of their packages."""

from __future__ import annotations

import sys
from typing import cast

import click

from vetro.cli.client.answers import Environment, JsonObject
from vetro.cli.client.connection import Connection, error_text, find_environment, hint_for
from vetro.cli.client.name_completion import ENVIRONMENT
from vetro.cli.environments.applications import application_row
from vetro.cli.environments.editing import find_application, parse_settings, session_and_services
from vetro.cli.environments.objects import set_path
from vetro.cli.environments.sessions import open_session_of
from vetro.cli.terminal.confirmation import agree, yes_option
from vetro.cli.terminal.output import PrintingCommand, emit_json, fail, shown, wants_json, word


def upgradable(connection: Connection) -> dict[str, list[JsonObject]]:
    """The applications of the project that could move up, by the ids of their environments."""
    found: dict[str, list[JsonObject]] = connection.get("/v1/upgrades")["environments"]
    return found


def newer_by_id(
    connection: Connection, environment: Environment, headers: dict[str, str]
) -> dict[str, JsonObject]:
    """The applications of an environment with their versions and the newer ones, by their ids."""
    path = f"/v1/environments/{environment['id']}/upgrades"
    return {one["id"]: one for one in connection.get(path, headers=headers)["applications"]}


@click.command(
    "upgrade",
    short_help="Move applications to a newer version of their packages.",
    cls=PrintingCommand,
)
@click.argument("environment", type=ENVIRONMENT)
@click.argument("application", required=False)
@click.option("--to", "version", metavar="VERSION", help="This version, or an older one.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="PROPERTY=VALUE",
    help="A property that the new version needs (of APPLICATION).",
)
@click.option("--preview", is_flag=True, help="Only show what would change.")
@yes_option
def upgrade(
    environment: str,
    application: str | None,
    version: str | None,
    settings: tuple[str, ...],
    preview: bool,
) -> None:
    """Move APPLICATION of ENVIRONMENT, or all that can, to the newest version of their packages.

    Shows what changes: the objects that move, properties that are new, gone or have another contract
    or default, and what would not work then. It takes effect with the next deploy.
    """
    values = parse_settings(settings)
    if application is None and (version or values):
        fail("--to and --set are for one application", "Name it after the environment.", 2)
    with Connection() as connection:
        row = find_environment(connection, environment)
        session = open_session_of(connection, row, create_one=False)
        headers = {"X-Configuration-Session": session} if session else {}
        services = connection.get(f"/v1/environments/{row['id']}/services", headers=headers)
        body = _body(services, application, version, values)
        path = f"/v1/environments/{row['id']}/upgrades"
        found = connection.request("POST", f"{path}/preview", json=body, headers=headers).json()
        moving = [one for one in found["applications"] if one["objects"]]
        if preview or not moving:
            _show(found)
            if _wrong(found):
                sys.exit(1)
            return
        if not wants_json():
            _show(found)
        if not _wrong(found):
            names = ", ".join(f"{one['name'] or one['id']} to {one['to']}" for one in moving)
            agree(f"These would move with the next deploy: {names}", "Move")
        with session_and_services(connection, row) as (headers, _):
            # The service checks again and refuses what would not work.
            answer = connection.answer("POST", path, json=body, headers=headers)
            if answer.status >= 400:
                hint = hint_for(answer)
                if '"UpgradeRefused"' in answer.text:
                    hint = "--set PROPERTY=VALUE gives an application what its new version needs."
                fail(error_text(answer), hint)
    if wants_json():
        emit_json(shown(answer.json()))
    else:
        click.echo(f"'vetro env deploy {word(row['name'])}' makes it so.")


def _body(
    services: list[JsonObject], application: str | None, version: str | None, values: JsonObject
) -> JsonObject | None:
    if application is None:
        return None
    service = services[find_application(services, application)]
    properties: JsonObject = {}
    for path, value in values.items():
        set_path(service, path, value)
        name = path.partition(".")[0]
        properties[name] = service[name]
    one = {"id": application_row(service)["id"], "version": version}
    return {"applications": [{**one, "properties": properties or None}]}


def _wrong(found: JsonObject) -> bool:
    return bool(found["problems"] or any(one["problems"] for one in found["applications"]))


def _show(found: JsonObject) -> None:
    """Print a preview."""
    if wants_json():
        emit_json(shown(found))
        return
    if not found["applications"]:
        click.echo("Nothing to move: no newer version is in the catalog.")
    for one in cast("list[JsonObject]", found["applications"]):
        click.echo(_title(one))
        for moved in one["objects"]:
            if moved["id"] != one["id"]:
                old = moved["from"] or "?"
                click.echo(f"  {moved['class']} {moved['id']}: {old} -> {moved['to']}")
            for change in moved["changes"]:
                click.echo(f"    {_change(change)}")
        for shared in one["shared"]:
            users = ", ".join(str(user["name"] or user["id"]) for user in shared["used_by"])
            click.echo(f"  {shared['class']} {shared['id']} is also used by {users}")
        for note in one["notes"]:
            click.echo(f"  {click.style('note', fg='yellow')}: {note}")
        for problem in one["problems"]:
            click.echo(f"  {click.style('problem', fg='red')}: {problem}")
    for problem in found["problems"]:
        click.echo(f"{click.style('problem', fg='red')}: {problem}")


def _title(one: JsonObject) -> str:
    name = click.style(str(one["name"] or one["id"]), bold=True)
    if one["direction"] == "none":
        if one["problems"]:
            return f"{name} ({one['package'] or one['class']} {one['from'] or '?'})"
        return f"{name} stays at {one['package']} {one['from']}"
    word = " (downgrade)" if one["direction"] == "downgrade" else ""
    return f"{name}: {one['package']} {one['from'] or '?'} -> {one['to']}{word}"


def _change(change: JsonObject) -> str:
    """A change of a property in words."""
    name, kind = change["property"], change["change"]
    if kind == "added":
        return f"+ {name}: {_form(change['to'])}"
    if kind == "removed":
        return f"- {name}"
    said = "; ".join(
        f"{aspect} {_value(change['from'], aspect)} -> {_value(change['to'], aspect)}"
        for aspect in change["aspects"]
    )
    return f"~ {name}: {said}"


def _value(form: JsonObject, aspect: str) -> str:
    if aspect not in form:
        return "none"
    value = form[aspect]
    return value if isinstance(value, str) else str(value)


def _form(form: JsonObject) -> str:
    default = f", default {form['default']}" if "default" in form else ""
    usage = "" if form["usage"] == "In" else f", {form['usage']}"
    return f"{_value(form, 'contract')}{default}{usage}"
