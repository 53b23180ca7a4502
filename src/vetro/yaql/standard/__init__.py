"""The standard library (yaql.md sections 6 to 8), a module for each area.

Each function declares by its annotations what it takes (`signatures`); the decorator says under
which names, in which form (`f(x)`, `x.f()`, both) and in which flavours it is registered.
"""

from __future__ import annotations

from collections.abc import Iterator

from vetro.yaql.signatures import Overload


def definitions() -> Iterator[Overload]:
    """Every overload of every area."""
    from . import (
        boolean,
        dates,
        dicts,
        generators,
        lists,
        math,
        ordering,
        queries,
        regexes,
        sets,
        strings,
        system,
    )

    modules = (
        *(boolean, system, math, strings, regexes, lists, dicts, sets),
        *(ordering, queries, generators, dates),
    )
    for module in modules:
        yield from module.registry.overloads
