"""Places in a collection: where an element stands, and cutting at places (yaql.md section 6)."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from vetro.yaql.comparing import hashable
from vetro.yaql.evaluation import Evaluation
from vetro.yaql.registry import Registry
from vetro.yaql.sequences import linked
from vetro.yaql.signatures import Integer, Items, Lambda
from vetro.yaql.values import Value, collect

from .queries import pay

registry = Registry()


@registry.method("indexOf")
def index_of(rt: Evaluation, collection: Items, item: object) -> int:
    pay(rt, collection)
    wanted = hashable(item, rt)
    for index, value in enumerate(collection):
        if hashable(value, rt) == wanted:
            return index
    return -1


@registry.method("lastIndexOf")
def last_index_of(rt: Evaluation, collection: Items, item: object) -> int:
    pay(rt, collection)
    wanted = hashable(item, rt)
    found = -1
    for index, value in enumerate(collection):
        if hashable(value, rt) == wanted:
            found = index
    return found


@registry.method()
def index_where(rt: Evaluation, collection: Items, predicate: Lambda) -> int:
    pay(rt, collection)
    for index, value in enumerate(collection):
        if predicate(value):
            return index
    return -1


@registry.method()
def last_index_where(rt: Evaluation, collection: Items, predicate: Lambda) -> int:
    pay(rt, collection)
    found = -1
    for index, value in enumerate(collection):
        if predicate(value):
            found = index
    return found


@registry.method("slice")
def slice_(rt: Evaluation, collection: Items, length: Integer) -> Iterator[Value]:
    if length <= 0:
        raise ValueError(f"slice takes a length from 1, not {length}")
    pay(rt, collection)
    return linked(rt, _slices(iter(collection), min(length, rt.max_items + 1)), collection)


def _slices(items: Iterator[object], length: int) -> Iterator[object]:
    while piece := list(islice(items, length)):
        yield piece


@registry.method()
def split_where(rt: Evaluation, collection: Items, predicate: Lambda) -> Iterator[Value]:
    pay(rt, collection)
    return linked(rt, _split_where(collection, predicate), collection)


def _split_where(
    collection: Iterable[object], predicate: Callable[[object], object]
) -> Iterator[list[object]]:
    piece: list[object] = []
    for item in collection:
        if predicate(item):
            yield piece
            piece = []
        else:
            piece.append(item)
    if piece:
        yield piece


@registry.method()
def slice_where(rt: Evaluation, collection: Items, predicate: Lambda) -> Iterator[Value]:
    pay(rt, collection)
    return linked(rt, _slice_where(rt, collection, predicate), collection)


def _slice_where(
    rt: Evaluation, collection: Iterable[object], predicate: Callable[[object], object]
) -> Iterator[list[object]]:
    piece: list[object] = []
    last: object = None
    for item in collection:
        value = hashable(predicate(item), rt)
        if piece and value != last:
            yield piece
            piece = []
        last = value
        piece.append(item)
    if piece:
        yield piece


@registry.method()
def split_at(rt: Evaluation, collection: Items, index: Integer) -> list[Value]:
    items = collect(collection, rt)
    rt.charge(len(items))
    return [items[:index], items[index:]]
