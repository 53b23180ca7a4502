"""Faces: one Litestar application each, and their assembly behind one port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from litestar import Litestar, Request
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.types import ControllerRouterHandler, Receive, Scope, Send

from vetro.http.envelope import Envelope
from vetro.http.faults import CATALOG_FAULTS, FaultStyle, NotFound
from vetro.http.metrics import exposition
from vetro.http.principal import Authenticator

Lifespan = Callable[[Litestar], AbstractAsyncContextManager[None]]
Operation = Callable[[], Awaitable[tuple[int, bytes, str]]]
Readiness = Callable[[], Awaitable[Mapping[str, str]]]


@dataclass(frozen=True)
class Face:
    """An HTTP face: what is served below ``prefix``."""

    name: str
    prefix: str
    app: Envelope


def make_face(
    *,
    name: str,
    prefix: str,
    handlers: Sequence[ControllerRouterHandler],
    title: str,
    authenticator: Authenticator | None = None,
    public: Callable[[str, str], bool] = lambda method, path: False,
    dependencies: Mapping[str, Provide] | None = None,
    faults: FaultStyle = CATALOG_FAULTS,
    lifespan: Sequence[Lifespan] = (),
    request_id_header: str = "X-Openstack-Request-Id",
    www_authenticate: str = "Keystone uri=",
    version: str = "1",
    debug: bool = False,
) -> Face:
    """Make a face.

    ``public(method, path)`` says which calls need no token (the principal is then absent unless one
    was given); a handler asks ``principal_of(request)`` for the caller.
    Path parameters are written ``name: FromPath[str]`` (Litestar). The OpenAPI document is at
    ``<prefix>/schema/openapi.json`` and always public.
    """

    def open_to_all(method: str, path: str) -> bool:
        return path.startswith("/schema") or public(method, path)

    app = Litestar(
        route_handlers=list(handlers),
        dependencies=dict(dependencies or {}),
        # Faults leave Litestar as exceptions: the envelope writes their bodies, for every path alike.
        exception_handlers={Exception: _reraise},
        openapi_config=OpenAPIConfig(
            title=title,
            version=version,
            path="/schema",
            render_plugins=[JsonRenderPlugin(path="/openapi.json")],
            use_handler_docstrings=True,
        ),
        lifespan=[*lifespan],
        logging_config=None,
        request_max_body_size=None,
        debug=debug,
    )
    envelope = Envelope(
        app,
        name=name,
        faults=faults,
        authenticator=authenticator,
        public=open_to_all,
        request_id_header=request_id_header,
        www_authenticate=www_authenticate,
    )
    return Face(name, prefix.rstrip("/"), envelope)


def _reraise(_request: Request[Any, Any, Any], error: Exception) -> Any:
    raise error


class Assembly:
    """Several faces as one ASGI application.

    A request goes to the face with the longest matching prefix. ``/healthz`` (the process answers),
    ``/readyz`` (everything it needs answers; 503 names what does not) and ``/metrics`` are its own.
    """

    def __init__(self, faces: Sequence[Face], readiness: Readiness | None = None) -> None:
        self.faces = sorted(faces, key=lambda face: len(face.prefix), reverse=True)
        self.readiness = readiness

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Run the life spans of all faces for the duration of the block."""
        # In a task of their own: a life span must end in the task it began in, and the block may
        # be left by another (test fixtures do that).
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
                await holder  # a life span failed to start: say why
            yield
        finally:
            starting.cancel()
            stop.set()
            await holder

    def close_streams(self) -> None:
        """Let long polls and event streams end: the process is closing."""
        for face in self.faces:
            face.app.closing.set()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Dispatch one request."""
        if scope["type"] == "lifespan":
            raise RuntimeError(
                "life spans run in Assembly.running(); start the server without them"
            )
        given = cast("dict[str, Any]", scope)
        path: str = given["path"]
        operation = self._operation(path)
        if operation is not None and given["method"] in ("GET", "HEAD"):
            status, body, content_type = await operation()
            await _respond(send, status, body, content_type)
            return
        for face in self.faces:
            prefix = face.prefix
            if path == prefix or path.startswith(prefix + "/") or not prefix:
                inner = {
                    **given,
                    "path": path[len(prefix) :] or "/",
                }
                await face.app(cast("Scope", inner), receive, send)
                return
        fault = NotFound("There is nothing at this path")
        body, content_type = CATALOG_FAULTS.render(fault, "", "")
        await _respond(send, fault.status, body, content_type)

    async def _healthz(self) -> tuple[int, bytes, str]:
        return 200, b'{"status":"ok"}', "application/json"

    async def _readyz(self) -> tuple[int, bytes, str]:
        problems = dict(await self.readiness()) if self.readiness else {}
        body = msgspec.json.encode(
            {"status": "not ready" if problems else "ready", "waiting_on": problems}
        )
        return (503 if problems else 200), body, "application/json"

    async def _metrics(self) -> tuple[int, bytes, str]:
        body, content_type = exposition()
        return 200, body, content_type

    def _operation(self, path: str) -> Operation | None:
        return {
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/metrics": self._metrics,
        }.get(path)


def assemble(faces: Sequence[Face], *, readiness: Readiness | None = None) -> Assembly:
    """Put faces behind one port; ``readiness`` returns what is missing, by name."""
    return Assembly(faces, readiness)


async def _respond(send: Send, status: int, body: bytes, content_type: str) -> None:
    headers = [
        (b"content-type", content_type.encode()),
        (b"content-length", str(len(body)).encode()),
    ]
    await send(cast("Any", {"type": "http.response.start", "status": status, "headers": headers}))
    await send(cast("Any", {"type": "http.response.body", "body": body, "more_body": False}))
