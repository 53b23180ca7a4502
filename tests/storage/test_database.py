"""Units of work: whole, isolated, explained when they fail."""

import asyncio
import errno
import gc
import socket
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import insert, select, text

from vetro.storage import (
    Database,
    DatabaseBusy,
    DatabaseClosed,
    DatabaseFull,
    DatabaseUnavailable,
    StorageError,
    urls,
)
from vetro.storage.tables import fences


async def values(database: Database) -> list[int]:
    """All stored fence values."""
    async with database.read() as tx:
        return [row.value for row in await tx.execute(select(fences).order_by(fences.c.queue))]


async def test_a_unit_of_work_is_kept_whole_or_not_at_all(database: Database) -> None:
    """An exception inside a transaction undoes everything it wrote."""
    async with database.transaction() as tx:
        await tx.execute(insert(fences).values(queue="a", value=1))
    with pytest.raises(RuntimeError):
        async with database.transaction() as tx:
            await tx.execute(insert(fences).values(queue="b", value=2))
            raise RuntimeError
    assert await values(database) == [1]


async def test_concurrent_writers_lose_no_update(database: Database) -> None:
    """Many concurrent read-modify-write units count exactly."""
    async with database.transaction() as tx:
        await tx.execute(insert(fences).values(queue="n", value=0))

    async def increment() -> None:
        async with database.transaction() as tx:
            row = (await tx.execute(select(fences).with_for_update())).one()
            await asyncio.sleep(0)
            await tx.execute(fences.update().values(value=row.value + 1))

    await asyncio.gather(*(increment() for _ in range(25)))
    assert await values(database) == [25]


async def test_a_reading_unit_cannot_notify(database: Database) -> None:
    """Only a writing unit may send notifications."""
    async with database.read() as tx:
        with pytest.raises(StorageError, match="cannot notify"):
            tx.notify("c")


@pytest.mark.parametrize(
    ("url", "message"),
    [("mysql://x", "no storage for 'mysql'"), ("sqlite:////nowhere/at/all.db", "does not exist")],
)
async def test_a_wrong_url_is_explained(url: str, message: str) -> None:
    """The error names an unknown scheme or an absent directory."""
    with pytest.raises(StorageError, match=message):
        await Database.open(url)


async def test_times_keep_their_microseconds(database: Database) -> None:
    """A stored time comes back exactly, aware and in UTC; a naive one is refused."""
    from vetro.storage.tables import leased_work

    moment = datetime(2031, 2, 3, 4, 5, 6, 789123, tzinfo=UTC)
    row = {
        "queue": "q",
        "key": "k",
        "payload": {"b": [1, None]},
        "available_at": moment,
        "fence": 0,
        "attempt": 0,
    }
    async with database.transaction() as tx:
        await tx.execute(insert(leased_work).values(**row))
    async with database.read() as tx:
        stored = (await tx.execute(select(leased_work))).one()
    assert stored.available_at == moment
    assert stored.payload == {"b": [1, None]}
    from sqlalchemy.exc import StatementError

    with pytest.raises(StatementError, match="no time zone"):
        async with database.transaction() as tx:
            naive = {**row, "key": "z", "available_at": datetime(2031, 1, 1)}
            await tx.execute(insert(leased_work).values(**naive))


async def test_a_reading_unit_cannot_write(database: Database) -> None:
    """A write by mistake is refused instead of silently undone."""
    with pytest.raises(StorageError, match="cannot write"):
        async with database.read() as tx:
            await tx.execute(insert(fences).values(queue="a", value=1))
    async with database.transaction() as tx:
        await tx.execute(insert(fences).values(queue="a", value=2))
    assert await values(database) == [2]


async def test_a_reading_unit_sees_one_moment(database: Database) -> None:
    """Rows committed after the unit's first read are not visible in it."""
    async with database.read() as reader:
        assert (await reader.execute(select(fences))).all() == []
        async with database.transaction() as tx:
            await tx.execute(insert(fences).values(queue="a", value=1))
        assert (await reader.execute(select(fences))).all() == []
    assert await values(database) == [1]


async def test_a_transaction_within_a_transaction_is_refused(database: Database) -> None:
    """One task cannot wait for itself; another task may write afterwards."""
    async with database.transaction() as tx:
        await tx.execute(insert(fences).values(queue="a", value=1))
        with pytest.raises(StorageError, match="pass on its tx"):
            async with database.transaction():
                pass
    assert await values(database) == [1]


