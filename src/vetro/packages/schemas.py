"""Check values against JSON schemas of classes and arguments (muranopl.md §19, draft-04 subset).

Values that a contract would convert are accepted: a number for text, numeric text for a whole
number. ``strict`` refuses non-booleans that a contract would convert to a boolean.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from vetro.json_values import Json

_KINDS = {
    "integer": "a whole number",
    "string": "text",
    "boolean": "true or false",
    "muranoObject": "an object, or the id of one",
    "array": "a list",
    "object": "a map",
}


def value_problems(
    value: Json, schema: Mapping[str, Json], where: str, *, strict: bool = True
) -> Iterator[str]:
    """The mistakes in a value, each with its place."""
    kinds = schema.get("type")
    allowed = cast("list[str]", kinds if isinstance(kinds, list) else [kinds] if kinds else [])
    if value is None:
        if allowed and "null" not in allowed and not {"array", "object"} & {*allowed}:
            yield f"{where} must be {_words(allowed)}, not null"
        return
    if allowed and not any(_fits(value, kind, strict) for kind in allowed):
        yield f"{where} must be {_words(allowed)}, not {value!r:.60}"
        return
    choices = schema.get("enum")
    if choices is not None and value not in choices and str(value) not in choices:
        yield f"{where} must be one of {', '.join(map(str, choices))}, not {value!r:.60}"
    if "integer" in allowed:
        yield from _bounds(int(value), schema, where)
    pattern = schema.get("pattern")
    if pattern is not None and not re.search(pattern, str(value)):
        yield f"{where} does not match {pattern}: {value!r:.60}"
    if isinstance(value, list):
        yield from _list(cast("list[Json]", value), schema, where, strict)
    elif isinstance(value, dict) and "muranoObject" not in allowed:
        yield from _map(cast("dict[str, Json]", value), schema, where, strict)


def argument_problems(
    given: Mapping[str, Json], wanted: Mapping[str, Mapping[str, Json]], *, strict: bool = False
) -> list[str]:
    """The mistakes in named arguments; ``wanted``: their schemas.

    An argument that has no ``default`` and must not be null is required.
    """
    found: list[str] = []
    for name, value in given.items():
        if name not in wanted:
            found.append(f"there is no argument {name}{did_you_mean(name, wanted)}")
        else:
            found += value_problems(value, wanted[name], name, strict=strict)
    return found + [f"{name} is required" for name in missing_arguments(given, wanted)]


def missing_arguments(
    given: Mapping[str, Json], wanted: Mapping[str, Mapping[str, Json]]
) -> list[str]:
    """The names of required arguments that are missing."""
    return [
        name
        for name, schema in wanted.items()
        if name not in given
        and "default" not in schema
        and isinstance(kind := schema.get("type"), str)
        and kind not in ("array", "object")
    ]


def did_you_mean(name: str, known: Mapping[str, object]) -> str:
    """A hint: the similar known name, or all known names."""
    found = difflib.get_close_matches(name, known, 1)
    if found:
        return f"; did you mean {found[0]}?"
    return f"; there are: {', '.join(known)}" if known else "; there is none"


def _words(kinds: list[str]) -> str:
    return " or ".join(_KINDS.get(kind, kind) for kind in kinds if kind != "null")


def _fits(value: Json, kind: str, strict: bool) -> bool:
    match kind:
        case "integer":
            if isinstance(value, str):
                return re.fullmatch(r"\s*[-+]?\d+\s*", value) is not None
            return isinstance(value, int) and not (strict and isinstance(value, bool))
        case "string":
            return not isinstance(value, (dict, list))
        case "boolean":
            return isinstance(value, bool) or not strict
        case "muranoObject":
            return isinstance(value, str) or (isinstance(value, dict) and "?" in value)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case _:
            return kind != "null"


def _bounds(value: int, schema: Mapping[str, Json], where: str) -> Iterator[str]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value < low or (value == low and schema.get("exclusiveMinimum"))):
        yield f"{where} must be {'more than' if schema.get('exclusiveMinimum') else 'at least'} {low}"
    if high is not None and (value > high or (value == high and schema.get("exclusiveMaximum"))):
        yield f"{where} must be {'less than' if schema.get('exclusiveMaximum') else 'at most'} {high}"


def _list(value: list[Json], schema: Mapping[str, Json], where: str, strict: bool) -> Iterator[str]:
    if len(value) < schema.get("minItems", 0):
        yield f"{where} must have at least {schema['minItems']} elements"
    if "maxItems" in schema and len(value) > schema["maxItems"]:
        yield f"{where} must have at most {schema['maxItems']} elements"
    items: object = schema.get("items", {})
    fixed = cast("list[Any]", items) if isinstance(items, list) else []
    rest = cast("Any", schema.get("additionalItems", {}) if fixed else items)
    for number, item in enumerate(value):
        one = fixed[number] if number < len(fixed) else rest
        yield from value_problems(item, one, f"{where}.{number}", strict=strict)


def _map(
    value: dict[str, Json], schema: Mapping[str, Json], where: str, strict: bool
) -> Iterator[str]:
    fixed: dict[str, Any] = schema.get("properties", {})
    others: object = schema.get("additionalProperties", True)
    for key, item in value.items():
        if key in fixed:
            yield from value_problems(item, fixed[key], f"{where}.{key}", strict=strict)
        elif others is False:
            yield f"{where} has no {key}{did_you_mean(key, fixed)}"
        elif isinstance(others, dict):
            yield from value_problems(item, others, f"{where}.{key}", strict=strict)  # pyright: ignore[reportUnknownArgumentType]
