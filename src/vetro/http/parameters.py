"""Parameters of calls: how they are checked and described.

A `Param` names a rule from the vocabulary below; a rule gives what is wrong with a value and the schema
of the OpenAPI document, so that what is published is what is checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from vetro.json_values import Json


@dataclass(frozen=True)
class FieldError:
    """What is wrong with one parameter."""

    field: str
    message: str


#: What is wrong with a parameter, or with a member of it that it names.
Problem = str | FieldError


@dataclass(frozen=True)
class Rule:
    """``check`` gives what is wrong (nothing: fine)."""

    name: str
    check: Callable[[str, Json], Sequence[Problem]]
    schema: Mapping[str, Json]


def kind_of(value: Json) -> str:
    """A value's kind as the object rule's message spells it."""
    if value is ...:
        return "Undefined"
    if value is None:
        return "Null"
    if isinstance(value, bool):
        return "Boolean"
    if isinstance(value, (int, float)):
        return "Number"
    if isinstance(value, str):
        return "String"
    return "Array" if isinstance(value, list) else "Object"


def as_number(value: Json) -> float | None:
    """The number a value stands for; numeric texts count."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}(\.\d{1,18})?", value):
        return float(value)
    return None


def _object(_name: str, value: Json) -> list[str]:
    if isinstance(value, dict):
        return []
    return [f"value is not an object. (was: [object {kind_of(value)}])"]


def _string(_name: str, value: Json) -> list[str]:
    return [] if isinstance(value, str) else ["value was not a string"]


def _trim(_name: str, value: Json) -> list[str]:
    if not isinstance(value, str):
        return ["value was not a string"]
    return [] if value == value.strip() else ["value contains leading or trailing whitespace"]


def _array(_name: str, value: Json) -> list[str]:
    return [] if isinstance(value, list) else ["value was not an array"]


def _number(_name: str, value: Json) -> list[str]:
    return [] if as_number(value) is not None else ["value was not a number"]


def _natural(_name: str, value: Json) -> list[str]:
    number = as_number(value)
    if number is None:
        return ["value was not a number"]
    return [] if number >= 0 else ["value was not greater than or equal to zero"]


def _number_or_string(_name: str, value: Json) -> list[str]:
    good = isinstance(value, str) or as_number(value) is not None
    return [] if good else ["value was not a number or string"]


def _boolean(_name: str, value: Json) -> list[str]:
    return [] if isinstance(value, bool) else ["value was not true or false"]


def _boolean_text(_name: str, value: Json) -> list[str]:
    good = isinstance(value, bool) or (
        isinstance(value, str) and value.lower() in ("true", "false")
    )
    return [] if good else ["value was not 'true' or 'false'"]


def _anything(_name: str, _value: Json) -> list[str]:
    return []


OBJECT = Rule("object", _object, {"type": "object"})
STRING = Rule("string", _string, {"type": "string"})
TRIM = Rule("trim", _trim, {"type": "string"})
TRIM_OR_NULL = Rule(
    "trim or null",
    lambda name, value: [] if value is None else _trim(name, value),
    {"type": ["string", "null"]},
)
ARRAY = Rule("array", _array, {"type": "array", "items": {}})
NUMBER = Rule("number", _number, {"type": "number"})
NATURAL = Rule("natural", _natural, {"type": "number", "minimum": 0})
NUMBER_OR_STRING = Rule("number or string", _number_or_string, {"type": ["number", "string"]})
BOOLEAN = Rule("boolean", _boolean, {"type": "boolean"})
BOOLEAN_TEXT = Rule("boolean text", _boolean_text, {"type": "string", "enum": ["true", "false"]})
ANYTHING = Rule("anything", _anything, {})


def pattern(expression: str, *, flags: int = 0, schema: Mapping[str, Json] | None = None) -> Rule:
    """A rule for texts of one form: "Invalid value for param 'NAME'"."""
    compiled = re.compile(expression, flags | re.ASCII)

    def check(name: str, value: Json) -> list[str]:
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        good = isinstance(text, str) and compiled.fullmatch(text) is not None
        return [] if good else [f"Invalid value for param '{name}'"]

    return Rule("pattern", check, schema or {"type": "string", "pattern": f"^{expression}$"})


INTEGER = pattern(r"-?\d{1,15}", schema={"type": "integer"})
WORDS = pattern(r"[a-z_]+(,[a-z_]+)*", flags=re.IGNORECASE)
#: Filters: any case, texts only.
FILTER = pattern(
    r"true|false", flags=re.IGNORECASE, schema={"type": "string", "enum": ["true", "false"]}
)


@dataclass(frozen=True)
class Param:
    """A declared parameter. ``where`` is how the document shows it; it is taken from anywhere."""

    name: str
    rule: Rule = ANYTHING
    required: bool = False
    where: str = "body"
    description: str = ""
    aliases: tuple[str, ...] = field(default=())


def body(rule: Rule, *names: str) -> tuple[Param, ...]:
    """Optional body parameters of one rule."""
    return tuple(Param(name, rule) for name in names)


def query(rule: Rule, *names: str) -> tuple[Param, ...]:
    """Optional query parameters of one rule."""
    return tuple(Param(name, rule, where="query") for name in names)


def boolean_of(value: Json) -> bool | None:
    """A checked boolean, JSON or text; ``None`` when it is absent."""
    if value is None or isinstance(value, bool):
        return value
    return str(value).lower() == "true"


def words_of(value: Json) -> list[str]:
    """The names of a comma list."""
    return [one for one in str(value).split(",") if one] if value else []
