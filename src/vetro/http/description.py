"""The request of a call, for its OpenAPI document.

Handlers read their bodies from the raw request (so that errors are ours), so Litestar cannot derive
their schemas. ``describes`` declares them::

    @post("/things", operation_class=describes(body={"type": "object", ...}))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from litestar.openapi.spec import (
    OpenAPIMediaType,
    OpenAPIType,
    Operation,
    Parameter,
    RequestBody,
    Schema,
)

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


def describes(
    *,
    body: JsonSchema | None = None,
    content_type: str = "application/json",
    required: bool = True,
    query: Mapping[str, JsonSchema] | None = None,
    headers: Mapping[str, JsonSchema] | None = None,
) -> type[Operation]:
    """An ``operation_class`` with a request body, query parameters and headers.

    Schemas are JSON Schema, limited to the keywords that the API's bodies need.
    """
    media = OpenAPIMediaType(schema=schema(body)) if body is not None else None
    extra = [
        Parameter(name=name, param_in=place, schema=schema(form), required=False)
        for place, group in (("query", query), ("header", headers))
        for name, form in (group or {}).items()
    ]

    @dataclass
    class Described(Operation):
        def __post_init__(self) -> None:
            if media is not None:
                self.request_body = RequestBody(content={content_type: media}, required=required)
            if extra:
                self.parameters = [*(self.parameters or []), *extra]

    return Described


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
    form: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        form["required"] = list(required)
    return form


TEXT: JsonSchema = {"type": "string"}
NAME: JsonSchema = {"type": "string", "minLength": 1, "maxLength": 255}
FLAG: JsonSchema = {"type": "boolean"}
TEXTS: JsonSchema = {"type": "array", "items": TEXT}
ANY_OBJECT: JsonSchema = {"type": "object"}
