"""Statements that SQLAlchemy has no words for: rows that may be there, and pages by keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Table, and_, or_
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from vetro.storage.units import Transaction


async def insert_if_new(tx: Transaction, table: Table, values: Mapping[str, object]) -> bool:
    """Insert a row unless one with its key is there; True if it was inserted.

    SQLite and PostgreSQL spell it differently.
    """
    key = list(table.primary_key.columns)
    if tx.connection.dialect.name == "postgresql":
        statement = postgres_insert(table).values(**values)
        inserted = await tx.execute(statement.on_conflict_do_nothing().returning(*key))
    else:
        lite = sqlite_insert(table).values(**values)
        inserted = await tx.execute(lite.on_conflict_do_nothing().returning(*key))
    return inserted.first() is not None


def following(keys: Sequence[tuple[Any, Any, bool]]) -> ColumnElement[bool]:
    """Whether a row comes after another one in an order: rows that come or go disturb no other page.

    ``keys``: what the list is ordered by, each with the value that the other row has and whether it is
    descending; the last of them is unique.
    """
    alternatives: list[ColumnElement[bool]] = []
    for place, (key, value, descending) in enumerate(keys):
        equal = [one == known for one, known, _ in keys[:place]]
        alternatives.append(and_(*equal, key < value if descending else key > value))
    return or_(*alternatives)
