"""A path for heartbeats that bypasses the framework: this call must cost almost nothing.

Ten thousand nodes send two thousand heartbeats a second. A request that is exactly a node's
heartbeat (its own key or the shared one, no query, an empty object as body) is answered here with a
few dictionary look-ups; all other requests, including refused heartbeats, take the normal path and
get the normal answer.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote

from litestar.types import Receive, Scope, Send

from vetro.compute.http.keys import NodeAware
from vetro.compute.http.request_metrics import Fixed
from vetro.compute.servers.heartbeats import Heartbeats
from vetro.http import Envelope, observe_request

_PATH = re.compile(
    r"/servers/([0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12})/events/heartbeat"
)
_TEMPLATE = "/servers/{server_uuid:str}/events/heartbeat"
_EMPTY = (b"", b"{}")


def dataset_path(scope: dict[str, Any]) -> str:
    """The path with the slashes of a dataset's name still encoded: it is one segment (§8.1).

    ``pool%2Fname`` reaches the application decoded, as two segments; the raw path keeps it encoded.
    """
    path: str = scope["path"]
    raw = scope.get("raw_path") or b""
    marker = "/datasets/"
    _, found, rest = raw.decode("latin-1").partition(marker)
    if not found:
        return path
    segments = [unquote(segment).replace("/", "%2F") for segment in rest.split("/")]
    return path.partition(marker)[0] + marker + "/".join(segments)


_COUNTED = Fixed("POST", "ServerEventHeartbeat", 204)


class HeartbeatLane(Envelope):
    """The envelope of the compute face, with a fast path for heartbeats."""

    def __init__(self, inner: Envelope, heartbeats: Heartbeats) -> None:
        # Shares the envelope's state instead of copying it: closing the envelope also closes this.
        self.__dict__.update(inner.__dict__)
        self._inner = inner
        self._heartbeats = heartbeats
        self._fixed = [
            (name.lower().encode(), value.encode())
            for name, value in inner.conventions.headers.items()
        ]
        self._fixed.append((b"x-response-time", b"0"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        given = cast("dict[str, Any]", scope)
        if given["type"] == "http" and given["method"] == "POST":
            match = _PATH.fullmatch(given["path"])
            if match is not None and not given.get("query_string"):
                request_id = self._welcome(given["headers"], match[1].lower())
                if request_id is not None:
                    await self._answer(given, match[1].lower(), request_id, receive, send)
                    return
        if given["type"] == "http" and "/datasets/" in given["path"]:
            scope = cast("Scope", {**given, "path": dataset_path(given)})
        await self._inner(scope, receive, send)

    def _welcome(self, headers: list[tuple[bytes, bytes]], server_uuid: str) -> bytes | None:
        """The request id of a heartbeat that is accepted; ``None`` for any other request."""
        token = request_id = b""
        for name, value in headers:
            if name == b"authorization":
                if value[:7].lower() == b"bearer ":
                    token = value[7:].strip()
            elif name == b"x-auth-token":
                token = value
            elif name == b"content-length":
                if value not in (b"0", b"2"):
                    return None
            elif name in (b"transfer-encoding", b"expect"):
                return None
            elif name == b"x-request-id":
                request_id = value
        authenticator = self.authenticator
        if not isinstance(authenticator, NodeAware) or (request_id and len(request_id) > 64):
            return None
        node = authenticator.node_of(token.decode("latin-1"))
        if node is None or node not in ("", server_uuid):
            return None
        if request_id and not re.fullmatch(rb"[A-Za-z0-9._-]+", request_id):
            return None
        return request_id or str(uuid.uuid4()).encode()

    async def _answer(
        self,
        scope: Mapping[str, object],
        server_uuid: str,
        request_id: bytes,
        receive: Receive,
        send: Send,
    ) -> None:
        message: object = await receive()
        body: bytes = message.get("body", b"")
        if message["type"] != "http.request" or message.get("more_body") or body not in _EMPTY:
            # The body is returned as it was read.
            async def again() -> Any:
                nonlocal message
                if message is None:
                    return await receive()
                first, message = message, None
                return first

            await self._inner(cast("Scope", scope), again, send)
            return
        self._heartbeats.beat(server_uuid)
        headers = [*self._fixed, (b"x-request-id", request_id)]
        await send(cast("Any", {"type": "http.response.start", "status": 204, "headers": headers}))
        await send(cast("Any", {"type": "http.response.body", "body": b"", "more_body": False}))
        observe_request("compute", "POST", _TEMPLATE, 204, 0.0)
        _COUNTED.completed(0.0)
