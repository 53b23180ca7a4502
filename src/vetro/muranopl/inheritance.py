"""Which of several inherited definitions a name means (muranopl.md section 4)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

C = TypeVar("C", bound=Hashable)
Chain = tuple[C, ...]


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


def declaration_chains(
    start: C, parents: Callable[[C], Sequence[C]], declares: Callable[[C], bool]
) -> set[Chain[C]]:
    """For every path to a root: the declaring classes on it, nearest first."""
    known: dict[C, set[Chain[C]]] = {}
    stack: list[C] = [start]
    while stack:
        item = stack[-1]
        if item in known:
            stack.pop()
            continue
        waiting = [parent for parent in parents(item) if parent not in known]
        if waiting:
            stack.extend(waiting)
            continue
        below: set[Chain[C]] = set()
        for parent in parents(item):
            below |= known[parent]
        if not below:
            below = {()}
        known[item] = {(item, *chain) for chain in below} if declares(item) else below
        stack.pop()
    return known[start]


def choose(start: C, parents: Callable[[C], Sequence[C]], declares: Callable[[C], bool]) -> list[C]:
    """The classes whose definition a name means: none, one, or several (then it is ambiguous).

    A chain that is a tail of another one loses: an override on one branch of a diamond hides what
    the other branch merely inherits.
    """
    order = breadth_first(start, parents)
    declaring = [item for item in order if declares(item)]
    if len(declaring) <= 1 or declaring[0] == start:
        return declaring[:1]
    chains = [chain for chain in declaration_chains(start, parents, declares) if chain]
    return _heads(chains, order)


def _heads(chains: Iterable[Chain[C]], order: Sequence[C]) -> list[C]:
    listed = list(chains)
    tails = {chain[cut:] for chain in listed for cut in range(1, len(chain))}
    heads = {chain[0] for chain in listed if chain not in tails}
    return [item for item in order if item in heads]
