"""SQLite under asyncio: short statements run on the event loop, long ones beside it.

Between the beginning of a unit and its commit nothing waits: a reader never waits for the writer (WAL),
the writer has its lock, and pages are in memory or in the kernel's cache. A short statement takes some
tens of microseconds there; handing it to a thread and back takes a tenth of a millisecond of processor
time and two waits for the scheduler. What can take long goes to a thread: waiting for the lock of another
process, deletions (which cascade), many rows, large values, schema changes, and copying the journal into the
database (checkpoints), which waits for the disk.

Nothing is suspended in a unit whose statements are short, so no cancellation comes between them.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

import structlog
from sqlalchemy import Connection, Engine, Executable, create_engine
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import NullPool
from sqlalchemy.util.concurrency import await_only, greenlet_spawn, in_greenlet

from vetro.storage.errors import CANNOT_WRITE, DatabaseReadOnly, StorageError
from vetro.storage.kept_files import COPY, KeptFiles, refuse_overwritten

T = TypeVar("T")
log = structlog.get_logger(__name__)

BUSY_TIMEOUT_MS = 30_000
"""How long to wait for the lock of another process."""
SHORT = ("SELECT ", "INSERT ", "UPDATE ", "PRAGMA ")
"""Beginnings of statements that run on the loop, unless they carry large values."""
LARGE_VALUES = 256 * 1024
"""Characters and bytes of a statement's values from which on it runs in a thread."""
LARGE_COMMIT_PAGES = 1000
"""About how many pages of one unit from which on its commit runs in a thread."""
CHECKPOINT_PAGES = 8000
"""About how many pages are written between two checkpoints: the journal has some 30 MiB then.

Each waits for the disk several times: at 2,000 pages 16 callers were 5 to 15 % slower.
"""
READERS = 16
"""Reading units at a time; more wait."""
IDLE_READERS = 4
"""Connections kept for the next readers: each may hold a cache of pages of its own."""
CACHE_KIB = 1024
"""Pages that a reading connection may cache; the kernel caches the file as well."""
PATIENCE_SECONDS = 30.0


class ReadingCompiler(SQLiteCompiler):
    """Statements of reading units: locking rows is refused, as PostgreSQL refuses it.

    SQLite has no such locks, so its ordinary compiler leaves ``FOR UPDATE`` out without a word.
    """

    def for_update_clause(self, select: object, **_options: object) -> NoReturn:
        """Refuse. Errors: ``StorageError``."""
        raise StorageError(CANNOT_WRITE)


async def carried_through(work: Coroutine[object, object, T]) -> T:
    """The result of ``work``, which runs to its end even when the caller is cancelled meanwhile.

    A commit with an unknown outcome is worse than a cancellation that comes a millisecond late. The
    cancellation is passed on afterwards.
    """
    task = asyncio.ensure_future(work)
    interrupted: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            interrupted = error
    result = task.result()
    if interrupted is not None:
        raise interrupted
    return result


class LoopConnection(sqlite3.Connection):
    """The driver's connection, with cursors that read all rows at once."""

    #: Pages that were written since the last checkpoint, roughly.
    written = 0

    def cursor(self, *_given: object) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A cursor as SQLAlchemy needs it."""
        return LoopCursor(self)

    def run(self, sql: str) -> list[Any]:
        """Run a statement where it is called; its rows."""
        return super().cursor().execute(sql).fetchall()

    def raw_cursor(self) -> sqlite3.Cursor:
        """The driver's own cursor."""
        return super().cursor()