async def test_a_full_disk_undoes_the_unit_and_is_said(tmp_path: Path) -> None:
    """SQLITE_FULL becomes an error with ENOSPC, and the database is usable afterwards."""
    database = await Database.open(f"sqlite:///{tmp_path}/x.db")
    async with database.transaction() as tx:
        await tx.execute(text("CREATE TABLE t (a TEXT)"))
        await tx.execute(text("PRAGMA max_page_count = 8"))
    with pytest.raises(DatabaseFull, match="disk is full") as caught:
        async with database.transaction() as tx:
            await tx.execute(text("INSERT INTO t VALUES (:a)"), {"a": "x" * 100_000})
    assert isinstance(caught.value, OSError)
    assert caught.value.errno == errno.ENOSPC
    async with database.transaction() as tx:
        await tx.execute(text("INSERT INTO t VALUES ('small')"))
    async with database.read() as tx:
        assert (await tx.execute(text("SELECT a FROM t"))).scalar_one() == "small"
    await database.close()


async def test_another_process_that_does_not_let_go_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the busy time-out the unit fails with the reason."""
    monkeypatch.setattr("vetro.storage.sqlite_driver.BUSY_TIMEOUT_MS", 1)
    database = await Database.open(f"sqlite:///{tmp_path}/x.db")
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseBusy, match="another process"):
        async with database.transaction():
            pass
    other.execute("ROLLBACK")
    other.close()
    async with database.transaction():
        pass
    await database.close()


async def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    """Opening names the file and what is wrong with it."""
    (tmp_path / "x.db").write_text("this is a text, and a rather long one for a header" * 100)
    with pytest.raises(DatabaseUnavailable, match=r"x\.db is not a database"):
        await Database.open(f"sqlite:///{tmp_path}/x.db")


async def test_an_unreachable_server_is_said_without_the_password() -> None:
    """The message has the address and the reason, not the secret."""
    with pytest.raises(DatabaseUnavailable) as caught:
        await Database.open("postgresql://vetro:s3cret@127.0.0.1:1/x")
    assert "127.0.0.1:1" in str(caught.value)
    assert "s3cret" not in str(caught.value)


async def test_a_server_that_is_silent_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes connections and never answers; opening ends with the address and no password."""
    monkeypatch.setattr(urls, "CONNECT_SECONDS", 2)  # the least that the driver takes
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(DatabaseUnavailable) as caught:
            await Database.open(f"postgresql://vetro:s3cret@{where}/x")
    assert where in str(caught.value)
    assert "timeout expired" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_an_address_may_say_how_long_its_server_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the URL or the environment says goes before the patience of 15 seconds."""
    monkeypatch.delenv("PGCONNECT_TIMEOUT", raising=False)
    assert urls.patience("postgresql://h/x") == {"connect_timeout": 15}
    assert urls.patience("postgresql://h/x?connect_timeout=60") == {}
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "60")
    assert urls.patience("postgresql://h/x") == {}


async def test_readers_do_not_wait_for_writers(database: Database) -> None:
    """While a unit writes, others read the previous values."""
    async with database.transaction() as tx:
        await tx.execute(insert(fences).values(queue="a", value=1))
        assert await asyncio.wait_for(values(database), 240) == []
    assert await values(database) == [1]


async def test_a_closing_database_waits_for_what_is_under_way(database: Database) -> None:
    """Running units of work are completed; later ones get the error that the database is closed."""
    inside = asyncio.Event()
    go_on = asyncio.Event()

    async def work() -> None:
        async with database.transaction() as tx:
            inside.set()
            await go_on.wait()
            await tx.execute(insert(fences).values(queue="a", value=1))

    working = asyncio.create_task(work())
    await inside.wait()
    closing = asyncio.create_task(database.close())
    await asyncio.sleep(0)
    assert not closing.done()
    with pytest.raises(DatabaseClosed, match="is closed"):
        await values(database)
    with pytest.raises(DatabaseClosed, match="is closed"):
        async with database.transaction():
            pass
    go_on.set()
    await asyncio.gather(working, closing)
    await database.close()  # again: the same


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8, 13, 21])
async def test_a_cancelled_unit_leaves_no_connection_open(
    database_url: str, writes: bool, steps: int
) -> None:
    """Wherever a unit of work is interrupted, its connection is closed with the database."""
    opened = await Database.open(database_url)

    async def work() -> None:
        async with opened.transaction() if writes else opened.read() as tx:
            await tx.execute(text("SELECT 1"))

    working = [asyncio.create_task(work()) for _ in range(5)]
    for _ in range(steps):
        await asyncio.sleep(0)
    for one in working:
        one.cancel()
    await opened.close()
    await asyncio.gather(*working, return_exceptions=True)
    gc.collect()
    left = [
        one
        for one in gc.get_objects()
        if isinstance(one, psycopg.AsyncConnection)
        and not one.closed
        and one.info.dbname == database_url.rsplit("/", 1)[-1]
    ]
    assert left == []


async def test_reading_units_lock_no_rows(database: Database) -> None:
    """Locking rows needs a writing unit on every database, also in a part of a statement."""
    query = select(fences).with_for_update()
    for statement in (query, select(query.subquery())):
        with pytest.raises(StorageError, match="cannot write or lock rows"):
            async with database.read() as tx:
                await tx.execute(statement)
    async with database.transaction() as tx:
        assert (await tx.execute(query)).all() == []
