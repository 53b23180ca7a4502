"""The task API: what the compute service calls on a node (compute-node-agent.md §4).

A plain ASGI application of a few routes: every node runs it as its only HTTP face, so it must use
little memory. `vetro.node.work.description` has its OpenAPI document.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from typing import Any, cast
from urllib.parse import parse_qs

import msgspec
import structlog

from vetro.compute.wire import Fence
from vetro.http import LIMITED, Unread
from vetro.node.errors import ImageError, NodeError
from vetro.node.images.store import ImageStore, sha256_of
from vetro.node.work.queues import TaskRunner

log = structlog.get_logger(__name__)

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

BODY_LIMIT = 16 * 2**20
_CHUNK = 1 << 20
_IMAGE = re.compile(r"/images/([0-9a-f-]{36})/file")


#: Every call except an image's file, with its method.
ROUTES = {
    "/tasks": "POST",
    "/history": "GET",
    "/pause": "POST",
    "/resume": "POST",
    "/ping": "GET",
    "/openapi.json": "GET",
}


class ApiError(Exception):
    """An answer that is not a task's result."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.code = code
        super().__init__(message)


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
        self._runner = runner
        self._images = images
        self._uuid = server_uuid
        self._key = key
        self._version = version
        self.closing = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        limited = scope.get("state", {}).get(LIMITED, "")
        # A caller that is refused early still receives its answer, not a reset.
        body = Unread(
            cast("Any", receive), cast("Any", _dated(send, last=bool(limited))), scope["headers"]
        )
        receive, send = body.receive, cast("Send", body.send)
        try:
            if limited and scope["path"].rstrip("/") != "/ping":
                raise ApiError(503, "ServiceUnavailable", f"{limited}; try again later")
            image = _IMAGE.fullmatch(scope["path"])
            if image is not None and scope["method"] == "GET":
                await self._send_image(image[1], headers, send)
                return
            status, answer = await self._answer(scope, headers, receive)
        except ApiError as error:
            status, answer = error.status, {"code": error.code, "message": str(error)}
        content = b"" if answer is None else msgspec.json.encode(answer)
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [
                    (b"content-type", b"application/json"),
                    (b"content-length", str(len(content)).encode()),
                    (b"x-server-uuid", self._uuid.encode()),
                ],
            }
        )
        await send({"type": "http.response.body", "body": content})

    async def _send_image(self, uuid: str, headers: Mapping[str, str], send: Send) -> None:
        """Send an image's file to a node that knows its digest (or has our key)."""
        try:
            if self._images is None:
                raise ImageError("no images")
            manifest = self._images.manifest(uuid)
            path = self._images.file(uuid)
        except NodeError as error:
            raise ApiError(404, "ResourceNotFound", f"image {uuid} is not here") from error
        wanted = sha256_of(manifest)
        given = headers.get("x-image-sha256", "")
        if not wanted or not hmac.compare_digest(given.encode(), wanted.encode()):
            self._check_caller(headers)
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

    async def _answer(
        self, scope: Scope, headers: Mapping[str, str], receive: Receive
    ) -> tuple[int, Any]:
        method, path = scope["method"], scope["path"].rstrip("/")
        if path not in ROUTES:
            raise ApiError(404, "ResourceNotFound", f"{path or '/'} does not exist")
        if method != ROUTES[path]:
            raise ApiError(405, "MethodNotAllowed", f"{method} is not allowed on {path}")
        if path == "/ping":
            return 200, {"ready": True, "paused": self._runner.paused, "version": self._version}
        if path == "/openapi.json":
            # Not at the top: few nodes are ever asked for it.
            from vetro.node.work.description import document

            return 200, document(self._version)
        self._check_caller(headers)
        if path == "/history":
            return 200, self._runner.history.shown()
        if path in ("/pause", "/resume"):
            self._runner.paused = path == "/pause"
            log.info("tasks_paused" if self._runner.paused else "tasks_resumed")
            return 204, None
        return await self._task(scope, headers, receive)

    def _check_caller(self, headers: Mapping[str, str]) -> None:
        if self._key:
            scheme, _, given = headers.get("authorization", "").partition(" ")
            same = hmac.compare_digest(given.strip().encode(), self._key.encode())
            if scheme.lower() != "bearer" or not same:
                raise ApiError(401, "NotAuthorized", "The node's key is missing or wrong")
        wanted = headers.get("x-server-uuid", self._uuid).lower()
        if wanted != self._uuid:
            raise ApiError(
                404,
                "ResourceNotFound",
                f"received request for wrong server: {wanted}, this is {self._uuid}",
            )

    async def _task(
        self, scope: Scope, headers: Mapping[str, str], receive: Receive
    ) -> tuple[int, Any]:
        body = await _read_object(receive)
        if self._runner.paused or self.closing:
            raise ApiError(
                503, "ServiceUnavailable", "CN Agent is not accepting tasks for maintenance"
            )
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        task = body.get("task") or query.get("task", [None])[0]
        if not task:
            raise ApiError(409, "InvalidArgument", "Missing key 'task'")
        params = body.get("params")
        if params is None:
            raise ApiError(409, "InvalidArgument", "Missing key 'params'")
        if not isinstance(params, dict):
            raise ApiError(409, "InvalidArgument", "'params' must be an object")
        if not self._runner.knows(str(task)):
            raise ApiError(404, "ResourceNotFound", f"Unknown task, '{task}'")
        try:
            fence = msgspec.convert(body.get("fence"), Fence | None)
        except msgspec.ValidationError as error:
            raise ApiError(409, "InvalidArgument", f"'fence': {error}") from error
        return await self._runner.submit(
            str(task),
            cast("dict[str, Any]", params),
            fence=fence,
            key=headers.get("idempotency-key", ""),
            request_id=headers.get("x-request-id", ""),
        )


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


async def _read_object(receive: Receive) -> dict[str, Any]:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ApiError(400, "InvalidContent", "The request was not sent to its end")
        body += message.get("body", b"")
        if len(body) > BODY_LIMIT:
            raise ApiError(413, "RequestEntityTooLarge", f"At most {BODY_LIMIT} bytes are read")
        if not message.get("more_body"):
            break
    if not body:
        return {}
    try:
        value = msgspec.json.decode(bytes(body))
    except msgspec.DecodeError as error:
        raise ApiError(400, "InvalidContent", f"The body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ApiError(409, "InvalidArgument", "The body must be an object")
    return cast("dict[str, Any]", value)