class LoopCursor:
    """The part of a cursor that SQLAlchemy uses. A statement is done when ``execute`` returns."""

    arraysize = 1
    #: Whether its author says that the statement is short, whatever it looks like.
    short = False

    def __init__(self, connection: LoopConnection) -> None:
        self._connection = connection
        self._rows: Sequence[Any] = ()
        self._next = 0
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Run a statement and read all its rows; in a thread if it may take long."""
        connection = self._connection
        size = sum([len(one) for one in parameters if isinstance(one, (str, bytes))])
        if sql[:7].upper() != "SELECT ":
            connection.written += 4 + size // 4096
        if (size < LARGE_VALUES and (self.short or sql[:7].upper() in SHORT)) or not in_greenlet():
            self.run(sql, parameters, many=False)
        else:
            await_only(carried_through(asyncio.to_thread(self.run, sql, parameters, many=False)))

    def executemany(self, sql: str, parameters: Sequence[object]) -> None:
        """Run a statement for each set of parameters."""
        self._connection.written += 4 * len(parameters)
        if in_greenlet():
            await_only(carried_through(asyncio.to_thread(self.run, sql, parameters, many=True)))
        else:
            self.run(sql, parameters, many=True)

    def run(self, sql: str, parameters: Any, *, many: bool) -> None:
        """Run a statement where this is called."""
        cursor = self._connection.raw_cursor()
        try:
            if many:
                cursor.executemany(sql, parameters)
            else:
                cursor.execute(sql, parameters)
            self._next = 0
            self.description = cursor.description
            self._rows = [] if cursor.description is None else cursor.fetchall()
            self.rowcount, self.lastrowid = cursor.rowcount, cursor.lastrowid
        finally:
            cursor.close()

    def fetchall(self) -> Sequence[object]:
        """The rows that are left."""
        rows = self._rows[self._next :] if self._next else self._rows
        self._next = len(self._rows)
        return rows

    def fetchmany(self, size: int | None = None) -> Sequence[object]:
        """The next rows."""
        start, self._next = self._next, min(len(self._rows), self._next + (size or self.arraysize))
        return self._rows[start : self._next]

    def fetchone(self) -> object:
        """The next row; ``None`` after the last one."""
        if self._next >= len(self._rows):
            return None
        self._next += 1
        return self._rows[self._next - 1]

    def setinputsizes(self, *_given: object) -> None:
        """Do nothing: SQLite needs no sizes."""

    def close(self) -> None:
        """Do nothing: the driver's cursor was closed with its statement."""


def _execute(cursor: LoopCursor, sql: str, parameters: Any, context: Any = None) -> None:
    """The dialect's way to run a statement: ``execution_options(short=True)`` keeps it on the loop."""
    cursor.short = context is not None and context.execution_options.get("short", False)
    cursor.execute(sql, parameters)


class SqliteConnection:
    """A connection for units of work, with what they use of SQLAlchemy's asynchronous one."""

    def __init__(self, engine: Engine) -> None:
        self.sync = engine.connect()
        self.dialect = engine.dialect
        self.driver = cast("LoopConnection", self.sync.connection.driver_connection)

    async def run_sync(self, work: Callable[..., T], *given: object) -> T:
        """``work(connection, *given)``, which may run statements."""
        return await greenlet_spawn(work, self.sync, *given)

    async def execute(self, statement: Executable, parameters: Any = None) -> Any:
        """Run a statement."""
        return await self.run_sync(Connection.execute, statement, parameters)

    async def exec_driver_sql(self, statement: str) -> object:
        """Run a statement as it is."""
        return await self.run_sync(Connection.exec_driver_sql, statement)

    def rollback(self) -> None:
        """End the unit without effect."""
        if not self.sync.invalidated:
            self.sync.rollback()
            if self.driver.in_transaction:  # SQLAlchemy saw no statement
                self.driver.rollback()

    def commit(self) -> None:
        """End the unit; what it wrote stays."""
        self.sync.commit()
        if self.driver.in_transaction:
            self.driver.commit()

    def close(self) -> None:
        """Close it."""
        self.sync.close()
        self.driver.close()


