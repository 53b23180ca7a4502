"""The request bodies of the catalog calls, for OpenAPI (catalog-api.md §6.2, §6.3)."""

from __future__ import annotations

from vetro.http import an_object
from vetro.http.endpoint import Body
from vetro.http.parameters import STRING, pattern, query

_TEXT = {"type": "string"}
_SEARCH = (
    *("catalog", "include_disabled", "owned", "id", "category", "tag", "fqn", "name"),
    *("class_name", "type", "version", "search", "order_by", "sort_dir", "limit", "marker"),
)

SEARCH = query(STRING, *_SEARCH)
UPLOAD = Body(
    an_object({"file": {"type": "string", "format": "binary"}, "__metadata__": _TEXT}, ["file"]),
    content_type="multipart/form-data",
)
FORCE = query(pattern("true|false", schema={"type": "string", "enum": ["true", "false"]}), "force")
PATCH = Body(
    {
        "type": "array",
        "items": an_object(
            {
                "op": {"type": "string", "enum": ["add", "replace", "remove"]},
                "path": {
                    "type": "string",
                    "enum": [
                        *("/categories", "/tags", "/is_public"),
                        *("/enabled", "/description", "/name", "/signature"),
                    ],
                },
                "value": {},
            },
            ["op", "path"],
        ),
    },
    content_type="application/murano-packages-json-patch",
)
BUNDLE = Body(an_object({"source": _TEXT, "text": _TEXT}))
IMPORT = Body(
    an_object(
        {
            **dict.fromkeys(("name", "version", "url", "sha256"), _TEXT),
            **{name: {"type": "boolean"} for name in ("is_public", "enabled")},
            "categories": {"type": "array", "items": _TEXT},
        }
    )
)
PAGE = query(STRING, "sort_keys", "sort_dir", "limit", "marker")
ADD_CATEGORY = Body(
    an_object({"name": {"type": "string", "minLength": 1, "maxLength": 80}}, ["name"])
)
