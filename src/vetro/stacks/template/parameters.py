"""Template parameters: defaults, types and constraints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from vetro.documents import DocumentError, read_json
from vetro.stacks.errors import TemplateError, UnresolvedReference
from vetro.stacks.model import Json

_KINDS = {
    "string": "string",
    "number": "number",
    "json": "json",
    "boolean": "boolean",
    "comma_delimited_list": "list",
    "commadelimitedlist": "list",
}


def parameter_values(
    declared: Mapping[str, Mapping[str, Json]], given: Mapping[str, Json]
) -> dict[str, Json]:
    """The value of every declared parameter.

    Raises `TemplateError` for a parameter that is missing, not declared, of a wrong type or
    against a constraint; the message names it.
    """
    strange = sorted(set(given) - set(declared))
    if strange:
        raise TemplateError(
            f"The template has no parameter {strange[0]!r}; it declares: "
            + (", ".join(sorted(declared)) or "none")
        )
    values: dict[str, Json] = {}
    for name, definition in declared.items():
        if given.get(name) is not None:
            value = given[name]
        elif "default" in definition:
            value = definition["default"]
        else:
            # Heat does not distinguish this from a parameter that is not declared.
            raise UnresolvedReference(f"The parameter {name!r} is not given and has no default")
        kind = _KINDS.get(str(definition.get("type", "string")).lower(), "string")
        values[name] = _convert(name, kind, value)
        _check(name, definition, values[name])
    return values


def _convert(name: str, kind: str, value: Json) -> Json:
    if kind == "number":
        return _number(name, value)
    if kind == "boolean":
        if isinstance(value, bool):
            return value
        if str(value).lower() in ("t", "true", "on", "y", "yes", "1"):
            return True
        if str(value).lower() in ("f", "false", "off", "n", "no", "0"):
            return False
        raise TemplateError(f"The parameter {name!r} is {value!r}, which is not a boolean")
    if kind == "list":
        if isinstance(value, list):
            return list(_items(value))
        return str(value).split(",") if value != "" else []  # Heat keeps spaces
    if kind == "json":
        if isinstance(value, dict | list):
            return _any(value)
        try:
            return read_json(str(value))
        except DocumentError as error:
            raise TemplateError(f"The parameter {name!r} is not JSON: {error}") from error
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        raise TemplateError(f"The parameter {name!r} is a text, not a {type(_any(value)).__name__}")
    return str(value)


def _number(name: str, value: Json) -> int | float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    text = str(value).strip()
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise TemplateError(f"The parameter {name!r} is {value!r}, which is not a number") from None


def _check(name: str, definition: Mapping[str, Json], value: Json) -> None:
    for constraint in _items(definition.get("constraints") or []):
        rules: dict[str, Json] = _any(constraint) if isinstance(constraint, dict) else {}
        said = rules.get("description")
        for rule, bound in rules.items():
            _check_one(name, rule, bound, value, said)
    for cfn, rule in (("AllowedValues", "allowed_values"), ("AllowedPattern", "allowed_pattern")):
        if cfn in definition:
            _check_one(name, rule, definition[cfn], value, definition.get("ConstraintDescription"))
    limits = {"min": definition.get("MinValue"), "max": definition.get("MaxValue")}
    _check_one(name, "range", limits, value, definition.get("ConstraintDescription"))
    lengths = {"min": definition.get("MinLength"), "max": definition.get("MaxLength")}
    _check_one(name, "length", lengths, value, definition.get("ConstraintDescription"))


def _check_one(name: str, rule: str, bound: Json, value: Json, said: Json) -> None:
    if rule == "allowed_values":
        allowed: list[Json] = _items(bound)
        members: list[Json] = _items(value) if isinstance(value, list) else [value]
        if any(
            member not in allowed and str(member) not in map(str, allowed) for member in members
        ):
            _refuse(name, value, said, f"it must be one of {allowed}")
    elif rule == "allowed_pattern":
        if re.fullmatch(str(bound), str(value)) is None:
            _refuse(name, value, said, f"it must match {bound!r}")
    elif rule == "modulo":
        parts: dict[str, Json] = _any(bound) if isinstance(bound, dict) else {}
        step, offset = (_number(name, parts.get(key)) for key in ("step", "offset"))
        if not step:
            raise TemplateError(
                f"The constraint modulo of the parameter {name!r} needs a step that is not 0"
            )
        if _number(name, value) % step != offset:
            _refuse(name, value, said, f"divided by {step} it must leave {offset}")
    elif rule in ("range", "length"):
        limits: dict[str, Json] = _any(bound) if isinstance(bound, dict) else {}
        measured: Json = value
        if rule == "length":
            measured = len(_any(value)) if isinstance(value, str | list | dict) else len(str(value))
        low, high = limits.get("min"), limits.get("max")
        if low is not None and measured < _number(name, low):
            _refuse(name, value, said, f"its {rule} must be at least {low}")
        if high is not None and measured > _number(name, high):
            _refuse(name, value, said, f"its {rule} must be at most {high}")


def _refuse(name: str, value: Json, said: Json, rule: str) -> None:
    raise TemplateError(f"The parameter {name!r} is {value!r}: {said or rule}")


def _items(value: Any) -> list[Json]:
    return list(value)


def _any(value: Any) -> Any:
    return value
