"""``vetro env``: compose environments, deploy them and follow what happens."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import click

from vetro.cli.connection import Connection, find_environment
from vetro.cli.documents import NotADocument, json_or_text, read_json, text_of
from vetro.cli.names import ENVIRONMENT, PACKAGE
from vetro.cli.output import (
    done,
    emit_json,
    emit_object,
    emit_rows,
    fail,
    json_option,
    wants_json,
)
from vetro.cli.package import find_package
from vetro.cli.progress import follow_deployment

COLUMNS = [
    ("ID", "id"),
    ("NAME", "name"),
    ("STATUS", "status"),
    ("VERSION", "version"),
    ("UPDATED", "updated"),
]
KEEP_KEYS = ["id", "name", "status", "version", "created", "updated", "acquired_by"]


@click.group()
def env() -> None:
    """Environments: compose, deploy, follow, destroy."""


@env.command("create")
@click.argument("name")
@click.option("--region", help="The region it is built in.")
@json_option
def create(name: str, region: str | None) -> None:
    """Create an empty environment NAME."""
    body: dict[str, Any] = {"name": name}
    if region:
        body["region"] = region
    with Connection() as connection:
        row = connection.request("POST", "/v1/environments", json=body).json()
    emit_object(row, None if wants_json() else ["id", "name", "version", "created"])


@env.command("list")
@click.option("--all-projects", is_flag=True, help="Of every project (administrators).")
@json_option
def list_(all_projects: bool) -> None:
    """List environments."""
    with Connection() as connection:
        params = {"all_tenants": "true"} if all_projects else {}
        emit_rows(connection.get("/v1/environments", params=params)["environments"], COLUMNS)


@env.command("show", short_help="Show an environment and its applications.")
@click.argument("environment", type=ENVIRONMENT)
@json_option
def show(environment: str) -> None:
    """Show ENVIRONMENT (name or id) and its applications."""
    with Connection() as connection:
        row = find_environment(connection, environment)
        session = open_session_of(connection, row, create_one=False)
        headers = {"X-Configuration-Session": session} if session else {}
        value = connection.get(f"/v1/environments/{row['id']}", headers=headers)
    if wants_json():
        emit_json(value)
        return
    emit_object(value, KEEP_KEYS)
    click.echo()
    emit_rows([application_row(service) for service in value.get("services", [])], APPLICATIONS)


APPLICATIONS = [("APPLICATION", "name"), ("TYPE", "type"), ("ID", "id"), ("ACTIONS", "actions")]


def application_row(service: dict[str, Any]) -> dict[str, Any]:
    """One application as a table row."""
    header = service.get("?", {})
    actions = cast("dict[str, Any]", header.get("_actions") or {})
    return {
        "name": header.get("name") or service.get("name"),
        "type": str(header.get("type", "")).split("/")[0],
        "id": header.get("id"),
        "actions": ", ".join(sorted(str(a["name"]) for a in actions.values() if a.get("enabled"))),
    }


def open_session_of(
    connection: Connection, environment: dict[str, Any], *, create_one: bool = True
) -> str | None:
    """The id of the session this data directory's user edits, opened when there is none.

    The server keeps any number of sessions; the command line remembers its last one per
    environment so that several ``vetro env add`` go into one deployment.
    """
    store = session_store()
    remembered = store.get(environment["id"])
    base = f"/v1/environments/{environment['id']}"
    if remembered:
        response = connection.client.request(
            "GET",
            f"{connection.url}{base}/sessions/{remembered}",
            headers={"X-Auth-Token": connection.token},
        )
        if response.status == 200 and response.json().get("state") == "opened":
            return remembered
    if not create_one:
        return None
    session = connection.request("POST", f"{base}/configure").json()["id"]
    store[environment["id"]] = session
    save_session_store(store)
    return session


def _session_file() -> Path:
    import os

    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local/state")
    return Path(base) / "vetro" / "sessions.json"


def session_store() -> dict[str, str]:
    """The remembered sessions: environment id to session id."""
    try:
        found = read_json(_session_file().read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return cast("dict[str, str]", found) if isinstance(found, dict) else {}


def save_session_store(store: dict[str, str]) -> None:
    """Remember sessions for later commands."""
    path = _session_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(store), encoding="utf-8")


def parse_settings(pairs: tuple[str, ...], option: str = "--set") -> dict[str, Any]:
    """``a.b=value`` pairs as nested values; a value that is JSON is taken as such."""
    values: dict[str, Any] = {}
    for pair in pairs:
        path, equals, text = pair.partition("=")
        if not equals or not path:
            fail(f"{option} {pair}: expected NAME=VALUE", f"For example {option} port=8080.", 2)
        values[path] = json_or_text(text)
    return values


def set_path(target: dict[str, Any], path: str, value: Any) -> None:
    """Set ``a.b.c`` below ``target``, making maps on the way."""
    *parents, last = path.split(".")
    place = target
    for name in parents:
        below = place.setdefault(name, {})
        if not isinstance(below, dict):
            fail(f"--set {path}: {name} is not a map in this application")
        place = cast("dict[str, Any]", below)
    place[last] = value


@env.command("add", short_help="Add an application of a package.")
@click.argument("environment", type=ENVIRONMENT)
@click.argument("package", required=False, type=PACKAGE)
@click.option("--name", help="Name of the application in the environment.")
@click.option("--set", "settings", multiple=True, metavar="FIELD=VALUE", help="A form field.")
@click.option(
    "--file",
    "file",
    type=click.File(encoding="utf-8"),
    help="A JSON object (or list) to add as it is.",
)
@json_option
def add(
    environment: str,
    package: str | None,
    name: str | None,
    settings: tuple[str, ...],
    file: Any,
) -> None:
    """Add an application of PACKAGE to ENVIRONMENT, filling its form with defaults and --set."""
    with Connection() as connection:
        row = find_environment(connection, environment)
        if file is not None:
            try:
                model = read_json(text_of(file))
            except NotADocument as error:
                fail(f"{file.name}: not JSON: {error}", "It holds one object, or a list of them.")
        elif package:
            model = build_model(connection, package, name, parse_settings(settings))
        else:
            fail("There is nothing to add", "Name a PACKAGE, or give the object with --file.", 2)
        session = open_session_of(connection, row)
        stored = connection.request(
            "POST",
            f"/v1/environments/{row['id']}/services",
            json=model,
            headers={"X-Configuration-Session": session or ""},
        ).json()
    rows = cast("list[dict[str, Any]]", stored if isinstance(stored, list) else [stored])
    if wants_json():
        emit_json(cast("Any", stored))
    else:
        emit_rows([application_row(item) for item in rows], APPLICATIONS)


def build_model(
    connection: Connection, package: str, name: str | None, values: dict[str, Any]
) -> dict[str, Any]:
    """The application object that the package's form makes of its defaults and ``values``."""
    from vetro.packages.forms import FormError, load_form

    row = find_package(connection, package)
    text = connection.request("GET", f"/v1/catalog/packages/{row['id']}/ui").text
    if not text.strip():
        fail(
            f"{row['fully_qualified_name']} has no form",
            "Give the application's object with --file.",
        )
    try:
        form = load_form(text, package_name=row["fully_qualified_name"], title=row["name"])
        model = form.build(values, name=name)
    except FormError as error:
        fail(str(error), "Give fields with --set FIELD=VALUE or --set PAGE.FIELD=VALUE.")
    # Without a version an object means a 0.x package (muranopl.md §5): say which one was chosen.
    if "/" not in str(model["?"]["type"]):
        model["?"].setdefault("classVersion", row["version"])
    return model


