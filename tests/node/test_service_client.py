"""What a node says when the compute service does not take what it sends."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from vetro.http.client import HttpClient, Response
from vetro.node.service_client import ServiceClient

NODE = "5f0f3a7e-5a1b-4d8a-9a55-93a0b5c0a001"


@pytest.mark.parametrize("status", [401, 403])
async def test_a_key_that_is_not_taken_is_said_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """Not only that a token is not valid: which key is wanted, where it is, and where to put it."""

    async def refuse(_self: HttpClient, *_arguments: Any, **_options: Any) -> Response:
        return Response(status, {}, b'{"message": "The token is not valid"}')

    monkeypatch.setattr(HttpClient, "request", refuse)
    client = ServiceClient("http://service/compute", NODE, "wrong", "1")
    with capture_logs() as said:
        assert await client.post("/sysinfo", {}) == status
    await client.close()
    (entry,) = said
    assert entry["log_level"] == "error"
    for needed in ("node-key", "VETRO_NODE_KEY", "[node] key"):
        assert needed in entry["event"]
    assert entry["key_of"] == f"GET http://service/compute/servers/{NODE}/key"
