"""The database: units of work on SQLite (WAL) or PostgreSQL, and notifications after commit.

SQLite has one writer at a time. Inside a process writers queue on a lock, fairly; between processes
``BEGIN IMMEDIATE`` with a busy time-out does the same. A writing transaction takes the write lock
at its start, because a reader cannot become a writer after another has written. Readers never wait:
they have connections of their own, which refuse to write.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import Dialect, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from vetro.storage.clock import Clock, SystemClock
from vetro.storage.errors import READ_ONLY, DatabaseReadOnly, StorageError, explain
from vetro.storage.keyring import Keyring
from vetro.storage.notify import DatagramCarrier, Subscription, Switchboard, encode
from vetro.storage.postgres_use import PostgresUse, check_hearing, open_pool
from vetro.storage.sealed import ATTRIBUTE
from vetro.storage.sqlite_driver import SqliteFile, carried_through
from vetro.storage.steady import SteadyTime
from vetro.storage.units import (
    DRIVER_ERRORS,
    Account,
    SqliteReading,
    SqliteWriting,
    Transaction,
)
from vetro.storage.urls import sqlite_file

if TYPE_CHECKING:
    from vetro.storage.postgres_listener import PostgresListener

log = structlog.get_logger(__name__)
CLOSE_PATIENCE_SECONDS = 10.0
NOTIFY_CHANNEL = "vetro"
_TAKES_NOTHING = (
    "SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on'"
)


def application_name(keyring: Keyring | None) -> str:
    """The name PostgreSQL shows for our connections: it has the number of the keys' directory.

    The number is the same wherever that directory is mounted (also over NFS), so that a rotation
    finds services that use a copy of the keys.
    """
    if keyring is None:
        return "vetro"
    try:
        return f"vetro keys {keyring.file.parent.stat().st_ino}"
    except OSError:
        return "vetro keys ?"


class Database:
    """An open database; ``await Database.open(url)``."""

    def __init__(self, url: str, clock: Clock, *, server: AsyncEngine | SqliteFile) -> None:
        self.url = url
        self.clock = clock
        self.is_sqlite = isinstance(server, SqliteFile)
        self._server = server
        #: The database's URL for messages, without its password.
        self.name = url if self.is_sqlite else make_url(url).render_as_string(hide_password=True)
        self.keyring: Keyring | None = None
        self._units = Account(self.name)
        self._switchboard = Switchboard()
        self._datagrams: DatagramCarrier | None = None
        self._listener: PostgresListener | None = None
        self.steady = SteadyTime()

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        data_dir: Path | None = None,
        clock: Clock | None = None,
        keyring: Keyring | None = None,
        use: PostgresUse | None = None,
    ) -> Database:
        """Open ``sqlite:///absolute/path`` or ``postgresql://…``.

        ``data_dir`` holds the sockets for notifications between processes on SQLite; without it
        they are kept beside the database file. ``keyring`` seals the columns of ``Sealed…`` types;
        without it they are stored in clear. ``use``: of PostgreSQL.
        Errors: ``DatabaseUnavailable`` says what is wrong, ``StorageError`` for any other kind of URL.
        """
        path = sqlite_file(url)
        if path is not None:
            database = cls._sqlite(url, path, clock or SystemClock())
            database._datagrams = DatagramCarrier(
                (data_dir or path.parent) / "notify", database._switchboard
            )
        elif url.startswith(("postgresql://", "postgres://")):
            database = cls._postgresql(
                url.split("://", 1)[1],
                clock or SystemClock(),
                application_name(keyring),
                use or PostgresUse(),
            )
        else:
            scheme = url.split(":", 1)[0]
            raise StorageError(
                f"there is no storage for {scheme!r}; use sqlite:///PATH or postgresql://…"
            )
        for dialect in database._dialects():
            setattr(dialect, ATTRIBUTE, keyring)
        database.keyring = database._units.keyring = keyring
        try:
            await database._start()
        except BaseException as error:
            await database.close()
            explained = explain(error, database.name)
            if explained is not None:
                raise explained from error
            raise
        return database

    @classmethod
    def _sqlite(cls, url: str, path: Path, clock: Clock) -> Database:
        if not path.parent.is_dir():
            raise StorageError(f"{url}: the directory {path.parent} does not exist")
        _keep_private(path)
        return cls(url, clock, server=SqliteFile(path))

    @classmethod
    def _postgresql(cls, rest: str, clock: Clock, application: str, use: PostgresUse) -> Database:
        url = f"postgresql://{rest}"
        engine = open_pool(f"postgresql+psycopg://{rest}", application, use)
        # Not at the top: it loads psycopg, 9 MiB that a service on SQLite does not need.
        from vetro.storage.postgres_listener import PostgresListener

        database = cls(url, clock, server=engine)
        database._listener = PostgresListener(
            use.listen_url or url, NOTIFY_CHANNEL, database._switchboard
        )
        return database

    def _dialects(self) -> list[Dialect]:
        if isinstance(self._server, SqliteFile):
            return [self._server.writing.dialect, self._server.reading.dialect]
        return [self._server.dialect]

    async def _start(self) -> None:
        async with self.read() as tx:
            await tx.connection.run_sync(self.steady.read, self.clock)
        if self._listener is not None:
            await self._listener.start()
            await check_hearing(self)
        if self._datagrams is not None:
            self._datagrams.open()

    def steady_now(self) -> datetime:
        """The time to compare stored deadlines with: nobody can set it (`vetro.storage.steady`)."""
        return self.steady.now(self.clock)

    async def check(self) -> None:
        """Check that the database takes and keeps what is written. Errors: ``DatabaseUnavailable``."""
        if isinstance(self._server, SqliteFile):
            self._server.check_kept()
        if self.keyring is not None:
            self.keyring.check_kept(always=True)
        async with self.read() as tx:
            if tx.is_sqlite:
                await tx.execute(text("SELECT 1"))
            elif (await tx.execute(text(_TAKES_NOTHING))).scalar_one():
                raise DatabaseReadOnly(f"{self.name}: {READ_ONLY}")

    async def close(self) -> None:
        """Close every connection and socket, once the units of work in progress have ended.

        Later units of work get ``DatabaseClosed``. Closing it again does nothing. A cancellation while
        units are waited for closes nothing yet: close it again.
        """
        try:
            # A pool closes only its idle connections: those in use would return to a disposed pool
            # and stay open.
            await self._units.close(CLOSE_PATIENCE_SECONDS)
        except TimeoutError:
            log.error("database_closed_in_use", name=self.name, units=self._units.running)
        await carried_through(self._release())

    async def _release(self) -> None:
        if self._listener is not None:
            await self._listener.stop()
        if self._datagrams is not None:
            self._datagrams.close()
        if isinstance(self._server, SqliteFile):
            await self._server.close()
        else:
            await self._server.dispose()

    def transaction(self) -> AbstractAsyncContextManager[Transaction, bool | None]:
        """A writing unit of work: commits at the end of the block, rolls back on an exception.

        A commit that has begun is completed even when the task is cancelled meanwhile; its
        listeners are then notified as well. Errors: ``DatabaseBusy``, ``DatabaseFull``,
        ``DatabaseUnavailable``; ``StorageError`` inside another transaction of the same task (on
        SQLite it would wait for itself).
        """
        if isinstance(self._server, SqliteFile):
            return SqliteWriting(self._units, self._server, self._deliver)
        return self._writing_at(self._server)

    @asynccontextmanager
    async def _writing_at(self, server: AsyncEngine) -> AsyncGenerator[Transaction, None]:
        task = self._units.begin_writing()
        try:
            async with server.connect() as connection:
                tx = Transaction(connection, read_only=False)
                try:
                    yield tx
                except BaseException:
                    await carried_through(connection.rollback())
                    raise
                await carried_through(self._finish_at_server(tx, connection))
        except DRIVER_ERRORS as error:
            self._units.explain(error, reading=False)
            raise
        finally:
            self._units.end_writing(task)

    async def _finish_at_server(self, tx: Transaction, connection: AsyncConnection) -> None:
        """Commit, and notify: PostgreSQL notifies each process, this one too."""
        try:
            self._units.check_kept()
            # Send each once: PostgreSQL would drop duplicates too, but only after sorting them.
            for channel, payload in dict.fromkeys(tx.notifications):
                await connection.execute(
                    text("SELECT pg_notify(:channel, :body)"),
                    {"channel": NOTIFY_CHANNEL, "body": encode(channel, payload).decode()},
                )
            await connection.commit()
        except BaseException:
            await connection.rollback()
            raise

    def _deliver(self, notifications: Sequence[tuple[str, str]]) -> None:
        # After commit only: a listener that reads at once must see the change.
        if not notifications or self._datagrams is None:
            return  # PostgreSQL delivers them to this process too
        for channel, payload in notifications:
            self._switchboard.deliver(channel, payload)
        self._datagrams.send(list(dict.fromkeys(notifications)))

    def read(self) -> AbstractAsyncContextManager[Transaction, bool | None]:
        """A reading unit of work: it sees one consistent snapshot and cannot write."""
        if isinstance(self._server, SqliteFile):
            return SqliteReading(self._units, self._server)
        return self._reading_at(self._server)

    @asynccontextmanager
    async def _reading_at(self, server: AsyncEngine) -> AsyncGenerator[Transaction, None]:
        self._units.begin()
        try:
            async with server.connect() as connection:
                await _see_one_moment(connection)
                try:
                    yield Transaction(connection, read_only=True)
                finally:
                    await carried_through(connection.rollback())
        except DRIVER_ERRORS as error:
            self._units.explain(error, reading=True)
            raise
        finally:
            self._units.end()

    def revision(self) -> int | None:
        """A number that changes with every commit of any process; ``None`` where it is not known.

        What was read after it was asked for holds at least until it is another one.
        """
        if self._units.closed or not isinstance(self._server, SqliteFile):
            return None
        try:
            return self._server.revision()
        except DatabaseReadOnly:
            return None  # the connection that looks was not open yet
        except sqlite3.Error as error:
            self._units.explain(error, reading=True)
            raise

    async def wipe(self) -> None:
        """Erase what was deleted from the free pages and the journal, where there is one."""
        if isinstance(self._server, SqliteFile):
            await self._server.run_alone("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)")

    def listen(self, channel: str) -> AbstractAsyncContextManager[Subscription]:
        """Subscribe to a channel: ``async with db.listen(c) as subscription``.

        Subscribe first, then read the database, then wait: so no change is missed.
        """
        return self._switchboard.listen(channel)

    def subscribe(self, channel: str) -> Subscription:
        """A subscription that lasts until ``Subscription.close`` (or the database is closed)."""
        return self._switchboard.subscribe(channel)

    async def notify(self, channel: str, payload: str = "") -> None:
        """Notify listeners without writing anything."""
        if self.is_sqlite:
            self._deliver([(channel, payload)])
        else:
            async with self.transaction() as tx:
                tx.notify(channel, payload)


async def _see_one_moment(connection: AsyncConnection) -> None:
    """Let a unit of work on PostgreSQL see one snapshot, as on SQLite, and not write by mistake.

    Not options of an engine: that sets them inside of ``connect``, and a task that is cancelled there
    loses the connection, which nobody has then who could return it. The driver waits there whenever the
    loop was busy for some milliseconds.
    """
    try:
        await connection.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
    except BaseException:
        # What was set of it, the pool would not set back for the next unit.
        await carried_through(connection.invalidate())
        raise


def _keep_private(path: Path) -> None:
    """Let only this user read the database; SQLite gives ``-wal`` and ``-shm`` the same mode."""
    try:
        # Only a new file: closing any descriptor of one would end SQLite's locks on it in this process.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass
    except OSError:
        return  # SQLite reports the error
    for file in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal"))):
        try:
            status = file.stat()
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(status.st_mode):
            continue  # SQLite reports the error
        if status.st_mode & 0o077 and status.st_uid == os.geteuid():
            file.chmod(0o600)
            log.warning(
                "database_file_mode_tightened", effect="other users could read it", file=str(file)
            )
