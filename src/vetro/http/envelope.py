"""What happens around every request of a face, whatever its handler does.

From outside in: a request id on every response; the headers that only a token filter may set are
stripped from the client's; a single trailing slash is tolerated; the token is checked before
anything else of the request is looked at; faults become bodies in the face's style; the request is
counted, timed and logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable
from typing import Any, cast

import msgspec
import structlog
from litestar import Litestar
from litestar.exceptions import HTTPException
from litestar.types import Message, Receive, Scope, Send

from vetro.http.context import SCOPE_KEY, RequestContext
from vetro.http.faults import (
    FAULT_OF_STATUS,
    BadRequest,
    Fault,
    FaultStyle,
    InternalError,
    Unauthorized,
)
from vetro.http.metrics import observe_request
from vetro.http.principal import Authenticator

log = structlog.get_logger("vetro.http")

STRIPPED = frozenset(
    name.encode()
    for name in (
        "x-roles",
        "x-role",
        "x-user",
        "x-user-id",
        "x-user-name",
        "x-tenant",
        "x-tenant-id",
        "x-tenant-name",
        "x-project-id",
        "x-project-name",
        "x-service-catalog",
        "x-identity-status",
    )
)


class Envelope:
    """The ASGI application of a face: the envelope around its Litestar application."""

    def __init__(
        self,
        app: Litestar,
        *,
        name: str,
        faults: FaultStyle,
        authenticator: Authenticator | None,
        public: Callable[[str, str], bool],
        request_id_header: str,
        www_authenticate: str,
    ) -> None:
        self.app = app
        self.name = name
        self.faults = faults
        self.authenticator = authenticator
        self.public = public
        self.request_id_header = request_id_header.lower().encode()
        self.www_authenticate = www_authenticate
        self.closing = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = cast("dict[str, Any]", scope)
        headers: list[tuple[bytes, bytes]] = list(given["headers"])
        context = RequestContext(f"req-{uuid.uuid4()}", self.closing)
        path: str = given["path"]
        if len(path) > 1 and path.endswith("/") and not path.endswith("//"):
            path = path[:-1]
        inner = {
            **given,
            SCOPE_KEY: context,
            "path": path,
            "raw_path": path.encode(),
            "headers": [pair for pair in headers if pair[0].lower() not in STRIPPED],
        }
        method: str = given["method"]
        head = method == "HEAD"
        if head:
            inner["method"] = "GET"
        started = time.perf_counter()
        status = 0
        began = False

        async def answer(message: Message) -> None:
            nonlocal status, began
            if message["type"] == "http.response.start":
                began = True
                status = message["status"]
                extra = [(self.request_id_header, context.request_id.encode())]
                message = cast(
                    "Message", {**message, "headers": [*message.get("headers", []), *extra]}
                )
            elif head and message["type"] == "http.response.body":
                message = cast("Message", {**message, "body": b""})
            await send(message)

        try:
            await self._authenticate(method, path, headers, context)
            await self.app(cast("Scope", inner), receive, answer)
        except Exception as error:
            if began:
                raise
            await self._fail(to_fault(error, context.request_id), headers, context, answer)
        finally:
            observe_request(
                self.name,
                method,
                str(inner.get("path_template") or "(none)"),
                status,
                time.perf_counter() - started,
            )
            log.debug(
                "request",
                face=self.name,
                method=method,
                path=path,
                status=status,
                request_id=context.request_id,
                milliseconds=round((time.perf_counter() - started) * 1000, 1),
            )

    async def _authenticate(
        self, method: str, path: str, headers: list[tuple[bytes, bytes]], context: RequestContext
    ) -> None:
        if self.authenticator is None:
            return
        token = header(headers, b"x-auth-token")
        if not token:
            bearer = header(headers, b"authorization")
            if bearer[:7].lower() == "bearer ":
                token = bearer[7:].strip()
        principal = await self.authenticator.authenticate(token) if token else None
        if principal is None and not self.public(method, path):
            raise Unauthorized(
                "The token is not valid" if token else "Authentication required",
                headers={"WWW-Authenticate": self.www_authenticate},
            )
        context.principal = principal

    async def _fail(
        self,
        fault: Fault,
        headers: list[tuple[bytes, bytes]],
        context: RequestContext,
        send: Send,
    ) -> None:
        body, content_type = self.faults.render(
            fault, context.request_id, header(headers, b"accept")
        )
        pairs = [
            (b"content-type", content_type.encode()),
            (b"content-length", str(len(body)).encode()),
            *((name.lower().encode(), value.encode()) for name, value in fault.headers.items()),
            *((name.lower().encode(), v.encode()) for name, v in self.faults.headers.items()),
        ]
        # A client that went away meanwhile cannot be told.
        with contextlib.suppress(ConnectionError):
            await send(
                cast(
                    "Message",
                    {"type": "http.response.start", "status": fault.status, "headers": pairs},
                )
            )
            await send(
                cast("Message", {"type": "http.response.body", "body": body, "more_body": False})
            )


def header(headers: list[tuple[bytes, bytes]], name: bytes) -> str:
    """The first header of this name, or ''."""
    for key, value in headers:
        if key.lower() == name:
            return value.decode("latin-1")
    return ""


def to_fault(error: Exception, request_id: str) -> Fault:
    """The fault an exception stands for; unexpected ones are logged and say only the request id."""
    if isinstance(error, Fault):
        return error
    if isinstance(error, HTTPException):
        kind = FAULT_OF_STATUS.get(error.status_code)
        message = error.detail or ""
        if error.status_code == 404:
            message = "There is nothing at this path"
        if error.status_code == 405:
            message = "This path does not have this method"
        extra = getattr(error, "extra", None)
        if extra and error.status_code == 400:
            message = f"{message}: {extra}"
        if kind is not None:
            return kind(message, headers=dict(error.headers or {}))
        return Fault(message, status=error.status_code, headers=dict(error.headers or {}))
    if isinstance(error, msgspec.ValidationError):
        return BadRequest(str(error))
    if isinstance(error, msgspec.DecodeError):
        return BadRequest("Malformed request body")
    log.exception("request failed", request_id=request_id, exc_info=error)
    return InternalError(
        f"An unexpected error occurred; the log of the service has it under {request_id}"
    )
