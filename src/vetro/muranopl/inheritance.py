"""Which of several inherited definitions a name means (muranopl.md section 4)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

C = TypeVar("C", bound=Hashable)


def breadth_first(start: C, parents: Callable[[C], Sequence[C]]) -> list[C]:
    """Ancestors of a class, nearest layers first, each once; the class itself leads."""
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

    Of the chains of declaring classes on all paths to the root, one that is a tail of another
    loses: an override on one branch of a diamond hides what the other branch merely inherits. A
    class heads a tail exactly when a declaring class descends from it, so that the paths, of which
    diamonds have exponentially many, need not be walked.
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
