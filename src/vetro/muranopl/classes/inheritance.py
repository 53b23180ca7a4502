"""Which of several inherited definitions a name means (muranopl.md section 4)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

C = TypeVar("C", bound=Hashable)


def breadth_first(start: C, parents: Callable[[C], Sequence[C]]) -> list[C]:
    """A class and its ancestors, breadth first, each once."""
    order: dict[C, None] = {start: None}
    layer: list[C] = [start]
    while layer:
        following: list[C] = []
        for item in layer:
            for parent in parents(item):
                if parent not in order:
                    order[parent] = None
                    following.append(parent)
        layer = following
    return list(order)


def choose(start: C, parents: Callable[[C], Sequence[C]], declares: Callable[[C], bool]) -> list[C]:
    """The classes whose definition a name means: none, one, or several (then it is ambiguous).

    Each path to the root gives a chain of declaring classes. A chain that is a tail of another is
    dropped: an override on one branch of a diamond hides what the other branch only inherits. A
    chain is a tail exactly when a declaring class descends from its first class. So the paths need
    not be walked; diamonds have exponentially many.
    """
    order = breadth_first(start, parents)
    declaring = [item for item in order if declares(item)]
    if len(declaring) <= 1 or declaring[0] == start:
        return declaring[:1]
    hidden: set[C] = set()
    for item in declaring:
        if item not in hidden:
            hidden.update(breadth_first(item, parents)[1:])
    return [item for item in declaring if item not in hidden]
