"""Values of programs: frozen containers, and their conversion to and from plain Python data.

Inside a program a list is a tuple, a map is a `Map` and a set a frozenset, all the way down
(`vetro.yaql.values`). Hosts and native classes get lists, dicts and sets of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from vetro.yaql.kinds import LAZY
from vetro.yaql.values import FINAL_TYPES, SCALAR_TYPES, Budget, finalize, kind_of
from vetro.yaql.values import FrozenDict as Map
from vetro.yaql.values import preview as preview

Value: TypeAlias = Any
"""A value of a program: null, a scalar, a frozen container or a lazy sequence (`vetro.yaql.values`),
a `MuranoObject`, a class or what describes one; in what hosts and native classes give, plain data as well.

Contracts and operations find out which while the program runs. What only hands a value on takes `object`.
"""
_EMPTY = Map()
_MAX_DEPTH = 200


def empty_map() -> Map:
    """The empty map; must not be changed."""
    return _EMPTY


def make_map(items: Mapping[object, object]) -> Map:
    """A frozen map of values that are already frozen."""
    return Map(items)


def freeze(value: Value, depth: int = 0) -> Value:
    """Convert plain data to a program's value; frozen values are returned as they are.

    Raises ValueError for data nested more than 200 deep (a list that holds itself, for example).
    """
    kind = value.__class__
    if kind in FINAL_TYPES:
        return value
    if depth > _MAX_DEPTH:
        raise ValueError(f"data is nested more than {_MAX_DEPTH} levels deep")
    depth += 1
    if kind is list or isinstance(value, (list, tuple)) or is_iterator(value):
        return tuple([freeze(item, depth) for item in cast("Sequence[object]", value)])
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return Map({freeze(key, depth): freeze(item, depth) for key, item in items})
    if isinstance(value, (set, frozenset)):
        return frozenset(freeze(item, depth) for item in cast("Sequence[object]", value))
    return value


def thaw(value: object) -> Value:
    """A program's value as lists, dicts and sets that the receiver owns."""
    kind = value.__class__
    if kind is Map or kind is dict:
        return {key: thaw(item) for key, item in cast("Mapping[object, object]", value).items()}
    if kind is tuple or kind is list:
        items = cast("Sequence[object]", value)
        if SCALAR_TYPES.issuperset(map(type, items)):
            return list(items)
        return [thaw(item) for item in items]
    if kind is frozenset or kind is set:
        return {thaw(item) for item in cast("Sequence[object]", value)}
    return value


def is_iterator(value: object) -> bool:
    """True for a lazy sequence."""
    return kind_of[type(value)] == LAZY


def materialise(value: Value, run: Budget) -> Value:
    """A lazy sequence as a list; other values frozen. Obeys the run's limits."""
    return finalize(value, run)
