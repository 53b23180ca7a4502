"""One of several things of a name: asked for in a terminal, an error elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import click

from vetro.cli.terminal.output import fail, wants_json

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
    click.echo(f"There are {len(rows)} of {called}:", err=True)
    for number, text in enumerate(labels, 1):
        click.echo(f"  {number}  {text}", err=True)
    number = click.prompt("Which one", type=click.IntRange(1, len(rows)), err=True)
    return rows[number - 1]
