"""What is written is kept, or refused: a file that is gone, a server that is read-only."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from vetro.storage import Database, DatabaseReadOnly, migrate


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
