"""``vetro project``: projects, what they have, and their deletion with all of it."""

from __future__ import annotations

from typing import cast

import click

from vetro.cli.client.answers import Project
from vetro.cli.client.connection import Connection, segment
from vetro.cli.client.name_completion import PROJECT
from vetro.cli.terminal.confirmation import agree, some_of, yes_option
from vetro.cli.terminal.output import PrintingGroup, counted, done, emit_object, emit_rows, fail

COLUMNS = [("ID", "id"), ("NAME", "name"), ("ENABLED", "enabled"), ("DESCRIPTION", "description")]


@click.group(cls=PrintingGroup)
def project() -> None:
    """Projects: list them, see what they have, delete them.

    The stock client makes and changes them: 'openstack project create', docs/identity.md.
    """


def _all(connection: Connection) -> list[Project]:
    return cast("list[Project]", connection.identity("/projects")["projects"])


def _find(rows: list[Project], wanted: str) -> Project:
    """The project with this id or name. Two projects of different domains may have the same name."""
    found = [row for row in rows if row["id"] == wanted]
    found = found or [row for row in rows if row["name"] == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(str(row["id"]) for row in found)
        fail(f"Several projects are named '{wanted}'", f"Give the id of one: {ids}.")
    names = ", ".join(sorted(str(row["name"]) for row in rows)) or "none"
    fail(f"There is no project '{wanted}'", f"Projects: {names}.")


def find_project(connection: Connection, wanted: str) -> Project:
    """The project with this id or name; ends the command when there is none."""
    return _find(_all(connection), wanted)


def _holdings(connection: Connection, row: Project) -> dict[str, list[str]]:
    body = connection.identity(f"/projects/{segment(row['id'])}/holdings")
    return cast("dict[str, list[str]]", body["holdings"])


def _in_words(found: dict[str, list[str]]) -> str:
    return ", ".join(f"{kind}: {len(names)} ({some_of(names)})" for kind, names in found.items())


@project.command("list")
def list_() -> None:
    """List the projects of all users."""
    with Connection() as connection:
        emit_rows(_all(connection), COLUMNS)


@project.command("show")
@click.argument("name_or_id", type=PROJECT)
def show(name_or_id: str) -> None:
    """Show a project, and the names of all that it has."""
    with Connection() as connection:
        row = find_project(connection, name_or_id)
        held = _holdings(connection, row)
    shown = {name: row.get(name) for name in ("id", "name", "description", "enabled", "domain_id")}
    emit_object({**shown, "has": held})


@project.command("delete")
@click.argument("names_or_ids", nargs=-1, required=True, type=PROJECT)
@click.option(
    "--force",
    is_flag=True,
    help="Also one that has something: environments are destroyed, all else is removed.",
)
@yes_option
def delete(names_or_ids: tuple[str, ...], force: bool) -> None:
    """Delete projects that have nothing.

    With --force a project that has something is disabled at once, its environments are destroyed in
    the background, and it goes when nothing of it is left. Until then 'vetro project show' says what
    it still has; 'openstack project set --enable' stops the removal.
    """
    gone: list[str] = []
    going: list[str] = []
    with Connection() as connection:
        every = _all(connection)
        rows = [_find(every, wanted) for wanted in names_or_ids]
        losing: list[str] = []
        for row in rows:
            held = _holdings(connection, row) if force else {}
            words = f", with all that it has ({_in_words(held)})" if held else ""
            losing.append(f"project {row['name']} would be deleted{words}")
        agree("; ".join(losing), "Delete")
        for row in rows:
            answer = connection.ask_identity(
                "DELETE",
                f"/projects/{segment(row['id'])}",
                params={"force": "true"} if force else None,
            )
            (going if answer.status == 202 else gone).append(str(row["name"]))
    said: list[str] = []
    if gone:
        said.append(f"Deleted {counted(len(gone), 'project')}: {', '.join(gone)}")
    if going:
        said.append(f"In deletion: {', '.join(going)}; 'vetro project show NAME' says what is left")
    done(". ".join(said), deleted=gone, in_deletion=going)
