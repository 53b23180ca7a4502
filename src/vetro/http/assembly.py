"""Several faces as one ASGI application behind one port."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from email.utils import formatdate
from typing import Any, cast

import msgspec
from litestar.types import Message, Receive, Scope, Send

from vetro.http.connections import LIMITED, ConnectionLimits
from vetro.http.conventions import header_bytes
from vetro.http.face import Face
from vetro.http.faults import (
    CATALOG_FAULTS,
    Fault,
    MethodNotAllowed,
    NoSuchPath,
    ServiceUnavailable,
)
from vetro.http.headers import Headers, too_many_headers
from vetro.http.metrics import METHODS, Readings, exposition
from vetro.http.origins import Cors, behind_proxy
from vetro.http.unread import Unread
from vetro.random_ids import random_uuid

RETRY_SECONDS = "5"

Operation = Callable[[], Awaitable[tuple[int, bytes, str]]]
Readiness = Callable[[], Awaitable[Mapping[str, str]]]


_CLOSE = (b"connection", b"close")


class Assembly:
    """Several faces as one ASGI application.

    A request goes to the face with the longest matching prefix. The assembly itself serves
    ``/healthz`` (the process answers), ``/readyz`` (503 names missing dependencies) and
    ``/metrics``.
    """

    def __init__(
        self,
        faces: Sequence[Face],
        readiness: Readiness | None = None,
        *,
        cors: Cors | None = None,
        trust_proxy: bool = False,
        readings: Readings | None = None,
        isolation: str = "",
    ) -> None:
        self.faces = sorted(faces, key=lambda face: len(face.prefix), reverse=True)
        self.readiness = readiness
        self.isolation = isolation
        self.cors = cors
        self.trust_proxy = trust_proxy
        self.readings = readings
        self.stopping = False
        """Whether ``/readyz`` asks load balancers to send requests elsewhere."""
        self.max_header_line = ConnectionLimits.max_header_line
        """Bytes of a header, name and value together, and of the target of a request."""
        self._operations: dict[str, Operation] = {
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/metrics": self._metrics,
        }

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Run the life spans of all faces for the duration of the block."""
        # In a task of their own: a life span must end in the task in which it began, and the block
        # may be left in another task (as by test fixtures).
        started = asyncio.Event()
        stop = asyncio.Event()

        async def hold() -> None:
            async with AsyncExitStack() as stack:
                for face in self.faces:
                    await stack.enter_async_context(face.app.app.lifespan())
                started.set()
                await stop.wait()

        holder = asyncio.create_task(hold(), name="life spans")
        starting = asyncio.create_task(started.wait())
        try:
            await asyncio.wait({holder, starting}, return_when=asyncio.FIRST_COMPLETED)
            if holder.done():
                await holder  # a life span failed to start: raise its error
            yield
        finally:
            starting.cancel()
            stop.set()
            await holder

    def close_streams(self) -> None:
        """End long polls and event streams, because the process is closing."""
        for face in self.faces:
            face.app.closing.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Dispatch one request."""
        anything: Any = scope
        given: dict[str, Any] = anything
        if self.trust_proxy:
            given = behind_proxy(given)
        if given["type"] == "websocket":
            await self._serve_socket(given, receive, send)
            return
        if given["type"] != "http":
            raise RuntimeError(
                f"{given['type']} is not supported: life spans run in Assembly.running()"
            )
        send = self._dated(send)
        headers: Headers = given["headers"]
        method: str = given["method"]
        body = Unread(receive, send, headers)
        receive, send = body.receive, body.send
        limited: str = given.get("state", {}).get(LIMITED, "")
        if limited:
            send = _closing(send)
        refusal = _too_long(given, self.max_header_line)
        if refusal is None and limited and given["path"] not in self._operations:
            refusal = ServiceUnavailable(
                f"{limited}; try again later", headers={"Retry-After": RETRY_SECONDS}
            )
        if refusal is not None:
            await refuse(send, refusal)
            return
        if self.cors is not None and (origin := self.cors.allowed(headers)):
            if self.cors.is_preflight(method, headers):
                await respond(send, 204, b"", "", self.cors.preflight_headers(origin))
                return
            send = self.cors.opened(send, origin)
        path: str = given["path"]
        if method == "OPTIONS" and (path == "*" or path in self._operations):
            allow = METHODS if path == "*" else ("GET", "HEAD", "OPTIONS")
            await respond(send, 204, b"", "", [(b"allow", ", ".join(sorted(allow)).encode())])
            return
        operation = self._operations.get(path)
        if operation is not None:
            if method not in ("GET", "HEAD"):
                refusal = MethodNotAllowed(
                    f"{path} does not have this method", headers={"Allow": "GET, HEAD, OPTIONS"}
                )
                await refuse(send, refusal)
                return
            status, body, content_type = await operation()
            await respond(send, status, body, content_type)
            return
        found = self._face_at(path)
        if found is None:
            await refuse(send, NoSuchPath(f"{path} does not exist"))
            return
        face, inner = found
        anything = {**given, "path": inner} if face.prefix else given
        await face.app(anything, receive, send)

    def _dated(self, send: Send) -> Send:
        """``send``, with a ``Date`` header on the answer; one of a process that stops closes its connection,
        so that the client's next request goes to another and meets no connection that just closes."""

        def answer(message: Any) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", []), (b"date", _date(int(time.time())))]
                if self.stopping:
                    headers.append(_CLOSE)
                message = {**message, "headers": headers}
            return send(message)

        return answer

    def _face_at(self, path: str) -> tuple[Face, str] | None:
        """The face that a path belongs to, and the path below it."""
        for face in self.faces:
            prefix = face.prefix
            if path == prefix or path.startswith(prefix + "/") or not prefix:
                return face, path[len(prefix) :] or "/"
        return None

    def is_socket(self, target: bytes) -> bool:
        """Whether a request's target (its path and query) is a web socket."""
        found = self._face_at(target.partition(b"?")[0].decode("latin-1"))
        return found is not None and found[0].is_socket(found[1])

    async def _serve_socket(self, given: dict[str, Any], receive: Receive, send: Send) -> None:
        found = self._face_at(given["path"])
        limited = given.get("state", {}).get(LIMITED)
        if found is None or limited or _too_long(given, self.max_header_line):
            # Before it is accepted, this is a 403.
            await send(cast("Any", {"type": "websocket.close"}))
            return
        face, inner = found
        await face.app(cast("Scope", {**given, "path": inner}), receive, send)

    async def _healthz(self) -> tuple[int, bytes, str]:
        return 200, b'{"status":"ok"}', "application/json"

    async def _readyz(self) -> tuple[int, bytes, str]:
        problems = dict(await self.readiness()) if self.readiness else {}
        if self.stopping:
            problems["service"] = "it stops: send requests to another"
        answer: dict[str, object] = {
            "status": "not ready" if problems else "ready",
            "waiting_on": problems,
        }
        if self.isolation:
            answer["isolation"] = self.isolation
        body = msgspec.json.encode(answer)
        return (503 if problems else 200), body, "application/json"

    async def _metrics(self) -> tuple[int, bytes, str]:
        if self.readings is not None:
            await self.readings.refresh()
        body, content_type = exposition()
        return 200, body, content_type


