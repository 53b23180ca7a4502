"""JSON Schema in what calls take, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from litestar.openapi.spec import OpenAPIType, Schema

JsonSchema = Mapping[str, Any]

_NAMES = {
    "additionalProperties": "additional_properties",
    "maxItems": "max_items",
    "maxLength": "max_length",
    "minItems": "min_items",
    "minLength": "min_length",
    "oneOf": "one_of",
    "anyOf": "any_of",
    "uniqueItems": "unique_items",
}


def schema(form: JsonSchema) -> Schema:
    """A JSON schema as Litestar's type. Errors: ``TypeError`` for an unsupported keyword."""
    given: dict[str, Any] = {}
    for key, value in form.items():
        name = _NAMES.get(key, key)
        if key == "properties":
            given[name] = {one: schema(inner) for one, inner in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, Mapping):
            given[name] = schema(value)  # pyright: ignore[reportUnknownArgumentType]
        elif key in ("oneOf", "anyOf"):
            given[name] = [schema(inner) for inner in value]
        else:
            given[name] = value
    kinds = given.get("type")
    if isinstance(kinds, str):
        given["type"] = OpenAPIType(kinds)
    elif kinds is not None:
        given["type"] = [OpenAPIType(one) for one in kinds]
    return Schema(**given)


def an_object(properties: Mapping[str, JsonSchema], required: Sequence[str] = ()) -> JsonSchema:
    """The schema of an object with some known members; others are allowed."""
    form: dict[str, object] = {"type": "object", "properties": properties}
    if required:
        form["required"] = list(required)
    return form


TEXT: JsonSchema = {"type": "string"}
NAME: JsonSchema = {"type": "string", "minLength": 1, "maxLength": 255}
FLAG: JsonSchema = {"type": "boolean"}
TEXTS: JsonSchema = {"type": "array", "items": TEXT}
