"""Running an assembly on sockets until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence

from vetro.http.assembly import Assembly
from vetro.http.connections import (
    Admission,
    ConnectionLimits,
    admission,
    raise_descriptor_limit,
)
from vetro.http.guarded_server import serve_application


async def serve(
    assembly: Assembly,
    listeners: Sequence[socket.socket],
    stop: asyncio.Event,
    *,
    drain_seconds: float = 20.0,
    on_ready: Callable[[], None] | None = None,
    limits: ConnectionLimits | None = None,
    entrance: Admission | None = None,
    alive: bool = False,
    announce_seconds: float = 0.0,
) -> None:
    """Serve until ``stop`` is set (or the task is cancelled); then finish gracefully.

    First ``/readyz`` says for ``announce_seconds`` that it will stop. Then new connections are refused, long
    polls and event streams end, and requests in flight have ``drain_seconds`` to finish. The life
    spans of the faces enclose the serving, unless they
    are ``alive`` already, because the faces are served elsewhere in this process. ``limits``: the
    limits for connections and clients' time; ``entrance`` counts connections together with other
    servers of the process (without it, the process's limit of descriptors is raised and this server
    uses all of them).
    """
    limits = limits or ConnectionLimits()
    assembly.max_header_line = limits.max_header_line
    if entrance is None:
        raise_descriptor_limit()
        entrance = admission(limits, each_address=not assembly.trust_proxy)
    async with contextlib.AsyncExitStack() as stack:
        if not alive:
            await stack.enter_async_context(assembly.running())
        closing = asyncio.Event()

        async def announce() -> None:
            await stop.wait()
            assembly.stopping = True
            await asyncio.sleep(announce_seconds)
            closing.set()

        announcing = asyncio.create_task(announce(), name="announce stop")
        stack.callback(announcing.cancel)
        await serve_application(
            assembly,
            listeners,
            closing,
            entrance=entrance,
            limits=limits,
            drain_seconds=drain_seconds,
            on_ready=on_ready,
            on_stop=assembly.close_streams,
            is_socket=assembly.is_socket,
        )
