"""Tables for people. A word is never broken: an id, a name or an address can be copied as it stands.

On a terminal, cells are folded between words as far as the width asks for it; a table whose words do
not fit is wider than the terminal. In a pipe nothing is folded: one line for each row.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

GAP = 2
STATUS_COLOURS = {
    "ready": "green",
    "running": "green",
    "success": "green",
    "pending": "yellow",
    "deploying": "cyan",
    "deleting": "cyan",
    "deploy failure": "red",
    "delete failure": "red",
    "failed": "red",
    "unknown": "red",
    "Ready": "green",
    "Ready to deploy": "yellow",
    "Deploying": "cyan",
    "Deleting": "cyan",
    "Deploy failed": "red",
    "Delete failed": "red",
}


def widths(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """The widths of columns of cells so that all fits in ``room``, if their longest words do.

    The widest column gives way first.
    """
    from rich.cells import cell_len

    full = [max((cell_len(line) for c in cells for line in c.splitlines()), default=0)
            for cells in columns]  # fmt: skip
    least = [max((cell_len(word) for c in cells for word in c.split()), default=0)
             for cells in columns]  # fmt: skip
    excess = sum(full) + GAP * (len(full) - 1) - room
    while excess > 0:
        can = [number for number, width in enumerate(full) if width > least[number]]
        if not can:
            break
        widest = max(can, key=lambda number: full[number])
        # Down to the next widest, or to its longest word, or as far as is needed.
        others = [full[number] for number in can if full[number] < full[widest]]
        by = min(excess, full[widest] - max([least[widest], *others]))
        by = max(by, 1)
        full[widest] -= by
        excess -= by
    return full


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of cells below their titles."""
    if sys.stdout.isatty():
        _print_folded(titles, rows)
        return
    from rich.cells import cell_len, set_cell_size

    lines = [[" ".join(text.splitlines()) for text in row] for row in (titles, *rows)]
    full = [max(cell_len(text) for text in column) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (set_cell_size(text, width) for text, width in zip(line, full, strict=True))
        click.echo((" " * GAP).join(cells).rstrip())


def _print_folded(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = [[title, *(row[number] for row in rows)] for number, title in enumerate(titles)]
    measured = widths(columns, Console().width)
    table = Table(
        box=None, pad_edge=False, header_style="bold", show_edge=False, padding=(0, GAP, 0, 0)
    )
    for title, width in zip(titles, measured, strict=True):
        table.add_column(title, width=width, overflow="fold")
    for row in rows:
        table.add_row(*(Text(text, style=STATUS_COLOURS.get(text, "")) for text in row))
    # With a height: without one Rich takes any dumb terminal to be 80 wide.
    console = Console(width=sum(measured) + GAP * len(measured), height=100)
    console.print(table)
    if not rows:
        console.print("(none)", style="dim")
