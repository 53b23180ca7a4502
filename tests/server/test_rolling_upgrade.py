"""Processes of the version before go on while the database is of this one (catalog-api.md §9)."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.server.older_schema import made, without_the_newest

from vetro.server.installation import migration_sets
from vetro.storage import MigrationSet

SETS = [one for one in migration_sets() if len(one.revisions()) > 1]


def columns(connection: sqlite3.Connection, table: str) -> dict[str, tuple[Any, ...]]:
    """Type, whether a value is demanded, and default of each column."""
    found = connection.execute(f"PRAGMA table_info({table})")
    return {name: (kind, must, default) for _, name, kind, must, default, _ in found}


def rules(connection: sqlite3.Connection, table: str) -> set[tuple[str, ...]]:
    """What rows must fulfil: unique columns, and references to other tables."""
    found: set[tuple[str, ...]] = set()
    for _, index, unique, *_ in connection.execute(f"PRAGMA index_list({table})").fetchall():
        if unique:
            names = connection.execute(f"PRAGMA index_info({index})").fetchall()
            found.add(("unique", *(str(name) for _, _, name in names)))
    for _, _, other, column, *_ in connection.execute(f"PRAGMA foreign_key_list({table})"):
        found.add(("references", str(other), str(column)))
    return found


@pytest.mark.parametrize("room", SETS, ids=lambda one: str(one.room))
def test_what_the_version_before_writes_is_taken(room: MigrationSet, tmp_path: Path) -> None:
    """A room's newest migration demands no new column of a row, and nothing new of the old ones."""
    former = asyncio.run(made(tmp_path / "before", [without_the_newest(room, tmp_path)]))
    now = asyncio.run(made(tmp_path / "now", [room]))
    with closing(sqlite3.connect(former)) as old, closing(sqlite3.connect(now)) as new:
        tables = old.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            known, found = columns(old, table), columns(new, table)
            assert {name: found.get(name) for name in known} == known, table
            for name, (_, must, default) in found.items():
                assert name in known or not must or default is not None, f"{table}.{name}"
            for kind, *rule in rules(new, table) - rules(old, table):
                told = rule[1:] if kind == "references" else rule
                assert set(told) - known.keys(), f"{table}: a new rule about {rule}"
