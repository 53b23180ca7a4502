"""SQLite's connection: one trip to its thread for each statement."""

import asyncio
import gc
import sqlite3
import threading
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from vetro.storage.sqlite_driver import WholeStatementConnection


class Counted(WholeStatementConnection):
    """A connection that counts its trips."""

    trips = 0

    async def _execute(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        self.trips += 1
        return await super()._execute(fn, *args, **kwargs)


@pytest.fixture
async def connection(tmp_path: Path) -> AsyncIterator[Counted]:
    """An open connection with a table."""
    opened = await Counted(str(tmp_path / "test.db"), isolation_level=None)
    try:
        await opened.cursor().execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT UNIQUE)")
        opened.trips = 0
        yield opened
    finally:
        await opened.close()


async def test_a_query_is_one_trip(connection: Counted) -> None:
    """Making the cursor, executing, fetching and closing cost one trip together."""
    async with connection.cursor() as cursor:
        await cursor.execute("SELECT 1 AS one, 2 AS two")
        rows = await cursor.fetchall()
    assert rows == [(1, 2)]
    assert [column[0] for column in cursor.description] == ["one", "two"]
    assert connection.trips == 1


async def test_what_a_change_leaves_behind(connection: Counted) -> None:
    """A change has a count, the new row's number and no columns; RETURNING has rows."""
    cursor = await connection.cursor().execute("INSERT INTO t (b) VALUES (?)", ("x",))
    assert (cursor.rowcount, cursor.lastrowid, cursor.description) == (1, 1, None)
    await cursor.executemany("INSERT INTO t (b) VALUES (?)", [("y",), ("z",)])
    assert cursor.rowcount == 2
    await cursor.execute("UPDATE t SET b = b || '!' WHERE a > 1 RETURNING a")
    assert (sorted(await cursor.fetchall()), cursor.rowcount) == ([(2,), (3,)], 2)
    assert connection.trips == 3


async def test_a_failed_statement_leaves_the_connection_usable(connection: Counted) -> None:
    """The error is the driver's own, and the statement leaves no lock behind."""
    await connection.cursor().execute("INSERT INTO t (b) VALUES ('x')")
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        await connection.cursor().execute("INSERT INTO t (b) VALUES ('x')")
    await connection.cursor().execute("BEGIN IMMEDIATE")
    await connection.rollback()
    found = await connection.cursor().execute("SELECT count(*) FROM t")
    assert await found.fetchall() == [(1,)]


def test_a_statement_that_outlives_its_event_loop_ends_quietly(tmp_path: Path) -> None:
    """The thread of a connection whose loop was closed during a statement ends without an error."""
    begun, go_on = threading.Event(), threading.Event()

    def statement() -> None:
        begun.set()
        go_on.wait(60)

    async def begin() -> WholeStatementConnection:
        connection = await WholeStatementConnection(str(tmp_path / "db"))
        task = asyncio.create_task(connection._execute(statement))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        connection.stop()
        return connection

    with warnings.catch_warnings():
        # aiosqlite reports a connection that was stopped and not closed.
        warnings.simplefilter("ignore", ResourceWarning)
        connection = asyncio.run(begin())
        go_on.set()
        connection._thread.join(60)
        assert not connection._thread.is_alive()
        del connection
        gc.collect()
