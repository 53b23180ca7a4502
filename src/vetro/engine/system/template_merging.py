"""Merging template fragments (core-library.md §4.4.1)."""

from __future__ import annotations

from typing import cast

from vetro.json_values import Json


def merge(old: Json, new: Json, path: str = "") -> Json:
    """``new`` over ``old``: maps join, lists gain what they lack, other values are replaced.

    The arguments are not changed. Errors: ``TypeError`` naming the path when the types do not fit.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        result = dict(cast("dict[str, Json]", old))
        for key, value in cast("dict[str, Json]", new).items():
            result[key] = merge(result[key], value, f"{path}/{key}") if key in result else value
        return result
    if isinstance(old, list) and isinstance(new, list):
        if old == new:
            # Keep even its own duplicates: merging the same fragment again changes nothing.
            return cast("Json", old)
        joined: list[Json] = []
        for item in [*cast("list[Json]", old), *cast("list[Json]", new)]:
            if item not in joined:
                joined.append(item)
        return joined
    if old is None:
        # A value may be added where there was null; upstream silently ignores it.
        return new
    if new is None and isinstance(old, str):
        return old
    if _kind(old) != _kind(new):
        raise TypeError(f"cannot merge {_kind(new)} into {_kind(old)} at {path or '/'}")
    return new


def _kind(value: Json) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return type(value).__name__
