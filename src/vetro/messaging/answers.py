"""The answers of the guests' face, for its OpenAPI document (guest-agent.md §2a)."""

from __future__ import annotations

from vetro.http import BEARER, Reply, Security

_LATER = 429
_ARCHIVE = {"type": "string", "format": "binary"}

REPLIES = {
    "GET /v1/plans": Reply(
        # The exact bytes that were signed: JSON, which clients must not re-encode.
        {"type": "string", "format": "binary"},
        others={204: None},
        errors=(_LATER,),
        name="next_plan",
    ),
    "POST /v1/plans/{message_id}/ack": Reply(status=204, errors=(_LATER,), name="acknowledge"),
    "POST /v1/results": Reply(status=202, errors=(404, 413, _LATER, 507), name="send_result"),
    "POST /v1/alive": Reply(status=204, errors=(413, _LATER), name="say_alive"),
    "GET /v1/agent.pyz": Reply(
        _ARCHIVE, media=("application/octet-stream",), others={304: None}, name="guest_agent"
    ),
    "POST /v1/signals/{handle}": Reply(
        status=204, errors=(401, 409, 413, _LATER), name="send_signal"
    ),
    "PUT /v1/signals/{handle}": Reply(
        status=204, errors=(401, 409, 413, _LATER), name="put_signal"
    ),
}
SECURITY = Security(
    {"guest": BEARER},
    public=lambda method, path: path == "/v1/agent.pyz" or path.startswith("/v1/signals/"),
)
