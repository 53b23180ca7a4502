"""Options that several commands on packages have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from vetro.cli.terminal.paths import EITHER

F = TypeVar("F", bound=Callable[..., Any])


def library_option(whose: str) -> Callable[[F], F]:
    """`--library`, as the argument `libraries`; `whose` requirements the directories are searched for."""
    return click.option(
        "--library",
        "-l",
        "libraries",
        multiple=True,
        type=EITHER,
        help=f"A directory with packages that {whose}.",
    )
