"""JSON values as workflows see them: equality that knows types, truth, and text (§2.1, §3, §7)."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from typing import cast

from vetro.json_values import Json
from vetro.workflows.errors import EvaluationError

CONTAINERS = (dict, list)
NODES = 2_000_000
"""Values that a model, or anything that is written out, may have."""
TEXT = 16 * 1024 * 1024
"""Characters that one text may have."""
DEPTH = 400
"""How deep they may nest."""


def equal(left: Json, right: Json) -> bool:
    """Deep equality by JSON type: ``true`` is not ``1``, but ``1`` is ``1.0``."""
    if left is right:
        return True
    if isinstance(left, bool) or isinstance(right, bool):
        return False  # the two bools that are equal are identical
    if isinstance(left, dict):
        if not isinstance(right, dict):
            return False
        one, other = cast("dict[str, Json]", left), cast("dict[str, Json]", right)
        return len(one) == len(other) and all(
            key in other and equal(value, other[key]) for key, value in one.items()
        )
    if isinstance(left, list):
        if not isinstance(right, list):
            return False
        items, others = cast("list[Json]", left), cast("list[Json]", right)
        return len(items) == len(others) and all(map(equal, items, others))
    return not isinstance(right, CONTAINERS) and bool(left == right)


def scalar_text(value: Json) -> str:
    """A scalar inside other text: ``None`` is empty, bools are ``True`` and ``False``."""
    if isinstance(value, str):
        return value
    return "" if value is None else text(value)


def text(value: Json) -> str:
    """The function `text` (§7): ``None``, ``True``, decimal numbers; containers as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, CONTAINERS):
        bounded(cast("Json", value), "a value that becomes text")
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def type_name(value: Json) -> str:
    """What kind of value it is, for error texts."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, CONTAINERS):
        return "a list" if isinstance(value, list) else "a map"
    return "text" if isinstance(value, str) else type(value).__name__


def children_of(value: Json) -> Iterator[Json]:
    """The values in a container; nothing for a scalar."""
    if isinstance(value, dict):
        yield from cast("dict[str, Json]", value).values()
    elif isinstance(value, list):
        yield from cast("list[Json]", value)


def reaches(start: Json, target: Json) -> bool:
    """Whether the container ``target`` itself stands somewhere in ``start``."""
    pending: list[Json] = [start]
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        if value is target:
            return True
        if isinstance(value, CONTAINERS) and id(cast("Json", value)) not in seen:
            seen.add(id(cast("Json", value)))
            pending.extend(children_of(value))
    return False


def plain_copy(value: Json) -> Json:
    """A deep copy that shares nothing, also where the value does."""
    if isinstance(value, dict):
        return {key: plain_copy(item) for key, item in cast("dict[str, Json]", value).items()}
    if isinstance(value, list):
        return [plain_copy(item) for item in cast("list[Json]", value)]
    return value


def extent(value: Json) -> tuple[int, int]:
    """How many nodes the value has when it is written out, and how deep it nests.

    Shared parts count each time, 64 characters of a text as a node. Raises: RecursionError.
    """
    known: dict[int, tuple[int, int]] = {}

    def count(one: Json) -> tuple[int, int]:
        if isinstance(one, str):
            return 1 + len(one) // 64, 0
        if not isinstance(one, CONTAINERS):
            return 1, 0
        key = id(cast("Json", one))
        if key not in known:
            nodes, depth = 1, 0
            for child in children_of(one):
                more, below = count(child)
                nodes, depth = nodes + more, max(depth, below)
            known[key] = nodes, depth + 1
        return known[key]

    return count(value)


def bounded(value: Json, what: str, most: int = NODES) -> int:
    """The nodes of a value that may be written out. Raises: EvaluationError.

    References let a few functions make a value that would fill the memory.
    """
    try:
        nodes, depth = extent(value)
    except RecursionError:
        nodes, depth = 0, DEPTH + 1
    if nodes > most:
        raise EvaluationError(f"{what} has {nodes} values; at most {most} are allowed")
    if depth > DEPTH:
        raise EvaluationError(f"{what} nests deeper than {DEPTH}")
    return nodes


def cut(value: Json) -> Json:
    """A copy that can be written out, of a value that is too large: what occurs again, or nests deeper
    than ``DEPTH``, becomes ``None``.
    """
    seen: set[int] = set()

    def copy(one: Json, depth: int) -> Json:
        if not isinstance(one, CONTAINERS):
            return one
        key = id(cast("Json", one))
        if key in seen or depth > DEPTH:
            return None
        seen.add(key)
        if isinstance(one, list):
            return [copy(item, depth + 1) for item in cast("list[Json]", one)]
        known = cast("dict[str, Json]", one)
        return {name: copy(item, depth + 1) for name, item in known.items()}

    return copy(value, 1)


def identity(value: Json) -> Hashable:
    """A key that values have in common when they are ``equal``."""
    if isinstance(value, dict):
        known = cast("dict[str, Json]", value)
        return frozenset((key, identity(item)) for key, item in known.items())
    if isinstance(value, list):
        return tuple(map(identity, cast("list[Json]", value)))
    return (True, value) if isinstance(value, bool) else (False, value)
