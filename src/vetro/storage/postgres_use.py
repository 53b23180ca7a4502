"""How a process uses PostgreSQL: how many connections it has, and through what they go."""

from __future__ import annotations

import select
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import event
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

from vetro.storage.errors import DatabaseUnavailable
from vetro.storage.urls import patience

if TYPE_CHECKING:
    from vetro.storage.database import Database

KEPT_OPEN = 10
"""Connections that stay open when they are not needed."""
TRUSTED_SECONDS = 10.0
"""How long after its use a connection is used again without asking the server whether it is there."""
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
    arguments: dict[str, object] = {"application_name": application, **patience(driver_url)}
    if use.listen_url:
        arguments["prepare_threshold"] = None  # the next transaction may be on another connection
    engine = create_async_engine(
        driver_url,
        pool_size=min(KEPT_OPEN, use.connections),
        max_overflow=max(0, use.connections - KEPT_OPEN),
        connect_args=arguments,
    )
    _replace_lost_connections(engine)
    return engine


def _replace_lost_connections(engine: AsyncEngine) -> None:
    """Let the pool replace a connection that is lost before it gives it out.

    A server that stops or drops a connection says so on its socket, which costs nothing to look at. It is
    asked only when there is something to read, and when a connection was not used for a while, as a
    network may have forgotten it. (`pool_pre_ping` asks each time: a fifth of the statements of an engine
    under load.)
    """
    pool, dialect = engine.sync_engine, engine.dialect
    assert isinstance(dialect, PGDialect)

    def note(_connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
        entry.info["used"] = time.monotonic()

    def check(
        connection: DBAPIConnection, entry: ConnectionPoolEntry, _proxy: PoolProxiedConnection
    ) -> None:
        used = entry.info.get("used")
        if used is None:
            return  # new
        try:
            if time.monotonic() - used > TRUSTED_SECONDS or _readable(entry):
                dialect.do_ping(connection)
            if dialect.get_readonly(connection) is not None:
                # After a reading unit SQLAlchemy says that the next one writes, whatever the server's own
                # setting is (`default_transaction_read_only`).
                dialect.set_readonly(connection, None)
        except (dialect.loaded_dbapi.Error, OSError) as error:
            raise DisconnectionError(str(error)) from error

    event.listen(pool, "checkin", note)
    event.listen(pool, "checkout", check)


def _readable(entry: ConnectionPoolEntry) -> bool:
    """Whether a server has sent something that nobody asked for, such as its end. Errors: it is closed."""
    asked = select.poll()
    asked.register(entry.driver_connection.fileno(), select.POLLIN)  # type: ignore[union-attr]
    return bool(asked.poll(0))


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
