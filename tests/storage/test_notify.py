"""Notifications: after the commit, to every process, and none lost for want of room."""

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import insert, select, text
from tests.waiting import PATIENCE_SECONDS

from vetro.storage import Database
from vetro.storage.tables import fences


async def values(database: Database) -> list[int]:
    """All stored fence values."""
    async with database.read() as tx:
        return [row.value for row in await tx.execute(select(fences).order_by(fences.c.queue))]


async def test_a_notification_comes_after_the_commit(database: Database) -> None:
    """A woken listener sees the written rows; a rolled back unit wakes no listener."""
    async with database.listen("c") as subscription:
        with pytest.raises(RuntimeError):
            async with database.transaction() as tx:
                tx.notify("c", "lost")
                raise RuntimeError
        async with database.transaction() as tx:
            await tx.execute(insert(fences).values(queue="a", value=7))
            tx.notify("c", "kept")
        assert await subscription.wait(PATIENCE_SECONDS) == "kept"
        assert await values(database) == [7]


async def test_a_notification_reaches_another_connection(
    database: Database, database_url: str
) -> None:
    """A second open database, as in another process, is notified as well."""
    other = await Database.open(database_url)
    try:
        async with other.listen("c") as subscription:
            async with database.transaction() as tx:
                tx.notify("c", "payload")
            assert await subscription.wait(PATIENCE_SECONDS) == "payload"
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
        assert await subscription.wait(PATIENCE_SECONDS) == "from afar"


async def test_waiting_ends_after_its_time(database: Database) -> None:
    """Without a notification the wait returns nothing."""
    async with database.listen("c") as subscription:
        assert await subscription.wait(0.01) is None


async def test_sockets_of_dead_processes_are_removed(tmp_path: Path) -> None:
    """A socket file without a reader is removed."""
    database = await Database.open(f"sqlite:///{tmp_path}/x.db")
    stale = tmp_path / "notify" / "1-dead"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as gone:
        gone.bind(str(stale))
    await database.notify("c", "x")
    assert not stale.exists()
    await database.close()
    assert list((tmp_path / "notify").iterdir()) == []


async def test_no_channel_is_forgotten_when_a_queue_is_full(tmp_path: Path) -> None:
    """A slow receiver is woken for every channel, however many datagrams were sent."""
    url = f"sqlite:///{tmp_path}/x.db"
    sender, receiver = await Database.open(url), await Database.open(url)
    try:
        async with receiver.listen("flood"), receiver.listen("rare") as rare:
            # The receiver shares this loop: it reads nothing before this task pauses.
            for number in range(2000):
                sender._deliver([("flood", str(number))])
            sender._deliver([("rare", "once")])
            assert await rare.wait(PATIENCE_SECONDS) is not None
            assert list((tmp_path / "notify").glob("*.overflow")) == []
            # And it is not stuck: the next one arrives as itself.
            rare.drain()
            await sender.notify("rare", "again")
            assert await rare.wait(PATIENCE_SECONDS) == "again"
    finally:
        await sender.close()
        await receiver.close()
    assert list((tmp_path / "notify").iterdir()) == []


async def test_a_commit_stands_when_nobody_can_be_told(tmp_path: Path) -> None:
    """An error of the socket directory does not make a committed unit look failed."""
    database = await Database.open(f"sqlite:///{tmp_path}/x.db")
    (tmp_path / "notify").rename(tmp_path / "elsewhere")
    async with database.transaction() as tx:
        await tx.execute(text("CREATE TABLE t (a INTEGER)"))
        tx.notify("c")
    async with database.read() as tx:
        assert (await tx.execute(text("SELECT count(*) FROM t"))).scalar_one() == 0
    (tmp_path / "elsewhere").rename(tmp_path / "notify")
    await database.close()


async def test_a_payload_that_is_too_long_is_left_out(
    database: Database, database_url: str
) -> None:
    """The listener of another connection is woken without the payload."""
    other = await Database.open(database_url)
    try:
        async with other.listen("c") as subscription:
            await database.notify("c", "é" * 5000)
            assert await subscription.wait(PATIENCE_SECONDS) == ""
    finally:
        await other.close()


async def test_a_cancelled_unit_tells_exactly_what_it_committed(
    database: Database, database_url: str
) -> None:
    """Whenever a task is cancelled, its rows and notifications agree, and other units work."""
    async with database.transaction() as tx:
        await tx.execute(text("CREATE TABLE t (a INTEGER)"))

    async def write(number: int) -> None:
        async with database.transaction() as tx:
            await tx.execute(text("INSERT INTO t VALUES (:a)"), {"a": number})
            tx.notify("c", str(number))

    async with database.listen("c") as subscription:
        for number in range(150):
            work = asyncio.create_task(write(number))
            for _ in range(number % 75):
                await asyncio.sleep(0)
            work.cancel()
            await asyncio.wait({work})
        await asyncio.wait_for(write(-1), 240)
        told: list[int] = []
        while not told or told[-1] != -1:
            told.append(int(await subscription.wait(PATIENCE_SECONDS) or "0"))
        async with database.read() as tx:
            kept = [row.a for row in await tx.execute(text("SELECT a FROM t"))]
        assert sorted(told) == sorted(kept)


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_a_broken_listener_comes_back(database: Database, database_url: str) -> None:
    """When the listening connection is lost, all listeners are woken once and listen again."""
    async with database.listen("c") as subscription:
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as admin:
            await admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'vetro-listener' AND datname = current_database()"
            )
        assert await subscription.wait(PATIENCE_SECONDS) == ""
        await database.notify("c", "after")
        assert await subscription.wait(PATIENCE_SECONDS) == "after"


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_notifications_of_strangers_are_left_out(
    database: Database, database_url: str
) -> None:
    """Foreign messages on the same channel do not stop the listener."""
    async with database.listen("c") as subscription:
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
            await other.execute("SELECT pg_notify('vetro', 'not json')")
        await database.notify("c", "ours")
        assert await subscription.wait(PATIENCE_SECONDS) == "ours"
