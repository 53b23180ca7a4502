"""How a process uses PostgreSQL: how many connections it has, and through what they go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from vetro.storage.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from vetro.storage.database import Database

KEPT_OPEN = 10
"""Connections that stay open when they are not needed."""
HEAR_SECONDS = 10.0
_HEARD = "storage/heard"


@dataclass(frozen=True, slots=True)
class PostgresUse:
    """``connections``: the most at a time, beside one that listens. ``listen_url``: the server itself, when
    the database's URL is that of a pooler that gives a connection to each transaction (PgBouncer): it
    cannot carry ``LISTEN``, and statements are then not prepared.
    """

    connections: int = 20
    listen_url: str = ""


def open_pool(driver_url: str, application: str, use: PostgresUse) -> AsyncEngine:
    """The pool of connections, which are opened when they are needed."""
    arguments: dict[str, object] = {"application_name": application}
    if use.listen_url:
        arguments["prepare_threshold"] = None  # the next transaction may be on another connection
    return create_async_engine(
        driver_url,
        pool_size=min(KEPT_OPEN, use.connections),
        max_overflow=max(0, use.connections - KEPT_OPEN),
        pool_pre_ping=True,
        connect_args=arguments,
    )


async def check_hearing(database: Database) -> None:
    """Check that notifications arrive. Errors: ``DatabaseUnavailable``."""
    async with database.listen(_HEARD) as subscription:
        await database.notify(_HEARD)
        if await subscription.wait(HEAR_SECONDS) is None:
            raise DatabaseUnavailable(
                f"{database.name} does not deliver notifications: a pooler such as PgBouncer cannot carry"
                " LISTEN. Set server.database_listen_url to the address of the same database at the"
                " PostgreSQL server itself"
            )
