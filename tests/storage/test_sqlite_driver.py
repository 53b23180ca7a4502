"""SQLite's connections: what runs on the loop, what beside it, and checkpoints."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import delete, insert, select, text
from tests.waiting import eventually

from vetro.storage import Database, DatabaseBusy, sqlite_driver
from vetro.storage.sqlite_driver import LARGE_VALUES, LoopConnection, LoopCursor
from vetro.storage.tables import fences


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """A database with one table."""
    opened = await Database.open(f"sqlite:///{tmp_path}/test.db")
    async with opened.transaction() as tx:
        await tx.connection.run_sync(fences.create)
    yield opened
    await opened.close()


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each statement whether it ran on the loop's thread."""
    seen: list[bool] = []
    run = LoopCursor.run

    def noted(self: LoopCursor, *given: object, **options: object) -> None:
        seen.append(threading.current_thread() is threading.main_thread())
        run(self, *given, **options)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(LoopCursor, "run", noted)
    return seen


async def test_short_statements_run_on_the_loop(database: Database, threads: list[bool]) -> None:
    """Rows that are read and single rows that are written need no thread."""
    async with database.transaction() as tx:
        await tx.execute(insert(fences).values(queue="a", value=1))
        await tx.execute(select(fences))
    async with database.read() as tx:
        assert (await tx.execute(select(fences.c.value))).scalars().all() == [1]
    assert threads == [True, True, True]


async def test_long_statements_run_beside_the_loop(database: Database, threads: list[bool]) -> None:
    """Deletions, many rows and large values go to a thread; a deletion that is known to be short not."""
    async with database.transaction() as tx:
        await tx.execute(insert(fences), [{"queue": str(n), "value": n} for n in range(3)])
        await tx.execute(insert(fences).values(queue="x" * LARGE_VALUES, value=1))
        await tx.execute(delete(fences).where(fences.c.queue == "1"))
        await tx.execute(delete(fences).where(fences.c.queue == "2").execution_options(short=True))
    assert threads == [False, False, False, True]


async def test_a_cancelled_long_statement_leaves_a_usable_writer(database: Database) -> None:
    """The unit has no effect, and the next one writes."""
    began = asyncio.Event()

    async def work() -> None:
        async with database.transaction() as tx:
            await tx.execute(insert(fences).values(queue="a", value=1))
            began.set()
            await tx.execute(delete(fences).where(fences.c.queue == "b"))
            await asyncio.Event().wait()

    for steps in range(6):
        began.clear()
        working = asyncio.create_task(work())
        await began.wait()
        for _ in range(steps):
            await asyncio.sleep(0)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
    async with database.transaction() as tx:
        await tx.execute(insert(fences).values(queue="c", value=1))
    async with database.read() as tx:
        assert (await tx.execute(select(fences.c.queue))).scalars().all() == ["c"]


async def test_a_result_may_be_read_after_its_unit(database: Database) -> None:
    """Rows are read with their statement, a few at a time or all."""
    async with database.transaction() as tx:
        await tx.execute(insert(fences), [{"queue": str(n), "value": n} for n in range(5)])
    async with database.read() as tx:
        found = await tx.execute(select(fences.c.value).order_by(fences.c.value))
    assert found.fetchone() == (0,)
    assert found.fetchmany(2) == [(1,), (2,)]
    assert found.all() == [(3,), (4,)]


async def test_a_failed_statement_leaves_the_connection_usable(database: Database) -> None:
    """What a unit wrote before a failed statement is undone, and the next unit begins."""
    with pytest.raises(sqlite3.Error):
        async with database.transaction() as tx:
            await tx.execute(insert(fences).values(queue="a", value=1))
            tx.connection.driver.run("INSERT INTO nowhere VALUES (1)")  # pyright: ignore
    async with database.read() as tx:
        assert (await tx.execute(select(fences))).all() == []


async def test_the_revision_changes_with_every_commit(database: Database, tmp_path: Path) -> None:
    """Commits of this process and of others change it; reading and undone units do not."""
    revisions = [database.revision()]
    async with database.read() as tx:
        await tx.execute(select(fences))
    with pytest.raises(LookupError):
        async with database.transaction() as tx:
            await tx.execute(insert(fences).values(queue="a", value=1))
            raise LookupError
    assert database.revision() == revisions[0]
    async with database.transaction() as tx:
        await tx.execute(insert(fences).values(queue="a", value=1))
    revisions.append(database.revision())
    other = sqlite3.connect(tmp_path / "test.db", isolation_level=None)
    other.execute("DELETE FROM storage_fences")
    other.close()
    revisions.append(database.revision())
    assert len(set(revisions)) == 3


