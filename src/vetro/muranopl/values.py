"""Values of programs: frozen containers, and plain Python data at the border.

Inside a program a list is a tuple, a map is a `Map`, a set is a frozenset, all the way down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from .run import Run


class Map(dict[Any, Any]):
    """A frozen map."""

    __slots__ = ()

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return hash(frozenset(self.items()))


_EMPTY = Map()
_SETTLED = frozenset((type(None), bool, int, float, str, Map))


def empty_map() -> Map:
    """The map without keys."""
    return _EMPTY


def make_map(items: Mapping[Any, Any]) -> Map:
    """A frozen map of values that are frozen already."""
    return Map(items)


def freeze(value: Any) -> Any:
    """Plain data to a program's value; what is frozen already is returned as it is."""
    kind = value.__class__
    if kind in _SETTLED:
        return value
    if kind is tuple or kind is list:
        return tuple([freeze(item) for item in cast(Sequence[Any], value)])
    if isinstance(value, Mapping):
        return Map({key: freeze(item) for key, item in cast(Mapping[Any, Any], value).items()})
    if kind is set or kind is frozenset:
        return frozenset(freeze(item) for item in cast(Sequence[Any], value))
    if is_iterator(value):
        return tuple([freeze(item) for item in value])
    return value


def thaw(value: Any) -> Any:
    """A program's value as lists, dicts and sets that the receiver owns."""
    kind = value.__class__
    if kind is Map or kind is dict:
        return {key: thaw(item) for key, item in cast(Mapping[Any, Any], value).items()}
    if kind is tuple or kind is list:
        return [thaw(item) for item in cast(Sequence[Any], value)]
    if kind is frozenset or kind is set:
        return {thaw(item) for item in cast(Sequence[Any], value)}
    return value


def is_iterator(value: Any) -> bool:
    """True for a lazy sequence."""
    return isinstance(value, Iterator)


def materialise(value: Any, run: Run) -> tuple[Any, ...]:
    """The elements of a lazy sequence, frozen."""
    return tuple([freeze(item) for item in value])


def preview(value: Any) -> str:
    """A value as an error message shows it."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
