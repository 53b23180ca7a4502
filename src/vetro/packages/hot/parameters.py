"""The parameters of a Heat template, and whether a default keeps the constraints of its own parameter."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast

from vetro.json_values import Json


@dataclass(frozen=True)
class Constraint:
    """One rule for a parameter's value.

    ``kind``: ``allowed_values`` (``values``), ``length`` and ``range`` (``least``, ``most``),
    ``allowed_pattern`` (``pattern``, for the whole value) or ``modulo`` (``step``, ``offset``).
    """

    kind: str
    message: str | None = None
    values: tuple[Json, ...] = ()
    least: int | float | None = None
    most: int | float | None = None
    pattern: str = ""
    step: int = 1
    offset: int = 0


@dataclass(frozen=True)
class Parameter:
    """One parameter of a template. ``default`` counts when ``has_default``."""

    name: str
    type: str
    label: str | None = None
    description: str | None = None
    default: Json = None
    has_default: bool = False
    hidden: bool = False
    immutable: bool = False
    tags: tuple[str, ...] = ()
    """What the author files it under."""
    constraints: tuple[Constraint, ...] = ()

    @property
    def is_fractional(self) -> bool:
        """A number whose default or limits are not whole: asked for, and checked, as text."""
        numbers: list[Json] = [self.default]
        for one in self.constraints:
            numbers += [*one.values, one.least, one.most]
        return self.type == "number" and any(
            isinstance(number, float) and not number.is_integer() for number in numbers
        )


def violated(parameter: Parameter) -> str | None:
    """The constraint that a default violates, in words; ``None``: it keeps all that can be checked here."""
    if not parameter.has_default or parameter.type == "json":
        return None
    values = _values(parameter)
    if parameter.type == "number" and not isinstance(values[0], float):
        return None  # not a number at all: another mistake
    return next((one for c in parameter.constraints if (one := _wrong(c, values, parameter))), None)


def _values(parameter: Parameter) -> list[object]:
    """The items of a list, or the one value."""
    default = parameter.default
    if parameter.type == "comma_delimited_list":
        items = (
            cast("list[object]", default) if isinstance(default, list) else str(default).split(",")
        )
        return [str(one).strip() for one in items]
    return [_number(default) if parameter.type == "number" else default]


def _wrong(constraint: Constraint, values: list[Any], parameter: Parameter) -> str | None:
    is_list = parameter.type == "comma_delimited_list"
    match constraint.kind:
        case "allowed_values":
            allowed = [_comparable(one, parameter) for one in constraint.values]
            if any(_comparable(one, parameter) not in allowed for one in values):
                return f"allowed_values ({', '.join(map(str, constraint.values))})"
        case "length" if is_list or parameter.type == "string":
            if _outside(len(values) if is_list else len(str(values[0])), constraint):
                return f"length ({_limits(constraint)})"
        case "range" if parameter.type == "number":
            if _outside(values[0], constraint):
                return f"range ({_limits(constraint)})"
        case "allowed_pattern" if parameter.type == "string":
            if re.search(constraint.pattern, str(values[0])) is None:
                return "allowed_pattern"
        case "modulo" if parameter.type == "number":
            if values[0] % constraint.step != constraint.offset:
                return f"modulo (step {constraint.step}, offset {constraint.offset})"
        case _:
            pass
    return None


def _comparable(value: object, parameter: Parameter) -> object:
    """Numbers and booleans may be written as texts, texts as numbers."""
    if parameter.type == "number":
        return _number(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(value: Any) -> object:
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def _outside(value: float, constraint: Constraint) -> bool:
    least, most = constraint.least, constraint.most
    return (least is not None and value < least) or (most is not None and value > most)


def _limits(constraint: Constraint) -> str:
    given = {"min": constraint.least, "max": constraint.most}
    return ", ".join(f"{name} {value}" for name, value in given.items() if value is not None)


def literal(value: object) -> str:
    """A YAQL constant; everything that is not a number or a boolean is text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value!r}" if "e" not in repr(value) else f"{value:f}"
    if value is None:
        return "null"
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    for raw, escape in (("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(raw, escape)
    return f"'{text}'"


def condition(parameter: Parameter, constraint: Constraint) -> str | None:
    """The condition of a constraint, as YAQL with the value in ``$``; ``None`` where only the stack's back
    end can check it."""
    # The text of a list or of JSON is not what the constraint measures.
    is_list = parameter.type == "comma_delimited_list"
    if parameter.type == "json" or parameter.is_fractional:
        return None
    match constraint.kind:
        case "allowed_values":
            allowed = f"list({', '.join(_literals(parameter, constraint))})"
            if is_list:
                return f"$.split(',').all($.trim() in {allowed})"
            return f"$ in {allowed}"
        case "length":
            return _within("len($.split(','))" if is_list else "len($)", constraint)
        case "range":
            return None if is_list else _within("$", constraint)
        case "allowed_pattern":
            return None if is_list else f"$.matches({literal(constraint.pattern)})"
        case "modulo":
            return f"$ mod {constraint.step} = {constraint.offset}"
        case _:
            return None


def _literals(parameter: Parameter, constraint: Constraint) -> list[str]:
    if parameter.type in ("number", "boolean"):
        return [literal(value) for value in constraint.values]
    # `allowed_values: [1, true]` of a text are the texts.
    texts = (
        str(value).lower() if isinstance(value, bool) else str(value) for value in constraint.values
    )
    return [literal(text) for text in texts]


def _within(measured: str, constraint: Constraint) -> str:
    parts: list[str] = []
    if constraint.least is not None:
        parts.append(f"{measured} >= {literal(constraint.least)}")
    if constraint.most is not None:
        parts.append(f"{measured} <= {literal(constraint.most)}")
    return " and ".join(parts)
