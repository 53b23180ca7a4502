"""An ASGI server with limits for slow and for many clients (docs/decisions/0111).

All HTTP faces of Vetro use this server: the assembly's (``serving``) and a node's task API, which
does not load the framework of the faces.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Generator, Sequence
from typing import Any

import uvicorn

from vetro.http.connections import Admission, ConnectionLimits
from vetro.http.faults import CATALOG_FAULTS, FaultStyle
from vetro.http.protocol import guarded
from vetro.http.tls import MutualTls

#: The longest message of a web socket.
MAX_MESSAGE_BYTES = 1 << 20


class _Server(uvicorn.Server):
    """A uvicorn server that waits for an event, not a clock, and does not handle signals."""

    def __init__(
        self,
        config: uvicorn.Config,
        stop: asyncio.Event,
        on_ready: Callable[[], None] | None,
        on_stop: Callable[[], None] | None,
    ) -> None:
        super().__init__(config)
        self._stop = stop
        self._on_ready = on_ready
        self._on_stop = on_stop

    async def main_loop(self) -> None:
        """Serve until told to stop; uvicorn's own loop wakes ten times a second."""
        if self._on_ready is not None:
            self._on_ready()
        await self._stop.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse new connections, end streams, let requests finish, wait for cancelled ones."""
        if self._on_stop is not None:
            self._on_stop()
        await super().shutdown(sockets)
        if self.server_state.tasks:
            # uvicorn cancelled these at the time-out: they must end before the life spans do.
            await asyncio.wait(self.server_state.tasks)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def keep_alive(listener: socket.socket, seconds: int) -> None:
    """Have the system ask whether a silent client is still there, once it was silent so long.

    ``seconds`` 0: never. Connections inherit it from their listener.
    """
    if seconds and listener.family != socket.AF_UNIX:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, seconds)


async def serve_application(
    application: Any,
    listeners: Sequence[socket.socket],
    stop: asyncio.Event,
    *,
    entrance: Admission,
    limits: ConnectionLimits,
    drain_seconds: float,
    on_ready: Callable[[], None] | None = None,
    on_stop: Callable[[], None] | None = None,
    faults: FaultStyle = CATALOG_FAULTS,
    tls: MutualTls | None = None,
    is_socket: Callable[[bytes], bool] = lambda target: False,
) -> None:
    """Serve an ASGI application until ``stop`` is set (or the task is cancelled); then finish gracefully.

    ``entrance`` counts connections: the servers of one process share it, as they share its
    descriptors. A connection above the limits has ``LIMITED`` in its scope's state, with the
    reason; the application answers only its operations pages there. ``on_stop`` is called before
    requests in flight get their ``drain_seconds``. ``faults``: how errors of the protocol are
    written. ``tls``: clients must present a certificate. ``is_socket``: whether a request's target is a
    web socket.
    """
    for listener in listeners:
        keep_alive(listener, limits.tcp_keepidle)
    config = uvicorn.Config(
        application,
        http=guarded(entrance, limits, faults, is_socket),
        ws="none",  # `protocol` chooses, by the target
        ws_max_size=MAX_MESSAGE_BYTES,
        ws_per_message_deflate=False,  # its memory for each connection is more than it saves
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,  # the application writes it: uvicorn's is as old as its last tick
        proxy_headers=False,  # the assembly handles them, if configured
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
        ssl_ca_certs=str(tls.authority) if tls else None,
        ssl_cert_reqs=ssl.CERT_REQUIRED if tls else ssl.CERT_NONE,
        timeout_graceful_shutdown=max(1, round(drain_seconds)),
        timeout_keep_alive=limits.keep_alive_seconds,
        backlog=limits.backlog,
    )
    server = _Server(config, stop, on_ready, on_stop)
    serving = asyncio.create_task(server.serve(sockets=list(listeners)), name="http")
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        stop.set()
        await serving
        raise
