"""The handling around every request of a face, independent of its handler.

From outside in: every response gets a request id; headers that only a token filter may set are
removed from the client's; a single trailing slash is tolerated; the token is checked before
anything else in the request is read, and the request waits for its project's turn
(`vetro.http.project_limits`); faults become bodies in the face's style; the request is
counted, timed and logged. Where the face says so, answers are compressed (`vetro.http.compression`).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass
from typing import Any, cast

import structlog
from litestar import Litestar
from litestar.exceptions import HTTPException
from litestar.types import Message, Receive, Scope, Send

from vetro import log_context, tracing
from vetro.http.audit import Audit
from vetro.http.compression import compressed, without_marks
from vetro.http.context import PREFIX_KEY, SCOPE_KEY, RequestContext
from vetro.http.conventions import Conventions
from vetro.http.declaration import Endpoint
from vetro.http.dispatch import MARKED_KEY, Dispatch, mark_slashes
from vetro.http.faults import BadRequest, FaultStyle, NotFound, Unauthorized
from vetro.http.headers import Headers, header
from vetro.http.metrics import in_progress, observe_request
from vetro.http.principal import Authenticator
from vetro.http.project_limits import ProjectLimits, Turn
from vetro.http.remembered import OPTION, Kept, Recording, Remembered
from vetro.http.request_counts import RequestCounts
from vetro.http.translation import to_fault
from vetro.random_ids import random_uuid

log = structlog.get_logger("vetro.http")

#: Set by a token filter between client and service, never by the client (catalog-api.md §2).
STRIPPED = frozenset({
    b"x-role", b"x-roles", b"x-user", b"x-user-id", b"x-user-name", b"x-user-domain",
    b"x-user-domain-id", b"x-user-domain-name", b"x-tenant", b"x-tenant-id", b"x-tenant-name",
    b"x-project-id", b"x-project-name", b"x-project-domain-id", b"x-project-domain-name",
    b"x-domain-id", b"x-domain-name", b"x-is-admin-project", b"x-service-catalog",
    b"x-identity-status", b"x-service-identity-status",
})  # fmt: skip
CLIENT_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}$")
#: The status that proxies log for a request whose client disconnected before its answer.
CLIENT_CLOSED = 499


@dataclass(eq=False, repr=False)
class Envelope:
    """The ASGI application of a face: it wraps the face's Litestar application."""

    app: Litestar
    _: KW_ONLY
    name: str
    faults: FaultStyle
    authenticator: Authenticator | None
    public: Callable[[str, str], bool]
    conventions: Conventions
    www_authenticate: str
    debug: bool
    compresses: bool
    counts: RequestCounts | None
    audit: Audit | None
    project_limits: ProjectLimits | None
    remembered: Remembered | None

    def __post_init__(self) -> None:
        self._dispatch = Dispatch(self.app)
        self._own = _OwnHeaders.of(self.conventions)
        self.closing = asyncio.Event()
        #: The face's OpenAPI document.
        self.document: Callable[[], dict[str, Any]] = dict
        #: Its endpoints, by ``METHOD /path``.
        self.calls: Mapping[str, Endpoint[Any]] = {}
        self._in_progress = in_progress(self.name)
        self._log: Any = log.bind()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        anything: Any = scope
        given: dict[str, Any] = anything
        headers: Headers = given["headers"]
        plain, asked = send, headers
        recording: Recording | None = None
        if self.remembered is not None and given["method"] == "GET":
            recording = Recording(send)
            send = recording.send
        if self.compresses:
            send = compressed(send, headers, given["method"])
            headers = without_marks(headers)
        context = RequestContext(self._request_id(headers), self.closing, self.conventions)
        path: str = given["path"]
        # A slash that is written as %2F is a part of the last segment.
        is_open = given.get("raw_path", b"/").partition(b"?")[0].endswith(b"/")
        if len(path) > 1 and path.endswith("/") and not path.endswith("//") and is_open:
            path = path[:-1]
        method: str = given["method"]
        inner = {
            **given,
            SCOPE_KEY: context,
            "path": path,
            MARKED_KEY: mark_slashes(given, path),
            "raw_path": path.encode(),
            "headers": [pair for pair in headers if pair[0] not in STRIPPED],
            "method": "GET" if method == "HEAD" else method,
        }
        exchange = _Exchange(receive, send, self._own, context.request_id, method == "HEAD")
        with _span(method, headers) as span:
            self._in_progress.number += 1
            before = log_context.say(request_id=context.request_id)
            try:
                await self._authenticate(method, path, headers, context, given)
                if "\0" in path and self.conventions.nul_is_unknown:
                    raise NotFound("Nothing can be at a path with a NUL character")
                if "\0" in path or b"%00" in given.get("query_string", b""):
                    raise BadRequest("There is a NUL character in the address; remove it")
                if self.project_limits is not None and context.principal is not None:
                    exchange.turn = await self.project_limits.take(context.principal.project_id)
                await self._answered(inner, exchange, plain, asked, recording)
            except Exception as error:  # noqa: BLE001 - the outermost place: every error is answered
                await self._failed(error, exchange, path, headers, context)
            finally:
                exchange.end_turn()
                self._in_progress.number -= 1
                template = str(inner.get("path_template") or "(none)")
                seconds = time.perf_counter() - exchange.started
                observe_request(self.name, method, template, exchange.status, seconds)
                if tracing.is_on():
                    self._describe(span, method, template, exchange.status, context.request_id)
                if self.audit is not None:
                    self.audit.called(
                        method=method,
                        path=path,
                        template=template,
                        parameters=inner.get("path_params") or {},
                        created=context.created,
                        status=exchange.status,
                        caller=context.principal,
                        request_id=context.request_id,
                        address=str((given.get("client") or ("",))[0]),
                        agent=header(headers, b"user-agent"),
                    )
                if self.counts is not None:
                    caller = context.principal
                    project = caller.project_id if caller is not None else ""
                    self.counts.count(project, exchange.status, seconds)
                self._log.debug(
                    "request",
                    face=self.name,
                    method=method,
                    path=path,
                    status=exchange.status,
                    milliseconds=round(seconds * 1000, 1),
                )
                log_context.take_back(before)

    def _describe(
        self, span: tracing.Span, method: str, template: str, status: int, request_id: str
    ) -> None:
        span.name(f"{method} {template}")
        span.note(
            http_request_method=method,
            http_route=template,
            http_response_status__code=status,
            vetro_face=self.name,
            vetro_request=request_id,
        )
        if status >= 500:
            span.fail(str(status))

    async def _answered(
        self,
        inner: dict[str, Any],
        exchange: _Exchange,
        plain: Send,
        asked: Headers,
        recording: Recording | None,
    ) -> None:
        """Answer with what is remembered, or with what the handler says."""
        caller = inner[SCOPE_KEY].principal
        question = None
        if self.remembered is not None and recording is not None and caller is not None:
            question = self.remembered.question(
                inner[MARKED_KEY], inner.get("query_string", b""), asked, caller
            )
        if self.remembered is None or recording is None or question is None:
            await self._dispatch(inner, exchange.receive, exchange.send)
            return
        kept = self.remembered.find(question)
        if kept is not None:
            inner["path_template"] = kept.template
            await exchange.repeat(kept, plain)
            return
        await self._dispatch(inner, exchange.receive, exchange.send)
        handler = inner.get("route_handler")
        if handler is not None and handler.opt.get(OPTION):
            kept = recording.kept(str(inner["path_template"]), self._own.names)
            if kept is not None:
                self.remembered.keep(question, kept)

    def _request_id(self, headers: Headers) -> str:
        if self.conventions.keeps_request_id:
            name = self.conventions.request_id_header.lower().encode()
            given = header(headers, name)
            if CLIENT_REQUEST_ID.match(given):
                return given
        return f"{self.conventions.request_id_prefix}{random_uuid()}"

    async def _authenticate(
        self,
        method: str,
        path: str,
        headers: Headers,
        context: RequestContext,
        scope: dict[str, object],
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
            challenge = self.www_authenticate or (
                f'Keystone uri="{scope["scheme"]}://{header(headers, b"host")}'
                f'{scope.get(PREFIX_KEY, "")}/identity"'
            )
            raise Unauthorized(
                "The token is not valid" if token else "Authentication required",
                headers={"WWW-Authenticate": challenge},
            )
        context.principal = principal

    async def _failed(
        self,
        error: Exception,
        exchange: _Exchange,
        path: str,
        headers: Headers,
        context: RequestContext,
    ) -> None:
        """Answer with the fault for an exception, as far as an answer is still possible."""
        if exchange.client_gone:
            exchange.status = CLIENT_CLOSED
            if isinstance(error, HTTPException | ConnectionError):
                # The framework raises this while a handler reads; there is no client to answer.
                log.info("client_gone", path=path)
            else:
                log.error("request_failed_client_gone", path=path, exc_info=error)
            return
        if exchange.began:
            # A part of the answer was sent: only an aborted connection shows that the rest is
            # missing.
            log.error("response_cut_off", path=path, exc_info=error)
            raise error
        fault = to_fault(error, context.request_id, path)
        if self.debug:
            fault.extra.setdefault("traceback", "".join(traceback.format_exception(error)))
        body, content_type = self.faults.render(
            fault, context.request_id, header(headers, b"accept")
        )
        pairs: Headers = [
            (b"content-type", content_type.encode()),
            (b"content-length", str(len(body)).encode()),
            *((name.lower().encode(), value.encode()) for name, value in fault.headers.items()),
        ]
        # A client that disconnected meanwhile gets no answer.
        with contextlib.suppress(ConnectionError):
            await exchange.send(
                cast(
                    "Message",
                    {"type": "http.response.start", "status": fault.status, "headers": pairs},
                )
            )
            await exchange.send(
                cast("Message", {"type": "http.response.body", "body": body, "more_body": False})
            )


def _span(method: str, headers: Headers) -> AbstractContextManager[tracing.Span]:
    if not tracing.is_on():
        return tracing.NO_SPAN
    return tracing.span(
        method,
        "server",
        parent=header(headers, b"traceparent"),
        # Heartbeats and polls of nodes and guests begin no traces.
        only_inside=header(headers, b"authorization").startswith("Bearer "),
    )


@dataclass(frozen=True)
class _OwnHeaders:
    """The headers that a face adds to every answer. ``response_time``: b'' for no such header."""

    request_id: bytes
    response_time: bytes
    others: tuple[tuple[bytes, bytes], ...]
    names: frozenset[bytes]

    @classmethod
    def of(cls, conventions: Conventions) -> _OwnHeaders:
        """Those of these conventions."""
        request_id = conventions.request_id_header.lower().encode()
        response_time = conventions.response_time_header.lower().encode()
        others = tuple(
            (name.lower().encode(), value.encode()) for name, value in conventions.headers.items()
        )
        names = frozenset({request_id, response_time, *(name for name, _ in others)})
        return cls(request_id, response_time, others, names)


class _Exchange:
    """Receives and sends the messages of one request, and adds the face's headers."""

    def __init__(
        self,
        receive: Receive,
        send: Send,
        own: _OwnHeaders,
        request_id: str,
        head: bool,
    ) -> None:
        self._receive = receive
        self._send = send
        self._own = own
        self._request_id = request_id
        self._head = head
        self._ended = False
        self.started = time.perf_counter()
        self.status = 0
        self.began = False
        self.client_gone = False
        self.turn: Turn | None = None

    def end_turn(self) -> None:
        """Let the project's next request begin: what follows is only sent."""
        if self.turn is not None:
            self.turn.end()

    async def receive(self) -> Any:
        """The next message of the request."""
        if self._ended:
            return {"type": "http.disconnect"}
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.client_gone = True
        return message

    async def send(self, message: Message) -> None:
        """Pass on a message of the answer."""
        if self._ended:
            return
        if message["type"] == "http.response.start":
            self.began = True
            self.end_turn()
            self.status = message["status"]
            extra = self._extra_headers()
            own = self._own.names
            kept = [pair for pair in message.get("headers", []) if pair[0] not in own]
            changed: Any = {**message, "headers": [*kept, *extra]}
            message = changed
        elif self._head and message["type"] == "http.response.body":
            # Only headers are sent (HEAD); stop a handler that would stream without end.
            self._ended = True
            message = cast("Message", {**message, "body": b"", "more_body": False})
        await self._send(message)

    async def repeat(self, kept: Kept, send: Send) -> None:
        """Send a kept answer, as it was sent before."""
        self.began, self.status = True, kept.status
        await kept.send(send, self._extra_headers())

    def _extra_headers(self) -> Headers:
        own = self._own
        pairs = [(own.request_id, self._request_id.encode()), *own.others]
        if own.response_time:
            milliseconds = round((time.perf_counter() - self.started) * 1000)
            pairs.append((own.response_time, str(milliseconds).encode()))
        return pairs
