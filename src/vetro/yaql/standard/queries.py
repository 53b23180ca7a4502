"""Queries (yaql.md section 6).

A query over a list is charged for all elements when it begins; for a lazy sequence the source of
the elements charges. Filters and selectors run inside Python's own `filter` and `map`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain, dropwhile, islice, takewhile, zip_longest
from typing import cast

from vetro.yaql import operators
from vetro.yaql.comparing import hashable
from vetro.yaql.errors import (
    AmbiguousMethodException,
    EmptySequence,
    NoMatchingFunctionException,
    NoMatchingMethodException,
    NoMethodRegisteredException,
)
from vetro.yaql.evaluation import Evaluation
from vetro.yaql.kinds import ITERABLE, LAZY, LIST
from vetro.yaql.registry import Registry
from vetro.yaql.sequences import check_depth, linked
from vetro.yaql.signatures import Integer, Items, Lambda, Lambda2
from vetro.yaql.values import (
    FINAL_TYPES,
    LIST_TYPES,
    NUMBER_TYPES,
    SCALAR_TYPES,
    Memorized,
    Value,
    collect,
    kind_of,
)

from .generators import metered
from .ordering import greatest, least

registry = Registry()
_MISSING: Value = object()


def pay(rt: Evaluation, items: Iterable[object]) -> None:
    """Charge for all elements of a list; the source of a lazy sequence charges for its own."""
    if type(items) in LIST_TYPES:
        rt.charge(len(items) + 1)  # type: ignore[arg-type]  # a list
    else:
        rt.charge(1)


@registry.method_legacy_both("where", "filter")
def where(rt: Evaluation, collection: Items, predicate: Lambda) -> Iterator[Value]:
    pay(rt, collection)
    return linked(rt, filter(predicate, collection), collection)


@registry.method_legacy_both("select", "map")
def select(rt: Evaluation, collection: Items, selector: Lambda) -> Iterator[Value]:
    pay(rt, collection)
    return linked(rt, map(selector, collection), collection)


@registry.method()
def select_many(rt: Evaluation, collection: Items, selector: Lambda) -> Iterator[Value]:
    return linked(rt, chain.from_iterable(_pieces(rt, map(selector, collection))), collection)


def _pieces(rt: Evaluation, values: Iterable[Value]) -> Iterator[Iterable[Value]]:
    left = rt.max_items
    for value in values:
        if type(value) in LIST_TYPES:
            left -= len(value)
            if left < 0:
                rt.check_items(rt.max_items - left)
            rt.charge(1 + len(value))
            yield value
        elif kind_of[type(value)] & ITERABLE:
            rt.charge(1)
            yield metered(rt, value)
        else:
            rt.charge(1)
            yield (value,)


@registry.method_legacy_both("takeWhile")
def take_while(rt: Evaluation, collection: Items, predicate: Lambda) -> Iterator[object]:
    pay(rt, collection)
    return linked(rt, takewhile(predicate, collection), collection)


@registry.method()
def skip_while(rt: Evaluation, collection: Items, predicate: Lambda) -> Iterator[Value]:
    pay(rt, collection)
    return linked(rt, dropwhile(predicate, collection), collection)


@registry.method()
def skip(rt: Evaluation, collection: Items, count: Integer) -> Iterator[Value]:
    if count < 0:
        raise ValueError(f"skip takes a number of elements from 0, not {count}")
    pay(rt, collection)
    return linked(rt, islice(collection, count, None), collection)


@registry.method("limit", "take")
def limit(rt: Evaluation, collection: Items, count: Integer) -> Iterator[Value]:
    if count < 0:
        raise ValueError(f"limit takes a number of elements from 0, not {count}")
    rt.charge(1)
    return linked(rt, islice(collection, count), collection)


@registry.method()
def count(rt: Evaluation, collection: Items) -> int:
    if kind_of[type(collection)] == LAZY:
        return len(collect(collection, rt))
    return len(collection)  # type: ignore[arg-type]  # a list, set or mapping


@registry.method()
def first(collection: Items, default: object = _MISSING) -> Value:
    for item in collection:
        return item
    if default is _MISSING:
        raise EmptySequence("first() of an empty sequence", hint="give a default: first(null)")
    return default


@registry.method()
def last(rt: Evaluation, collection: Items, default: object = _MISSING) -> Value:
    if type(collection) in LIST_TYPES:
        tail = list(cast("Sequence[object]", collection)[-1:])
    else:
        tail = list(deque(collection, 1))
    if tail:
        return tail[0]
    if default is _MISSING:
        raise EmptySequence("last() of an empty sequence", hint="give a default: last(null)")
    return default


@registry.method()
def single(collection: Items) -> Value:
    items = list(islice(collection, 2))
    if not items:
        raise EmptySequence("single() of an empty sequence")
    if len(items) > 1:
        raise EmptySequence("single() of a sequence with more than one element")
    return items[0]


def _gathered(
    rt: Evaluation, collection: Iterable[object], initial: object, name: str
) -> list[Value]:
    items = collect(collection, rt)
    rt.charge(len(items))
    if initial is not _MISSING:
        items.insert(0, initial)
    elif not items:
        raise TypeError(f"{name}() of an empty sequence with no initial value")
    return items


@registry.method_legacy_both("sum")
def sum_(rt: Evaluation, collection: Items, initial: object = _MISSING) -> Value:
    items = _gathered(rt, collection, initial, "sum")
    if NUMBER_TYPES.issuperset(map(type, items)):
        return sum(items)
    if set(map(type, items)) == {str}:
        rt.check_string(sum(map(len, items)))
        return "".join(items)
    return reduce(lambda total, item: operators.add(rt, total, item), items)


@registry.method("max")
def max_(rt: Evaluation, collection: Items, initial: object = _MISSING) -> Value:
    return greatest(rt, _gathered(rt, collection, initial, "max"))


@registry.method("min")
def min_(rt: Evaluation, collection: Items, initial: object = _MISSING) -> Value:
    return least(rt, _gathered(rt, collection, initial, "min"))


def _seeded(
    collection: Iterable[object], seed: object, name: str
) -> tuple[object, Iterator[object]]:
    """The seed, by default the first element, and the elements that follow it."""
    items = iter(collection)
    if seed is _MISSING:
        for seed in items:  # noqa: B007 - the first element is the seed
            break
        else:
            raise TypeError(f"{name}() of an empty sequence with no initial value: give it a seed")
    return seed, items


@registry.method("aggregate", "reduce")
def aggregate(
    rt: Evaluation, collection: Items, selector: Lambda2, seed: object = _MISSING
) -> Value:
    pay(rt, collection)
    seed, items = _seeded(collection, seed, "aggregate")
    return reduce(selector, items, seed)


@registry.method()
def accumulate(
    rt: Evaluation, collection: Items, selector: Lambda2, seed: object = _MISSING
) -> Iterator[Value]:
    pay(rt, collection)
    seed, items = _seeded(collection, seed, "accumulate")
    return linked(rt, _accumulated(rt, items, selector, seed), collection)


def _accumulated(
    rt: Evaluation,
    items: Iterator[object],
    selector: Callable[[object, object], object],
    total: object,
) -> Iterator[object]:
    yield total
    for item in items:
        total = selector(total, item)
        if type(total) is int:
            rt.check_bits(total.bit_length())
        yield total


@registry.both()
def any_(rt: Evaluation, collection: Items, predicate: Lambda | None = None) -> bool:
    if predicate is not None:
        pay(rt, collection)
        return any(map(predicate, collection))
    return any(True for _ in collection)


@registry.both()
def all_(rt: Evaluation, collection: Items, predicate: Lambda | None = None) -> bool:
    pay(rt, collection)
    return all(collection) if predicate is None else all(map(predicate, collection))


@registry.both()
def distinct(
    rt: Evaluation, collection: Items, key_selector: Lambda | None = None
) -> Iterator[object]:
    pay(rt, collection)
    return linked(rt, _distinct(rt, collection, key_selector), collection)


def _distinct(
    rt: Evaluation, collection: Iterable[object], key_selector: Callable[[object], object] | None
) -> Iterator[object]:
    seen: set[object] = set()
    add = seen.add
    for item in collection:
        key = item if key_selector is None else key_selector(item)
        if type(key) not in SCALAR_TYPES:
            key = hashable(key, rt)
        if key not in seen:
            add(key)
            yield item


@registry.both("enumerate")
def enumerate_(rt: Evaluation, collection: Items, start: Integer = 0) -> Iterator[object]:
    pay(rt, collection)
    return linked(rt, map(list, enumerate(collection, start)), collection)


@registry.method()
def group_by(
    rt: Evaluation,
    collection: Items,
    key_selector: Lambda,
    value_selector: Lambda | None = None,
    aggregator: Lambda | None = None,
) -> list[Value]:
    items = collect(collection, rt)
    rt.charge(len(items))
    groups: dict[object, list[object]] = {}
    values = items if value_selector is None else list(map(value_selector, items))
    for key, value in zip(map(key_selector, items), values, strict=True):
        if type(key) not in SCALAR_TYPES:
            key = hashable(key, rt)
        group = groups.get(key)
        if group is None:
            groups[key] = [value]
        else:
            group.append(value)
    if aggregator is None:
        return [[key, group] for key, group in groups.items()]
    try:
        made = [(key, aggregator(group)) for key, group in groups.items()]
    except (
        NoMatchingMethodException,
        NoMatchingFunctionException,
        NoMethodRegisteredException,
        AmbiguousMethodException,
        IndexError,
    ):
        # Aggregators of older programs take the pair of key and values and return such a pair.
        older = [aggregator([key, group]) for key, group in groups.items()]
        if not all(kind_of[type(pair)] == LIST and len(pair) == 2 for pair in older):
            raise
        return older
    if all(type(value) in FINAL_TYPES for _, value in made):
        return made
    return [[key, value] for key, value in made]


@registry.method_legacy_both("join")
def join(
    rt: Evaluation, collection1: Items, collection2: Items, predicate: Lambda2, selector: Lambda2
) -> Iterator[Value]:
    return linked(
        rt, _joined(rt, collection1, collection2, predicate, selector), collection1, collection2
    )


def _joined(
    rt: Evaluation,
    collection1: Iterable[object],
    collection2: Iterable[object],
    predicate: Callable[[object, object], object],
    selector: Callable[[object, object], object],
) -> Iterator[Value]:
    second = collection2 if kind_of[type(collection2)] != LAZY else Memorized(collection2)
    produced = 0
    for one in collection1:
        for other in second:
            rt.charge(1)
            if predicate(one, other):
                produced += 1
                if produced > rt.max_items:
                    rt.check_items(produced)
                yield selector(one, other)


@registry.method("zip")
def zip_(rt: Evaluation, collection: Items, *collections: Items) -> Iterator[Value]:
    pay(rt, collection)
    zipped = map(list, zip(collection, *collections))  # noqa: B905 - the shortest ends it
    return linked(rt, zipped, collection, *collections)


@registry.method()
def zip_longest_(
    rt: Evaluation, collection: Items, *collections: Items, default: object = None
) -> Iterator[Value]:
    pay(rt, collection)
    zipped = map(list, zip_longest(collection, *collections, fillvalue=default))
    return linked(rt, zipped, collection, *collections)


@registry.method()
def reverse(rt: Evaluation, collection: Items) -> list[Value]:
    items = collect(collection, rt)
    rt.charge(len(items))
    items.reverse()
    return items


@registry.method()
def memorize(rt: Evaluation, collection: Items) -> Value:
    if kind_of[type(collection)] != LAZY or type(collection) is Memorized:
        return collection
    kept = Memorized(collection)
    check_depth(rt, kept.depth)
    return kept


@registry.method()
def default_if_empty(rt: Evaluation, collection: Items, default: Items) -> Value:
    if kind_of[type(collection)] != LAZY:
        return collection if collection else default
    items = iter(collection)
    for head in items:
        return linked(rt, chain((head,), items), collection)
    return default


@registry.method()
def cycle(rt: Evaluation, collection: Items) -> Iterator[Value]:
    items = collect(collection, rt)
    left = rt.max_items
    while items:
        left -= len(items)
        if left < 0:
            rt.check_items(rt.max_items + 1)
        rt.charge(len(items))
        yield from items


@registry.method()
def repeat(rt: Evaluation, value: Value, times: Integer = -1) -> Iterator[Value]:
    if kind_of[type(value)] == LAZY:
        value = Memorized(value)
    left = rt.max_items
    while times:
        times -= 1
        left -= 1
        if left < 0:
            rt.check_items(rt.max_items + 1)
        rt.charge(1)
        yield value
