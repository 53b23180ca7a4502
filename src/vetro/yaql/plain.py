"""Results as plain Python data for a host (yaql.md section 3, output conversion)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vetro.yaql.values import Value

from .errors import DepthLimitExceeded
from .evaluation import Evaluation
from .kinds import CONTEXT, ITERABLE, LIST, MAPPING, SET
from .values import MAPPING_TYPES, MAX_DEPTH, collect, kind_of, no_value, too_deep


def to_plain(value: object, evaluation: Evaluation) -> object:
    """`value` as plain, mutable Python data for a host (yaql.md section 3, output conversion).

    Sequences and sets become lists, mappings dicts; keys stay hashable. Host values pass as they
    are. Counts towards `Limits.memory_bytes`.
    """
    if type(value) in _PLAIN:
        return value
    return _to_plain(value, evaluation, 0)


_PLAIN = frozenset([type(None), bool, int, float, str])


def _to_plain(value: Value, evaluation: Evaluation, depth: int) -> object:
    cls = type(value)  # pyright: ignore[reportUnknownVariableType]
    if cls in _PLAIN:
        if cls is str:
            evaluation.account(len(value))
        return value
    if depth > MAX_DEPTH:
        raise too_deep()
    kind = kind_of[cls]
    if kind & ITERABLE:
        items: Iterable[Value] = value if kind & (LIST | SET) else collect(value, evaluation)
        result = list(items)
        classes = set(map(type, result))
        if _PLAIN.issuperset(classes):
            evaluation.account(8 * len(result) + 56 + _characters(result, classes))
            return result
        evaluation.account(8 * len(result) + 56)
        depth += 1
        if len(classes) == 1 and not classes.isdisjoint(MAPPING_TYPES):
            return _plain_rows(result, evaluation, depth)
        return [_to_plain(item, evaluation, depth) for item in result]
    if kind == MAPPING:
        return _plain_mapping(value, evaluation, depth)
    if kind == CONTEXT:
        raise no_value(value)
    return value


def _plain_rows(
    rows: list[Mapping[Value, Value]], evaluation: Evaluation, depth: int
) -> list[dict[object, object]]:
    """Convert many mappings; most are small and hold plain values."""
    made: list[dict[Value, Value]] = []
    for row in rows:
        if len(row) <= _FEW and depth <= MAX_DEPTH:
            size = 64 * len(row) + 64
            for item in row.values():
                cls = type(item)  # pyright: ignore[reportUnknownVariableType]
                if cls is str:
                    size += len(item)
                elif cls not in _SMALL:
                    break
            else:
                evaluation.account(size)
                made.append({**row})
                continue
        made.append(_plain_mapping(row, evaluation, depth))
    return made


def _plain_mapping(
    value: Mapping[Value, Value], evaluation: Evaluation, depth: int
) -> dict[object, object]:
    # Keys are hashable, and what is hashable is final.
    values = value.values()
    classes = set(map(type, values))
    if _PLAIN.issuperset(classes):
        evaluation.account(64 * len(value) + 64 + _characters(values, classes))
        return dict(value)
    evaluation.account(64 * len(value) + 64)
    if depth > MAX_DEPTH:
        raise DepthLimitExceeded(f"data nested more than {MAX_DEPTH} levels deep")
    depth += 1
    return {
        key: item if type(item) in _SMALL else _to_plain(item, evaluation, depth)
        for key, item in value.items()
    }


_SMALL = frozenset([type(None), bool, int, float])
_FEW = 8


def _characters(values: Iterable[Value], classes: set[type]) -> int:
    """The total length of all strings among scalars."""
    if str not in classes:
        return 0
    if len(classes) == 1:
        return sum(map(len, values))
    return sum([len(item) for item in values if type(item) is str])
