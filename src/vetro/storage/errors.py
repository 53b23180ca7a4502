"""The errors of storage.

::

    StorageError
    ├── DatabaseTooNew        the database was written by a newer version
    ├── MigrationError        the database is in a state that no migration starts from
    ├── DatabaseUnavailable   it cannot be opened or reached (also a ``ConnectionError``)
    │   └── DatabaseReadOnly  it can be read, but keeps nothing (``EROFS``)
    ├── DatabaseClosed        this process has closed it
    ├── DatabaseBusy          a lock was not released in time (also a ``TimeoutError``)
    ├── NoRoom                also an ``OSError`` with ``ENOSPC``
    │   └── DatabaseFull      the disk is full
    ├── KeyMissing            a stored value is sealed with a key that the key file lacks
    ├── AlreadyQueued         the queue holds work under this key
    └── LeaseLost             a newer claim exists, or the work was completed

The second base of some classes tells callers that do not import storage (the HTTP faces) how to
handle them.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from vetro.storage.urls import sqlite_file


class StorageError(Exception):
    """An error of the database, or a request that it cannot serve."""


class DatabaseTooNew(StorageError):
    """The database holds migrations that this version does not know."""

    def __init__(self, room: str, revision: str) -> None:
        super().__init__(
            f"the database was written by a newer version: revision {revision} of {room} is not "
            "known to this version; start the version that wrote it, or restore a backup made "
            "before the upgrade"
        )
        self.room = room
        self.revision = revision


class MigrationError(StorageError):
    """A migration could not run; the message names room and revision."""


class DatabaseUnavailable(StorageError, ConnectionError):
    """The database cannot be opened or reached; the message names it and says why."""


class DatabaseReadOnly(DatabaseUnavailable):
    """What is written would not be kept: the unit of work was rolled back. Reading may go on."""

    def __init__(self, message: str) -> None:
        super().__init__(errno.EROFS, message)

    def __str__(self) -> str:
        return str(self.args[1])


class DatabaseClosed(StorageError):
    """This process has closed the database, but a part of it still uses it."""


class DatabaseBusy(StorageError, TimeoutError):
    """Other units of work held a lock for too long, or two waited for each other."""


class NoRoom(StorageError, OSError):
    """Something that is kept has no room."""

    def __init__(self, message: str) -> None:
        super().__init__(errno.ENOSPC, message)

    def __str__(self) -> str:
        return f"{self.args[1]} ({os.strerror(errno.ENOSPC)})"


class DatabaseFull(NoRoom):
    """The disk below the database is full; the unit of work was rolled back."""


class KeyMissing(StorageError):
    """A stored value is sealed with a key that the key file does not have; ``key`` is its id."""

    def __init__(self, key: str, file: Path) -> None:
        if key:
            what = f"the database is sealed with the key {key}, which is not in {file}"
        else:
            what = (
                f"the database is sealed, and {file}, which must have its keys, is missing or empty"
            )
        super().__init__(
            f"{what}: copy the key file of the service that wrote it, or restore it from a backup"
        )
        self.key = key


class AlreadyQueued(StorageError):
    """The queue holds unfinished work under this key."""

    def __init__(self, queue: str, key: str) -> None:
        super().__init__(f"queue {queue!r} already has work with the key {key!r} already")
        self.queue = queue
        self.key = key


class LeaseLost(StorageError):
    """The lease is not ours any more: it expired and was claimed again, or the work is done."""

    def __init__(self, queue: str, key: str, fence: int) -> None:
        super().__init__(f"lease {fence} on {key!r} of queue {queue!r} is lost")
        self.queue = queue
        self.key = key
        self.fence = fence


CANNOT_WRITE = "a reading unit of work cannot write or lock rows: begin it with transaction()"
READ_ONLY = (
    "the database server takes nothing now, it is read-only (a standby, or set so): nothing was stored."
    " Connect to the primary, or make it writable"
)
# PostgreSQL's SQLSTATE of a write in a read-only transaction.
_READ_ONLY_TRANSACTION = "25006"
_SQLITE_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
# SQLite's `-wal` and `-shm` files grow by 32 KiB, beside pages of the database and the journal.
_SHARED_MEMORY_BYTES = 128 * 1024
_SQLITE_UNUSABLE = {
    sqlite3.SQLITE_CANTOPEN: "cannot be opened",
    sqlite3.SQLITE_NOTADB: "is not a database",
    sqlite3.SQLITE_CORRUPT: "is damaged: restore a backup",
    sqlite3.SQLITE_PERM: "may not be used by this user",
    sqlite3.SQLITE_IOERR: "cannot be read or written (the disk reports an error)",
}


def explain(error: BaseException, where: str, *, reading: bool = False) -> StorageError | None:
    """The storage error for a driver's error; ``None`` for one about the statement itself.

    ``reading``: it happened in a reading unit of work.
    """
    if isinstance(error, PoolTimeout):
        return DatabaseBusy(f"{where}: no connection became free: too many transactions are open")
    original: object = error.orig if isinstance(error, DBAPIError) else error
    refused = getattr(original, "sqlstate", None) == _READ_ONLY_TRANSACTION
    if refused and not reading:
        return DatabaseReadOnly(f"{where}: {READ_ONLY}")
    if reading and (
        refused or getattr(original, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY
    ):
        return StorageError(CANNOT_WRITE)
    if isinstance(original, sqlite3.Error):
        # The low byte of an extended code is the primary code.
        code = (getattr(original, "sqlite_errorcode", None) or 0) & 0xFF
        if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(where)):
            return DatabaseFull(
                f"{where}: the disk is full; nothing was stored. Free space and try again"
            )
        if code in _SQLITE_BUSY:
            return DatabaseBusy(
                f"{where}: another process locked the database for too long; try again"
            )
        if code == sqlite3.SQLITE_READONLY:
            return DatabaseReadOnly(f"{where} may not be written: {original}")
        if code in _SQLITE_UNUSABLE:
            return DatabaseUnavailable(f"{where} {_SQLITE_UNUSABLE[code]}: {original}")
        return None
    # Not at the top: it takes 9 MiB, which a service on SQLite does not need.
    import psycopg

    if isinstance(original, psycopg.errors.DiskFull):
        return DatabaseFull(
            f"{where}: the database server's disk is full; nothing was stored. Free space and try again"
        )
    if isinstance(
        original,
        psycopg.errors.DeadlockDetected
        | psycopg.errors.SerializationFailure
        | psycopg.errors.LockNotAvailable,
    ):
        return DatabaseBusy(f"{where}: {_first_line(original)}")
    if isinstance(original, psycopg.OperationalError):
        return DatabaseUnavailable(f"{where}: {_first_line(original)}")
    return None


def _is_full(where: str) -> bool:
    """Whether the disk below a SQLite database has no room for the next part of its shared memory.

    When the disk is full, SQLite reports an I/O error for that file, and SQLITE_FULL for the others.
    """
    try:
        status = os.statvfs((sqlite_file(where) or Path()).parent)
    except OSError:
        return False
    return status.f_bavail * status.f_frsize < _SHARED_MEMORY_BYTES


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
