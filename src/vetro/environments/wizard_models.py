"""A component that is made again by its form keeps its ids and what deployments have set."""

from __future__ import annotations

from typing import cast

from vetro.environments.model import Json, header


def carried_over(old: Json, new: Json) -> Json:
    """``new`` with the ids of ``old``'s objects at the same places and of the same classes.

    Properties that only ``old`` has stay; references to the new ids follow.
    """
    renamed: dict[str, str] = {}
    return _renamed(_merged(old, new, renamed), renamed)


def _class_of(block: dict[str, object]) -> str:
    return str(block.get("type")).partition("/")[0]


def _merged(old: Json, new: Json, renamed: dict[str, str]) -> Json:
    if isinstance(old, list) and isinstance(new, list):
        before = cast("list[Json]", old)
        return [
            _merged(before[place] if place < len(before) else None, one, renamed)
            for place, one in enumerate(cast("list[Json]", new))
        ]
    old_block, new_block = header(old), header(new)
    if old_block is None or new_block is None or _class_of(old_block) != _class_of(new_block):
        return new
    renamed[str(new_block.get("id"))] = str(old_block.get("id"))
    merged = {**cast("dict[str, Json]", old)}
    for key, value in cast("dict[str, Json]", new).items():
        merged[key] = _merged(cast("dict[str, Json]", old).get(key), value, renamed)
    merged["?"] = {**old_block, **new_block, "id": old_block.get("id")}
    return merged


def _renamed(value: Json, renamed: dict[str, str]) -> Json:
    if isinstance(value, str):
        return renamed.get(value, value)
    if isinstance(value, dict):
        return {key: _renamed(one, renamed) for key, one in cast("dict[str, Json]", value).items()}
    if isinstance(value, list):
        return [_renamed(one, renamed) for one in cast("list[Json]", value)]
    return value
