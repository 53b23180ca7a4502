"""``vetro template``: applications kept aside, from which environments are made."""

from __future__ import annotations

from typing import TextIO

import click

from vetro.cli.client.answers import JsonObject
from vetro.cli.client.connection import Connection, find_environment, segment
from vetro.cli.client.name_completion import ENVIRONMENT, TEMPLATE
from vetro.cli.environments.adding import adding_options, model_of, show_added
from vetro.cli.environments.applications import application_row, emit_applications
from vetro.cli.environments.editing import find_application, parse_settings
from vetro.cli.environments.patching import REFUSE_USED
from vetro.cli.environments.references import Things, settle, with_lasting_names
from vetro.cli.environments.transfer import MAKE_IT, applications_of, with_new_ids
from vetro.cli.terminal.confirmation import agree, some_of, yes_option
from vetro.cli.terminal.output import (
    PrintingGroup,
    done,
    emit_json,
    emit_object,
    emit_rows,
    fail,
    secrets_option,
    shown,
    wants_json,
)

COLUMNS = [
    ("ID", "id"),
    ("NAME", "name"),
    ("CREATED", "created"),
    ("UPDATED", "updated"),
    ("PUBLIC", "is_public"),
]
KEYS = [key for _, key in COLUMNS]


@click.group(cls=PrintingGroup)
def template() -> None:
    """Templates that environments are made of."""


def find_template(connection: Connection, wanted: str) -> dict[str, object]:
    """The template with this id or name; one's own before a public one of another project."""
    rows: list[JsonObject] = connection.get("/v1/templates")["templates"]
    by_id = [row for row in rows if row["id"] == wanted]
    found = by_id or [row for row in rows if row["name"] == wanted]
    own = [row for row in found if row["tenant_id"] == connection.project_id]
    if len(own or found) == 1:
        return (own or found)[0]
    if found:
        ids = ", ".join(str(row["id"]) for row in found)
        fail(f"Several public templates are called '{wanted}'", f"Give the id of one: {ids}.")
    names = ", ".join(sorted(str(row["name"]) for row in rows)) or "none"
    fail(f"There is no template '{wanted}'", f"Templates: {names}.")


def address_of(row: JsonObject) -> str:
    """The path of a template's calls."""
    return f"/v1/templates/{segment(row['id'])}"


@template.command("list")
@click.option("--public/--private", default=None, help="Only public ones, or only one's private.")
def list_(public: bool | None) -> None:
    """List the project's own and public templates."""
    params = {} if public is None else {"is_public": public}
    with Connection() as connection:
        emit_rows(connection.get("/v1/templates", params=params)["templates"], COLUMNS)


@template.command("show")
@click.argument("name_or_id", type=TEMPLATE)
@secrets_option
def show(name_or_id: str) -> None:
    """Show a template and its applications."""
    with Connection() as connection:
        row = find_template(connection, name_or_id)
        value = shown(connection.get(address_of(row)))
    if wants_json():
        emit_json(value)
        return
    emit_object(value, [*KEYS, "description_text"])
    click.echo()
    emit_applications([application_row(item) for item in value["services"]])


@template.command("create", short_help="Create a template.")
@click.argument("name")
@click.option("--public", is_flag=True, help="Other projects may use it.")
@click.option("--description", help="What it is for.")
@click.option(
    "--from-env", "environment", type=ENVIRONMENT, help="With the applications of this environment."
)
def create(name: str, public: bool, description: str | None, environment: str | None) -> None:
    """Create a template NAME, empty or with the applications of an environment.

    Of an environment it has what a user decided, as 'vetro env export' has: images and networks by name.
    """
    body: JsonObject = {"name": name, "is_public": public, "description_text": description or ""}
    with Connection() as connection:
        if environment is not None:
            found = find_environment(connection, environment)
            body["services"] = with_new_ids(applications_of(connection, found))
            with_lasting_names(Things(connection, found.get("region")), body["services"])
        row = connection.request("POST", "/v1/templates", json=body).json()
    emit_object(row, None if wants_json() else KEYS)


