"""Migrations: per room, all or nothing, never backwards."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from vetro.storage import (
    Database,
    DatabaseTooNew,
    MigrationSet,
    migrate,
    pending_migrations,
)

STEP = """
from alembic import op
import sqlalchemy as sa
revision = {revision!r}
down_revision = {down!r}
branch_labels = {labels!r}
depends_on = None

def upgrade():
    {work}
"""


def step(directory: Path, room: str, number: int, work: str) -> None:
    """Write a migration file."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{number:04}_step.py").write_text(
        STEP.format(
            revision=f"{room}_{number:04}",
            down=f"{room}_{number - 1:04}" if number > 1 else None,
            labels=(room,) if number == 1 else None,
            work=work,
        )
    )


def table(name: str) -> str:
    """The work of a migration that creates a table."""
    return f"op.create_table({name!r}, sa.Column('a', sa.Integer))"


async def revisions(database: Database) -> set[str]:
    """What the database says it holds."""
    async with database.read() as tx:
        rows = await tx.execute(text("SELECT version_num FROM vetro_migrations"))
        return {row.version_num for row in rows}


async def test_a_database_from_a_newer_version_is_refused(database: Database) -> None:
    """The error for an unknown revision names the room and the remedy."""
    async with database.transaction() as tx:
        await tx.execute(text("UPDATE vetro_migrations SET version_num = 'storage_9999'"))
    with pytest.raises(DatabaseTooNew, match="newer version: revision storage_9999"):
        await migrate(database, [])


async def test_migrating_twice_does_nothing(database: Database) -> None:
    """The second run finds an up-to-date database and does nothing."""
    assert await migrate(database, []) is False


async def test_rooms_migrate_one_after_another(database: Database, tmp_path: Path) -> None:
    """A process that serves other rooms leaves the revisions of the first alone."""
    step(tmp_path / "a", "apples", 1, table("apples"))
    step(tmp_path / "b", "pears", 1, table("pears"))
    assert await migrate(database, [MigrationSet("apples", tmp_path / "a")]) is True
    assert await migrate(database, [MigrationSet("pears", tmp_path / "b")]) is True
    step(tmp_path / "a", "apples", 2, table("more_apples"))
    assert await migrate(database, [MigrationSet("apples", tmp_path / "a")]) is True
    assert await migrate(database, [MigrationSet("pears", tmp_path / "b")]) is False
    assert await revisions(database) == {"storage_0005", "apples_0002", "pears_0001"}
    async with database.read() as tx:
        for name in ("apples", "more_apples", "pears"):
            await tx.execute(text(f"SELECT a FROM {name}"))


async def test_a_failing_migration_changes_nothing(database: Database, tmp_path: Path) -> None:
    """The earlier steps are undone too, and a repaired migration can be run again."""
    ours = MigrationSet("apples", tmp_path)
    step(tmp_path, "apples", 1, table("apples"))
    step(tmp_path, "apples", 2, "op.execute('SELECT nothing FROM nowhere')")
    with pytest.raises(DBAPIError):
        await migrate(database, [ours])
    assert await revisions(database) == {"storage_0005"}
    step(tmp_path, "apples", 2, table("more_apples"))
    assert await migrate(database, [ours]) is True
    assert await revisions(database) == {"storage_0005", "apples_0002"}


async def test_two_processes_may_migrate_at_once(database_url: str, tmp_path: Path) -> None:
    """One process migrates, the other finds it done."""
    step(tmp_path, "apples", 1, table("apples"))
    opened = [await Database.open(database_url) for _ in range(2)]
    try:
        done = await asyncio.gather(
            *(migrate(one, [MigrationSet("apples", tmp_path)]) for one in opened)
        )
    finally:
        for one in opened:
            await one.close()
    assert sorted(done) == [False, True]


async def test_what_a_start_would_migrate_is_known_before(
    database: Database, tmp_path: Path
) -> None:
    """The revisions that a database lacks are named, oldest first, and those of a newer version."""
    ours = MigrationSet("apples", tmp_path)
    step(tmp_path, "apples", 1, table("apples"))
    step(tmp_path, "apples", 2, table("more_apples"))
    assert await pending_migrations(database, [ours]) == ([], ["apples_0001", "apples_0002"])
    await migrate(database, [ours])
    assert await pending_migrations(database, [ours]) == ([], [])
    step(tmp_path, "apples", 3, table("many_apples"))
    assert await pending_migrations(database, [ours]) == ([], ["apples_0003"])
    async with database.transaction() as tx:
        await tx.execute(
            text(
                "UPDATE vetro_migrations SET version_num = 'apples_0007'"
                " WHERE version_num = 'apples_0002'"
            )
        )
    assert (await pending_migrations(database, [ours]))[0] == ["apples_0007"]
