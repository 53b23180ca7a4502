"""Running an assembly on sockets until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import uuid
from collections.abc import Callable, Generator, Sequence
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from vetro.http.assembly import Assembly
from vetro.http.faults import CATALOG_FAULTS, MalformedBody

#: catalog-api.md §11.
MAX_HEADER_BYTES = 16_384
BACKLOG = 4096
KEEP_ALIVE_SECONDS = 75


class _Protocol(H11Protocol):
    """The connection: what is not HTTP gets an error body like any other; who says nothing is cut off."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Begin to wait for a request, but not for ever."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def send_400_response(self, msg: str) -> None:
        """Answer what could not be read as a request."""
        request_id = f"req-{uuid.uuid4()}"
        body, content_type = CATALOG_FAULTS.render(MalformedBody(msg), request_id, "")
        headers = [
            (b"content-type", content_type.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
            (b"x-openstack-request-id", request_id.encode()),
        ]
        events: list[Any] = [
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ]
        # When the garbage comes in the middle of an answer there is no room for another.
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            for event in events:
                self.transport.write(cast("bytes", self.conn.send(event)))
        self.transport.close()


class _Server(uvicorn.Server):
    """A uvicorn server that waits for an event instead of a clock, and leaves signals to its process."""

    def __init__(
        self,
        config: uvicorn.Config,
        assembly: Assembly,
        stop: asyncio.Event,
        on_ready: Callable[[], None] | None,
    ) -> None:
        super().__init__(config)
        self._assembly = assembly
        self._stop = stop
        self._on_ready = on_ready

    async def main_loop(self) -> None:
        """Serve until told to stop; uvicorn's own loop would wake ten times a second."""
        if self._on_ready is not None:
            self._on_ready()
        await self._stop.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse new connections, end streams, let requests finish, see off those that did not."""
        self._assembly.close_streams()
        await super().shutdown(sockets)
        if self.server_state.tasks:
            # Cancelled by uvicorn when their time was over: nothing of them may outlive the life spans.
            await asyncio.wait(self.server_state.tasks)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


async def serve(
    assembly: Assembly,
    listeners: Sequence[socket.socket],
    stop: asyncio.Event,
    *,
    drain_seconds: float = 20.0,
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Serve until ``stop`` is set (or the task is cancelled); then finish gracefully.

    New connections are refused at once, long polls and event streams end, and requests in flight
    have ``drain_seconds`` to finish. The life spans of the faces surround the serving.
    """
    config = uvicorn.Config(
        assembly,
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,  # the assembly writes it: uvicorn's is as old as its last tick
        proxy_headers=False,  # the assembly does that, when it is asked to
        timeout_graceful_shutdown=max(1, round(drain_seconds)),
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        backlog=BACKLOG,
    )
    server = _Server(config, assembly, stop, on_ready)
    async with assembly.running():
        serving = asyncio.create_task(server.serve(sockets=list(listeners)), name="http")
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            stop.set()
            await serving
            raise
