"""A part in a process of its own: ``vetro compute``, ``vetro repository serve``, ``vetro broker``."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any

from vetro import tracing
from vetro.server import data_directory
from vetro.server.listeners import listen
from vetro.server.node import connection_limits
from vetro.server.readiness import Readiness
from vetro.server.settings import Settings
from vetro.server.starting import explained_errors
from vetro.server.supervisor import READY, STOPPING, notify_supervisor
from vetro.storage import Database

if TYPE_CHECKING:
    from vetro.http import ConnectionLimits, Face


Serving = Callable[[Settings, socket.socket, "ConnectionLimits"], Coroutine[Any, Any, None]]


def run_alone(settings: Settings, part: str, host: str, port: int, serving: Serving) -> int:
    """Prepare what a ``part`` needs, listen, and run it until it ends; the exit code. ``StartError``."""
    from vetro.http import configure_logging

    with explained_errors(settings):
        configure_logging(settings.server.log_level, settings.server.log_format)
        tracing.configure(settings.tracing, part)
        limits = connection_limits(settings.connections)
        data_directory.prepare(settings.data_dir, settings.shared_dir)
        with listen(host, port) as listener:
            asyncio.run(serving(settings, listener, limits))
            tracing.flush()
    return 0


async def serve_alone(
    settings: Settings,
    listener: socket.socket,
    limits: ConnectionLimits,
    faces: list[Face],
    database: Database,
    started: str,
    purposes: Collection[str] = (),
) -> None:
    """Serve faces until a signal; ``started`` is printed when it answers. Ready: what it writes to is, with
    the files of ``purposes``."""
    from vetro.http import admission, assemble, raise_descriptor_limit, serve

    stop = asyncio.Event()

    def on_signal() -> None:
        notify_supervisor(STOPPING)
        stop.set()

    def ready() -> None:
        print(started, flush=True)
        notify_supervisor(READY)

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    raise_descriptor_limit()
    await serve(
        assemble(
            faces,
            readiness=Readiness(settings, database, purposes),
            trust_proxy=settings.server.trust_proxy,
        ),
        [listener],
        stop,
        drain_seconds=settings.server.drain_seconds,
        announce_seconds=settings.server.announce_seconds,
        on_ready=ready,
        limits=limits,
        entrance=admission(limits, each_address=not settings.server.trust_proxy),
    )
