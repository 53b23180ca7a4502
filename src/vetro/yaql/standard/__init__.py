"""The standard library (yaql.md sections 6 to 8), a module for each area."""

from __future__ import annotations

from collections.abc import Iterator

from ..signatures import Overload


def definitions() -> Iterator[Overload]:
    """Every overload of every area."""
    from . import boolean, queries

    for module in (boolean, queries):
        yield from module.registry.overloads
