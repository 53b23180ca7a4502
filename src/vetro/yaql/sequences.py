"""Lazy sequences made of lazy sequences, and the limit of their nesting.

Python's `filter`, `map` and similar iterators call each other in C without checking the depth: some
ten thousand nested ones crash the whole process. So all code that makes a lazy sequence from
another uses `linked`, which counts the depth.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from vetro.yaql.values import Value

from .errors import DepthLimitExceeded
from .evaluation import Evaluation
from .values import LIST_TYPES, Memorized, kind_of

if TYPE_CHECKING:
    _Slice = islice[Any]
else:
    _Slice = islice


class Linked(_Slice):
    """A lazy sequence over others; `depth` counts itself and the sequences below."""

    __slots__ = ("depth",)
    depth: int


_ = kind_of[Linked]
COUNTED: set[type] = {Linked, Memorized}
"""Classes of lazy sequences that have a `depth`; any other counts as one."""


def depth_of(source: Value) -> int:
    """How many lazy sequences are nested in `source`; 0 for a list."""
    cls = type(source)  # pyright: ignore[reportUnknownVariableType]
    if cls in LIST_TYPES:
        return 0
    return source.depth if cls in COUNTED else 1


def check_depth(rt: Evaluation, depth: int) -> None:
    """Refuse sequences nested too deep."""
    if depth > rt.limits.depth:
        raise DepthLimitExceeded(
            f"sequences nested more than {rt.limits.depth} levels deep",
            hint="end a step of a loop with toList()",
        )


def linked(rt: Evaluation, made: Iterator[object], *sources: Iterable[object]) -> Iterator[object]:
    """`made`, which iterates over `sources`, with its depth; raises `DepthLimitExceeded`."""
    depth = 1
    for source in sources:
        if type(source) not in LIST_TYPES:
            depth = max(depth, depth_of(source) + 1)
    if depth == 1:
        return made
    check_depth(rt, depth)
    link = Linked(made, None)
    link.depth = depth
    return link
