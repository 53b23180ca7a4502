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
SERVICES = shape("Services", {"services": listed(SERVICE)})
INFO = shape(
    "ServiceInfo",
    {
        "full_service_name": _TEXT,
        "valid": {"type": "boolean"},
        "errors": _TEXTS,
        "warnings": _TEXTS,
    },
)
ARCHIVE = Reply(_BYTES, media=_OCTETS)
CLIENT_ARCHIVE = Reply(_BYTES, media=_OCTETS, others={304: None})
PATH = Reply(FILES, media=("application/json", *_OCTETS))
