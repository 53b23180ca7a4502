"""Keystone's API for the dashboard of this process: calls below ``/identity`` are passed on to it.

The dashboard signs people in, and shows users and projects, by the identity face of its process. Where
identity is a Keystone's, this stands in its place; no port of Vetro serves it.
"""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import quote

import msgspec
import structlog
from litestar.types import Receive, Scope, Send

from vetro.http import Face, respond
from vetro.http.client import HttpClient, TransportError
from vetro.openstack import keystone_url

LARGEST_BODY = 1 << 20
_TO_KEYSTONE = frozenset({b"x-auth-token", b"x-subject-token", b"content-type", b"accept"})
_TO_BROWSER = frozenset({"x-subject-token", "retry-after", "vary"})
log = structlog.get_logger(__name__)


class KeystoneForwarding:
    """Passes requests for ``/v3/…`` on to the Keystone at ``url``, which decides on each of them."""

    def __init__(self, url: str, client: HttpClient) -> None:
        self.url = keystone_url(url)
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        given = cast("dict[str, Any]", scope)
        path: str = given["path"]
        if not path.startswith("/v3/") or any(one in (".", "..") for one in path.split("/")):
            await _refuse(send, 404, f"{path} does not exist")
            return
        body = bytearray()
        more = True
        while more:
            message = cast("dict[str, Any]", await receive())
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            if len(body) > LARGEST_BODY:
                await _refuse(send, 413, f"The body is larger than {LARGEST_BODY} bytes")
                return
            more = message.get("more_body", False)
        query = given["query_string"].decode("latin-1")
        url = self.url + quote(path.removeprefix("/v3")) + (f"?{query}" if query else "")
        pairs: list[tuple[bytes, bytes]] = given["headers"]
        headers = {n.decode(): v.decode("latin-1") for n, v in pairs if n in _TO_KEYSTONE}
        try:
            answer = await self._client.request(
                given["method"], url, headers=headers, content=bytes(body) or None
            )
        except TransportError as error:
            log.warning("keystone_does_not_answer", error=str(error))
            await _refuse(send, 503, f"Keystone at {self.url} does not answer; try again later")
            return
        back = [
            (name.encode(), value.encode("latin-1"))
            for name, value in answer.headers.items()
            if name in _TO_BROWSER
        ]
        kind = answer.headers.get("content-type", "application/json")
        await respond(send, answer.status, answer.content, kind, back)


async def _refuse(send: Send, status: int, text: str) -> None:
    """Answer in the form of Keystone's own refusals."""
    said = {"error": {"code": status, "message": text, "title": "Refused"}}
    await respond(send, status, msgspec.json.encode(said), "application/json")


def forwarding_face(url: str, client: HttpClient) -> Face:
    """The identity face for a dashboard of this process; it has no OpenAPI document.

    ``url`` is Keystone's.
    """
    return Face("identity", "/identity", cast("Any", KeystoneForwarding(url, client)))
