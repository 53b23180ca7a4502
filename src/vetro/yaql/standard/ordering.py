"""`orderBy`, `thenBy` and other functions that compare elements (yaql.md section 6)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cmp_to_key
from typing import Annotated

from vetro.yaql import operators
from vetro.yaql.errors import NoMatchingMethodException
from vetro.yaql.evaluation import Evaluation
from vetro.yaql.kinds import LAZY
from vetro.yaql.registry import Registry
from vetro.yaql.sequences import COUNTED, check_depth, depth_of
from vetro.yaql.signatures import Items, Lambda
from vetro.yaql.values import NUMBER_TYPES, Value, collect, kind_of

registry = Registry()
Key = tuple[Callable[[Value], Value], bool]


class Ordered:
    """A sequence with a pending order: sorted when it is first iterated."""

    __slots__ = ("_items", "_keys", "_rt", "_sorted", "depth")

    def __init__(self, rt: Evaluation, items: Iterable[Value], keys: tuple[Key, ...]) -> None:
        self._rt = rt
        self._items = items
        self._keys = keys
        self._sorted: list[object] | None = None
        self.depth = depth_of(items) + 1
        check_depth(rt, self.depth)

    def then(self, selector: Callable[[object], object], descending: bool) -> "Ordered":
        if self._sorted is None and kind_of[type(self._items)] == LAZY:
            self._items = collect(self._items, self._rt)
        return Ordered(self._rt, self._items, (*self._keys, (selector, descending)))

    def __iter__(self) -> Iterator[Value]:
        if self._sorted is None:
            items = collect(self._items, self._rt)
            for selector, descending in reversed(self._keys):
                items = sort(self._rt, items, selector, descending)
            self._sorted = items
        return iter(self._sorted)


kind_of[Ordered] = LAZY
COUNTED.add(Ordered)


def are_comparable(values: Sequence[object]) -> bool:
    """Whether Python compares these values as the language does: they are all numbers or all
    strings."""
    types = set(map(type, values))
    return types <= NUMBER_TYPES or types == {str}


def sort(
    rt: Evaluation, items: list[Value], selector: Callable[[Value], Value], descending: bool
) -> list[object]:
    """A stable sort by the result of `selector` for each element."""
    rt.charge(len(items))
    keys = list(map(selector, items))
    key: Callable[[int], object] = keys.__getitem__
    if not are_comparable(keys):

        def compare(left: int, right: int) -> int:
            rt.charge(1)
            if operators.less(rt, keys[left], keys[right]):
                return -1
            return 1 if operators.greater(rt, keys[left], keys[right]) else 0

        key = cmp_to_key(compare)
    return [items[index] for index in sorted(range(len(items)), key=key, reverse=descending)]


@registry.method()
def order_by(rt: Evaluation, collection: Items, selector: Lambda) -> Ordered:
    return Ordered(rt, collection, ((selector, False),))


@registry.method()
def order_by_descending(rt: Evaluation, collection: Items, selector: Lambda) -> Ordered:
    return Ordered(rt, collection, ((selector, True),))


@registry.method()
def then_by(rt: Evaluation, collection: Annotated[Value, LAZY], selector: Lambda) -> Ordered:
    return _ordered(collection).then(selector, False)


@registry.method()
def then_by_descending(
    rt: Evaluation, collection: Annotated[Value, LAZY], selector: Lambda
) -> Ordered:
    return _ordered(collection).then(selector, True)


def _ordered(collection: object) -> Ordered:
    if type(collection) is not Ordered:
        raise NoMatchingMethodException("thenBy must follow orderBy: its receiver is not ordered")
    return collection


def greatest(rt: Evaluation, values: list[Value]) -> object:
    """The greatest of at least one value."""
    if are_comparable(values):
        return max(values)
    best = values[0]
    for value in values[1:]:
        if operators.greater(rt, value, best):
            best = value
    return best


def least(rt: Evaluation, values: list[Value]) -> Value:
    """The least of at least one value."""
    if are_comparable(values):
        # The last of equal numbers (2 and 2.0), as in the reference.
        return min(reversed(values))
    best = values[0]
    for value in values[1:]:
        if not operators.less(rt, best, value):
            best = value
    return best
