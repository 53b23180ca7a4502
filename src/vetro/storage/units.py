"""Units of work: what runs in one, the account that a database keeps of its units, and those on SQLite.

Two statements that SQLAlchemy has no words for: rows that may be there, and pages by keys.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, cast

from sqlalchemy import (
    ColumnElement,
    Connection,
    CursorResult,
    Executable,
    Row,
    Table,
    and_,
    or_,
    text,
)
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.util.concurrency import greenlet_spawn

from vetro.storage.errors import DatabaseClosed, DatabaseReadOnly, StorageError, explain
from vetro.storage.keyring import Keyring
from vetro.storage.prepared import Prepared
from vetro.storage.sqlite_driver import SqliteConnection, SqliteFile
from vetro.storage.types import Json

StoredRow = Row[tuple[object, ...]]
"""A row that was read; its columns are attributes, whose types SQLAlchemy does not know."""
Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]]


def lock_number(name: str) -> int:
    """The signed 64-bit number of the PostgreSQL advisory lock for a name."""
    return int.from_bytes(sha256(name.encode()).digest()[:8], "big", signed=True)


Notifications = list[tuple[str, str]]
"""Channels and payloads."""
DRIVER_ERRORS = (DBAPIError, PoolTimeout, sqlite3.Error)


def _whole_result(
    connection: Connection, statement: Executable, parameters: Parameters | None
) -> CursorResult[object]:
    """The result of a statement with all of its values read.

    SQLAlchemy decodes values when rows are fetched, after the statement has returned; here large
    ones are decoded in a thread. Rows without JSON are not changed.
    """
    result = connection.execute(statement, parameters)
    if not result.returns_rows:
        return result
    columns = getattr(result.context.compiled, "_result_columns", ())
    if not any(isinstance(column.type, Json) for column in columns):
        return result
    return cast("CursorResult[object]", result.freeze()())


class Transaction:
    """One unit of work. Rows come back as SQLAlchemy rows."""

    def __init__(self, connection: AsyncConnection | SqliteConnection, *, read_only: bool) -> None:
        self.connection = connection
        self.is_sqlite = isinstance(connection, SqliteConnection)
        """Whether the database is SQLite, for the few statements that are not portable."""
        self.read_only = read_only
        self.notifications: list[tuple[str, str]] = []

    async def execute(
        self, statement: Executable | Prepared, parameters: Parameters | None = None
    ) -> CursorResult[Any]:
        """Run a statement; its result is buffered and can be read at any time.

        With a list of parameters it is run for each of them, and returns no rows.
        """
        if isinstance(statement, Prepared):
            if isinstance(self.connection, SqliteConnection):
                given: Any = parameters or {}
                result: Any
                if isinstance(parameters, list) and parameters:
                    result = statement.run_for_each(self.connection, given)
                else:
                    result = statement.run(self.connection, given)
                if result is not None:
                    if result.unread is not None:
                        result.iterator = iter(await greenlet_spawn(result.unread))
                    return result
            statement = statement.statement
        return await self.connection.run_sync(_whole_result, statement, parameters)

    async def exclude(self, *names: str) -> None:
        """Serialise units of work that name the same things, until this one ends.

        For decisions that no single row guards ("no other package declares this class"). On SQLite
        there is only one writer anyway. PostgreSQL locks a hash of each name, so units with
        different names may occasionally wait for each other; the locks are taken in order, so they
        never deadlock.
        """
        if self.is_sqlite:
            return
        for number in sorted({lock_number(name) for name in names}):
            await self.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})

    def notify(self, channel: str, payload: str = "") -> None:
        """Notify the listeners of ``channel`` in every process once this unit is committed."""
        if self.read_only:
            raise StorageError("a read transaction cannot notify: use transaction()")
        self.notifications.append((channel, payload))


class Account:
    """The units of work of one database: whether there may be more, which run, and whose errors are whose.

    ``name``: of the database, for messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.keyring: Keyring | None = None
        self.closed = False
        self.running = 0
        self.writer = asyncio.Lock()
        """Held by the unit that writes on SQLite."""
        self._writing: set[asyncio.Task[object]] = set()
        self._none_left = asyncio.Event()

    def begin(self) -> None:
        """Count a unit while it has a connection or waits for one. Errors: ``DatabaseClosed``."""
        if self.closed:
            raise DatabaseClosed(f"{self.name} is closed: open it again to use it")
        self.running += 1

    def end(self) -> None:
        """Count a unit that has ended."""
        self.running -= 1
        if self.closed and not self.running:
            self._none_left.set()

    def check_kept(self) -> None:
        """Check before a commit that what the unit sealed can be read later. ``DatabaseReadOnly``."""
        if self.keyring is not None:
            self.keyring.check_kept()

    async def close(self, patience_seconds: float) -> None:
        """Begin no more, and wait for those that run. Errors: ``TimeoutError``, each time."""
        self.closed = True
        while self.running:
            self._none_left.clear()
            async with asyncio.timeout(patience_seconds):
                await self._none_left.wait()

    def begin_writing(self) -> asyncio.Task[object]:
        """Count a writing unit of this task. Errors: ``StorageError`` when it is in one already."""
        task = asyncio.current_task()
        assert task is not None
        if task in self._writing:
            raise StorageError(
                "this task is already inside a transaction: pass on its tx instead of starting "
                "another"
            )
        self.begin()
        self._writing.add(task)
        return task

    def end_writing(self, task: asyncio.Task[object]) -> None:
        """Count a writing unit that has ended."""
        self._writing.discard(task)
        self.end()

    def explain(self, error: BaseException, *, reading: bool) -> None:
        """Raise storage's own error for a driver's error about the database."""
        if isinstance(error, DRIVER_ERRORS):
            explained = explain(error, self.name, reading=reading)
            if explained is not None:
                raise explained from error


