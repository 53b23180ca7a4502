"""The task API: what the compute service calls on a node (compute-node-agent.md §4).

A plain ASGI application that dispatches the calls of `vetro.node.work.endpoints`: every node runs it as
its only HTTP face, so it must use little memory and loads no framework (docs/decisions/0255).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any, cast

import msgspec

from vetro.http import (
    COMPUTE_FAULTS,
    LIMITED,
    Fault,
    MethodNotAllowed,
    NotFound,
    ServiceUnavailable,
    Unread,
)
from vetro.http.declaration import Answer
from vetro.node.images.store import ImageStore
from vetro.node.work.endpoints import ENDPOINTS, Call, Node, NodeEndpoint, Receive, Scope
from vetro.node.work.queues import TaskRunner

Send = Callable[[dict[str, Any]], Awaitable[None]]

_CHUNK = 1 << 20
_ROUTES = [
    (re.compile(re.sub(r"{\w+}", "([^/]+)", endpoint.path)), endpoint) for endpoint in ENDPOINTS
]


class TaskApi:
    """The ASGI application. ``key``: the bearer token callers must have; '' admits everyone."""

    def __init__(
        self,
        runner: TaskRunner,
        server_uuid: str,
        key: str,
        version: str,
        images: ImageStore | None = None,
    ) -> None:
        self._node = Node(runner, server_uuid, key, version, images)

    @property
    def closing(self) -> bool:
        """Whether the node ends, and takes no more tasks."""
        return self._node.closing

    @closing.setter
    def closing(self, value: bool) -> None:
        self._node.closing = value

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        limited = scope.get("state", {}).get(LIMITED, "")
        # A caller that is refused early still receives its answer, not a reset.
        body = Unread(
            cast("Any", receive), cast("Any", _dated(send, last=bool(limited))), scope["headers"]
        )
        send = cast("Send", body.send)
        try:
            if limited and scope["path"].rstrip("/") != "/ping":
                raise ServiceUnavailable(f"{limited}; try again later")
            endpoint, call = self._find(scope, body.receive)
            if endpoint.key:
                call.check_caller()
            result = await endpoint.run(call)
            if isinstance(result, Path):
                await _send_file(result, send)
                return
            answer = result if isinstance(result, Answer) else Answer(endpoint.status, result)
        except Fault as fault:
            answer = Answer(fault.status, COMPUTE_FAULTS.body(fault, ""))
        content = b"" if answer.status == 204 else msgspec.json.encode(answer.value)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
            (b"x-server-uuid", self._node.server_uuid.encode()),
        ]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def _find(self, scope: Scope, receive: Receive) -> tuple[NodeEndpoint, Call]:
        """The endpoint of a request. Errors: 404, 405."""
        method, path = scope["method"], scope["path"].rstrip("/")
        for pattern, endpoint in _ROUTES:
            if found := pattern.fullmatch(path):
                if method != endpoint.verbs:
                    raise MethodNotAllowed(f"{method} is not allowed on {path}")
                given = dict(zip(endpoint.path_names, found.groups(), strict=True))
                return endpoint, Call(self._node, given, scope, receive)
        raise NotFound(f"{path or '/'} does not exist")


async def _send_file(path: Path, send: Send) -> None:
    with path.open("rb") as file:
        size = path.stat().st_size
        start = [
            (b"content-type", b"application/octet-stream"),
            (b"content-length", str(size).encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": start})
        while data := await asyncio.to_thread(file.read, _CHUNK):
            await send({"type": "http.response.body", "body": data, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _dated(send: Send, *, last: bool) -> Send:
    """``send`` with a ``Date`` header; ``last``: the connection is closed after the answer."""

    async def answer(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            more = [(b"date", formatdate(time.time(), usegmt=True).encode())]
            if last:
                more.append((b"connection", b"close"))
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return answer