@template.command("update", short_help="Change name, description or publicity.")
@click.argument("name_or_id", type=TEMPLATE)
@click.option("--name", help="Its new name.")
@click.option("--description", help="What it is for.")
@click.option("--public/--private", default=None, help="Whether other projects may use it.")
def update(name_or_id: str, name: str | None, description: str | None, public: bool | None) -> None:
    """Change the name, the description or the publicity of a template."""
    given = {"name": name, "description_text": description, "is_public": public}
    changes = {key: value for key, value in given.items() if value is not None}
    if not changes:
        fail("There is nothing to change", "Give --name, --description, --public or --private.", 2)
    with Connection() as connection:
        row = find_template(connection, name_or_id)
        body = {"name": row["name"], **changes}
        value = connection.request("PUT", address_of(row), json=body).json()
    emit_object(value, None if wants_json() else KEYS)


@template.command("delete")
@click.argument("names_or_ids", nargs=-1, required=True, type=TEMPLATE)
@yes_option
def delete(names_or_ids: tuple[str, ...]) -> None:
    """Delete templates; environments made from them stay."""
    with Connection() as connection:
        rows = [find_template(connection, wanted) for wanted in names_or_ids]
        agree(f"{some_of([str(row['name']) for row in rows])} would be deleted", "Delete")
        for row in rows:
            connection.request("DELETE", address_of(row))
    gone = [str(row["name"]) for row in rows]
    done(f"Deleted template {', '.join(gone)}", deleted=gone)


@template.command("clone", short_help="Copy a public template into this project.")
@click.argument("name_or_id", type=TEMPLATE)
@click.argument("name")
@click.option("--public", is_flag=True, help="Other projects may use the copy.")
def clone(name_or_id: str, name: str, public: bool) -> None:
    """Copy a public template into this project, as NAME."""
    with Connection() as connection:
        row = find_template(connection, name_or_id)
        made = connection.request(
            "POST",
            f"{address_of(row)}/clone",
            json={"name": name, "is_public": public},
            hint="'vetro template update --public' makes your own template public.",
        ).json()
    emit_object(made, None if wants_json() else KEYS)


@template.command("add", short_help="Add an application of a package.")
@click.argument("name_or_id", type=TEMPLATE)
@adding_options
def add(
    name_or_id: str,
    package: str | None,
    name: str | None,
    settings: tuple[str, ...],
    file: TextIO | None,
) -> None:
    """Add an application of PACKAGE to a template, filling its form with defaults and --set."""
    from vetro.cli.catalog.forms import Wizard
    from vetro.cli.catalog.package_lookup import find_package

    with Connection() as connection:
        row = find_template(connection, name_or_id)
        if file is None and package:
            with Wizard(connection, find_package(connection, package), None, None) as wizard:
                wizard.fill(wizard.place(parse_settings(settings), name))
                model: object = wizard.build()
        else:
            model = model_of(file)
        with_lasting_names(Things(connection), model)
        stored = connection.request("POST", f"{address_of(row)}/services", json=model).json()
    show_added(stored)


@template.command("remove")
@click.argument("name_or_id", type=TEMPLATE)
@click.argument("application")
@yes_option
def remove(name_or_id: str, application: str) -> None:
    """Take APPLICATION out of a template."""
    with Connection() as connection:
        row = find_template(connection, name_or_id)
        services: list[JsonObject] = connection.get(f"{address_of(row)}/services")
        service = services[find_application(services, application)]
        where = f"{address_of(row)}/services/{segment(str(service['?']['id']))}"
        name = application_row(service)["name"] or application
        agree(f"{name} would be removed from template {row['name']}", "Remove it")
        connection.request("DELETE", where, params=REFUSE_USED)
    done(f"Removed {name} from {row['name']}", removed=service)


@template.command("create-env", short_help="Create an environment from a template.")
@click.argument("name_or_id", type=TEMPLATE)
@click.argument("name")
@click.option("--region", help="The region it is built in.")
def create_env(name_or_id: str, name: str, region: str | None) -> None:
    """Create an environment NAME, with a session that holds the template's applications.

    The images, flavors, key pairs, networks and volumes that they name must exist; otherwise nothing is made.
    """
    body: dict[str, object] = {"name": name, **({"region": region} if region else {})}
    with Connection() as connection:
        row = find_template(connection, name_or_id)
        wrong = settle(Things(connection, region), connection.get(f"{address_of(row)}/services"))
        if wrong:
            fail(f"Template {row['name']}: {'; '.join(wrong)}", MAKE_IT)
        made = connection.request("POST", f"{address_of(row)}/create-environment", json=body).json()
    emit_object(made)
