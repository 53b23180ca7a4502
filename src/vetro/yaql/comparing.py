"""Keys, weights and equality of values (yaql.md section 4).

What hashes or compares values visits each occurrence of each part, so it is charged for them first.
"""

from __future__ import annotations

from itertools import chain
from typing import TypeAlias

from .kinds import BOOLEAN, HOST, LAZY, LIST, NUMBER
from .values import (
    FINAL_TYPES,
    MAPPING_TYPES,
    MAX_DEPTH,
    SCALAR_TYPES,
    Budget,
    FrozenDict,
    Value,
    finalize,
    kind_of,
    preview,
    too_deep,
)

Weights: TypeAlias = "dict[int, tuple[int, int]]"
"""Weight and levels of containers, by their ids."""
_HEAVIEST = 1 << 60
_COMPOUND = frozenset([tuple, FrozenDict, frozenset, list, dict, set])
_FINAL_COMPOUND = frozenset([tuple, FrozenDict, frozenset])


def hashable(value: Value, evaluation: Budget) -> Value:
    """`value` in the form in which it can be a key of a mapping or a member of a set.

    Its parts are counted as often as they occur, because hashing and comparing visit each
    occurrence: one part may occur many times in a small value.
    """
    cls = type(value)  # pyright: ignore[reportUnknownVariableType]
    if cls in SCALAR_TYPES:
        return value
    if cls not in FINAL_TYPES:
        value = finalize(value, evaluation)
        cls = type(value)  # pyright: ignore[reportUnknownVariableType]
    if cls is tuple:
        if SCALAR_TYPES.issuperset(map(type, value)):
            evaluation.charge(len(value))
        else:
            evaluation.charge(weight(value))
            _require_hashable(value)
    elif cls is FrozenDict or cls is frozenset:
        evaluation.charge(weight(value))
    return value


def _require_hashable(value: tuple[Value, ...]) -> None:
    # A tuple from a host may contain lists.
    try:
        hash(value)
    except TypeError:
        raise TypeError(f"{preview(value)} cannot be a key: its parts can change") from None


def weight(value: object, known: Weights | None = None) -> int:
    """The number of parts of a final value, each counted as often as it occurs.

    Visits each part once. `known` passes computed weights on to further values; it is valid while
    all of these values exist. Raises `DepthLimitExceeded` beyond 200 levels.
    """
    return _weighed(value, {} if known is None else known, 1)[0]


def _weighed(value: Value, known: Weights, level: int) -> tuple[int, int]:
    """The weight of a container, and its number of levels."""
    if level > MAX_DEPTH:
        raise too_deep()
    parts = value
    if type(value) in MAPPING_TYPES:
        parts = value.values()
        if not _COMPOUND.isdisjoint(map(type, value)):
            parts = chain(value, parts)
    total, levels = 1 + len(value), 1
    for part in parts:
        if type(part) in _COMPOUND:
            met = known.get(id(part))
            if met is None:
                met = _weighed(part, known, level + 1)
            total += met[0]
            if met[1] >= levels:
                levels = met[1] + 1
    if levels > MAX_DEPTH:
        raise too_deep()
    met = known[id(value)] = (total if total < _HEAVIEST else _HEAVIEST, levels)
    return met


def afford(value: Value, evaluation: Budget) -> Value:
    """Charge for each occurrence of each part of `value`, before work that visits all of them."""
    if type(value) in _FINAL_COMPOUND:
        evaluation.charge(weight(value))
    return value


def equal(left: object, right: object, evaluation: Budget) -> bool:
    """`=` of the language: structural; across kinds it is false (yaql.md section 4)."""
    left_class = type(left)  # pyright: ignore[reportUnknownVariableType]
    right_class = type(right)  # pyright: ignore[reportUnknownVariableType]
    if left_class in SCALAR_TYPES and right_class in SCALAR_TYPES:
        return left == right
    left_kind, right_kind = kind_of[left_class], kind_of[right_class]
    if left_kind & (LIST | LAZY) and right_kind & (LIST | LAZY):
        if left is right:
            return True
        if left_kind == LAZY or right_kind == LAZY:
            return False
    elif left_kind != right_kind and not (
        left_kind & (NUMBER | BOOLEAN) and right_kind & (NUMBER | BOOLEAN)
    ):
        # A host object may compare itself with plain values (a type with its name).
        return bool(left == right) if (left_kind | right_kind) & HOST else False
    return bool(hashable(left, evaluation) == hashable(right, evaluation))