def assemble(
    faces: Sequence[Face],
    *,
    readiness: Readiness | None = None,
    cors: Cors | None = None,
    trust_proxy: bool = False,
    readings: Readings | None = None,
    isolation: str = "",
) -> Assembly:
    """Put faces behind one port.

    ``readiness`` returns the missing dependencies, by name. ``isolation``: what keeps plans of users
    away from the service, which ``/readyz`` says. ``readings``: read before ``/metrics``
    is served. ``cors``: the web origins that may use it. ``trust_proxy``: believe ``Forwarded``
    and ``X-Forwarded-*`` (catalog-api.md §1).
    """
    return Assembly(
        faces,
        readiness,
        cors=cors,
        trust_proxy=trust_proxy,
        readings=readings,
        isolation=isolation,
    )


async def refuse(send: Send, fault: Fault) -> None:
    """Answer with a fault outside every face."""
    request_id = _new_request_id()
    body, content_type = CATALOG_FAULTS.render(fault, request_id, "")
    extra = [(name.lower().encode(), value.encode()) for name, value in fault.headers.items()]
    await respond(send, fault.status, body, content_type, extra, request_id)


async def respond(
    send: Send,
    status: int,
    body: bytes,
    content_type: str,
    extra: Headers | None = None,
    request_id: str = "",
) -> None:
    """Send a whole answer from outside every face."""
    headers: Headers = [
        (b"content-length", str(len(body)).encode()),
        (b"x-openstack-request-id", (request_id or _new_request_id()).encode()),
        *(extra or ()),
    ]
    if content_type:
        headers.append((b"content-type", content_type.encode()))
    if status == 204:
        headers = headers[1:]
    await send(cast("Any", {"type": "http.response.start", "status": status, "headers": headers}))
    await send(cast("Any", {"type": "http.response.body", "body": body, "more_body": False}))


def _new_request_id() -> str:
    return f"req-{random_uuid()}"


def _too_long(scope: dict[str, Any], line: int) -> Fault | None:
    """414 or 431 for a target or headers above the limits (catalog-api.md §11), else ``None``."""
    target = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
    if target > line:
        return Fault(f"The target of a request can have at most {line} bytes", status=414)
    together = 0
    for name, value in scope["headers"]:
        size = len(name) + len(value)
        together += size
        if size > line:
            shown = name[:64].decode("latin-1")
            text = f"The header {shown} is longer than {line} bytes"
            return Fault(text, status=431)
    if together > header_bytes(line):
        return Fault(too_many_headers(header_bytes(line)), status=431)
    return None


def _closing(send: Send) -> Send:
    """``send``, with an answer that closes its connection."""

    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = cast("Message", {**message, "headers": [*message.get("headers", []), _CLOSE]})
        await send(message)

    return answer


@functools.lru_cache(2)
def _date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()
