"""Definitions of version 1: values become the flat document of a v0.3 service (B9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from vetro.packages.forms.definition import Definition
from vetro.packages.forms.expressions import Budget, Ingredients, Scope
from vetro.packages.forms.fields import FieldSource
from vetro.packages.forms.offers import Offers

Json = dict[str, Any]


def build_document(
    definition: Definition, pages: Mapping[str, Json], offers: Offers, type_: str
) -> Json:
    """All exported values at the top level, and ``type``: the service's full name.

    Errors: ``FormError``.
    """
    scope = Scope(
        {name: dict(values) for name, values in pages.items()}, {}, Ingredients(), Budget()
    )
    made: Json = {"type": type_}
    for page in definition.pages:
        values = pages.get(page.name, {})
        for one in page.fields:
            value = _exported(one, values.get(one.name), definition, offers, scope)
            for name in _names(one):
                made[name] = value
    return made


def _names(field: FieldSource) -> list[str]:
    given = field.attributes.get("attribute_names", ...)
    if given is ... or given is None or given is True:
        return [field.name]
    if given is False:
        return []
    if isinstance(given, list):
        return [str(one) for one in cast("list[object]", given)]
    return [str(given)]


def _exported(
    field: FieldSource, value: object, definition: Definition, offers: Offers, scope: Scope
) -> object:
    if field.type == "instance":
        count = value if isinstance(value, int) else 0
        return [_unit(definition, number, scope) for number in range(1, count + 1)]
    if field.type == "table":
        rows = cast("list[Any]", value) if isinstance(value, list) else []
        return [{**_unit(definition, number, scope), **row} for number, row in enumerate(rows, 1)]
    if field.type == "image" and value:
        found = next((one for one in offers.choices("images") or [] if one.value == value), None)
        if found is not None:
            details = found.details
            return {
                "name": details.get("name", value),
                "title": details.get("title", found.label),
                "type": details.get("type"),
            }
        return {"name": value, "title": value, "type": None}
    return value


def _unit(definition: Definition, number: int, scope: Scope) -> Json:
    """Unit ``number``, from 1: its own template, or the last one; ``#`` in texts is the number."""
    templates = definition.unit_templates
    if not templates:
        return {}
    template = templates[min(number, len(templates)) - 1]
    made = scope.value(template)
    return cast("Json", _numbered(made, str(number)))


def _numbered(value: object, number: str) -> Any:
    if isinstance(value, str):
        return value.replace("#", number)
    if isinstance(value, dict):
        return {key: _numbered(one, number) for key, one in cast("Json", value).items()}
    if isinstance(value, list):
        return [_numbered(one, number) for one in cast("list[object]", value)]
    return value
