"""Copying a whole database to another one, also of the other kind (SQLite, PostgreSQL).

Values are copied as they are stored: sealed ones stay sealed with the same keys. The tables are those that
the migrations made in the target; what only one kind of database has (an index of words, the numbers of a
sequence) is created again there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from tempfile import TemporaryDirectory

from sqlalchemy import Connection, MetaData, Table, func, insert, inspect, select, text, tuple_
from sqlalchemy.exc import DBAPIError

from vetro.storage.database import Database
from vetro.storage.errors import StorageError
from vetro.storage.migrate import (
    VERSION_TABLE,
    MigrationSet,
    current_revisions,
    migrate,
)
from vetro.storage.units import Transaction

BATCH = 200
Progress = Callable[[str, int], None]
Rebuild = Callable[[Transaction], Awaitable[None]]


async def copy_database(
    source: Database,
    target: Database,
    sets: Sequence[MigrationSet],
    *,
    rebuild: Sequence[Rebuild] = (),
    progress: Progress = lambda _table, _rows: None,
    without: Collection[str] = (),
) -> int:
    """Copy all rows of ``source`` to ``target``, which has none; how many.

    The target is migrated first; its rows are written in one transaction, so that a copy that fails leaves
    it empty. Nothing may write to the source meanwhile. ``rebuild`` are called at the end, in that
    transaction, and fill what the target's kind of database has for itself. ``progress`` is called with
    each table and its rows. The rows of the tables ``without`` are left out. Raises StorageError: the source
    is of another version, the target is not empty, a row does not fit, or the rows that arrived are not as
    many as those that were read.
    """
    await migrate(target, sets)
    new = await _filled_by_migrations(sets)
    derived = {VERSION_TABLE, *(name for one in sets for name in one.derived)}
    total = 0
    async with source.read() as reading, target.transaction() as tx:
        read = await reading.connection.run_sync(_tables)
        written = await tx.connection.run_sync(_tables)
        await _refuse_other_version(reading, tx)
        tables = [table for table in written.sorted_tables if table.name not in derived]
        missing = [table.name for table in tables if table.name not in read.tables]
        if missing:
            raise StorageError(f"{source.name} has no table {missing[0]!r}: it is damaged")
        used = [name for name in await _filled(tx, tables) if name not in new]
        if used:
            raise StorageError(
                f"{target.name} is not empty: there are rows in {used[0]}. A copy needs a database of its own"
            )
        # What migrations stored is in the source as well.
        for table in reversed(tables):
            await tx.execute(table.delete())
        for table in (one for one in tables if one.name not in without):
            rows = await _copy_table(reading, tx, read.tables[table.name], table, derived)
            progress(table.name, rows)
            total += rows
        await _continue_numbers(reading, tx, tables)
        for step in rebuild:
            await step(tx)
    return total


def _tables(connection: Connection) -> MetaData:
    found = MetaData()
    virtual: set[str] = set()
    if connection.dialect.name == "sqlite":
        # A virtual table's content is in tables that begin with its name.
        query = "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL%'"
        virtual = {str(name) for (name,) in connection.execute(text(query))}
    names = [
        name
        for name in inspect(connection).get_table_names()
        if not any(name == one or name.startswith(f"{one}_") for one in virtual)
    ]
    if names:
        found.reflect(connection, only=names)
    return found


async def _refuse_other_version(reading: Transaction, tx: Transaction) -> None:
    ours = await tx.connection.run_sync(current_revisions)
    theirs = await reading.connection.run_sync(current_revisions)
    if theirs != ours:
        other = sorted(theirs ^ ours)
        raise StorageError(
            f"the database to copy is not of this version of Vetro ({', '.join(other)}): start this"
            " version on it once, stop it, and copy then"
        )


async def _filled(tx: Transaction, tables: Sequence[Table]) -> list[str]:
    """The tables that have rows."""
    return [
        table.name
        for table in tables
        if (await tx.execute(select(1).select_from(table).limit(1))).first() is not None
    ]


async def _filled_by_migrations(sets: Sequence[MigrationSet]) -> list[str]:
    """The tables of a new database that have rows: counters, for example."""
    with TemporaryDirectory() as directory:
        new = await Database.open(f"sqlite:///{directory}/new.db")
        try:
            await migrate(new, sets)
            async with new.read() as tx:
                return await _filled(tx, (await tx.connection.run_sync(_tables)).sorted_tables)
        finally:
            await new.close()


async def _copy_table(
    reading: Transaction, tx: Transaction, old: Table, new: Table, derived: set[str]
) -> int:
    columns = [column for column in old.columns if f"{old.name}.{column.name}" not in derived]
    names = [column.name for column in columns]
    unknown = [name for name in names if name not in new.columns]
    if unknown:
        raise StorageError(f"the column {unknown[0]!r} of {old.name} has no place in the target")
    keys = list(old.primary_key.columns)
    page = select(*columns).order_by(*keys).limit(BATCH)
    count, query = 0, page
    while rows := (await reading.execute(query)).all():
        values: list[dict[str, object]] = [dict(zip(names, row, strict=True)) for row in rows]
        try:
            await tx.execute(insert(new), values)
        except (DBAPIError, ValueError) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            raise StorageError(f"a row of {old.name} cannot be copied: {cause}") from error
        count += len(rows)
        last = [values[-1][key.name] for key in keys]
        query = page.where(tuple_(*keys) > tuple_(*last))
    arrived = (await tx.execute(select(func.count()).select_from(new))).scalar_one()
    if arrived != count:
        raise StorageError(f"{count} rows of {old.name} were read and {arrived} are in the copy")
    return count


async def _continue_numbers(reading: Transaction, tx: Transaction, tables: Sequence[Table]) -> None:
    """Let columns that number their rows continue after the last number given, not after the last row's."""
    for table in tables:
        keys = list(table.primary_key.columns)
        if len(keys) != 1 or keys[0].type.python_type is not int:
            continue
        highest = (await tx.execute(select(func.max(keys[0])))).scalar_one() or 0
        last = max(highest, await _last_given(reading, table.name, keys[0].name))
        if not last:
            continue
        if tx.is_sqlite:
            if not await _counts(tx):
                continue
            counted = {"table": table.name, "last": last}
            await tx.execute(text("DELETE FROM sqlite_sequence WHERE name = :table"), counted)
            await tx.execute(
                text("INSERT INTO sqlite_sequence (name, seq) VALUES (:table, :last)"), counted
            )
            continue
        sequence = await _sequence(tx, table.name, keys[0].name)
        if sequence is not None:
            setting = text("SELECT setval(CAST(:sequence AS regclass), :last)")
            await tx.execute(setting, {"sequence": sequence, "last": last})


async def _last_given(reading: Transaction, table: str, key: str) -> int:
    if reading.is_sqlite:
        if not await _counts(reading):
            return 0
        query = text("SELECT seq FROM sqlite_sequence WHERE name = :table")
        return int((await reading.execute(query, {"table": table})).scalar() or 0)
    sequence = await _sequence(reading, table, key)
    if sequence is None:
        return 0
    query = text("SELECT pg_sequence_last_value(CAST(:sequence AS regclass))")
    return int((await reading.execute(query, {"sequence": sequence})).scalar() or 0)


async def _counts(tx: Transaction) -> bool:
    """Whether a SQLite database has tables whose numbers are never given twice."""
    query = text("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'")
    return (await tx.execute(query)).first() is not None


async def _sequence(tx: Transaction, table: str, key: str) -> str | None:
    query = text("SELECT pg_get_serial_sequence(:table, :key)")
    found = (await tx.execute(query, {"table": table, "key": key})).scalar()
    return None if found is None else str(found)
