"""Running an assembly on sockets until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Generator, Sequence

import uvicorn

from vetro.http.assembly import Assembly
from vetro.http.connections import ConnectionLimits, admission, raise_descriptor_limit
from vetro.http.conventions import MAX_HEADER_BYTES
from vetro.http.protocol import guarded

#: catalog-api.md §11.
BACKLOG = 4096
KEEP_ALIVE_SECONDS = 75


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
    limits: ConnectionLimits | None = None,
    alive: bool = False,
) -> None:
    """Serve until ``stop`` is set (or the task is cancelled); then finish gracefully.

    New connections are refused at once, long polls and event streams end, and requests in flight
    have ``drain_seconds`` to finish. The life spans of the faces surround the serving, unless they
    are ``alive`` already: served elsewhere in this process. The process's limit of descriptors is
    raised; ``limits`` says how they are shared out and how long a client may take.
    """
    limits = limits or ConnectionLimits()
    raise_descriptor_limit()
    entrance = admission(limits, each_address=not assembly.trust_proxy)
    config = uvicorn.Config(
        assembly,
        http=guarded(entrance, limits),
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
    async with contextlib.nullcontext() if alive else assembly.running():
        serving = asyncio.create_task(server.serve(sockets=list(listeners)), name="http")
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            stop.set()
            await serving
            raise
