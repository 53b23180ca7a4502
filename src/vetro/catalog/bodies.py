"""The request bodies of the catalog calls, for OpenAPI (catalog-api.md §6.2, §6.3)."""

from __future__ import annotations

from vetro.http import an_object, describes

_TEXT = {"type": "string"}
_SEARCH = (
    *("catalog", "include_disabled", "owned", "id", "category", "tag", "fqn", "name"),
    *("class_name", "type", "version", "search", "order_by", "sort_dir", "limit", "marker"),
)

SEARCH = describes(query=dict.fromkeys(_SEARCH, _TEXT))
UPLOAD = describes(
    body=an_object(
        {"file": {"type": "string", "format": "binary"}, "__metadata__": _TEXT}, ["file"]
    ),
    content_type="multipart/form-data",
)
_FORCE = {"force": {"type": "string", "enum": ["true", "false"]}}
DELETE = describes(query=_FORCE)
PATCH = describes(
    query=_FORCE,
    body={
        "type": "array",
        "items": an_object(
            {
                "op": {"type": "string", "enum": ["add", "replace", "remove"]},
                "path": {
                    "type": "string",
                    "enum": [
                        *("/categories", "/tags", "/is_public"),
                        *("/enabled", "/description", "/name"),
                    ],
                },
                "value": {},
            },
            ["op", "path"],
        ),
    },
    content_type="application/murano-packages-json-patch",
)
CATEGORIES = describes(query=dict.fromkeys(("sort_keys", "sort_dir", "limit", "marker"), _TEXT))
ADD_CATEGORY = describes(
    body=an_object({"name": {"type": "string", "minLength": 1, "maxLength": 80}}, ["name"])
)
