"""The answers of the broker's calls, for its OpenAPI document."""

from __future__ import annotations

from vetro.http import listed, shape

_TEXT = {"type": "string"}
EMPTY = {"type": "object"}
_PLAN = shape("Plan", {"id": _TEXT, "name": _TEXT, "description": _TEXT})
SERVICE = shape(
    "Service",
    {
        "id": _TEXT,
        "name": _TEXT,
        "description": _TEXT,
        "bindable": {"type": "boolean"},
        "plan_updateable": {"type": "boolean"},
        "tags": listed(_TEXT),
        "plans": listed(_PLAN),
    },
)
CATALOG = shape("Catalog", {"services": listed(SERVICE)})
_STATES = ["in progress", "succeeded", "failed", "unknown"]
OPERATION = shape("Operation", {"state": {"type": "string", "enum": _STATES}, "description": _TEXT})
BINDING = shape("Binding", {"credentials": {}})
ERROR = {
    "type": "object",
    "properties": {"description": _TEXT, "error": _TEXT},
    "required": ["description"],
}
