"""``vetro category``: the categories that packages stand in."""

from __future__ import annotations

import click

from vetro.cli.client.answers import Category
from vetro.cli.client.connection import Connection, segment
from vetro.cli.client.name_completion import CATEGORY
from vetro.cli.terminal.confirmation import agree, some_of, yes_option
from vetro.cli.terminal.output import PrintingGroup, done, emit_object, emit_rows, fail

COLUMNS = [("ID", "id"), ("NAME", "name"), ("PACKAGES", "package_count")]


@click.group(cls=PrintingGroup)
def category() -> None:
    """Categories of packages."""


def find_category(connection: Connection, wanted: str) -> Category:
    """The category with this id or name."""
    rows: list[Category] = connection.get("/v1/catalog/categories")["categories"]
    for row in rows:
        if wanted in (row["id"], row["name"]):
            return row
    names = ", ".join(sorted(str(row["name"]) for row in rows)) or "none"
    fail(f"There is no category '{wanted}'", f"Categories: {names}.")


@category.command("list")
def list_() -> None:
    """List categories."""
    with Connection() as connection:
        emit_rows(connection.get("/v1/catalog/categories")["categories"], COLUMNS)


@category.command("show")
@click.argument("name_or_id", type=CATEGORY)
def show(name_or_id: str) -> None:
    """Show a category and its packages."""
    with Connection() as connection:
        row = find_category(connection, name_or_id)
        emit_object(connection.get(f"/v1/catalog/categories/{segment(row['id'])}"))


@category.command("create")
@click.argument("name")
def create(name: str) -> None:
    """Create category NAME."""
    with Connection() as connection:
        row = connection.request("POST", "/v1/catalog/categories", json={"name": name}).json()
    emit_object(row)


@category.command("delete")
@click.argument("names_or_ids", nargs=-1, required=True, type=CATEGORY)
@yes_option
def delete(names_or_ids: tuple[str, ...]) -> None:
    """Delete categories that no package stands in."""
    gone: list[str] = []
    with Connection() as connection:
        rows = [find_category(connection, wanted) for wanted in names_or_ids]
        names = some_of([str(row["name"]) for row in rows])
        agree(f"{names}: it would be deleted for every project", "Delete")
        for row in rows:
            connection.request(
                "DELETE",
                f"/v1/catalog/categories/{segment(row['id'])}",
                hint="Take its packages out first: 'vetro package update --category'.",
            )
            gone.append(str(row["name"]))
    done(f"Deleted category {', '.join(gone)}", deleted=gone)
