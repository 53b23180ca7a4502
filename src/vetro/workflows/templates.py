"""Values into templates, and templates into one (§8)."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import cast

from vetro.workflows.errors import EvaluationError
from vetro.workflows.values import CONTAINERS, Json, identity, text, type_name

_WORD = re.compile(r"\{([A-Za-z0-9_]+)\}")


def substitute(template: Json, mappings: dict[str, Json]) -> tuple[Json, list[str]]:
    """A template with its ``$key`` and ``$text{word}`` replaced, and the keys that have no mapping.

    Raises: EvaluationError for a ``{word}`` without a value, or a map or list as a key.
    """
    missing: dict[str, None] = {}

    def replace(value: Json) -> Json:
        if isinstance(value, str):
            return replaced(value)
        if isinstance(value, dict):
            known = cast("dict[Json, Json]", value)
            return {as_key(key): replace(item) for key, item in known.items()}
        if isinstance(value, list):
            return [replace(item) for item in cast("list[Json]", value)]
        return value

    def replaced(value: str) -> Json:
        if not value.startswith("$"):
            return value
        if _WORD.search(value):
            return _WORD.sub(word, value[1:])
        if value[1:] in mappings:
            return mappings[value[1:]]
        missing[value] = None
        return value

    def word(found: re.Match[str]) -> str:
        value = mappings.get(found[1])
        if value is None:
            raise EvaluationError(
                f"the template needs {found[0]} for {('$' + found.string)!r}, which has no value"
            )
        return text(value)

    def as_key(key: Json) -> str:
        value = replaced(key) if isinstance(key, str) else key
        if value is None or isinstance(value, CONTAINERS):
            raise EvaluationError(f"the key {key!r} of the template becomes {type_name(value)}")
        return text(value)

    return replace(template), list(missing)


def merge(one: Json, other: Json, way: str = "") -> Json:
    """Two templates as one: maps join, lists gain what they lack, of scalars the second wins (§8.2).

    Neither is changed. Raises: EvaluationError naming the path where the kinds differ.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        result = dict(cast("dict[str, Json]", one))
        for key, value in cast("dict[str, Json]", other).items():
            result[key] = merge(result[key], value, f"{way}/{key}") if key in result else value
        return result
    if isinstance(one, list) and isinstance(other, list):
        # By identity: a group of a thousand units has thousands of rules.
        joined: dict[Hashable, Json] = {}
        for item in [*cast("list[Json]", one), *cast("list[Json]", other)]:
            joined.setdefault(identity(item), item)
        return list(joined.values())
    if one is None or other is None:
        return cast("Json", other if one is None else one)
    if _kind(one) != _kind(other):
        raise EvaluationError(
            f"the templates do not fit together: at {way or '/'} one has {type_name(one)}, "
            f"another {type_name(other)}"
        )
    return other


def _kind(value: Json) -> str:
    return "number" if isinstance(value, (bool, int, float)) else type(value).__name__
