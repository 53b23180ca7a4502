"""One connection: HTTP/1.1 by httptools in uvicorn, with time limits for clients.

Invalid HTTP gets an error body like any other error. A client must send its headers in time, keep
sending its body and take its answer; otherwise the connection is closed (with a 408 if possible).
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from vetro.http.connections import LIMITED, Admission, ConnectionLimits
from vetro.http.conventions import header_bytes
from vetro.http.faults import CATALOG_FAULTS, Fault, FaultStyle, MalformedBody
from vetro.http.headers import too_many_headers
from vetro.random_ids import random_uuid


class Phase:
    """What the service waits for: the headers of a request, the rest of its body, or nothing.

    No enumeration: on Python 3.11 each mention of a member calls a function, and a request has ten.
    """

    HEADERS: Final = "headers"
    BODY: Final = "body"
    COMPLETE: Final = "complete"


GATHERED_BYTES = 2**16
"""Larger pieces are not copied to be sent with what is before them."""


class Gathering:
    """A transport that sends the head of an answer together with the beginning of its body.

    uvicorn writes them separately: two system calls, and two times that the client is woken. A head that
    nothing follows at once (an event stream's) is sent when the loop has its next turn.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.transport = transport
        self._loop = loop
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)

    def write(self, data: bytes) -> None:
        """Send, or keep a head for a moment."""
        if self._head:
            head, self._head = self._head, b""
            if len(data) > GATHERED_BYTES:
                self.transport.write(head)
            else:
                data = head + data
        elif data.startswith(b"HTTP/1.1 "):
            self._head = data
            self._loop.call_soon(self.flush)
            return
        self.transport.write(data)

    def flush(self) -> None:
        """Send the head that is kept."""
        if self._head:
            head, self._head = self._head, b""
            self.transport.write(head)

    def get_write_buffer_size(self) -> int:
        """Bytes that were not sent yet."""
        return self.transport.get_write_buffer_size() + len(self._head)

    def is_closing(self) -> bool:
        """Whether it is closed."""
        return self.transport.is_closing()

    def close(self) -> None:
        """Close it once everything is sent."""
        self.flush()
        self.transport.close()

    def abort(self) -> None:
        """Close it without sending the rest."""
        self._head = b""
        self.transport.abort()


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with time limits and admission; ``serve`` makes a subclass with their values."""

    admission: Admission
    limits: ConnectionLimits
    most_header_bytes: int
    faults: FaultStyle
    #: Whether a request's target (its path and query) is a web socket.
    is_socket: Callable[[bytes], bool]

    address = ""
    _timer: asyncio.TimerHandle | None = None
    _phase: str = Phase.HEADERS
    _watched = ""
    _received = 0
    _expected = 0
    _header_bytes = 0
    _write_timer: asyncio.TimerHandle | None = None
    _unwritten = 0
    _upgrades = False

    # -- the connection ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Admit the connection and wait a limited time for a request."""
        super().connection_made(transport)
        self.transport = cast("asyncio.Transport", Gathering(transport, self.loop))
        self.address = self.client[0] if self.client else ""
        why = self.admission.enter(self)
        if why:
            self.app_state = {**self.app_state, LIMITED: why}
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers and forget the connection."""
        self.admission.leave(self)
        self._stop_timer()
        self._stop_write_timer()
        super().connection_lost(exc)

    def cut_off(self) -> None:
        """Close without an answer: others need the descriptor."""
        self._stop_timer()
        self.transport.abort()

    # -- what comes in -------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Handle bytes of a request."""
        if self.transport.is_closing():
            return
        self._received += len(data)
        self._header_bytes += len(data)
        super().data_received(data)
        # The parser keeps what is not complete, however much it is.
        if self._phase is Phase.HEADERS and self._header_bytes > self.most_header_bytes:
            self._refuse(Fault(too_many_headers(self.most_header_bytes), status=431))
        if self._upgrades:
            self._stop_timer()
        else:
            self._watch()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._phase = Phase.HEADERS
        self._upgrades = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Check what the parser leaves to the application, and start to serve the request."""
        hosts = len([name for name, _ in self.headers if name == b"host"])
        parser = self.parser
        assert parser is not None
        if hosts > 1 or (not hosts and parser.get_http_version() == "1.1"):
            raise ValueError("a request has one Host header")
        self._phase = Phase.BODY
        self._header_bytes = 0
        cycle = self.cycle
        idle = cycle is None or cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]
        self._upgrades = parser.should_upgrade() and idle and self.is_socket(self.url)
        super().on_headers_complete()
        if parser.should_upgrade() and not self._should_upgrade():
            # It is answered as if it did not ask; the parser reads nothing after it.
            self._upgrades = False
            self.cycle.keep_alive = False

    def _should_upgrade_to_ws(self) -> bool:
        return self._upgrades

    def handle_websocket_upgrade(self) -> None:
        """Give the connection to the protocol of web sockets; it still counts as one."""
        from vetro.http.socket_protocol import SocketProtocol

        self._stop_timer()
        self.admission.serve(self)
        self.ws_protocol_class = functools.partial(  # pyright: ignore[reportAttributeAccessIssue]
            SocketProtocol, on_end=lambda: self.admission.leave(self)
        )
        self.transport = cast("Gathering", self.transport).transport
        super().handle_websocket_upgrade()

    def on_body(self, body: bytes) -> None:
        """A piece of a body."""
        self._header_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request ends; when it was answered already, the next one may come."""
        self._header_bytes = 0
        if self._upgrades:
            return
        self._phase = Phase.HEADERS if self.cycle.response_complete else Phase.COMPLETE
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Watch the connection for its next request after a complete answer."""
        if self._phase is Phase.COMPLETE and not self.pipeline:
            self._phase = Phase.HEADERS
        super().on_response_complete()
        self._watch()

    def _watch(self) -> None:
        """Start the timer for the current phase of the request."""
        if self.transport.is_closing():
            self._stop_timer()
            return
        phase = self._phase
        if phase is Phase.HEADERS:
            self.admission.wait(self)
        else:
            self.admission.serve(self)
        if self.timeout_keep_alive_task is not None:
            self._stop_timer()  # between two requests uvicorn's own timer runs
        elif self._timer is None or self._watched is not phase:
            self._stop_timer()
            if phase is Phase.HEADERS:
                self._timer = self.loop.call_later(self.limits.header_seconds, self._no_headers)
            elif phase is Phase.BODY:
                self._expected = self._received + self.limits.body_bytes
                self._timer = self.loop.call_later(self.limits.body_seconds, self._no_body)
        self._watched = phase

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _no_headers(self) -> None:
        self._timer = None
        if self._received:
            self._refuse(
                Fault(
                    f"No complete request arrived within {self.limits.header_seconds:g} seconds",
                    status=408,
                )
            )
        else:
            self.transport.close()

    def _no_body(self) -> None:
        self._timer = None
        if self.flow.read_paused or self._received >= self._expected:
            # Either this service reads too slowly, or the body still comes.
            self._watch()
            return
        began = self.cycle.response_started
        self.cycle.disconnected = True
        self.cycle.message_event.set()
        if began:
            self.transport.abort()
        else:
            self._refuse(
                Fault(
                    "The body stalled: less than"
                    f" {self.limits.body_bytes} bytes arrived in {self.limits.body_seconds:g} seconds",
                    status=408,
                )
            )

    # -- what goes out -------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """Start a timer: the client takes its answer more slowly than it is produced."""
        super().pause_writing()
        self._unwritten = self.transport.get_write_buffer_size()
        self._write_timer = self.loop.call_later(self.limits.write_seconds, self._not_taken)

    def resume_writing(self) -> None:
        """Stop the timer: the client has taken most of the answer."""
        self._stop_write_timer()
        super().resume_writing()

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _not_taken(self) -> None:
        before, self._unwritten = self._unwritten, self.transport.get_write_buffer_size()
        if self._unwritten >= before:
            self._write_timer = None
            self.transport.abort()
        else:
            self._write_timer = self.loop.call_later(self.limits.write_seconds, self._not_taken)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not a request."""
        self._refuse(MalformedBody(msg))

    def _refuse(self, fault: Fault) -> None:
        request_id = f"req-{random_uuid()}"
        body, content_type = self.faults.render(fault, request_id, "")
        phrase = HTTPStatus(fault.status).phrase
        head = (
            f"HTTP/1.1 {fault.status} {phrase}\r\ncontent-type: {content_type}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n"
            f"x-openstack-request-id: {request_id}\r\n\r\n"
        )
        cycle = self.cycle
        # In the middle of an answer there is no room for another.
        if cycle is None or cycle.response_complete or not cycle.response_started:  # pyright: ignore[reportUnnecessaryComparison]
            if cycle is not None and not cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison]
                cycle.disconnected = True
                cycle.message_event.set()
            self.transport.write(head.encode("latin-1") + body)
        self._stop_timer()
        self.transport.close()


def guarded(
    admission: Admission,
    limits: ConnectionLimits,
    faults: FaultStyle = CATALOG_FAULTS,
    is_socket: Callable[[bytes], bool] = lambda target: False,
) -> type[GuardedProtocol]:
    """The protocol class of one server; ``faults``: how it writes its own errors.

    ``is_socket``: whether a target is a web socket; a request to upgrade at any other is answered as
    if it did not ask.
    """

    class Guarded(GuardedProtocol):
        pass

    Guarded.admission = admission
    Guarded.limits = limits
    Guarded.most_header_bytes = header_bytes(limits.max_header_line)
    Guarded.faults = faults
    Guarded.is_socket = staticmethod(is_socket)
    return Guarded
