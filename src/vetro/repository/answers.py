"""The answers of the repository's calls, for its OpenAPI document."""

from __future__ import annotations

from vetro.http import Reply, listed, shape

_TEXT = {"type": "string"}
_TEXTS = listed(_TEXT)
_BYTES = {"type": "string", "format": "binary"}
_OCTETS = ("application/octet-stream",)
DONE = shape(
    "Done", {"result": {"type": "string", "enum": ["success"]}, "warnings": _TEXTS}, ["warnings"]
)
FILES = {"type": "object", "additionalProperties": listed({})}
SERVICE = shape("Service", {"full_service_name": _TEXT, "valid": {"type": "boolean"}})
INFO = shape(
    "ServiceInfo",
    {
        "full_service_name": _TEXT,
        "valid": {"type": "boolean"},
        "errors": _TEXTS,
        "warnings": _TEXTS,
    },
)
_KIND, _PATH = "/v1/admin/{kind}", "/v1/admin/{kind}/{path}"
_SERVICES, _SERVICE = "/v1/admin/services", "/v1/admin/services/{name}"
_JSON = "application/json"

REPLIES = {
    "GET /v1/client/{client}": Reply(_BYTES, media=_OCTETS, others={304: None}),
    "GET /v1/client/services/{name}": Reply(_BYTES, media=_OCTETS),
    f"GET {_KIND}": Reply(FILES),
    f"POST {_KIND}": Reply(DONE),
    f"GET {_PATH}": Reply(FILES, media=(_JSON, *_OCTETS)),
    f"POST {_PATH}": Reply(DONE),
    f"PUT {_PATH}": Reply(DONE, errors=(405,)),
    f"DELETE {_PATH}": Reply(DONE, errors=(405,)),
    f"GET {_SERVICES}": Reply(shape("Services", {"services": listed(SERVICE)})),
    f"POST {_SERVICES}": Reply(DONE),
    f"GET {_SERVICE}": Reply(FILES),
    f"PUT {_SERVICE}": Reply(DONE),
    f"DELETE {_SERVICE}": Reply(DONE),
    f"GET {_SERVICE}/info": Reply(INFO),
    f"POST {_SERVICE}/toggle_enabled": Reply(DONE),
    f"POST {_SERVICE}/toggleEnabled": Reply(DONE),
    "POST /v1/admin/reset_caches": Reply(DONE),
    "POST /v1/admin/import": Reply(DONE),
    "GET /v1/admin/export": Reply(_BYTES, media=_OCTETS),
}