class SqliteFile:
    """The connections to one file: one writes, some read, one reads whether anything was written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writing = create_engine("sqlite://", poolclass=NullPool, creator=self._open_writer)
        self.reading = create_engine("sqlite://", poolclass=NullPool, creator=self._open_reader)
        self.reading.dialect.statement_compiler = ReadingCompiler
        for engine in (self.writing, self.reading):
            engine.dialect.do_execute = cast("Any", _execute)
        self._writer: SqliteConnection | None = None
        self._idle: list[SqliteConnection] = []
        self._slots = asyncio.Semaphore(READERS)
        self._watch: LoopConnection | None = None
        self._files: KeptFiles | None = None
        self._checkpoint: asyncio.Task[None] | None = None
        #: `LoopConnection.written` when the unit that writes began.
        self._began_at = 0
        #: Whether all but the last commits of the journal were copied.
        self._is_copied = False
        self._restarted = True

    def check_kept(self) -> None:
        """Check that what is written is kept. Errors: ``DatabaseReadOnly`` (`vetro.storage.kept_files`)."""
        if self._files is not None:
            self._files.check()

    def _open(self) -> LoopConnection:
        if self._watch is None:
            refuse_overwritten(self.path)
            # It stays open: when the last connection is closed, SQLite removes its files.
            watch = self._connected()
            watch.run("PRAGMA query_only=ON")
            watch.run("PRAGMA schema_version")  # opens the journal
            self._watch, self._files = watch, KeptFiles(self.path, watch.run)
        else:
            self.check_kept()
        return self._connected()

    def _connected(self) -> LoopConnection:
        connection = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, factory=LoopConnection
        )
        try:
            connection.run(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
            connection.run("PRAGMA journal_mode=WAL")
            # A crash of the process loses nothing; a power failure may lose the last commits, but
            # does not corrupt the database (docs/decisions/0010-sqlite-durability.md).
            connection.run("PRAGMA synchronous=NORMAL")
            connection.run("PRAGMA foreign_keys=ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_reader(self) -> LoopConnection:
        connection = self._open()
        connection.run(f"PRAGMA cache_size=-{CACHE_KIB}")
        connection.run("PRAGMA query_only=ON")
        return connection

    def _open_writer(self) -> LoopConnection:
        connection = self._open()
        # On the loop it does not wait for a lock (`begin`), nor for the disk (`_copy_journal`).
        connection.run("PRAGMA busy_timeout=0")
        connection.run("PRAGMA wal_autocheckpoint=0")
        return connection

    # Reading

    async def begin_reading(self) -> SqliteConnection:
        """A connection that sees one moment. Errors: ``PoolTimeout`` when none becomes free."""
        if self._slots.locked():
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await self._slots.acquire()
            except TimeoutError as error:
                raise PoolTimeout(f"{READERS} units are reading") from error
        else:
            await self._slots.acquire()
        try:
            connection = self._idle.pop() if self._idle else SqliteConnection(self.reading)
            connection.driver.run("BEGIN")
        except BaseException:
            self._slots.release()
            raise
        return connection

    def end_reading(self, connection: SqliteConnection) -> None:
        """Take the connection back."""
        try:
            connection.rollback()
            if connection.sync.invalidated or len(self._idle) >= IDLE_READERS:
                connection.close()
            else:
                self._idle.append(connection)
        finally:
            self._slots.release()

    def revision(self) -> int:
        """A number that changes with every commit, in this process or another."""
        if self._watch is None:
            self._open().close()
            assert self._watch is not None
        return int(self._watch.run("PRAGMA data_version")[0][0])

    # Writing; the caller lets one unit in at a time

    async def begin_writing(self) -> SqliteConnection:
        """The connection that writes, with the lock of the database."""
        if self._writer is not None and self._writer.sync.invalidated:
            self._writer.close()
            self._writer = None
        if self._writer is None:
            self._writer = SqliteConnection(self.writing)
        driver = self._writer.driver
        try:
            driver.run("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            try:
                await carried_through(asyncio.to_thread(self._wait_for_lock, driver))
            except asyncio.CancelledError:
                if driver.in_transaction:
                    driver.rollback()
                raise
        self._began_at = driver.written
        return self._writer

    def _wait_for_lock(self, driver: LoopConnection) -> None:
        driver.run(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        try:
            driver.run("BEGIN IMMEDIATE")
        finally:
            driver.run("PRAGMA busy_timeout=0")

    async def commit(self, connection: SqliteConnection, then: Callable[[], None]) -> None:
        """Commit and call ``then``, even when the caller is cancelled; checkpoint the journal if it is
        long. Errors: ``DatabaseReadOnly`` when it would not be kept."""
        self.check_kept()
        driver = connection.driver
        is_large = driver.written - self._began_at > LARGE_COMMIT_PAGES
        is_due = driver.written > CHECKPOINT_PAGES
        if self._is_copied or (is_due and self._checkpoint is None):
            self._mark(driver)
        if self._restarted or self._is_copied or is_large or is_due:
            # The first commit of a journal waits for the disk, and a large one takes a while. While a
            # checkpoint is due, units that follow each other without a pause let it begin.
            self._restarted = False
            await carried_through(self._commit_beside(connection, then))
        else:
            connection.commit()
            then()
        if driver.written > CHECKPOINT_PAGES and self._checkpoint is None:
            driver.written = 0
            self._checkpoint = asyncio.create_task(self._copied(), name="checkpoint")

    async def _commit_beside(self, connection: SqliteConnection, then: Callable[[], None]) -> None:
        await asyncio.to_thread(connection.commit)
        then()
        if self._is_copied:
            # A journal begins anew once all of it is copied. While it was, there were more commits; now
            # there can be none, so it does not grow without end however many units follow each other.
            self._is_copied, self._restarted = False, True
            connection.driver.written = 0
            with self._copying():
                await asyncio.to_thread(self._finish_copy, connection.driver)

    def _copying(self) -> AbstractContextManager[None]:
        return nullcontext() if self._files is None else self._files.copying()

    def _alone(self) -> AbstractContextManager[object]:
        return nullcontext() if self._files is None else self._files.alone()

    def _mark(self, driver: LoopConnection) -> None:
        if self._files is not None:
            self._files.mark(driver.run)

    async def _copied(self) -> None:
        try:
            with self._copying():
                await asyncio.to_thread(self._copy_journal)
        except (sqlite3.Error, DatabaseReadOnly) as error:
            # What was committed stays in the journal; the next one tries again.
            log.warning("journal_not_copied", file=str(self.path), error=str(error))
        else:
            self._is_copied = True
        finally:
            self._checkpoint = None

    def _copy_journal(self) -> None:
        connection = self._open()
        try:
            with self._alone():
                connection.run(COPY)
        finally:
            connection.close()

    def _finish_copy(self, writer: LoopConnection) -> None:
        try:
            with self._alone():
                writer.run(COPY)
        except sqlite3.Error as error:
            log.warning("journal_not_copied", file=str(self.path), error=str(error))

    async def run_alone(self, *statements: str) -> None:
        """Run statements that must not be in a unit of work, in a thread."""

        def work() -> None:
            connection = self._open()
            try:
                with self._alone():
                    self._mark(connection)
                    for one in statements:
                        connection.run(one)
            finally:
                connection.close()

        async def copying() -> None:
            self._open().close()
            with self._copying():
                await asyncio.to_thread(work)

        await carried_through(copying())

    async def close(self) -> None:
        """Close every connection; the last one copies the journal into the database."""
        while self._checkpoint is not None:
            await asyncio.wait({self._checkpoint})
        if self._writer is not None and not self._writer.sync.invalidated:
            # Without the number it is copied as well: no place (a full disk), or another process writes.
            with suppress(sqlite3.Error, DatabaseReadOnly):
                self.check_kept()
                self._mark(self._writer.driver)
        for connection in (*self._idle, *([self._writer] if self._writer else [])):
            connection.close()
        self._idle, self._writer = [], None
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        if self._files is not None:
            self._files.keep_mark()
            self._files = None
