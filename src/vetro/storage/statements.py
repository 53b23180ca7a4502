"""Statements whose spelling differs between SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Table
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from vetro.storage.units import Transaction


async def insert_if_new(tx: Transaction, table: Table, values: Mapping[str, object]) -> bool:
    """Insert a row unless one with its key is there; True if it was inserted."""
    key = list(table.primary_key.columns)
    if tx.connection.dialect.name == "postgresql":
        statement = postgres_insert(table).values(**values)
        inserted = await tx.execute(statement.on_conflict_do_nothing().returning(*key))
    else:
        lite = sqlite_insert(table).values(**values)
        inserted = await tx.execute(lite.on_conflict_do_nothing().returning(*key))
    return inserted.first() is not None
