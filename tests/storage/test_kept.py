"""What is written is kept, or refused: a file that is gone, a server that is read-only."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from vetro.storage import Database, DatabaseReadOnly, DatabaseUnavailable, migrate


def deleted(file: Path) -> None:
    """The file was removed by hand."""
    file.unlink()


def replaced(file: Path) -> None:
    """Another database was put in its place."""
    shutil.copy(file, file.with_name("copy"))
    file.with_name("copy").replace(file)


def moved(file: Path) -> None:
    """The directory is somewhere else."""
    file.parent.rename(file.parent.with_name("elsewhere"))


def removed(file: Path) -> None:
    """The directory is gone."""
    shutil.rmtree(file.parent)


def blocked(file: Path) -> None:
    """Something else has the directory's name."""
    shutil.rmtree(file.parent)
    file.parent.write_text("")


async def write(database: Database) -> None:
    """Store a row."""
    async with database.transaction() as tx:
        await tx.execute(text("INSERT INTO things VALUES (2)"))


async def numbers(database: Database) -> list[int]:
    """All rows."""
    async with database.read() as tx:
        return list((await tx.execute(text("SELECT * FROM things"))).scalars())


@pytest.mark.parametrize("happens", [deleted, replaced, moved, removed, blocked])
async def test_nothing_is_stored_in_a_file_that_is_not_there_any_more(
    tmp_path: Path, happens: Callable[[Path], None]
) -> None:
    """A write is refused and has no effect, what was stored is read; no empty database takes its place."""
    file = tmp_path / "data" / "vetro.db"
    file.parent.mkdir()
    database = await Database.open(f"sqlite:///{file}", data_dir=tmp_path)
    try:
        async with database.transaction() as tx:
            await tx.execute(text("CREATE TABLE things (number INTEGER)"))
            await tx.execute(text("INSERT INTO things VALUES (1)"))
        assert await numbers(database) == [1]
        await database.check()
        happens(file)
        there = file.exists()
        for _ in range(2):
            with pytest.raises(DatabaseReadOnly, match="was deleted or replaced") as caught:
                await write(database)
            assert caught.value.errno == errno.EROFS
        with pytest.raises(DatabaseReadOnly, match="was deleted or replaced"):
            await database.check()
        assert await numbers(database) == [1]
        database.revision()
        assert file.exists() is there
    finally:
        await database.close()


def no_journal(file: Path) -> None:
    """The journal was removed by hand."""
    file.with_name(file.name + "-wal").unlink()


def other_journal(file: Path) -> None:
    """The journal was replaced."""
    no_journal(file)
    file.with_name(file.name + "-wal").touch()


def no_index(file: Path) -> None:
    """The journal's index was removed by hand."""
    file.with_name(file.name + "-shm").unlink()


def nothing_but_the_database(file: Path) -> None:
    """Both were removed by hand."""
    no_index(file)
    no_journal(file)


def emptied_journal(file: Path) -> None:
    """The journal was cut off."""
    os.truncate(file.with_name(file.name + "-wal"), 0)


def emptied(file: Path) -> None:
    """Somebody's shell opened the file for writing."""
    os.truncate(file, 0)


def cut_off(file: Path) -> None:
    """Only the beginning is there."""
    os.truncate(file, 4096)


def overwritten(file: Path) -> None:
    """An older copy was copied over it."""
    shutil.copyfile(file.with_name("older"), file)


def overwritten_by_a_backup(file: Path) -> None:
    """A backup of a minute ago was copied over it."""
    shutil.copyfile(file.with_name("backup"), file)


def other_content(file: Path) -> None:
    """Something else was written into it."""
    file.write_bytes(b"no database" * 9000)


SAID: dict[Callable[[Path], None], str] = {
    no_journal: "-wal was deleted or replaced",
    other_journal: "-wal was deleted or replaced",
    no_index: "-shm was deleted or replaced",
    nothing_but_the_database: "-wal was deleted or replaced",
    emptied_journal: "-wal was cut off",
    emptied: "was cut off or overwritten",
    cut_off: "was cut off or overwritten",
    overwritten: "was cut off or overwritten",
    overwritten_by_a_backup: "was cut off or overwritten",
    other_content: "was cut off or overwritten",
}


