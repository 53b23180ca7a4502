"""One connection: HTTP/1.1 by h11 in uvicorn, with time limits for clients.

Invalid HTTP gets an error body like any other error. A client must send its headers in time, keep
sending its body and take its answer; otherwise the connection is closed (with a 408 if possible).
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from http import HTTPStatus
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from vetro.http.connections import LIMITED, Admission, ConnectionLimits
from vetro.http.faults import CATALOG_FAULTS, Fault, FaultStyle, MalformedBody
from vetro.http.headers import too_many_headers


class GuardedProtocol(H11Protocol):
    """uvicorn's protocol with time limits and admission; ``serve`` makes a subclass with their values."""

    admission: Admission
    limits: ConnectionLimits
    faults: FaultStyle

    address = ""
    _timer: asyncio.TimerHandle | None = None
    _phase: object = None
    _received = 0
    _expected = 0
    _write_timer: asyncio.TimerHandle | None = None
    _unwritten = 0

    # -- the connection ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Admit the connection and wait a limited time for a request."""
        super().connection_made(transport)
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
        self._received += len(data)
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Watch the connection for its next request after a complete answer."""
        super().on_response_complete()
        self._watch()

    def _watch(self) -> None:
        """Start the timer for the current phase of the request."""
        if self.transport.is_closing():
            self._stop_timer()
            return
        phase = self.conn.their_state
        if phase is h11.IDLE:
            self.admission.wait(self)
        else:
            self.admission.serve(self)
        if self.timeout_keep_alive_task is not None:
            self._stop_timer()  # between two requests uvicorn's own timer runs
        elif self._timer is None or self._phase is not phase:
            self._stop_timer()
            if phase is h11.IDLE:
                self._timer = self.loop.call_later(self.limits.header_seconds, self._no_headers)
            elif phase is h11.SEND_BODY:
                self._expected = self._received + self.limits.body_bytes
                self._timer = self.loop.call_later(self.limits.body_seconds, self._no_body)
        self._phase = phase

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
        """Answer bytes that are not a request; called while their error is handled."""
        error = sys.exc_info()[1]
        if isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == 431:
            self._refuse(Fault(too_many_headers(), status=431))
        else:
            self._refuse(MalformedBody(msg))

    def _refuse(self, fault: Fault) -> None:
        request_id = f"req-{uuid.uuid4()}"
        body, content_type = self.faults.render(fault, request_id, "")
        headers = [
            (b"content-type", content_type.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
            (b"x-openstack-request-id", request_id.encode()),
        ]
        reason = HTTPStatus(fault.status).phrase.encode()
        events: list[Any] = [
            h11.Response(status_code=fault.status, headers=headers, reason=reason),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ]
        # In the middle of an answer there is no room for another.
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            for event in events:
                self.transport.write(cast("bytes", self.conn.send(event)))
        self._stop_timer()
        self.transport.close()


def guarded(
    admission: Admission, limits: ConnectionLimits, faults: FaultStyle = CATALOG_FAULTS
) -> type[GuardedProtocol]:
    """The protocol class of one server; ``faults``: how it writes its own errors."""

    class Guarded(GuardedProtocol):
        pass

    Guarded.admission = admission
    Guarded.limits = limits
    Guarded.faults = faults
    return Guarded
