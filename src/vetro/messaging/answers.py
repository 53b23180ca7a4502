"""The answers of the guests' face, for its OpenAPI document (guest-agent.md §2a)."""

from __future__ import annotations

from vetro.http import BEARER, Reply, Security

_BYTES = {"type": "string", "format": "binary"}
#: The exact bytes that were signed: JSON, which clients must not re-encode.
PLAN = Reply(_BYTES, others={204: None})
AGENT = Reply(_BYTES, media=("application/octet-stream",), others={304: None})
SECURITY = Security(
    {"guest": BEARER},
    public=lambda method, path: path == "/v1/agent.pyz" or path.startswith("/v1/signals/"),
)
