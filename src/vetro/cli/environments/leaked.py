"""``vetro env leaked``: removed objects that may have left something behind."""

from __future__ import annotations

import click

from vetro.cli.client.answers import Environment, LeakedObject
from vetro.cli.client.connection import Connection, find_environment, segment
from vetro.cli.client.name_completion import ENVIRONMENT
from vetro.cli.terminal.output import PrintingCommand, counted, done, emit_rows, word

COLUMNS = [
    ("ID", "id"),
    ("CLASS", "type"),
    ("NAME", "name"),
    ("REMOVED", "created"),
    ("ERROR", "error"),
]


def leaked_objects(connection: Connection, environment: Environment) -> list[LeakedObject]:
    """The objects whose removal failed, oldest first."""
    return connection.get(f"/v1/environments/{environment['id']}/leaked")["leaked"]


def show_leaked_count(environment: Environment, found: list[LeakedObject]) -> None:
    """Say that there are such objects, and how to see them."""
    if found:
        click.echo(
            f"\n{counted(len(found), 'removed object')} may have left something behind:"
            f" 'vetro env leaked {word(environment['name'])}' shows what failed."
        )


@click.command(
    "leaked",
    short_help="Show removed objects that may have left something behind.",
    cls=PrintingCommand,
)
@click.argument("environment", type=ENVIRONMENT)
@click.option(
    "--dismiss",
    "dismissed",
    multiple=True,
    metavar="ID",
    help="Forget this object, once you have looked after it; can be repeated.",
)
def leaked(environment: str, dismissed: tuple[str, ...]) -> None:
    """Show the objects of ENVIRONMENT that were removed while their clean-up failed.

    Their machines, records or accounts elsewhere may still be there. The deployment that removed them
    ended with a warning; they stay in this list until they are dismissed.
    """
    with Connection() as connection:
        row = find_environment(connection, environment)
        for one in dict.fromkeys(dismissed):
            connection.request(
                "DELETE",
                f"/v1/environments/{row['id']}/leaked/{segment(one)}",
                hint=f"'vetro env leaked {word(row['name'])}' lists their ids.",
            )
        if dismissed:
            gone = [*dict.fromkeys(dismissed)]
            done(f"Dismissed {', '.join(gone)}", dismissed=gone)
            return
        emit_rows([{**one} for one in leaked_objects(connection, row)], COLUMNS)
