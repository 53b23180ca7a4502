"""SQLite from asyncio: each statement takes one round trip to the connection's thread.

aiosqlite makes a round trip for each call of a cursor, so a query costs four: create the cursor,
execute, fetch, close. A round trip is a tenth of a millisecond of processor time and, on a busy
machine, two waits for the scheduler. Every caller reads all rows (``Transaction.execute`` buffers),
so all four are done in one. SQLAlchemy takes the connection through ``async_creator_fn``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import aiosqlite
from sqlalchemy import event
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.ext.asyncio import AsyncEngine

from vetro.storage.errors import CANNOT_WRITE, StorageError

BUSY_TIMEOUT_MS = 30_000

Rows = list[Any]


class ReadingCompiler(SQLiteCompiler):
    """Statements of reading units: locking rows is refused, as PostgreSQL refuses it.

    SQLite has no such locks, so its ordinary compiler leaves ``FOR UPDATE`` out without a word.
    """

    def for_update_clause(self, select: Any, **_options: Any) -> NoReturn:
        """Refuse. Errors: ``StorageError``."""
        raise StorageError(CANNOT_WRITE)


@dataclass(frozen=True)
class _Done:
    """The outcome of a statement."""

    description: Any = None
    rowcount: int = -1
    lastrowid: int | None = None
    rows: Sequence[Any] = ()


class WholeStatementCursor:
    """The part of a cursor that SQLAlchemy's adapter uses; it is not bound to a thread."""

    arraysize = 1

    def __init__(self, connection: WholeStatementConnection) -> None:
        self._connection = connection
        self._done = _Done()

    async def __aenter__(self) -> WholeStatementCursor:
        return self

    async def __aexit__(self, *_failure: object) -> None:
        await self.close()

    @property
    def description(self) -> Any:
        """The columns of the rows; ``None`` when the statement has none."""
        return self._done.description

    @property
    def rowcount(self) -> int:
        """How many rows were changed; -1 when that is unknown."""
        return self._done.rowcount

    @property
    def lastrowid(self) -> int | None:
        """The number of the row inserted last."""
        return self._done.lastrowid

    async def execute(self, sql: str, parameters: Any = ()) -> WholeStatementCursor:
        """Run a statement and read all its rows."""
        self._done = await self._connection.run_statement(sql, parameters, many=False)
        return self

    async def executemany(self, sql: str, parameters: Iterable[Any]) -> WholeStatementCursor:
        """Run a statement for each set of parameters."""
        self._done = await self._connection.run_statement(sql, parameters, many=True)
        return self

    async def fetchall(self) -> Sequence[Any]:
        """The rows, which have been read already."""
        return self._done.rows

    async def close(self) -> None:
        """Do nothing: the thread's cursor was closed with its statement."""


class WholeStatementConnection(aiosqlite.Connection):
    """A connection whose statements take one round trip to its thread."""

    def __init__(self, database: str, **options: Any) -> None:
        super().__init__(lambda: sqlite3.connect(database, **options), 64)
        # A daemon thread does not keep a process alive that did not close its database.
        self._thread.daemon = True
        serve = self._thread.run

        def run() -> None:
            # Statements of a cancelled task may end after the event loop was closed: no task waits
            # for their results then, and the connection is closed with this thread.
            try:
                serve()
            except RuntimeError as error:
                if "loop is closed" not in str(error):
                    raise

        self._thread.run = run

    def cursor(self) -> Any:
        """A cursor; unlike aiosqlite's it needs no round trip."""
        return WholeStatementCursor(self)

    async def run_statement(self, sql: str, parameters: Any, *, many: bool) -> _Done:
        """Execute, fetch and close on the connection's thread."""
        return cast("_Done", await self._execute(_run, self._conn, sql, parameters, many))


class ReadingConnection(WholeStatementConnection):
    """A connection for reading units, whose statements run on the loop, without a round trip.

    A reader never waits for the writer (WAL), and what it reads is nearly always in memory: a
    statement takes some tens of microseconds, handing it to a thread and back a tenth of a
    millisecond and two waits for the scheduler. Opening and closing stay on the thread.
    """

    def __init__(self, database: str, **options: Any) -> None:
        super().__init__(database, **{**options, "check_same_thread": False})

    async def _execute(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a function of the driver."""
        if not self._running or not self._connection:
            raise ValueError("Connection closed")
        return fn(*args, **kwargs)


def _run(connection: sqlite3.Connection, sql: str, parameters: Any, many: bool) -> _Done:
    cursor = connection.cursor()
    try:
        if many:
            cursor.executemany(sql, parameters)
        else:
            cursor.execute(sql, parameters)
        rows = [] if cursor.description is None else cursor.fetchall()
        return _Done(cursor.description, cursor.rowcount, cursor.lastrowid, rows)
    finally:
        cursor.close()


def prepare(engine: AsyncEngine, *, query_only: bool) -> None:
    """Configure every connection: WAL, foreign keys, our own BEGIN."""

    def on_connect(connection: Any, _record: Any) -> None:
        # SQLAlchemy's asyncio adapter: the driver must not open transactions by itself.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        cursor.execute("PRAGMA journal_mode=WAL")
        # A crash of the process loses nothing; a power failure may lose the last commits, but does
        # not corrupt the database (docs/decisions/0010-sqlite-durability.md).
        cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.execute("PRAGMA foreign_keys=ON")
        if query_only:
            cursor.execute("PRAGMA query_only=ON")
        cursor.close()

    event.listen(engine.sync_engine, "connect", on_connect)
