"""The database: units of work on SQLite (WAL) or PostgreSQL, and notifications after commit.

SQLite has one writer at a time. Inside a process writers queue on a lock, fairly; between processes
``BEGIN IMMEDIATE`` with a busy time-out does the same. A transaction is begun as a writer at once,
because upgrading a reader later fails when another wrote in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import CursorResult, Executable, event, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from vetro.storage.clock import Clock, SystemClock
from vetro.storage.errors import StorageError
from vetro.storage.notify import MAX_PAYLOAD, DatagramCarrier, Subscription, Switchboard
from vetro.storage.postgres_listener import PostgresListener

BUSY_TIMEOUT_MS = 30_000
NOTIFY_CHANNEL = "vetro"

Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]]


class Transaction:
    """One unit of work. Rows come back as SQLAlchemy rows."""

    def __init__(self, connection: AsyncConnection, *, read_only: bool) -> None:
        self.connection = connection
        self.read_only = read_only
        self.notifications: list[tuple[str, str]] = []

    async def execute(
        self, statement: Executable, parameters: Parameters | None = None
    ) -> CursorResult[Any]:
        """Run a statement; its result is buffered, so it can be read at leisure."""
        return await self.connection.execute(statement, parameters)

    def notify(self, channel: str, payload: str = "") -> None:
        """Wake the listeners of ``channel`` in every process once this unit is committed."""
        if self.read_only:
            raise StorageError("a reading transaction has nothing to notify of")
        self.notifications.append((channel, payload))


class Database:
    """An open database; ``await Database.open(url)``."""

    def __init__(self, engine: AsyncEngine, url: str, clock: Clock) -> None:
        self.engine = engine
        self.url = url
        self.clock = clock
        self.is_sqlite = engine.dialect.name == "sqlite"
        self._writer = asyncio.Lock()
        self._switchboard = Switchboard()
        self._datagrams: DatagramCarrier | None = None
        self._listener: PostgresListener | None = None

    @classmethod
    async def open(
        cls, url: str, *, data_dir: Path | None = None, clock: Clock | None = None
    ) -> Database:
        """Open ``sqlite:///absolute/path`` or ``postgresql://…``.

        ``data_dir`` holds the sockets for notifications between processes on SQLite; without it they
        are kept beside the database file. Errors: ``StorageError`` names the URL and what is wrong.
        """
        if url.startswith("sqlite:///"):
            path = Path(url.removeprefix("sqlite:///"))
            if not path.parent.is_dir():
                raise StorageError(f"{url}: the directory {path.parent} does not exist")
            engine = create_async_engine(f"sqlite+aiosqlite:///{path}", pool_size=8)
            _prepare_sqlite(engine)
            database = cls(engine, url, clock or SystemClock())
            carrier = DatagramCarrier((data_dir or path.parent) / "notify", database._switchboard)
            carrier.open()
            database._datagrams = carrier
        elif url.startswith(("postgresql://", "postgres://")):
            rest = url.split("://", 1)[1]
            engine = create_async_engine(f"postgresql+psycopg://{rest}", pool_size=10)
            database = cls(engine, url, clock or SystemClock())
            database._listener = PostgresListener(
                f"postgresql://{rest}", NOTIFY_CHANNEL, database._switchboard
            )
            await database._listener.start()
        else:
            scheme = url.split(":", 1)[0]
            raise StorageError(
                f"there is no storage for {scheme!r}; use sqlite:///PATH or postgresql://…"
            )
        return database

    async def close(self) -> None:
        """Close every connection and socket."""
        if self._listener is not None:
            await self._listener.stop()
        if self._datagrams is not None:
            self._datagrams.close()
        await self.engine.dispose()

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Transaction, None]:
        """A writing unit of work: commits at the end of the block, rolls back on an exception."""
        if self.is_sqlite:
            async with self._writer, self._work("BEGIN IMMEDIATE") as tx:
                yield tx
        else:
            async with self._work(None) as tx:
                yield tx
        # After commit only: a listener that looks at once must see what it is told of.
        self._deliver(tx.notifications)

    @asynccontextmanager
    async def _work(self, begin: str | None) -> AsyncGenerator[Transaction, None]:
        async with self.engine.connect() as connection:
            if begin is not None:
                await connection.exec_driver_sql(begin)
            tx = Transaction(connection, read_only=False)
            try:
                yield tx
                if not self.is_sqlite and tx.notifications:
                    for channel, payload in tx.notifications:
                        body = msgspec.json.encode(
                            (channel, payload if len(payload) <= MAX_PAYLOAD else "")
                        ).decode()
                        await connection.execute(
                            text("SELECT pg_notify(:channel, :body)"),
                            {"channel": NOTIFY_CHANNEL, "body": body},
                        )
            except BaseException:
                await connection.rollback()
                raise
            await connection.commit()

    def _deliver(self, notifications: list[tuple[str, str]]) -> None:
        if not notifications or self._datagrams is None:
            return  # PostgreSQL brings them back to this process too
        for channel, payload in notifications:
            self._switchboard.deliver(channel, payload)
        self._datagrams.send(notifications)

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[Transaction, None]:
        """A reading unit of work: one consistent view; nothing it does is kept."""
        async with self.engine.connect() as connection:
            if self.is_sqlite:
                await connection.exec_driver_sql("BEGIN")
            try:
                yield Transaction(connection, read_only=True)
            finally:
                await connection.rollback()

    def listen(self, channel: str) -> AbstractAsyncContextManager[Subscription]:
        """Subscribe to a channel: ``async with db.listen(c) as subscription``.

        Subscribe first, look at the database then, wait last: nothing is missed.
        """
        return self._switchboard.listen(channel)

    async def notify(self, channel: str, payload: str = "") -> None:
        """Wake listeners without writing anything."""
        if self.is_sqlite:
            self._deliver([(channel, payload)])
        else:
            async with self.transaction() as tx:
                tx.notify(channel, payload)


def _prepare_sqlite(engine: AsyncEngine) -> None:
    """Every connection: WAL, foreign keys, our own BEGIN."""

    def on_connect(connection: Any, _record: Any) -> None:
        # SQLAlchemy's asyncio adapter: the driver must not open transactions by itself.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    event.listen(engine.sync_engine, "connect", on_connect)
