"""What the schema of a class's inputs says, for a form that is made from it (muranopl.md §19)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import cast

from vetro.json_values import JsonObject

INSTANCES = re.compile(r"io\.murano\.resources\.\w*Instance\Z")
MAIN = "main"


def owned_classes(schema: Mapping[str, object]) -> list[str]:
    """The classes of objects that are entered with the object itself, in the order of its inputs."""
    found: list[str] = []
    for _, one in inputs_of(schema):
        items = cast("object", one.get("items"))
        of = cast("JsonObject", items) if isinstance(items, dict) else one
        type_ = str(of.get("muranoType") or "")
        if of.get("owned") and type_ and not INSTANCES.match(type_):
            found.append(type_)
    return list(dict.fromkeys(found))


def inputs_of(schema: Mapping[str, object]) -> Iterator[tuple[str, JsonObject]]:
    """The inputs that people see, in the order of the form."""
    properties = cast("dict[str, JsonObject]", schema.get("properties") or {})
    numbered = enumerate(properties.items())
    for _, (name, one) in sorted(
        numbered, key=lambda pair: (pair[1][1].get("formIndex", 10**6), pair[0])
    ):
        if one.get("visible") is not False:
            yield name, one


def columns_of(items: JsonObject) -> dict[str, JsonObject]:
    """The keys of a map that a row can hold: all are scalars; none: it cannot be a row."""
    keys = cast("dict[str, JsonObject]", items.get("properties") or {})
    scalars = ("string", "integer", "boolean", "number", "")
    return keys if all(kind_of(one)[0] in scalars for one in keys.values()) else {}


def kind_of(schema: Mapping[str, object]) -> tuple[str, bool]:
    """The type, and whether null is allowed."""
    given = schema.get("type")
    if isinstance(given, list):
        kinds = [str(one) for one in cast("list[object]", given)]
        return next((one for one in kinds if one != "null"), ""), "null" in kinds
    return (given if isinstance(given, str) else ""), given is None


def texts_of(prefix: str, name: str, schema: JsonObject) -> JsonObject:
    """The name, the label and the explanations of the field of an input."""
    label = str(schema.get("title") or title_of(name))
    field: JsonObject = {"name": prefix + identifier(name), "label": label}
    for key in ("description", "helpText"):
        if schema.get(key):
            field[key] = str(schema[key])
    return field


def bounds_of(schema: JsonObject) -> JsonObject:
    """The least and the greatest number, as attributes of a field."""
    found: JsonObject = {}
    for name, key, step in (("minimum", "minValue", 1), ("maximum", "maxValue", -1)):
        bound = schema.get(name)
        if isinstance(bound, (int, float)):
            strict = schema.get(f"exclusive{name.capitalize()}") is True
            found[key] = int(bound) + (step if strict else 0)
    return found


def title_of(name: str) -> str:
    """A name as words: ``adminPassword`` as ``Admin password``."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", name).split()
    if not words:
        return name
    rest = [one.lower() if one[1:].islower() else one for one in words[1:]]  # URL stays URL
    return " ".join([words[0].capitalize(), *rest])


def identifier(name: str) -> str:
    """A name as one of a field."""
    return re.sub(r"\W", "_", name) or "_"


def page_of(section: object) -> str:
    """The page of a section."""
    return identifier(str(section)) if section else MAIN