class SqliteWriting:
    """A writing unit of work on SQLite; ``deliver``: is called with its notifications once it is committed.

    It is no generator with a decorator, as units at a server are: the event loop keeps a book of all
    asynchronous generators, and entering and leaving one takes as long as two short statements.
    """

    __slots__ = ("_account", "_connection", "_deliver", "_file", "_task", "_tx")

    def __init__(
        self, account: Account, file: SqliteFile, deliver: Callable[[Notifications], None]
    ) -> None:
        self._account = account
        self._file = file
        self._deliver = deliver

    async def __aenter__(self) -> Transaction:
        account = self._account
        self._task = account.begin_writing()
        try:
            await account.writer.acquire()
            try:
                self._connection = await self._file.begin_writing()
            except BaseException:
                account.writer.release()
                raise
        except BaseException as error:
            account.end_writing(self._task)
            self._explain(error)
            raise
        self._tx = Transaction(self._connection, read_only=False)
        return self._tx

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        account, connection = self._account, self._connection
        try:
            if error is not None:
                connection.rollback()
                self._explain(error)
                return
            try:
                account.check_kept()
                then = partial(self._deliver, self._tx.notifications)
                await self._file.commit(connection, then)
            except BaseException:
                connection.rollback()
                raise
        except DRIVER_ERRORS as failed:
            self._explain(failed)
            raise
        finally:
            account.writer.release()
            account.end_writing(self._task)

    def _explain(self, error: BaseException) -> None:
        """Raise storage's own error: what became of the files, before what SQLite found in them."""
        if isinstance(error, DRIVER_ERRORS):
            try:
                self._file.check_kept()
            except DatabaseReadOnly as reason:
                raise reason from error
        self._account.explain(error, reading=False)


class SqliteReading:
    """A reading unit of work on SQLite."""

    __slots__ = ("_account", "_connection", "_file")

    def __init__(self, account: Account, file: SqliteFile) -> None:
        self._account = account
        self._file = file

    async def __aenter__(self) -> Transaction:
        account = self._account
        account.begin()
        try:
            self._connection = await self._file.begin_reading()
        except BaseException as error:
            account.end()
            account.explain(error, reading=True)
            raise
        return Transaction(self._connection, read_only=True)

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        account = self._account
        try:
            self._file.end_reading(self._connection)
            if error is not None:
                account.explain(error, reading=True)
        except DRIVER_ERRORS as failed:
            account.explain(failed, reading=True)
            raise
        finally:
            account.end()


async def insert_if_new(tx: Transaction, table: Table, values: Mapping[str, object]) -> bool:
    """Insert a row unless one with its key is there; True if it was inserted.

    SQLite and PostgreSQL spell it differently.
    """
    key = list(table.primary_key.columns)
    if tx.connection.dialect.name == "postgresql":
        statement = postgres_insert(table).values(**values)
        inserted = await tx.execute(statement.on_conflict_do_nothing().returning(*key))
    else:
        lite = sqlite_insert(table).values(**values)
        inserted = await tx.execute(lite.on_conflict_do_nothing().returning(*key))
    return inserted.first() is not None


def following(keys: Sequence[tuple[Any, Any, bool]]) -> ColumnElement[bool]:
    """Whether a row comes after another one in an order: rows that come or go disturb no other page.

    ``keys``: what the list is ordered by, each with the value that the other row has and whether it is
    descending; the last of them is unique.
    """
    alternatives: list[ColumnElement[bool]] = []
    for place, (key, value, descending) in enumerate(keys):
        equal = [one == known for one, known, _ in keys[:place]]
        alternatives.append(and_(*equal, key < value if descending else key > value))
    return or_(*alternatives)
