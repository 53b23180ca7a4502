"""Copies of a database: all rows, or none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, MetaData, Table, func, insert, select, text

from vetro.storage import (
    STORAGE_MIGRATIONS,
    Database,
    LeaseQueue,
    MigrationSet,
    StorageError,
    Transaction,
    copy_database,
    migrate,
)
from vetro.storage.tables import fences, leased_work

SHELF = """
revision = "shelf_0001"
down_revision = None
branch_labels = ("shelf",)

from alembic import op
import sqlalchemy as sa


def upgrade() -> None:
    op.create_table(
        "shelf_books",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("read", sa.Boolean, nullable=False),
        sa.Column("cover", sa.LargeBinary),
        sa.Column("letters", sa.Integer),
        sqlite_autoincrement=True,
    )
    op.create_table("shelf_counts", sa.Column("books", sa.Integer, primary_key=True))
    op.execute("INSERT INTO shelf_counts VALUES (0)")
"""


@pytest.fixture
def shelf(tmp_path: Path) -> MigrationSet:
    """A room with two tables; one has a row from the start, and one a column made from another."""
    directory = tmp_path / "migrations"
    directory.mkdir()
    (directory / "0001_shelf.py").write_text(SHELF)
    return MigrationSet("shelf", directory, derived=frozenset({"shelf_books.letters"}))


@pytest.fixture
async def source(tmp_path: Path, shelf: MigrationSet) -> AsyncIterator[Database]:
    """A database with 450 books, the last of which was given away, and work in a queue."""
    opened = await Database.open(f"sqlite:///{tmp_path}/source.db")
    await migrate(opened, [shelf])
    async with opened.transaction() as tx:
        rows = [
            {"title": f"Büch {n}", "read": n % 2 == 0, "cover": bytes([n % 256, 0]), "letters": 7}
            for n in range(451)
        ]
        await tx.execute(insert(await books(opened)), rows)
        await tx.execute(text("DELETE FROM shelf_books WHERE id = 451"))
        await LeaseQueue(opened, "print").enqueue(tx, "first", {"pages": 3})
    yield opened
    await opened.close()


async def books(database: Database) -> Table:
    """The table of books, as a database has it."""

    def read(connection: Connection) -> Table:
        return Table("shelf_books", MetaData(), autoload_with=connection)

    async with database.read() as tx:
        return await tx.connection.run_sync(read)


@pytest.fixture
async def target(database_url: str) -> AsyncIterator[Database]:
    """An empty database of each kind."""
    opened = await Database.open(database_url)
    yield opened
    await opened.close()


async def test_every_row_arrives_and_numbers_go_on(
    source: Database, target: Database, shelf: MigrationSet
) -> None:
    """Values keep their types; what is made from others is left out; a number is not given twice."""
    seen: dict[str, int] = {}

    async def rebuild(tx: Transaction) -> None:
        await tx.execute(text("UPDATE shelf_books SET letters = 1"))

    count = await copy_database(
        source, target, [shelf], rebuild=[rebuild], progress=seen.__setitem__
    )
    assert seen["shelf_books"] == 450
    assert seen["shelf_counts"] == 1
    assert count == sum(seen.values())
    table = await books(target)
    async with target.transaction() as tx:
        row = (await tx.execute(select(table).where(table.c.id == 402))).one()
        assert (row.title, row.read, bytes(row.cover), row.letters) == (
            "Büch 401", False, bytes([145, 0]), 1,
        )  # fmt: skip
        new = {"title": "new", "read": True}
        assert (await tx.execute(insert(table).values(new))).inserted_primary_key == (452,)
        [work] = (await tx.execute(select(leased_work))).all()
        assert (work.key, work.payload) == ("first", {"pages": 3})


async def test_a_target_with_rows_is_refused(
    source: Database, target: Database, shelf: MigrationSet
) -> None:
    """Also one that has had a copy already; its rows stay as they are."""
    await copy_database(source, target, [shelf])
    with pytest.raises(StorageError, match="is not empty: there are rows in"):
        await copy_database(source, target, [shelf])
    async with target.read() as tx:
        count = select(func.count()).select_from(await books(target))
        assert (await tx.execute(count)).scalar_one() == 450


async def test_a_source_of_another_version_is_refused(
    source: Database, target: Database, shelf: MigrationSet, tmp_path: Path
) -> None:
    """The error names what the source lacks; a copy that failed leaves the target empty."""
    (shelf.directory / "0002_more.py").write_text(
        'revision = "shelf_0002"\ndown_revision = "shelf_0001"\n\n\ndef upgrade() -> None: ...\n'
    )
    with pytest.raises(StorageError, match="not of this version of Vetro .*shelf_0002"):
        await copy_database(source, target, [shelf])
    await migrate(source, [shelf])
    assert await copy_database(source, target, [shelf]) > 450


async def test_a_row_that_does_not_fit_ends_the_copy(
    source: Database, target: Database, shelf: MigrationSet
) -> None:
    """The error names the table; nothing has arrived, and after a correction everything does."""
    async with source.transaction() as tx:
        await tx.execute(text("ALTER TABLE shelf_books ADD COLUMN owner TEXT"))
    with pytest.raises(StorageError, match="'owner' of shelf_books has no place in the target"):
        await copy_database(source, target, [shelf])
    async with source.transaction() as tx:
        await tx.execute(text("ALTER TABLE shelf_books DROP COLUMN owner"))
    assert await copy_database(source, target, [shelf]) > 450


async def test_a_copy_of_storages_own_tables(tmp_path: Path, database_url: str) -> None:
    """A database without numbered rows of its own is copied as well."""
    old, new = [await Database.open(url) for url in (f"sqlite:///{tmp_path}/old.db", database_url)]
    await migrate(old, [])
    async with old.transaction() as tx:
        await tx.execute(insert(fences).values(queue="q", value=41))
    await copy_database(old, new, [STORAGE_MIGRATIONS])
    async with new.read() as tx:
        [row] = (await tx.execute(select(fences))).all()
        assert (row.queue, row.value) == ("q", 41)
    for database in (old, new):
        await database.close()
