"""Units of work that are cancelled wherever they wait, or lose their server, give their connection back."""

import asyncio
import contextlib
import gc
import warnings
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import psycopg
import psycopg.waiting
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.interrupting import interruptions

from vetro.storage import Database, DatabaseClosed, Transaction, postgres_use

SETTINGS = text(
    "SELECT current_setting('transaction_isolation'), current_setting('transaction_read_only')"
)
Unit = Callable[[Database], Coroutine[Any, Any, None]]
BROKEN = text("SELECT nothing FROM nowhere")


@pytest.fixture(params=[False, True], ids=["idle-loop", "busy-loop"])
def busy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the driver of PostgreSQL lets other tasks run after everything it does.

    It does when the loop had no turn for some milliseconds: on a loaded machine only.
    """
    monkeypatch.setattr(psycopg.waiting, "MAX_BUSY_TIME", -1.0 if request.param else 1e9)
    return request.param


@contextlib.contextmanager
def nothing_lost() -> Iterator[None]:
    """Connections that the garbage collector finds are warned of: by the pool, and by the driver."""
    gc.collect()
    gc.freeze()  # what is older is not theirs: to look through it at each place takes a second
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert [str(one.message) for one in found] == []


def open_connections(database_url: str) -> list[Any]:
    """Connections of this process to a database of PostgreSQL that are open."""
    name = database_url.rsplit("/", 1)[-1]
    return [
        one
        for one in gc.get_objects()
        if isinstance(one, psycopg.AsyncConnection) and not one.closed and one.info.dbname == name
    ]


async def reads(database: Database) -> None:
    """A reading unit."""
    async with database.read() as tx:
        await tx.execute(text("SELECT 1"))


async def writes(database: Database) -> None:
    """A writing unit that tells others."""
    async with database.transaction() as tx:
        await tx.execute(text("UPDATE t SET a = a + 1"))
        tx.notify("c", "changed")


async def reads_nothing(database: Database) -> None:
    """A reading unit without a statement."""
    async with database.read():
        pass


async def fails_to_read(database: Database) -> None:
    """A reading unit whose statement is wrong."""
    async with database.read() as tx:
        await tx.execute(BROKEN)


async def fails_to_write(database: Database) -> None:
    """A writing unit whose statement is wrong."""
    async with database.transaction() as tx:
        await tx.execute(text("UPDATE t SET a = 0"))
        await tx.execute(BROKEN)


async def changes_its_mind(database: Database) -> None:
    """A writing unit that is rolled back."""
    async with database.transaction() as tx:
        await tx.execute(text("UPDATE t SET a = 0"))
        raise LookupError


async def has(database: Database, tx: Transaction, isolation: str, read_only: str) -> None:
    """Check what a unit of work is allowed."""
    if not database.is_sqlite:
        assert tuple((await tx.execute(SETTINGS)).one()) == (isolation, read_only)


async def check_whole(database: Database) -> None:
    """Nobody holds a connection, and those that are kept are as new."""
    assert database._units.running == 0
    if isinstance(database._server, AsyncEngine):
        assert database._server.pool.checkedout() == 0  # type: ignore[attr-defined]
    async with database.transaction() as tx:
        await has(database, tx, "read committed", "off")
        await tx.execute(text("UPDATE t SET a = a + 1"))
    async with database.read() as tx:
        await has(database, tx, "repeatable read", "on")
        await tx.execute(text("SELECT a FROM t"))


async def opened(database: Database) -> None:
    """The next unit opens a connection."""
    if isinstance(database._server, AsyncEngine):
        await database._server.dispose()


async def used(database: Database) -> None:
    """The next unit takes a connection that was used just now."""
    await reads(database)


@pytest.fixture
async def table(database: Database) -> Database:
    """A database with a row."""
    async with database.transaction() as tx:
        await tx.execute(text("CREATE TABLE t (a INTEGER)"))
        await tx.execute(text("INSERT INTO t VALUES (1)"))
    return database


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("again", [False, True], ids=["once", "again"])
@pytest.mark.parametrize("before", [opened, used], ids=["opened", "used"])
@pytest.mark.parametrize(
    "unit", [reads, reads_nothing, writes, fails_to_read, fails_to_write, changes_its_mind]
)
async def test_a_unit_that_is_cancelled_gives_its_connection_back(
    table: Database,
    busy: bool,
    unit: Unit,
    before: Unit,
    again: bool,
) -> None:
    """Wherever a unit is cancelled, once or again and again, its connection is not lost, nor changed."""

    await before(table)
    with nothing_lost():
        cancelled: list[bool] = []
        async for ended in interruptions(lambda: unit(table), again=again):
            cancelled.append(ended.cancelled())
            await check_whole(table)
            gc.collect()
            await before(table)
    assert not cancelled[-1]


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("unit", [reads, writes])
async def test_a_unit_that_is_cancelled_while_its_connection_is_checked_gives_it_back(
    table: Database,
    busy: bool,
    monkeypatch: pytest.MonkeyPatch,
    unit: Unit,
) -> None:
    """The server is asked whether it still knows a connection that was not used for a while."""
    monkeypatch.setattr(postgres_use, "TRUSTED_SECONDS", -1.0)
    await used(table)
    with nothing_lost():
        async for _ in interruptions(lambda: unit(table)):
            await check_whole(table)
            gc.collect()


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
@pytest.mark.parametrize("kind", [Database.read, Database.transaction])
@pytest.mark.parametrize("statements", [0, 1, 2])
async def test_a_unit_whose_server_ends_gives_its_connection_back(
    table: Database, database_url: str, kind: Any, statements: int
) -> None:
    """A connection that the server ends within a unit is replaced, and nothing of it stays."""
    with nothing_lost():
        for _ in range(3):
            with contextlib.suppress(ConnectionError):
                async with kind(table) as tx:
                    for _ in range(statements):
                        await tx.execute(text("SELECT 1"))
                    with psycopg.connect(database_url, autocommit=True) as admin:
                        admin.execute(
                            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                            " AND application_name = 'vetro'"
                        )
                    if statements:
                        await tx.execute(text("SELECT 1"))
            await check_whole(table)


async def test_opening_that_is_cancelled_leaves_nothing_open(database_url: str, busy: bool) -> None:
    """Wherever opening is cancelled, the connections that were made are closed."""
    with nothing_lost():
        async for ended in interruptions(lambda: Database.open(database_url)):
            if not ended.cancelled():
                await ended.result().close()
            gc.collect()
            assert open_connections(database_url) == []
        assert not ended.cancelled()


@pytest.mark.parametrize("again", [False, True], ids=["once", "again"])
async def test_closing_that_is_cancelled_leaves_nothing_open(
    database_url: str, busy: bool, again: bool
) -> None:
    """Wherever closing is cancelled, every connection is closed when it ends."""

    async def in_use() -> Database:
        database = await Database.open(database_url)
        await reads(database)
        await database.notify("c")
        return database

    with nothing_lost():
        databases = [await in_use()]
        cancelled: list[bool] = []
        async for ended in interruptions(lambda: databases[-1].close(), again=again):
            gc.collect()
            assert open_connections(database_url) == []
            cancelled.append(ended.cancelled())
            databases.append(await in_use())
        assert not cancelled[-1]
        await databases[-1].close()


@pytest.mark.parametrize("kind", [Database.read, Database.transaction])
async def test_closing_that_is_cancelled_leaves_units_their_connections(
    database: Database, kind: Any
) -> None:
    """Whoever gives up waiting for units to end takes nothing from them, and can close it again."""
    async with kind(database) as tx:
        closing = asyncio.create_task(database.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait({closing})
        assert closing.cancelled()
        await tx.execute(text("SELECT 1"))
    await database.close()
    with pytest.raises(DatabaseClosed):
        await reads(database)
