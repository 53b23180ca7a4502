"""Mappings (yaql.md section 6)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from vetro.yaql.comparing import hashable
from vetro.yaql.errors import DepthLimitExceeded
from vetro.yaql.evaluation import Evaluation
from vetro.yaql.kinds import LIST, MAPPING, NULL
from vetro.yaql.registry import CURRENT, LEGACY, Registry
from vetro.yaql.runtime import legacy_mapping
from vetro.yaql.signatures import Dictionary, Integer, Items, Lambda, Lambda2
from vetro.yaql.values import FrozenDict, Value, collect, kind_of, preview

registry = Registry()


@registry.function("dict", flavours=CURRENT)
def empty_dict() -> dict[object, object]:
    return {}


@registry.function("dict", flavours=CURRENT)
def dict_of_pairs(rt: Evaluation, items: Items) -> dict[object, object]:
    return legacy_mapping(rt, *collect(items, rt))


@registry.function("dict", flavours=LEGACY)
def dict_of_tuples(rt: Evaluation, *args: Items) -> dict[object, object]:
    if len(args) == 1:
        pairs = collect(args[0], rt)
        if all(kind_of[type(pair)] & LIST and len(pair) == 2 for pair in pairs):
            return legacy_mapping(rt, *pairs)
    return legacy_mapping(rt, *args)


@registry.function()
def is_dict(arg: object) -> bool:
    return kind_of[type(arg)] == MAPPING


@registry.method_legacy_both("get")
def get(rt: Evaluation, dict_: Dictionary, key: Any, default: Value = None) -> Value:
    return dict_.get(hashable(key, rt), default)


@registry.method("set")
def set_key(rt: Evaluation, dict_: Dictionary, key: object, value: object) -> dict[object, object]:
    rt.check_items(len(dict_) + 1)
    return revised(rt, dict_, {hashable(key, rt): value})


@registry.method("set")
def set_many(rt: Evaluation, dict_: Dictionary, replacements: Dictionary) -> dict[object, object]:
    rt.check_items(len(dict_) + len(replacements))
    return revised(rt, dict_, replacements)


@registry.method()
def keys(dict_: Dictionary) -> list[Value]:
    return list(dict_)


@registry.method()
def values(dict_: Dictionary) -> list[Value]:
    return list(dict_.values())


@registry.method()
def items(dict_: Dictionary) -> list[Value]:
    return [*map(list, dict_.items())]


@registry.method()
def contains_key(rt: Evaluation, dict_: Dictionary, key: object) -> bool:
    return hashable(key, rt) in dict_


@registry.method()
def contains_value(rt: Evaluation, dict_: Dictionary, value: object) -> bool:
    wanted = hashable(value, rt)
    rt.charge(len(dict_))
    return any(hashable(item, rt) == wanted for item in dict_.values())


@registry.method("delete")
def delete(rt: Evaluation, dict_: Dictionary, *keys: object) -> dict[Value, Value]:
    return delete_all(rt, dict_, keys)


@registry.method()
def delete_all(rt: Evaluation, dict_: Dictionary, keys: Items) -> dict[object, object]:
    # In the order given, each once.
    unwanted = dict.fromkeys([hashable(key, rt) for key in keys])
    made = revised(rt, dict_, {})
    for key in unwanted:
        if key not in made:
            continue
        last = next(reversed(made))
        if last is key or last == key:
            # Removal at the end leaves no hole, and CPython copies a dict without holes as a block.
            dict.popitem(made)
        else:
            dict.pop(made, key)
    return made


def revised(
    rt: Evaluation, mapping: dict[object, object], changes: Mapping[object, object]
) -> dict[object, object]:
    """A copy of a mapping with some entries changed or added; a final mapping gives a final copy.

    One pass over the entries in C, without checking the old values of a final mapping: programs
    build templates of thousands of entries one by one.
    """
    rt.charge(len(mapping) + len(changes))
    if type(mapping) is FrozenDict and rt.final_types.issuperset(map(type, changes.values())):
        made = FrozenDict(mapping)
        dict.update(made, changes)
        return made
    return {**mapping, **changes}


Merger = Callable[[Value, Value], Value]


@registry.method()
def merge_with(
    rt: Evaluation,
    dict_: Dictionary,
    another: Dictionary,
    list_merger: Lambda2 | None = None,
    item_merger: Lambda2 | None = None,
    max_levels: Integer = 0,
) -> dict[object, object]:
    known: Merged | None = {}
    if list_merger is not None or item_merger is not None:
        # The program's own functions may return different results each time: make all calls.
        known = None
        rt.charge(_meetings(rt, dict_, another, max_levels, 1, {}))
    return _merged(rt, dict_, another, list_merger, item_merger, max_levels, 1, known)


Merged = dict[tuple[int, int, int], dict[Value, Value]]
"""Results of merging two mappings, by their ids and the levels left. A part may occur several times
in a mapping; the same two parts are merged once, and the result shares the merged part."""


def _merged(
    rt: Evaluation,
    one: dict[Value, Value],
    other: dict[Value, Value],
    list_merger: Merger | None,
    item_merger: Merger | None,
    max_levels: int,
    level: int,
    known: Merged | None,
) -> dict[object, object]:
    if level > 200:
        raise DepthLimitExceeded("mappings nested more than 200 levels deep")
    rt.charge(len(other) + 1)
    changes: dict[object, object] = {}
    for key, value in other.items():
        if key not in one:
            changes[key] = value
            continue
        mine = one[key]
        kind = kind_of[type(value)] if max_levels != 1 else NULL
        if kind & (MAPPING | LIST) and kind_of[type(mine)] != kind:
            raise TypeError(
                f"Cannot merge {preview(mine)} with {preview(value)} at key {preview(key)}"
            )
        if kind == MAPPING:
            levels = max(max_levels - 1, 0)
            met = (id(mine), id(value), levels)
            made = None if known is None else known.get(met)
            if made is None:
                made = _merged(rt, mine, value, list_merger, item_merger, levels, level + 1, known)
                if known is not None:
                    known[met] = made
            changes[key] = made
        elif kind == LIST:
            changes[key] = (
                _united(rt, mine, value) if list_merger is None else list_merger(mine, value)
            )
        else:
            changes[key] = value if item_merger is None else item_merger(mine, value)
    return revised(rt, one, changes)


def _meetings(
    rt: Evaluation,
    one: Mapping[Value, Value],
    other: Mapping[Value, Value],
    max_levels: int,
    level: int,
    known: dict[tuple[int, int, int], int],
) -> int:
    """The number of entries that merging visits, with repetitions; computed once per pair."""
    if level > 200:
        raise DepthLimitExceeded("mappings nested more than 200 levels deep")
    total = len(other) + 1
    rt.charge(total)
    if max_levels == 1:
        return total
    levels = max(max_levels - 1, 0)
    for key, value in other.items():
        if kind_of[type(value)] != MAPPING or kind_of[type(one.get(key))] != MAPPING:
            continue
        mine = one[key]
        met = (id(mine), id(value), levels)
        if met not in known:
            known[met] = _meetings(rt, mine, value, levels, level + 1, known)
        total += known[met]
    return total


def _united(rt: Evaluation, one: Iterable[Value], other: Iterable[object]) -> list[object]:
    seen: dict[object, object] = {}
    for items_ in (one, other):
        for item in items_:
            seen.setdefault(hashable(item, rt), item)
    return list(seen.values())


@registry.method()
def to_dict(
    rt: Evaluation, collection: Items, key_selector: Lambda, value_selector: Lambda | None = None
) -> dict[object, object]:
    source = collect(collection, rt)
    rt.charge(len(source))
    found = [hashable(key, rt) for key in map(key_selector, source)]
    return dict(
        zip(found, source if value_selector is None else map(value_selector, source), strict=True)
    )
