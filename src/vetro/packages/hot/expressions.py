"""Conditions on a parameter's value, as YAQL with the value in ``$``."""

from __future__ import annotations

from vetro.packages.hot.parameters import Constraint, Parameter


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
    """The condition of a constraint; ``None`` where only the stack's back end can check it."""
    # The text of a list or of JSON is not what the constraint measures.
    is_list = parameter.type == "comma_delimited_list"
    if parameter.type == "json" or parameter.is_fractional:
        return None
    match constraint.kind:
        case "allowed_values":
            allowed = f"list({', '.join(_values(parameter, constraint))})"
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


def _values(parameter: Parameter, constraint: Constraint) -> list[str]:
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
