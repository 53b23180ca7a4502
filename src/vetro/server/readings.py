"""Reads the gauges of every room that keeps its state in the database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from vetro.http import Readings
from vetro.storage import Database, Transaction

Reader = Callable[[Transaction], Awaitable[None]]


def stored_readings(database: Database, readers: Sequence[Reader]) -> Readings:
    """Reads the gauges of all rooms in one database transaction."""

    async def read() -> None:
        async with database.read() as tx:
            for reader in readers:
                await reader(tx)

    return Readings(read)
