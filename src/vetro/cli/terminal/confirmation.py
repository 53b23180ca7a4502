"""One rule for commands that destroy or lose something (docs/decisions/0150).

Such a command says what would be lost. On a terminal it asks; where nobody can answer (no terminal, or
``--json``) it ends with exit code 2 and does nothing, unless ``--yes`` was given. So it is with one of
several things of a name: it is asked for in a terminal, an error elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import click

from vetro.cli.terminal.output import fail, meta, remark, remember, wants_json

One = TypeVar("One")


def is_watched() -> bool:
    """Whether a user can answer."""
    return sys.stdin.isatty()


def choose(rows: Sequence[One], called: str, label: Callable[[One], str], hint: str) -> One:
    """The only row, or the one that the user names when there are several.

    ``label`` says what distinguishes one from the others. A command without a terminal ends with the list and
    ``hint``: what cannot be taken back is never done to one that happened to come first.
    """
    if len(rows) == 1:
        return rows[0]
    labels = [label(row) for row in rows]
    if wants_json() or not is_watched():
        fail(f"There are {len(rows)} of {called}: {'; '.join(labels)}", hint, 2)
    remark(f"There are {len(rows)} of {called}:")
    for number, text in enumerate(labels, 1):
        remark(f"  {number}  {text}")
    number = click.prompt("Which one", type=click.IntRange(1, len(rows)), err=True)
    return rows[number - 1]


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
    if wants_json() or not is_watched():
        fail(f"Nothing was done: {losing}", hint or f"Give {option} to confirm it.", 2)
    remark(f"{losing}.")
    if not click.confirm(question, err=True):
        fail("Nothing was done")


def some_of(names: list[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
