"""Units of work and notifications."""

import asyncio
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import insert, select, text

from vetro.storage import Database, StorageError, migrate
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
    """Many read-modify-write units side by side count exactly."""
    async with database.transaction() as tx:
        await tx.execute(insert(fences).values(queue="n", value=0))

    async def increment() -> None:
        async with database.transaction() as tx:
            row = (await tx.execute(select(fences).with_for_update())).one()
            await asyncio.sleep(0)
            await tx.execute(fences.update().values(value=row.value + 1))

    await asyncio.gather(*(increment() for _ in range(25)))
    assert await values(database) == [25]


async def test_a_notification_comes_after_the_commit(database: Database) -> None:
    """A listener that wakes sees what was written; a rolled back unit wakes nobody."""
    async with database.listen("c") as subscription:
        with pytest.raises(RuntimeError):
            async with database.transaction() as tx:
                tx.notify("c", "lost")
                raise RuntimeError
        async with database.transaction() as tx:
            await tx.execute(insert(fences).values(queue="a", value=7))
            tx.notify("c", "kept")
        assert await subscription.wait(10) == "kept"
        assert await values(database) == [7]


async def test_a_notification_reaches_another_connection(
    database: Database, database_url: str
) -> None:
    """Another opened database (as another process has) is woken as well."""
    other = await Database.open(database_url)
    try:
        async with other.listen("c") as subscription:
            async with database.transaction() as tx:
                tx.notify("c", "payload")
            assert await subscription.wait(10) == "payload"
    finally:
        await other.close()


async def test_a_notification_crosses_processes(database: Database, database_url: str) -> None:
    """A writer in another process wakes a listener here."""
    script = (
        "import asyncio\nfrom vetro.storage import Database\n"
        "async def main():\n"
        f"    db = await Database.open({database_url!r})\n"
        "    await db.notify('c', 'from afar')\n"
        "    await db.close()\n"
        "asyncio.run(main())\n"
    )
    async with database.listen("c") as subscription:
        await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", script], check=True, capture_output=True
        )
        assert await subscription.wait(10) == "from afar"


async def test_waiting_ends_after_its_time(database: Database) -> None:
    """Without a notification the wait returns nothing."""
    async with database.listen("c") as subscription:
        assert await subscription.wait(0.01) is None


async def test_sockets_of_dead_processes_are_removed(tmp_path: Path) -> None:
    """A socket file that nobody reads any more does not stay."""
    database = await Database.open(f"sqlite:///{tmp_path}/x.db")
    stale = tmp_path / "notify" / "1-dead"
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as gone:
        gone.bind(str(stale))
    await database.notify("c", "x")
    assert not stale.exists()
    await database.close()
    assert list((tmp_path / "notify").iterdir()) == []


async def test_a_reading_unit_cannot_notify(database: Database) -> None:
    """Only what writes can have news."""
    async with database.read() as tx:
        with pytest.raises(StorageError, match="nothing to notify"):
            tx.notify("c")


@pytest.mark.parametrize(
    ("url", "message"),
    [("mysql://x", "no storage for 'mysql'"), ("sqlite:////nowhere/at/all.db", "does not exist")],
)
async def test_a_wrong_url_is_explained(url: str, message: str) -> None:
    """Unknown schemes and absent directories are named."""
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


async def test_a_database_from_a_newer_version_is_refused(database: Database) -> None:
    """An unknown revision says which room and what to do."""
    from vetro.storage import DatabaseTooNew

    async with database.transaction() as tx:
        await tx.execute(text("UPDATE vetro_migrations SET version_num = 'storage_9999'"))
    with pytest.raises(DatabaseTooNew, match="newer version: revision storage_9999"):
        await migrate(database, [])


async def test_migrating_twice_does_nothing(database: Database) -> None:
    """An up-to-date database is recognised."""
    assert await migrate(database, []) is False