def find_application(services: list[dict[str, Any]], wanted: str) -> int:
    """Position of the application with this id or name."""
    for index, service in enumerate(services):
        row = application_row(service)
        if wanted in (row["id"], row["name"], service.get("name")):
            return index
    names = ", ".join(str(application_row(s)["name"] or application_row(s)["id"]) for s in services)
    fail(f"There is no application '{wanted}'", f"Applications: {names or 'none'}.")


def change_services(
    environment: str, change: Callable[[Connection, list[dict[str, Any]]], Any]
) -> Any:
    """Read the session's applications, change them and write them back."""
    with Connection() as connection:
        row = find_environment(connection, environment)
        session = open_session_of(connection, row) or ""
        headers = {"X-Configuration-Session": session}
        path = f"/v1/environments/{row['id']}/services"
        services = connection.get(path, headers=headers)
        result = change(connection, services)
        for service in services:
            service.get("?", {}).pop("status", None)
        connection.request("PUT", path, json=services, headers=headers)
        return result


@env.command("edit", short_help="Change properties of an application.")
@click.argument("environment", type=ENVIRONMENT)
@click.argument("application")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="PROPERTY=VALUE",
    required=True,
    help="A property; with dots one of an object inside.",
)
@json_option
def edit(environment: str, application: str, settings: tuple[str, ...]) -> None:
    """Change properties of APPLICATION; they take effect with the next deploy."""
    values = parse_settings(settings)

    def change(_connection: Connection, services: list[dict[str, Any]]) -> dict[str, Any]:
        service = services[find_application(services, application)]
        for path, value in values.items():
            set_path(service, path, value)
        return service

    emit_object(change_services(environment, change))


