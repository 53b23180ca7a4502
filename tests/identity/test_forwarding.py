"""The dashboard's way to a Keystone elsewhere."""

from typing import Any

import pytest

from vetro.http import Assembly, assemble, dashboard_face
from vetro.http.client import HttpClient
from vetro.identity import forwarding_face

CSRF = {"X-Vetro-Dashboard": "1"}


def dashboard_at(url: str, client: HttpClient, files: Any) -> Assembly:
    """A dashboard whose users are of the Keystone at a URL."""
    return assemble([dashboard_face([forwarding_face(url, client)], files, "key")])


async def test_a_keystone_that_is_away_is_said_to_be(tmp_path: Any) -> None:
    """Signing in is 503 with a reason, never a wrong password."""
    async with HttpClient(timeout_seconds=2) as client:
        assembly = dashboard_at("http://127.0.0.1:1", client, tmp_path)
        async with assembly.running(), HttpClient(app=assembly, base_url="http://v") as http:
            given = {"user": "ann", "password": "secret"}
            answer = await http.request("POST", "/dashboard/api/session", json=given, headers=CSRF)
    assert answer.status == 503
    assert "does not answer" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/admin", b"", 404),
        ("/v3/../v2.0/tokens", b"", 404),
        ("/v3/auth/tokens", b"x" * (1 << 20) + b"x", 413),
    ],
)
async def test_only_keystones_calls_are_passed_on(path: str, body: bytes, status: int) -> None:
    """Other paths, and bodies that are too large, never reach Keystone."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async with HttpClient() as client:
        face = forwarding_face("http://127.0.0.1:1", client)
        scope: Any = {
            "type": "http",
            "path": path,
            "method": "POST",
            "headers": [],
            "query_string": b"",
        }
        await face.app(scope, receive, send)
    assert sent[0]["status"] == status
