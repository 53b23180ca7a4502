"""How much backtracking a pattern may cost (an upper estimate).

A repetition is *decided* when the next character alone determines whether to continue or to leave
it: the characters that can begin its body and those that can follow it do not overlap, as in
`\\w+\\s`. An undecided repetition can be left at every place it reached: each one in a sequence
multiplies the work by the length of the text, and one inside another repetition raises the work to
a power of the length.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .tree import (
    EVERYTHING,
    MAXREPEAT,
    SINGLE,
    Item,
    character_set,
    name_of,
    parse,
    subpattern,
)

_MANY = 64
"""Bounded repetitions beyond this count as unbounded."""
_TOO_DEEP = 60


@dataclass(slots=True, eq=False)
class Risk:
    """Worst-case cost: `factor * length ** degree`, or exponential."""

    degree: int
    factor: float
    exponential: bool

    def steps(self, length: int) -> float:
        """Elementary steps for a text of `length` characters."""
        if self.exponential:
            return 2.0 ** min(length, 1000) * self.factor
        return min(self.factor, 1e30) * float(max(length, 1)) ** min(self.degree, 30)

    def longest(self, steps: float) -> int:
        """The greatest length of a text that costs at most `steps`; -1 for none."""
        low, high = -1, 1 << 40
        while low < high:
            middle = (low + high + 1) // 2
            if self.steps(middle) <= steps:
                low = middle
            else:
                high = middle - 1
        return low


class _Cost:
    __slots__ = ("exponential", "factor", "scans", "undecided")

    def __init__(self, *, scans: bool = False) -> None:
        self.undecided = 0
        self.factor = 1.0
        self.exponential = False
        self.scans = scans
        """Whether an unbounded part can be matched before a failure."""

    def add(self, other: _Cost) -> None:
        self.undecided += other.undecided
        self.factor = min(self.factor * other.factor, 1e30)
        self.exponential = self.exponential or other.exponential
        self.scans = self.scans or other.scans


_ACCEPT = EVERYTHING + 1
"""In a set of followers: the pattern may end here."""


def assess(pattern: str, flags: int) -> Risk:
    """The risk of searching with a pattern."""
    items, state = parse(pattern, flags)
    flags = int(state.flags) | flags
    cost = _sequence(items, flags, _ACCEPT, 0)
    if cost.exponential:
        return Risk(0, cost.factor, True)
    anchored = (
        bool(items)
        and name_of(items[0]) == "AT"
        and str(items[0][1])
        in {
            "AT_BEGINNING_STRING",
            *([] if flags & re.MULTILINE else ["AT_BEGINNING"]),
        }
    )
    per_start = max(cost.undecided, 1 if cost.scans else 0)
    return Risk(per_start + (0 if anchored else 1), cost.factor, False)


def _sequence(items: Sequence[Item], flags: int, follow: int, depth: int) -> _Cost:
    cost = _Cost()
    if depth > _TOO_DEEP:
        cost.exponential = True
        return cost
    after = follow
    for item in reversed(items):
        cost.add(_item(item, flags, after, depth))
        first, nullable = _first(item, flags, depth)
        after = first | (after if nullable else 0)
    return cost


def _item(item: Item, flags: int, follow: int, depth: int) -> _Cost:
    name, argument = name_of(item), item[1]
    cost = _Cost()
    if name in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
        return _repeat(item, flags, follow, depth)
    if name == "SUBPATTERN":
        _, add, remove, items = subpattern(argument)
        return _sequence(list(items), flags & ~remove | add, follow, depth + 1)
    if name == "BRANCH":
        seen = 0
        for branch in argument[1]:
            inner = _sequence(list(branch), flags, follow, depth + 1)
            cost.undecided = max(cost.undecided, inner.undecided)
            cost.factor = max(cost.factor, inner.factor)
            cost.exponential = cost.exponential or inner.exponential
            cost.scans = cost.scans or inner.scans
            first, nullable = _sequence_first(list(branch), flags, depth + 1)
            first |= follow if nullable else 0
            if first & seen & EVERYTHING:
                cost.factor *= 2
            seen |= first
        return cost
    if name in {"ASSERT", "ASSERT_NOT"}:
        inner = _sequence(list(argument[1]), flags, EVERYTHING, depth + 1)
        inner.undecided += 1 if inner.scans else 0
        return inner
    if name == "ATOMIC_GROUP":
        return _sequence(list(argument), flags, EVERYTHING, depth + 1)
    if name == "GROUPREF_EXISTS":
        cost.add(_sequence(list(argument[1]), flags, follow, depth + 1))
        if argument[2] is not None:
            cost.add(_sequence(list(argument[2]), flags, follow, depth + 1))
    if name == "GROUPREF":
        cost.scans = True
    return cost


def _repeat(item: Item, flags: int, follow: int, depth: int) -> _Cost:
    low, high, body = item[1]
    low, high, body = int(low), int(high), list(body)
    first, nullable = _sequence_first(body, flags, depth + 1)
    inner = _sequence(body, flags, follow | first, depth + 1)
    unbounded = high == MAXREPEAT or high > _MANY
    if high <= 1:
        # At most once: a choice, but no repetition.
        inner = _sequence(body, flags, follow, depth + 1)
        if low == 0 and first & follow & EVERYTHING:
            inner.factor *= 2
        return inner
    cost = _Cost(scans=inner.scans or (unbounded and follow != _ACCEPT))
    cost.exponential = inner.exponential
    choices = inner.undecided > 0 or inner.factor > 1 or nullable
    if choices:
        if unbounded:
            cost.exponential = True
        else:
            base = max(inner.factor, 2.0) * 100.0**inner.undecided
            cost.factor = min(base**high, 1e30) if high < 200 else 1e30
        return cost
    decided = not first & follow & EVERYTHING
    lasting = follow == _ACCEPT
    if low == high or decided or lasting:
        return cost
    if unbounded:
        cost.undecided = 1
    else:
        cost.factor = float(high - low + 1)
    return cost


def _sequence_first(items: Sequence[Item], flags: int, depth: int) -> tuple[int, bool]:
    """The characters that a sequence can begin with, and whether it can match the empty text."""
    found = 0
    for item in items:
        first, nullable = _first(item, flags, depth)
        found |= first
        if not nullable:
            return found, False
    return found, True


def _first(item: Item, flags: int, depth: int) -> tuple[int, bool]:
    name, argument = name_of(item), item[1]
    if depth > _TOO_DEEP:
        return EVERYTHING, True
    if name in SINGLE:
        return character_set(item, flags), False
    if name in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
        low, _, body = argument
        first, nullable = _sequence_first(list(body), flags, depth + 1)
        return first, nullable or int(low) == 0
    if name == "SUBPATTERN":
        _, add, remove, items = subpattern(argument)
        return _sequence_first(list(items), flags & ~remove | add, depth + 1)
    if name == "BRANCH":
        return _union([list(branch) for branch in argument[1]], flags, depth)
    if name == "ATOMIC_GROUP":
        return _sequence_first(list(argument), flags, depth + 1)
    if name == "AT":
        if str(argument).startswith("AT_END"):
            return 1 << ord("\n"), False
        return 0, True
    if name in {"ASSERT", "ASSERT_NOT"}:
        return 0, True
    if name == "FAILURE":
        return 0, False
    return EVERYTHING, True


def _union(branches: list[list[Any]], flags: int, depth: int) -> tuple[int, bool]:
    found, nullable = 0, False
    for branch in branches:
        first, empty = _sequence_first(branch, flags, depth + 1)
        found |= first
        nullable = nullable or empty
    return found, nullable