@env.command("remove", short_help="Take an application out.")
@click.argument("environment", type=ENVIRONMENT)
@click.argument("application")
@json_option
def remove(environment: str, application: str) -> None:
    """Take APPLICATION out; its machines go with the next deploy."""

    def change(_connection: Connection, services: list[dict[str, Any]]) -> dict[str, Any]:
        return services.pop(find_application(services, application))

    service = change_services(environment, change)
    name = application_row(service)["name"] or application
    done(f"Removed {name}; deploy to make it so", removed=service)


def latest_deployment(connection: Connection, environment_id: str) -> dict[str, Any]:
    """The newest deployment of an environment."""
    rows = connection.get(f"/v1/environments/{environment_id}/deployments")["deployments"]
    if not rows:
        fail("This environment was never deployed", "Deploy it with 'vetro env deploy'.")
    return max(rows, key=lambda row: (row["started"] or row["created"], row["created"]))


@env.command("deploy", short_help="Deploy the changes; exit 1 when it fails.")
@click.argument("environment", type=ENVIRONMENT)
@click.option("--wait/--no-wait", default=True, help="Follow it to its end (default).")
@json_option
def deploy(environment: str, wait: bool) -> None:
    """Deploy the changes of ENVIRONMENT; exit 1 when it fails."""
    with Connection() as connection:
        row = find_environment(connection, environment)
        session = open_session_of(connection, row)
        connection.request("POST", f"/v1/environments/{row['id']}/sessions/{session}/deploy")
        deployment = latest_deployment(connection, row["id"])
        if not wait:
            emit_object(deployment, None if wants_json() else ["id", "state", "started"])
            return
        sys.exit(follow_deployment(connection, row, deployment["id"]))


@env.command("follow", short_help="Show the newest deployment as it goes.")
@click.argument("environment", type=ENVIRONMENT)
@json_option
def follow(environment: str) -> None:
    """Show the reports of the newest deployment as they come; exit 1 when it fails."""
    with Connection() as connection:
        row = find_environment(connection, environment)
        deployment = latest_deployment(connection, row["id"])
        sys.exit(follow_deployment(connection, row, deployment["id"]))


@env.command("destroy")
@click.argument("environment", type=ENVIRONMENT)
@click.option("--abandon", is_flag=True, help="Forget it; leave its machines as they are.")
@click.option("--wait/--no-wait", default=True, help="Follow it to its end (default).")
@json_option
def destroy(environment: str, abandon: bool, wait: bool) -> None:
    """Remove ENVIRONMENT and everything it made."""
    with Connection() as connection:
        row = find_environment(connection, environment)
        params = {"abandon": "true"} if abandon else {}
        connection.request("DELETE", f"/v1/environments/{row['id']}", params=params)
        store = session_store()
        if store.pop(row["id"], None):
            save_session_store(store)
        if abandon or not wait:
            what = "abandoned" if abandon else "is being deleted"
            done(f"Environment {row['name']} {what}", environment=row["name"], state=what)
            return
        remaining = connection.get("/v1/environments")["environments"]
        if any(item["id"] == row["id"] for item in remaining):
            deployment = latest_deployment(connection, row["id"])
            code = follow_deployment(connection, row, deployment["id"])
            if code:
                sys.exit(code)
        done(f"Environment {row['name']} is gone", environment=row["name"], state="gone")


@env.command("rename")
@click.argument("environment", type=ENVIRONMENT)
@click.argument("name")
@json_option
def rename(environment: str, name: str) -> None:
    """Give ENVIRONMENT another NAME."""
    with Connection() as connection:
        row = find_environment(connection, environment)
        value = connection.request(
            "PUT", f"/v1/environments/{row['id']}", json={"name": name}
        ).json()
    emit_object(value, None if wants_json() else ["id", "name", "version"])


@env.command("model", short_help="Print the object model as JSON.")
@click.argument("environment", type=ENVIRONMENT)
@click.option("--path", default="/", help="A part of the model, for example /services.")
@click.option("--raw", is_flag=True, help="Print a text as it is, without quotes.")
@json_option
def model(environment: str, path: str, raw: bool) -> None:
    """Print the object model of ENVIRONMENT as JSON."""
    with Connection() as connection:
        row = find_environment(connection, environment)
        value = connection.request(
            "GET",
            f"/v1/environments/{row['id']}/model/{path.lstrip('/')}",
            hint="A path is made of keys, ids of objects and positions: /services/0/name.",
        ).json()
    if raw and isinstance(value, str):
        click.echo(value)
    else:
        emit_json(value)
