"""Running an assembly on sockets until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Generator, Sequence

import uvicorn

from vetro.http.face import Assembly


class _Server(uvicorn.Server):
    """A uvicorn server that says when it listens and leaves signals to the process it runs in."""

    def __init__(self, config: uvicorn.Config, ready: asyncio.Event) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, then say so."""
        await super().startup(sockets)
        self._ready.set()

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
    """Serve until ``stop`` is set; then finish gracefully.

    New connections are refused at once, long polls and event streams end, and requests in flight
    have ``drain_seconds`` to finish. The life spans of the faces surround the serving.
    """
    config = uvicorn.Config(
        assembly,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=max(1, round(drain_seconds)),
        timeout_keep_alive=75,
    )
    ready = asyncio.Event()
    server = _Server(config, ready)
    async with assembly.running():
        serving = asyncio.create_task(server.serve(sockets=list(listeners)), name="http")
        stopping = asyncio.create_task(stop.wait(), name="http-stop")
        starting = asyncio.create_task(ready.wait(), name="http-start")
        try:
            await asyncio.wait({serving, starting}, return_when=asyncio.FIRST_COMPLETED)
            if on_ready is not None and server.started:
                on_ready()
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            starting.cancel()
            assembly.close_streams()
            server.should_exit = True
            await serving