@pytest.mark.parametrize("happens", SAID)
async def test_nothing_is_stored_beside_files_that_were_changed_by_hand(
    tmp_path: Path, happens: Callable[[Path], None]
) -> None:
    """Writes and readiness say which file it is and what to do; nothing that was refused comes back."""
    file = tmp_path / "vetro.db"
    url = f"sqlite:///{file}"
    first = await Database.open(url)
    async with first.transaction() as tx:
        await tx.execute(text("CREATE TABLE things (number INTEGER)"))
        await tx.execute(text("CREATE TABLE texts (text TEXT)"))
    await first.close()
    shutil.copyfile(file, file.with_name("older"))
    second = await Database.open(url)
    async with second.transaction() as tx:
        await tx.execute(text("INSERT INTO things VALUES (0)"))
    await second.close()
    database = await Database.open(url)
    try:
        async with database.transaction() as tx:
            await tx.execute(text("INSERT INTO things VALUES (1)"))
            await tx.execute(text("INSERT INTO texts VALUES (:text)"), {"text": "x" * 9000})
        await database.check()
        with closing(sqlite3.connect(file)) as other:
            other.execute("VACUUM INTO ?", (str(file.with_name("backup")),))
        await database.check()
        happens(file)
        for _ in range(2):
            with pytest.raises(DatabaseReadOnly, match=SAID[happens]) as caught:
                await write(database)
            assert caught.value.errno == errno.EROFS
        with pytest.raises(DatabaseReadOnly, match=SAID[happens]):
            await database.check()
        if "deleted or replaced" in SAID[happens]:
            assert await numbers(database) == [0, 1]
    finally:
        await database.close()
    if "overwritten" in SAID[happens]:
        for _ in range(2):
            with pytest.raises(
                DatabaseUnavailable, match="was cut off or overwritten while it was"
            ):
                await Database.open(url)
        shutil.copyfile(file.with_name("backup"), file)
    if "deleted or replaced" in SAID[happens] or "overwritten" in SAID[happens]:
        again = await Database.open(url)
        try:
            assert await numbers(again) == [0, 1]
            await write(again)
        finally:
            await again.close()


async def test_a_service_that_is_killed_without_its_journals_name_loses_nothing(
    tmp_path: Path,
) -> None:
    """What the journal had is in the database once somebody has noticed that it is gone."""
    file = tmp_path / "vetro.db"
    database = await Database.open(f"sqlite:///{file}")
    try:
        async with database.transaction() as tx:
            await tx.execute(text("CREATE TABLE things (number INTEGER)"))
            await tx.execute(text("INSERT INTO things VALUES (1)"))
        no_journal(file)
        with pytest.raises(DatabaseReadOnly, match="start it again"):
            await database.check()
        shutil.copyfile(file, tmp_path / "left")
        with closing(sqlite3.connect(tmp_path / "left")) as left:
            assert left.execute("SELECT * FROM things").fetchall() == [(1,)]
    finally:
        await database.close()


async def test_a_directory_that_was_moved_back_is_written_again(tmp_path: Path) -> None:
    """As the error says."""
    file = tmp_path / "data" / "vetro.db"
    file.parent.mkdir()
    database = await Database.open(f"sqlite:///{file}", data_dir=tmp_path)
    try:
        async with database.transaction() as tx:
            await tx.execute(text("CREATE TABLE things (number INTEGER)"))
        moved(file)
        file.parent.mkdir()
        with pytest.raises(DatabaseReadOnly, match="move it back"):
            await write(database)
        file.parent.rmdir()
        file.parent.with_name("elsewhere").rename(file.parent)
        await write(database)
        assert await numbers(database) == [2]
    finally:
        await database.close()


