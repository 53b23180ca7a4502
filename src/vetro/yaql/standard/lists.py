"""Lists, and functions of all collections (yaql.md section 6).

Operations on lists return lists; on lazy sequences they return lazy sequences. Negative positions
count from the end of a list and are outside of every lazy sequence.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import cast

from vetro.yaql import operators
from vetro.yaql.evaluation import Evaluation
from vetro.yaql.kinds import ITERABLE, LAZY, LIST
from vetro.yaql.registry import LEGACY, Registry
from vetro.yaql.sequences import linked
from vetro.yaql.signatures import Dictionary, Integer, Items, SetOfValues
from vetro.yaql.values import Value, collect, kind_of

registry = Registry()


@registry.function_legacy_both("list")
def list_(rt: Evaluation, *args: Value) -> list[object]:
    result: list[Value] = []
    for value in args:
        if kind_of[type(value)] == LAZY:
            result += collect(value, rt)
        else:
            result.append(value)
    rt.check_items(len(result))
    return result


@registry.function("tuple", flavours=LEGACY)
def tuple_(*args: object) -> list[object]:
    return list(args)


@registry.function()
def is_list(arg: object) -> bool:
    return kind_of[type(arg)] == LIST


@registry.function()
def is_iterable(rt: Evaluation, value: object) -> bool:
    return operators.is_iterable(rt, kind_of[type(value)])


@registry.method()
def to_list(rt: Evaluation, collection: Items) -> list[object] | tuple[object, ...]:
    if type(collection) is tuple:
        return cast("tuple[object, ...]", collection)
    items = collect(collection, rt)
    rt.charge(len(items))
    return items


@registry.both("len")
def length(rt: Evaluation, sequence: Items) -> int:
    if kind_of[type(sequence)] != LAZY:
        return len(sequence)  # type: ignore[arg-type]  # a list, set or mapping
    return len(collect(sequence, rt))


@registry.both("len")
def length_of_mapping(dict_: Dictionary) -> int:
    return len(dict_)


@registry.both("len")
def length_of_set(set_: SetOfValues) -> int:
    return len(set_)


@registry.method()
def flatten(rt: Evaluation, collection: Items) -> Iterator[object]:
    return linked(rt, _flattened(rt, collection), collection)


def _flattened(rt: Evaluation, collection: Iterable[Value]) -> Iterator[object]:
    stack = [iter(collection)]
    left = rt.max_items
    while stack:
        for item in stack[-1]:
            kind = kind_of[type(item)]
            left -= 1
            if left < 0:
                rt.check_items(rt.max_items + 1)
            rt.charge(1)
            if kind & ITERABLE:
                stack.append(iter(item))
                break
            yield item
        else:
            stack.pop()


@registry.method()
def contains(rt: Evaluation, collection: Items, value: object) -> bool:
    return operators.has_member(rt, collection, value)


def _spliced(
    rt: Evaluation, items: Iterable[object], position: int, count: int, new: Iterable[object]
) -> object:
    """`items` with `count` elements at `position` (negative: all further ones) replaced by `new`."""
    if kind_of[type(items)] == LIST:
        result: list[object] = list(items)
        added = list(new)
        if position < 0:
            position += len(result)
        if position < 0:
            result = result if count else [*added, *result]
        else:
            end = len(result) if count < 0 else position + count
            if position < len(result) or count == 0:
                result[position:end] = added
            rt.check_items(len(result))
        if type(items) is tuple and rt.final_types.issuperset(map(type, added)):
            # The rest of a final list is final: its elements need no further check.
            rt.charge(len(result))
            return tuple(result)
        return result
    return linked(rt, _spliced_lazily(items, position, count, new), items, new)


def _spliced_lazily(
    items: Iterable[object], position: int, count: int, new: Iterable[object]
) -> Iterator[object]:
    at = -1
    for at, item in enumerate(items):
        if at == position:
            yield from new
        if not (at >= position >= 0 and (count < 0 or at < position + count)):
            yield item
    if count == 0 and position > at:
        yield from new


@registry.method()
def insert(rt: Evaluation, collection: Items, position: Integer, value: object) -> object:
    return _spliced(rt, collection, position, 0, (value,))


@registry.method()
def insert_many(rt: Evaluation, collection: Items, position: Integer, values: Items) -> object:
    return _spliced(rt, collection, position, 0, values)


@registry.method("delete")
def delete(rt: Evaluation, collection: Items, position: Integer, count: Integer = 1) -> Value:
    return _deleted(rt, collection, position, count)


def _deleted(rt: Evaluation, items: Iterable[object], position: int, count: int) -> object:
    # Unlike the other functions it has no positions from the end (as in the reference).
    given: object = items
    if type(given) is tuple and position >= 0 and count > 0:
        # Slices are copied as blocks, and the rest of a final list is final.
        final = cast("tuple[object, ...]", given)
        rt.charge(len(final))
        return final[:position] + final[position + count :]
    if kind_of[type(items)] == LIST and position >= 0:
        return _spliced(rt, items, position, count, ())
    if kind_of[type(items)] == LIST:
        return list(items)
    return linked(rt, _spliced_lazily(items, position, count, ()), items) if count else items


@registry.method("replace")
def replace(
    rt: Evaluation, collection: Items, position: Integer, value: object, count: Integer = 1
) -> Value:
    return _spliced(rt, collection, position, count, (value,)) if count else collection


@registry.method()
def replace_many(
    rt: Evaluation, collection: Items, position: Integer, values: Items, count: Integer = 1
) -> object:
    return _spliced(rt, collection, position, count, values) if count else collection


@registry.both()
def append(rt: Evaluation, collection: Items, *args: object) -> Value:
    if kind_of[type(collection)] == LIST:
        rt.check_items(len(collection) + len(args))  # type: ignore[arg-type]  # a list
        return [*collection, *args]
    return linked(rt, chain(collection, args), collection)


@registry.both("concat")
def concat(rt: Evaluation, collection: Items, *args: Items) -> object:
    if all(kind_of[type(items)] == LIST for items in (collection, *args)):
        result = [item for items in (collection, *args) for item in items]
        rt.check_items(len(result))
        return result
    return linked(rt, chain(collection, *args), collection, *args)