async def test_the_journal_is_copied_into_the_database(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After enough pages the journal is copied beside the units of work, so that it does not grow without
    end."""
    monkeypatch.setattr(sqlite_driver, "CHECKPOINT_PAGES", 20)
    file = tmp_path / "test.db"
    before = file.stat().st_size
    for number in range(40):
        async with database.transaction() as tx:
            await tx.execute(insert(fences).values(queue=f"{number}" + "x" * 20_000, value=1))
    await eventually(lambda: file.stat().st_size > before)


async def test_the_journal_begins_anew_while_units_follow_each_other(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is committed while the journal is copied does not let it grow for ever: the commit after that
    copies the rest, and the next one writes at the beginning of the journal."""
    monkeypatch.setattr(sqlite_driver, "CHECKPOINT_PAGES", 20)
    copy = sqlite_driver.SqliteFile._copy_journal  # pyright: ignore[reportPrivateUsage]

    def copy_with_a_commit(file: sqlite_driver.SqliteFile) -> None:
        with (
            closing(sqlite3.connect(file.path, isolation_level=None)) as other,
            closing(sqlite3.connect(file.path, isolation_level=None)) as reader,
        ):
            # A copy ends where somebody reads: as if the commit that follows came during the copy.
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM storage_fences").fetchall()
            other.execute("INSERT INTO storage_fences (queue, value) VALUES (random(), 1)")
            copy(file)

    monkeypatch.setattr(sqlite_driver.SqliteFile, "_copy_journal", copy_with_a_commit)
    journal = tmp_path / "test.db-wal"

    def beginnings() -> int:
        """How often the journal began anew, by its header."""
        return int.from_bytes(journal.read_bytes()[12:16], "big")

    number, first = 0, beginnings()
    async with asyncio.timeout(60):
        while beginnings() < first + 3:
            number += 1
            async with database.transaction() as tx:
                await tx.execute(insert(fences).values(queue=f"{number}" + "x" * 20_000, value=1))
    async with database.read() as tx:
        names = (await tx.execute(select(fences.c.queue))).scalars().all()
    assert str(number) in {name.rstrip("x") for name in names}


async def test_writers_wait_for_the_lock_of_another_process(
    database: Database, tmp_path: Path
) -> None:
    """The loop runs on meanwhile; a cancelled one does not get the lock later."""
    other = sqlite3.connect(tmp_path / "test.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")

    async def write(name: str) -> None:
        async with database.transaction() as tx:
            await tx.execute(insert(fences).values(queue=name, value=1))

    first = asyncio.create_task(write("first"))
    await asyncio.sleep(0)
    first.cancel()
    second = asyncio.create_task(write("second"))
    async with database.read() as tx:
        assert (await tx.execute(select(fences))).all() == []
    await asyncio.to_thread(other.execute, "COMMIT")
    other.close()
    with pytest.raises(asyncio.CancelledError):
        await first
    await second
    async with database.read() as tx:
        assert (await tx.execute(select(fences.c.queue))).scalars().all() == ["second"]


async def test_too_many_readers_wait(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the number of readers a unit waits, and fails when none ends."""
    monkeypatch.setattr(sqlite_driver, "PATIENCE_SECONDS", 0.01)
    async with asyncio.TaskGroup() as group:
        leave, inside = asyncio.Event(), 0

        async def read() -> None:
            nonlocal inside
            async with database.read() as tx:
                await tx.execute(text("SELECT 1"))
                inside += 1
                await leave.wait()

        for _ in range(sqlite_driver.READERS):
            group.create_task(read())
        await eventually(lambda: inside == sqlite_driver.READERS)
        with pytest.raises(DatabaseBusy, match="too many"):
            await read()
        leave.set()
    async with database.read() as tx:
        await tx.execute(text("SELECT 1"))


def test_the_drivers_connection_reads_all_rows(tmp_path: Path) -> None:
    """Its cursors are done when a statement has run."""
    connection = sqlite3.connect(tmp_path / "a.db", isolation_level=None, factory=LoopConnection)
    cursor = connection.cursor()
    cursor.execute("SELECT 1 UNION SELECT 2")
    connection.close()
    assert cursor.fetchall() == [(1,), (2,)]
    assert cursor.fetchone() is None
