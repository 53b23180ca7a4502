"""A part in a process of its own: ``vetro compute``, ``vetro repository serve``, ``vetro broker``."""

from __future__ import annotations

import asyncio
import signal
import socket
from typing import TYPE_CHECKING

from vetro.server.settings import Settings
from vetro.storage import Database, StorageError

if TYPE_CHECKING:
    from vetro.http import ConnectionLimits, Face


async def serve_alone(
    settings: Settings,
    listener: socket.socket,
    limits: ConnectionLimits,
    faces: list[Face],
    database: Database,
    started: str,
) -> None:
    """Serve faces until a signal; ``started`` is printed when it answers. Ready: its database is."""
    from vetro.http import admission, assemble, raise_descriptor_limit, serve

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    raise_descriptor_limit()

    async def missing() -> dict[str, str]:
        try:
            await database.check()
        except StorageError as error:
            return {"database": str(error)}
        return {}

    await serve(
        assemble(faces, readiness=missing, trust_proxy=settings.server.trust_proxy),
        [listener],
        stop,
        drain_seconds=settings.server.drain_seconds,
        on_ready=lambda: print(started, flush=True),
        limits=limits,
        entrance=admission(limits, each_address=not settings.server.trust_proxy),
    )
