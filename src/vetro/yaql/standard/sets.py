"""Sets (yaql.md section 6)."""

from collections.abc import Iterable
from typing import cast

from vetro.yaql.comparing import hashable
from vetro.yaql.evaluation import Evaluation
from vetro.yaql.kinds import LAZY, SET
from vetro.yaql.registry import Registry
from vetro.yaql.signatures import Items, SetOfValues
from vetro.yaql.values import Value, collect, kind_of

registry = Registry()


def _members(rt: Evaluation, items: Iterable[object]) -> frozenset[object]:
    if type(items) is frozenset:
        return cast("frozenset[object]", items)
    members = collect(items, rt)
    rt.charge(len(members))
    return frozenset([hashable(item, rt) for item in members])


@registry.function("set")
def set_(rt: Evaluation, *args: Value) -> frozenset[Value]:
    members: list[object] = []
    for value in args:
        if kind_of[type(value)] == LAZY:
            members += collect(value, rt)
        else:
            members.append(value)
    return _members(rt, members)


@registry.function()
def is_set(arg: object) -> bool:
    return kind_of[type(arg)] == SET


@registry.method()
def to_set(rt: Evaluation, collection: Items) -> frozenset[object]:
    return _members(rt, collection)


@registry.method()
def union(rt: Evaluation, left: SetOfValues, right: SetOfValues) -> frozenset[object]:
    return _members(rt, left) | _members(rt, right)


@registry.method()
def intersect(rt: Evaluation, left: SetOfValues, right: SetOfValues) -> frozenset[object]:
    return _members(rt, left) & _members(rt, right)


@registry.method()
def difference(rt: Evaluation, left: SetOfValues, right: SetOfValues) -> frozenset[object]:
    return _members(rt, left) - _members(rt, right)


@registry.method()
def symmetric_difference(
    rt: Evaluation, left: SetOfValues, right: SetOfValues
) -> frozenset[object]:
    return _members(rt, left) ^ _members(rt, right)


@registry.method()
def add(rt: Evaluation, set_: SetOfValues, *values: object) -> frozenset[Value]:
    return _members(rt, set_) | _members(rt, values)


@registry.method()
def remove(rt: Evaluation, set_: SetOfValues, *values: object) -> frozenset[Value]:
    return _members(rt, set_) - _members(rt, values)
