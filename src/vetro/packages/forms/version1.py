"""Definitions of version 1: values become the flat document of a v0.3 service (B9)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from vetro.documents import DocumentError, DocumentLimits, read_json
from vetro.json_values import JsonObject
from vetro.packages.forms.definition import Definition
from vetro.packages.forms.expressions import Budget, Ingredients, Scope
from vetro.packages.forms.fields import FieldSource
from vetro.packages.forms.offers import Offers
from vetro.packages.forms.readers import rows_of


def build_document(
    definition: Definition, pages: Mapping[str, JsonObject], offers: Offers, type_: str
) -> JsonObject:
    """All exported values at the top level, and ``type``: the service's full name.

    Errors: ``FormError``.
    """
    scope = Scope(
        {name: dict(values) for name, values in pages.items()}, {}, Ingredients(), Budget()
    )
    made: JsonObject = {"type": type_}
    for page in definition.pages:
        values = pages.get(page.name, {})
        for one in page.fields:
            value = _exported(one, values.get(one.name), definition, offers, scope)
            for name in _names(one):
                made[name] = value
    return made


def read_document(
    definition: Definition, service: Mapping[str, object], offers: Offers, scope: Scope
) -> dict[tuple[str, str], Any]:
    """The values of fields that a flat service has: what ``build_document`` makes of them is there."""
    found: dict[tuple[str, str], Any] = {}
    for page in definition.pages:
        for one in page.fields:
            name = next((name for name in _names(one) if name in service), None)
            if name is None:
                continue
            value: Any = service[name]
            if one.type == "instance":
                value = len(cast("list[object]", value)) if isinstance(value, list) else 0
            elif one.type == "table":
                value = rows_of(value, one.settle(scope).columns())
            elif one.type == "image" and isinstance(value, dict):
                known = offers.choices("images") or []
                same = [item.value for item in known if _image(item.value, offers) == value]
                value = same[0] if same else cast("object", value)
            found[page.name, one.name] = value
    return found


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
        return _image(value, offers)
    return value


def _image(value: object, offers: Offers) -> JsonObject:
    """``name``, ``title`` and ``type``: of the platform's image, or those that the value itself has."""
    found = next((one for one in offers.choices("images") or [] if one.value == value), None)
    own: object = value
    if isinstance(value, str) and value.startswith("{"):
        try:
            own = read_json(value, DocumentLimits(bytes=10_000, depth=4))
        except DocumentError:
            own = value
    if isinstance(own, dict):
        details = cast("Mapping[str, object]", own)
        name, title = details.get("name"), details.get("name")
    else:
        details = found.details if found is not None else cast("Mapping[str, object]", {})
        name, title = value, value
    title = title if found is None else found.label
    return {
        "name": details.get("name", name),
        "title": details.get("title", title),
        "type": details.get("type"),
    }


def _unit(definition: Definition, number: int, scope: Scope) -> JsonObject:
    """Unit ``number``, from 1: its own template, or the last one; ``#`` in texts is the number.

    A password that has a ``#`` stays as it is.
    """
    templates = definition.unit_templates
    if not templates:
        return {}
    template = templates[min(number, len(templates)) - 1]
    made = scope.value(template)
    passwords = {
        scope.data.get(one.page, {}).get(one.name)
        for page in definition.pages
        for one in page.fields
        if one.type == "password"
    }
    return cast("JsonObject", _numbered(made, str(number), passwords))


def _numbered(value: object, number: str, passwords: Collection[object]) -> Any:
    if isinstance(value, str):
        return value if value in passwords else value.replace("#", number)
    if isinstance(value, dict):
        pairs = cast("JsonObject", value).items()
        return {key: _numbered(one, number, passwords) for key, one in pairs}
    if isinstance(value, list):
        return [_numbered(one, number, passwords) for one in cast("list[object]", value)]
    return value
