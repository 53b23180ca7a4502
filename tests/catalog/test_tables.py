"""The tables of the catalog: what migrations keep of stored packages."""

from __future__ import annotations

import dataclasses
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import delete, insert, select, text

from vetro.catalog import MIGRATIONS
from vetro.catalog.tables import classes, packages, parents, tags
from vetro.storage import Database, MigrationSet, Transaction, migrate

ROWS = {
    classes: {("p", "org.b"), ("p", "org.a")},
    parents: {("p", "org.b", "org.a")},
    tags: {("p", "web", 1), ("p", "a", 0)},
}
#: Rows that versions before had besides.
FORMER = [("p", "org.a", ""), ("p", "org.b", ""), ("p", "org.a", "io.murano.Object")]
OTHER = {"id": "q", "fully_qualified_name": "q"}


def until(number: int, directory: Path) -> MigrationSet:
    """The migrations of the catalog up to one."""
    directory.mkdir()
    for file in MIGRATIONS.directory.glob("[0-9]*.py"):
        if int(file.name[:4]) <= number:
            shutil.copy(file, directory)
    return dataclasses.replace(MIGRATIONS, directory=directory)


async def rows(tx: Transaction) -> dict[Any, set[tuple[Any, ...]]]:
    """What the tables have."""
    return {table: {tuple(row) for row in await tx.execute(select(table))} for table in ROWS}


async def test_tables_have_the_rows_of_those_before(database_url: str, tmp_path: Path) -> None:
    """Classes, parents and tags stay, their indexes too, and they leave with their package, which says
    whether its parents are known; nothing stands for "none" any more."""
    database = await Database.open(database_url)
    try:
        await migrate(database, [until(7, tmp_path / "before")])
        now = datetime.now(UTC)
        made = dict.fromkeys(["fully_qualified_name", "version", "name", "type"], "a")
        made |= {"id": "p", "owner_id": "o", "archive": "d"}
        flags = {
            "is_public": False,
            "enabled": True,
            "supplier": dict[str, object](),
            "created": now,
            "updated": now,
        }
        async with database.transaction() as tx:
            await tx.execute(insert(packages).values(**made, **flags))
            await tx.execute(insert(packages).values(**made | OTHER, **flags))
            for table, several in ROWS.items():
                await tx.execute(insert(table).values(sorted(several)))
            await tx.execute(insert(parents).values(FORMER))
        await migrate(database, [MIGRATIONS])
        async with database.read() as tx:
            assert await rows(tx) == ROWS
            known = await tx.execute(select(packages.c.id, packages.c.parents_known))
            assert {tuple(row) for row in known} == {("p", True), ("q", False)}
            if database.is_sqlite:
                names = ", ".join(f"'{table.name}'" for table in ROWS)
                query = f"SELECT name, sql FROM sqlite_master WHERE tbl_name IN ({names})"
                found = (await tx.execute(text(query))).all()
                indexes = {"catalog_classes_name", "catalog_parents_parent"}
                assert {row.name for row in found} == {*indexes, *(table.name for table in ROWS)}
                assert sum("WITHOUT ROWID" in row.sql for row in found) == len(ROWS)
        async with database.transaction() as tx:
            await tx.execute(delete(packages))
            assert await rows(tx) == {table: set() for table in ROWS}
    finally:
        await database.close()
