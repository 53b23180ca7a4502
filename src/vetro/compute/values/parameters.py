"""Parameters of calls: how they are merged, checked and described (compute-node-api.md §2).

A `Param` names a rule from the vocabulary below; a rule gives the message of `errors[]` and the schema of
the OpenAPI document, so that what is published is what is checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import parse_qsl

import msgspec
from litestar import Request

from vetro.compute.values.faults import FieldError, invalid_argument, invalid_parameters
from vetro.http import MalformedBody, UnsupportedMediaType, content_type, context_of, read_body

Json = Any
Params = dict[str, Any]
UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
#: Enough for a status sample, far from what would exhaust the decoder.
MAX_DEPTH_ERROR = "Malformed request body"


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


async def read_parameters(request: Request[Any, Any, Any], path: Mapping[str, str]) -> Params:
    """Path, query and body as one map; path before query before body, a falsy value yields.

    Errors: 400 ``InvalidContent`` for a body that is not JSON, 413, 415, 500 ``InvalidParameters`` for
    JSON that is not an object.
    """
    given = await _read_body(request)
    queries: Params = {}
    for name in request.query_params:
        values = request.query_params.getall(name)
        queries[name] = values[0] if len(values) == 1 else values
    merged: Params = {}
    for source in (given, queries, dict(path)):
        for name, value in source.items():
            if value or name not in merged:
                merged[name] = value
    return merged


async def _read_body(request: Request[Any, Any, Any]) -> Params:
    raw = await read_body(request, context_of(request).conventions.json_limit_bytes)
    if not raw:
        return {}
    kind = content_type(request)
    if kind == "application/x-www-form-urlencoded":
        try:
            pairs = parse_qsl(raw.decode(), keep_blank_values=True, max_num_fields=1000)
        except ValueError as error:
            raise MalformedBody("Malformed request body") from error
        return dict(pairs)
    if kind not in ("", "application/json", "text/json"):
        raise UnsupportedMediaType(f"Content type {kind} is not application/json")
    try:
        value: Any = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedBody("Malformed request body") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid_parameters(
            [FieldError("body", f"value is not an object. (was: [object {kind_of(value)}])")]
        )
    return cast("Params", value)


def check_declared(
    params: Mapping[str, Json], declared: Iterable[Param], path: Iterable[str]
) -> None:
    """Strict routes refuse what they do not know, before anything else. Errors: 409."""
    known = {*path}
    for param in declared:
        known.update((param.name, *param.aliases))
    for name in params:
        if name not in known:
            raise invalid_argument(f"`{name}` is not an explicitly defined parameter")


def validate(params: Params, declared: Sequence[Param]) -> None:
    """Check every declared parameter; all failures are told, in declared order. Errors: 500.

    Values given under an alias are moved to the name.
    """
    errors: list[FieldError] = []
    for param in declared:
        for alias in param.aliases:
            if alias in params:
                value = params.pop(alias)
                params.setdefault(param.name, value)
        if param.name not in params and not param.required:
            continue
        for problem in param.rule.check(param.name, params.get(param.name, ...)):
            named = isinstance(problem, FieldError)
            errors.append(problem if named else FieldError(param.name, problem))
    if errors:
        raise invalid_parameters(errors)


def boolean_of(value: Json) -> bool | None:
    """A checked boolean, JSON or text; ``None`` when it is absent."""
    if value is None or isinstance(value, bool):
        return value
    return str(value).lower() == "true"


def words_of(value: Json) -> list[str]:
    """The names of a comma list."""
    return [one for one in str(value).split(",") if one] if value else []


def iso_time_schema() -> dict[str, Json]:
    """The schema of an ISO 8601 time."""
    return {"type": "string", "examples": ["3000-01-01T00:00:00.000Z"]}
