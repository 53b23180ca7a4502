"""The form of a Heat package: one field for each parameter of the template."""

from __future__ import annotations

import json
from typing import Any

from vetro.packages.hot.parameters import Constraint, Parameter, condition, literal
from vetro.packages.hot.templates import HotTemplate
from vetro.packages.hot.yaml_writing import Expression, block


def form_text(full_name: str, version: str, description: str | None, template: HotTemplate) -> str:
    """The form of the package ``full_name``, in version 2 of forms."""
    about: list[dict[str, object]] = [
        {
            "name": "title",
            "type": "string",
            "required": False,
            "hidden": True,
            "description": description or "",
        },
        {
            "name": "name",
            "type": "string",
            "label": "Application Name",
            "required": True,
            "description": "Enter a desired name for the application."
            " Just A-Z, a-z, 0-9, dash and underline are allowed",
            "regexpValidator": r"^[-\w]+$",
        },
    ]
    application: dict[str, object] = {
        "?": {"type": full_name, "package": full_name, "classVersion": version},
        "name": Expression("$.group0.name"),
    }
    if template.environments:
        about.append(
            {
                "name": "hotEnvironment",
                "type": "choice",
                "label": "Environment",
                "required": False,
                "description": "A set of values for parameters that are left as they are",
                "choices": [["", "None"], *([name, name] for name in template.environments)],
            }
        )
        application["hotEnvironment"] = Expression("$.group0.hotEnvironment")
    pages: list[dict[str, object]] = [{"group0": {"fields": about}}]
    values: dict[str, Expression] = {}
    for number, names in enumerate(template.groups, 1):
        page = f"group{number}"
        fields = [_field(template.parameters[name], template) for name in names]
        pages.append({page: {"fields": fields}})
        for name in names:
            values[name] = Expression(_value(page, template.parameters[name], template))
    application["templateParameters"] = values
    return block({"Version": "2", "Application": application, "Forms": pages})


def _value(page: str, parameter: Parameter, template: HotTemplate) -> str:
    name = parameter.name
    plain = name.isascii() and name.isidentifier()
    value = f"$.{page}.{name}" if plain else f"$.{page}.get({literal(name)})"
    if template.environments:
        # What was left as it is must not win against the chosen environment.
        same = (
            f"{value} = {literal(_initial(parameter))} => null, " if parameter.has_default else ""
        )
        return f"switch({same}{value} = '' => null, true => {value})"
    return value


def _field(parameter: Parameter, template: HotTemplate) -> dict[str, object]:
    field: dict[str, object] = {
        "name": parameter.name,
        "type": _type(parameter),
        "label": parameter.label or _title(parameter.name),
        "required": not parameter.has_default and not template.environments,
    }
    if field["type"] == "boolean":
        field["required"] = False
    if parameter.description:
        field["description"] = parameter.description
    if parameter.tags:
        field["helpText"] = ", ".join(parameter.tags)
    if parameter.has_default:
        field["initial"] = _initial(parameter)
    validators: list[dict[str, object]] = []
    for one in parameter.constraints:
        # Two rules of one kind are both valid: the tightest counts.
        if one.kind == "length" and parameter.type == "string":
            _bound(field, "minLength", one.least, max)
            _bound(field, "maxLength", one.most, min)
        else:
            validators += _validators(parameter, one)
    if parameter.is_fractional:
        expr = {"regexpValidator": r"^[-+]?\d+(\.\d+)?$"}
        validators.insert(0, {"expr": expr, "message": "must be a number"})
    if parameter.hidden:
        field["confirmInput"] = False
        # Without validators of its own a password has to have digits and capitals.
        validators = validators or [{"expr": Expression("true")}]
    if validators:
        field["validators"] = validators
    return field


def _type(parameter: Parameter) -> str:
    if parameter.hidden and parameter.type != "boolean":
        return "password"
    if parameter.type == "number" and not parameter.is_fractional:
        return "integer"
    return "boolean" if parameter.type == "boolean" else "string"


def _title(name: str) -> str:
    return " ".join(word[:1].upper() + word[1:] for word in name.split("_") if word)


def _initial(parameter: Parameter) -> object:
    value = parameter.default
    if isinstance(value, list) and parameter.type == "comma_delimited_list":
        return ",".join(str(item) for item in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if _type(parameter) == "integer":
        try:
            return int(value)
        except ValueError:
            return value
    if parameter.type == "boolean":
        return value if isinstance(value, bool) else str(value).lower() in ("true", "t", "1", "on")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bound(field: dict[str, Any], key: str, value: float | None, choose: Any) -> None:
    if value is not None:
        field[key] = choose(field.get(key, int(value)), int(value))


def _validators(parameter: Parameter, constraint: Constraint) -> list[dict[str, object]]:
    rule: object
    if constraint.kind == "allowed_pattern" and parameter.type == "string":
        rule = {"regexpValidator": constraint.pattern}
    else:
        said = condition(parameter, constraint)
        if said is None:
            return []
        if parameter.hidden and parameter.type == "number":
            said = said.replace("$", "int($)")
        rule = Expression(said)
    return [{"expr": rule, **({"message": constraint.message} if constraint.message else {})}]
