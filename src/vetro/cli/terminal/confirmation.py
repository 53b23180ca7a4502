"""One rule for commands that destroy or lose something (docs/decisions/0150).

Such a command says what would be lost. On a terminal it asks; where nobody can answer (no terminal, or
``--json``) it ends with exit code 2 and does nothing, unless ``--yes`` was given.
"""

from __future__ import annotations

import click

from vetro.cli.terminal import choices as choice
from vetro.cli.terminal.output import fail, meta, remember, wants_json

LISTED = 5


yes_option = click.option(
    "--yes",
    "-y",
    is_flag=True,
    expose_value=False,
    callback=remember("yes"),
    help="Do not ask.",
)


def agree(losing: str, question: str) -> None:
    """Go on only when the user agrees: by ``--yes``, or by an answer on the terminal.

    ``losing``: what would be lost ("VM web would be destroyed"), without its full stop.
    ``question``: without its question mark's default, for example "Destroy it".
    The command needs ``yes_option``.
    """
    agree_or(losing, question, option="--yes", agreed=bool(meta("yes")))


def agree_or(
    losing: str,
    question: str,
    *,
    option: str,
    agreed: bool,
    hint: str | None = None,
) -> None:
    """The same where another option than ``--yes`` says that the user agrees."""
    if agreed:
        return
    if wants_json() or not choice.is_watched():
        fail(f"Nothing was done: {losing}", hint or f"Give {option} to confirm it.", 2)
    click.echo(f"{losing}.", err=True)
    if not click.confirm(question, err=True):
        fail("Nothing was done")


def some_of(names: list[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
