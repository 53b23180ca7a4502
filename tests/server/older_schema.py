"""A database as the version before this one left it: the newest migration of each room taken back.

Migrations only go forward, so the way back is found by comparison: one database is made with all
migrations and one without the newest, and what only the first has is dropped. A newest migration that
did something else than add (tables, columns, indexes) cannot be taken back that way, and it is said.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from vetro.storage import Database, MigrationSet
from vetro.storage.migrate import VERSION_TABLE, migrate

Columns = dict[str, dict[str, str]]


def take_back(database: Path, sets: Sequence[MigrationSet], directory: Path) -> list[str]:
    """Bring a SQLite file, which nobody has open, one migration back; the revisions taken back."""
    older = [without_the_newest(one, directory) for one in sets]
    taken = [one.revisions()[-1] for one in sets if len(one.revisions()) > 1]
    before = _columns(asyncio.run(made(directory / "before", older)))
    now = _columns(asyncio.run(made(directory / "now", sets)))
    for table, columns in before.items():
        assert now[table].items() >= columns.items(), f"{table}: more than additions since {taken}"
    with closing(sqlite3.connect(database)) as connection, connection:
        assert _columns(database) == now, "the database is not of this version"
        triggers, kept = (_of(directory / "before/made.db", kind) for kind in ("trigger", "index"))
        for name in _named(connection, "type = 'trigger'") - triggers:
            connection.execute(f"DROP TRIGGER {name}")
        # A virtual table takes those along that it keeps its content in.
        for table in _named(connection, "sql LIKE 'CREATE VIRTUAL%'") - before.keys():
            connection.execute(f"DROP TABLE {table}")
        for table, columns in now.items():
            if table not in before:
                connection.execute(f"DROP TABLE IF EXISTS {table}")
                continue
            for name in _indexes(connection, table) - kept:
                connection.execute(f"DROP INDEX {name}")
            for column in columns.keys() - before[table].keys():
                connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        for one in older:
            if one.room in {revision.rsplit("_", 1)[0] for revision in taken}:
                connection.execute(
                    f"UPDATE {VERSION_TABLE} SET version_num = ? WHERE version_num GLOB ?",
                    (one.revisions()[-1], f"{one.room}_[0-9]*"),
                )
    assert _columns(database) == before
    return taken


def without_the_newest(one: MigrationSet, directory: Path) -> MigrationSet:
    """A room's migrations but the newest."""
    revisions = one.revisions()
    if len(revisions) < 2:
        return one
    copy = directory / f"migrations-{one.room}"
    shutil.copytree(one.directory, copy)
    newest = sorted(path for path in copy.glob("[0-9]*.py"))[-1]
    newest.unlink()
    return MigrationSet(one.room, copy)


async def made(directory: Path, sets: Sequence[MigrationSet]) -> Path:
    """The file of a database with these migrations."""
    directory.mkdir()
    file = directory / "made.db"
    database = await Database.open(f"sqlite:///{file}", data_dir=directory)
    try:
        await migrate(database, sets)
    finally:
        await database.close()
    return file


def _columns(file: Path) -> Columns:
    with closing(sqlite3.connect(file)) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        ).fetchall()
        return {
            table: {
                str(row[1]): str(row[2])
                for row in connection.execute(f"PRAGMA table_info({table})").fetchall()
            }
            for (table,) in tables
        }


def _named(connection: sqlite3.Connection, which: str) -> set[str]:
    found = connection.execute(f"SELECT name FROM sqlite_master WHERE {which}")
    return {name for (name,) in found}


def _of(file: Path, kind: str) -> set[str]:
    """The names of a file's triggers or indexes."""
    with closing(sqlite3.connect(file)) as connection:
        return _named(connection, f"type = '{kind}'")


def _indexes(connection: sqlite3.Connection, table: str) -> set[str]:
    """The indexes that statements have made for a table: not those that its constraints need."""
    return _named(connection, f"type = 'index' AND tbl_name = '{table}' AND sql IS NOT NULL")
