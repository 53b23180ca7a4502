"""Whether what SQLite writes is kept: its three files are those that were opened, with our content.

SQLite goes on writing to files that were deleted or replaced, without an error, and reads what was written
over them. So before each commit somebody asks for the state of the files (three calls of the kernel):

- The database, its journal (``-wal``) and their index (``-shm``) are the files that were opened. While a
  connection is open, nobody may remove one of them (https://sqlite.org/howtocorrupt.html).
- The journal is not shorter than before, unless its content was copied to the database.
- The database was changed only by copying its journal (a checkpoint). Every checkpoint of Vetro carries a
  higher ``user_version``, a number in the header that SQLite leaves to applications: an older copy has a
  lower one. Which number the file itself has, a connection with ``immutable=1`` says: it ignores the journal.

While a process copies, the file is neither the one nor the other: its header names pages that are not there
yet. So who copies, and who looks, holds the lock of a file beside it (``-copying``).

The file is never opened otherwise: closing any descriptor of it would end SQLite's locks on it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import structlog

from vetro.storage.errors import DatabaseReadOnly, DatabaseUnavailable

log = structlog.get_logger(__name__)

Run = Callable[[str], list[Any]]
"""Runs a statement on a connection to the database; its rows."""
COPY = "PRAGMA wal_checkpoint(PASSIVE)"
_MOST_AHEAD = 10_000
"""So many checkpoints of others at most between two looks; the first number of a database is random."""
_NOTHING_IS_STORED = "nothing is stored any more, since it would be lost when the service stops"
_Content = tuple[int, ...]


class KeptFiles:
    """The files of one open database. ``run``: of a connection that stays open as long as this is used."""

    def __init__(self, path: Path, run: Run) -> None:
        self._run = run
        self._path = path
        # SQLite puts its files beside the database itself, not beside a link to it.
        real = os.path.realpath(path)
        self._names = (str(path), f"{real}-wal", f"{real}-shm")
        self._url = f"file:{quote(real)}?immutable=1"
        self._lock = f"{real}-copying"
        self._files = [_id(_stat(name)) for name in self._names]
        self._inodes = [None if one is None else one[1] for one in self._files]
        self._device = self._files[0] and self._files[0][0]
        self._journal_bytes = 0
        self._copying = 0
        self._rescued = False
        self._is_overwritten = False
        self._note()

    def check(self) -> None:
        """Check that what is written is kept. Errors: ``DatabaseReadOnly`` says what happened."""
        # Before every commit: nearly all of the time is the kernel's then.
        first, second, third = self._names
        try:
            database, journal, index = os.stat(first), os.stat(second), os.stat(third)
        except OSError:
            self._examine()
            return
        if (
            database.st_ino != self._inodes[0]
            or database.st_dev != self._device
            or journal.st_ino != self._inodes[1]
            or index.st_ino != self._inodes[2]
            or database.st_mtime_ns != self._looked_at[1]
            or journal.st_size < self._journal_bytes
        ):
            self._examine()
        else:
            self._journal_bytes = journal.st_size

    def _examine(self) -> None:
        if _id(_stat(self._names[0])) != self._files[0]:
            raise DatabaseReadOnly(
                f"the database file {self._path} was deleted or replaced while it is in use:"
                f" {_NOTHING_IS_STORED}. If it was moved, move it back. Otherwise copy what is needed"
                " through the API, stop the service and restore the file from a backup"
            )
        if self._copying:
            return
        with self.alone(wait=False) as is_alone:
            if is_alone:  # else the next commit looks
                self._examine_content()

    def _examine_content(self) -> None:
        database, journal, index = (_stat(name) for name in self._names)
        if database is None:
            return  # since a moment: the next commit says it
        if (database.st_size, database.st_mtime_ns) != self._looked_at:
            self._look(database)
        for name, found, known in (
            (self._names[1], journal, self._files[1]),
            (self._names[2], index, self._files[2]),
        ):
            if _id(found) != known:
                self._rescue()
                raise DatabaseReadOnly(
                    f"the database's file {name} was deleted or replaced while it is in use:"
                    f" {_NOTHING_IS_STORED}. Stop the service and start it again: it makes the file anew"
                )
        if journal is not None:
            if journal.st_size < self._journal_bytes:
                self._look_at_journal()
            self._journal_bytes = journal.st_size

    @contextmanager
    def alone(self, *, wait: bool = True) -> Generator[bool]:
        """Keep other processes from copying and looking; ``False``: one of them does, and it is not waited.

        For a thread: copying takes a while. Where the lock cannot be made, nothing is kept from anybody.
        """
        try:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:  # no place, or a file system that is read-only
            yield True
            return
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(descriptor)

    @contextmanager
    def copying(self) -> Generator[None]:
        """For the time in which this process copies its journal into the database."""
        self._copying += 1
        try:
            yield
        finally:
            self._copying -= 1
            if not self._copying:
                self._note()

    def mark(self, run: Run) -> None:
        """Give the database the next number, on a connection that holds its lock, before a checkpoint."""
        number = int(run("PRAGMA user_version")[0][0])
        run(f"PRAGMA user_version={number + 1 if number else 1 + secrets.randbits(30)}")

    def _note(self) -> None:
        """Keep what the files are like, after work of our own."""
        database, journal, _ = (_stat(name) for name in self._names)
        if database is None:
            return
        self._looked_at = (database.st_size, database.st_mtime_ns)
        self._journal_bytes = 0 if journal is None else journal.st_size
        try:
            self._content = self._content_of_file()
        except sqlite3.Error:
            self._looked_at = (-1, -1)  # the next check says it

    def _content_of_file(self) -> _Content:
        connection = sqlite3.connect(self._url, uri=True, isolation_level=None)
        try:
            return _content(lambda sql: connection.execute(sql).fetchall())
        finally:
            connection.close()

    def _look(self, database: os.stat_result) -> None:
        """See who changed the database file."""
        try:
            found = self._content_after_copying(database)
            ahead = found[0] - self._content[0]
            ours = (
                found == self._content
                or 0 < ahead < _MOST_AHEAD
                or (ahead > 0 and not self._content[0])
                # Another process has copied the number already, and this one what was stored since. Of
                # `VACUUM INTO`, as backups are made, `schema_version` is another.
                or (ahead == 0 and found[1] == self._content[1] and found[2] >= self._content[2])
                # Checkpointed by hand: the file has now what the journal said.
                or (ahead == 0 and found == _content(self._run))
            )
        except sqlite3.Error as error:
            raise self._overwritten() from error
        if not ours:
            raise self._overwritten()
        if self._is_overwritten:
            self._is_overwritten = False
            _mark_of(self._path).unlink(missing_ok=True)
        self._content = found
        self._looked_at = (database.st_size, database.st_mtime_ns)

    def _content_after_copying(self, database: os.stat_result) -> _Content:
        """The content of the file; of one that a killed process left half copied, after the rest."""
        try:
            return self._content_of_file()
        except sqlite3.DatabaseError as error:
            is_corrupt = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CORRUPT
            if not is_corrupt or database.st_size < self._looked_at[0]:
                raise
        self._run(COPY)
        return self._content_of_file()

    def keep_mark(self) -> None:
        """Keep beside an overwritten file what it is like, so that `refuse_overwritten` knows it again."""
        found = _stat(self._names[0])
        if not self._is_overwritten or found is None:
            return
        try:
            _mark_of(self._path).write_text(_likeness(found), encoding="ascii")
        except OSError as error:
            log.warning("mark_not_kept", file=str(_mark_of(self._path)), error=str(error))

    def _overwritten(self) -> DatabaseReadOnly:
        self._is_overwritten = True
        self.keep_mark()
        return DatabaseReadOnly(
            f"the database file {self._path} was cut off or overwritten while it is in use:"
            f" {_NOTHING_IS_STORED}. Stop the service, remove {self._names[1]} and {self._names[2]},"
            " and restore the file from a backup"
        )

    def _look_at_journal(self) -> None:
        """See whether the shorter journal has what SQLite believes that it has: it may have been emptied."""
        try:
            self._run(COPY)
        except sqlite3.Error as error:
            raise DatabaseReadOnly(
                f"the database's file {self._names[1]} was cut off while it is in use: {_NOTHING_IS_STORED}."
                " What was stored last is lost: stop the service, and start it again or restore a backup"
            ) from error
        self._note()

    def _rescue(self) -> None:
        """Copy a journal that has no name any more: a service that is killed now loses nothing."""
        if self._rescued or os.path.exists(self._names[1]):
            return  # another process has made one: what is whose is not known any more
        self._rescued = True
        try:
            self._run(COPY)
        except sqlite3.Error as error:
            log.error("journal_lost", file=self._names[1], error=str(error))
        else:
            log.warning("journal_rescued", file=self._names[1])
        self._note()


def refuse_overwritten(path: Path) -> None:
    """Refuse a file that was overwritten under a service, until it is another. ``DatabaseUnavailable``.

    When that service ended, SQLite copied the journal into it: it has pages of two databases.
    """
    mark, found = _mark_of(path), _stat(str(path))
    try:
        was = mark.read_text(encoding="ascii")
    except FileNotFoundError:
        return
    if found is not None and was == _likeness(found):
        raise DatabaseUnavailable(
            f"{path} was cut off or overwritten while it was in use, so it is damaged: restore it from a"
            f" backup. To use it as it is, remove {mark}"
        )
    mark.unlink(missing_ok=True)


def _mark_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-overwritten")


def _likeness(found: os.stat_result) -> str:
    return f"{found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns}\n"


def _content(run: Run) -> _Content:
    """What the header of a database says; ``user_version`` comes first."""
    asked = ("user_version", "schema_version", "page_count", "freelist_count")
    return tuple(int(run(f"PRAGMA {one}")[0][0]) for one in asked)


def _stat(name: str) -> os.stat_result | None:
    """A file's state; ``None``: there is none, or nobody can say."""
    try:
        return os.stat(name)
    except OSError:
        return None


def _id(found: os.stat_result | None) -> tuple[int, int] | None:
    return None if found is None else (found.st_dev, found.st_ino)