async def test_what_others_do_properly_is_no_change_by_hand(tmp_path: Path) -> None:
    """Checkpoints, backups and other processes' writes, of Vetro or of SQLite's own shell."""
    file = tmp_path / "vetro.db"
    url = f"sqlite:///{file}"
    database, other = await Database.open(url), await Database.open(url, data_dir=tmp_path)
    try:
        async with database.transaction() as tx:
            await tx.execute(text("CREATE TABLE things (number INTEGER)"))
        for statement in (
            "INSERT INTO things VALUES (1)", "PRAGMA wal_checkpoint(PASSIVE)", "VACUUM",
            "PRAGMA wal_checkpoint(TRUNCATE)",
        ):  # fmt: skip
            with closing(sqlite3.connect(file, isolation_level=None)) as shell:
                shell.execute(statement)
            await write(database)
            await other.wipe()
            await database.check()
            await write(other)
            await database.wipe()
            await other.check()
    finally:
        await other.close()
        await write(database)
        await database.close()


async def test_checkpoints_of_others_without_a_number_are_no_change_by_hand(tmp_path: Path) -> None:
    """One process has copied the number of another, which then copies what was stored since."""
    file = tmp_path / "vetro.db"
    database = await Database.open(f"sqlite:///{file}")
    try:
        async with database.transaction() as tx:
            await tx.execute(text("CREATE TABLE things (number INTEGER)"))
            await tx.execute(text("CREATE TABLE texts (text TEXT)"))
        await database.wipe()
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            for _ in range(3):
                other.execute("INSERT INTO texts VALUES (?)", ("x" * 90_000,))
                other.execute("PRAGMA wal_checkpoint(PASSIVE)")
                other.execute("INSERT INTO texts VALUES (?)", ("x" * 90_000,))
                await write(database)
                await database.check()
    finally:
        await database.close()


HALF = """
import fcntl, os, sys
file, page = sys.argv[1], bytes.fromhex(sys.argv[2])
lock = open(f"{file}-copying", "a")
fcntl.flock(lock, fcntl.LOCK_EX)
database = os.open(file, os.O_RDWR)
os.pwrite(database, page, 0)
print("half", flush=True)
input()
"""
"""A process that copies the journal: the first page first, by which there are more."""


async def test_what_a_process_has_copied_half_is_not_overwritten(tmp_path: Path) -> None:
    """While it copies nobody looks; when it is killed, the next one that looks copies the rest."""
    file = tmp_path / "vetro.db"
    database = await Database.open(f"sqlite:///{file}")
    try:
        async with database.transaction() as tx:
            await tx.execute(text("CREATE TABLE things (number INTEGER)"))
            await tx.execute(text("CREATE TABLE texts (text TEXT)"))
        await database.wipe()
        await database.check()
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("INSERT INTO texts VALUES (?)", ("x" * 90_000,))
            (number,) = other.execute("PRAGMA user_version").fetchone()
            other.execute(f"PRAGMA user_version={number + 1}")
        there = tmp_path / "there"
        there.mkdir()
        for name in ("vetro.db", "vetro.db-wal"):
            shutil.copyfile(tmp_path / name, there / name)
        with closing(sqlite3.connect(there / "vetro.db")) as copied:
            copied.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        page = (there / "vetro.db").read_bytes()[:4096]
        with subprocess.Popen(
            [sys.executable, "-c", HALF, file, page.hex()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as copying:
            assert copying.stdout is not None
            assert copying.stdout.readline() == b"half\n"
            await write(database)
            await database.check()
            copying.kill()
        await database.check()
        await write(database)
        assert await numbers(database) == [2, 2]
        assert file.stat().st_size >= (there / "vetro.db").stat().st_size
    finally:
        await database.close()


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_a_read_only_server_refuses_writes_and_serves_reads(database_url: str) -> None:
    """As a standby does: the error says what to do, and readiness knows it."""
    first = await Database.open(database_url)
    await migrate(first, [])
    async with first.transaction() as tx:
        await tx.execute(text("CREATE TABLE things (number INTEGER)"))
        await tx.execute(text("INSERT INTO things VALUES (1)"))
        name = make_url(database_url).database
        await tx.execute(text(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'))
    await first.close()
    database = await Database.open(database_url)
    try:
        with pytest.raises(DatabaseReadOnly, match="Connect to the primary"):
            await write(database)
        with pytest.raises(DatabaseReadOnly, match="Connect to the primary"):
            await database.check()
        assert await numbers(database) == [1]
    finally:
        await database.close()
