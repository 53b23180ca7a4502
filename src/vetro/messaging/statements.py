"""Statements whose spelling differs between SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Table
from sqlalchemy.dialects.postgresql import Insert as PostgresInsert
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import Insert as SqliteInsert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from vetro.storage import Transaction


def insert_or_ignore(
    tx: Transaction, table: Table, values: Mapping[str, Any]
) -> PostgresInsert | SqliteInsert:
    """Insert a row unless one with its key is there; `rowcount` says which."""
    if tx.connection.dialect.name == "postgresql":
        return postgres_insert(table).values(**values).on_conflict_do_nothing()
    return sqlite_insert(table).values(**values).on_conflict_do_nothing()
