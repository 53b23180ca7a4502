"""The answers of the broker's calls, for its OpenAPI document."""

from __future__ import annotations

from vetro.http import Reply, listed, shape

_TEXT = {"type": "string"}
_EMPTY = {"type": "object"}
_PLAN = shape("Plan", {"id": _TEXT, "name": _TEXT, "description": _TEXT})
_SERVICE = shape(
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
_STATES = ["in progress", "succeeded", "failed", "unknown"]
_OPERATION = shape(
    "Operation", {"state": {"type": "string", "enum": _STATES}, "description": _TEXT}
)
_BINDING = shape("Binding", {"credentials": {}})
ERROR = {
    "type": "object",
    "properties": {"description": _TEXT, "error": _TEXT},
    "required": ["description"],
}
INSTANCE = "/v2/service_instances/{instance_id}"
BINDING = INSTANCE + "/service_bindings/{binding_id}"

REPLIES = {
    "GET /v2/catalog": Reply(shape("Catalog", {"services": listed(_SERVICE)}), errors=(412,)),
    f"PUT {INSTANCE}": Reply(_EMPTY, status=202, others={200: _EMPTY}, errors=(409, 412, 422, 502)),
    f"PATCH {INSTANCE}": Reply(_EMPTY, errors=(410, 412, 422)),
    f"DELETE {INSTANCE}": Reply(
        _EMPTY, status=202, others={200: _EMPTY, 410: _EMPTY}, errors=(412, 422, 502)
    ),
    f"GET {INSTANCE}/last_operation": Reply(_OPERATION, others={410: _EMPTY}, errors=(412, 502)),
    f"PUT {BINDING}": Reply(
        _BINDING, status=201, others={200: _BINDING}, errors=(409, 412, 422, 502, 504)
    ),
    f"DELETE {BINDING}": Reply(_EMPTY, others={410: _EMPTY}, errors=(412, 502)),
}
