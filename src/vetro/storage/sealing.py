"""Sealing stored values with the current key: after an upgrade, a rotation, or a crash of either.

The table ``storage_sealing`` lists the keys that sealed values here. A start is refused, before
anything is written, when the key file lacks one of them: otherwise half of the database would be
sealed with an unrelated key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import (
    Column,
    LargeBinary,
    Row,
    Text,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    text,
    type_coerce,
    update,
)
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.types import TypeEngine

from vetro.storage.database import Database, application_name
from vetro.storage.errors import DatabaseBusy, KeyMissing, StorageError
from vetro.storage.keyring import PREFIX, Keyring
from vetro.storage.migrate import STORAGE_MIGRATIONS, MigrationSet
from vetro.storage.sealed import MAGIC, SealedBytes, SealedText, sealed_columns
from vetro.storage.tables import sealing
from vetro.storage.units import Transaction

BATCH = 20
"""Rows per unit of work: some are models of many MiB, and services wait for the writer."""
LOCK_TRIES = 200
Progress = Callable[[str, int], None]


def _ignored(_table: str, _rows: int) -> None:
    return None


def keyring_for(database: Database) -> Keyring:
    """The keyring a database was opened with. Errors: ``StorageError``."""
    if database.keyring is None:
        raise StorageError(f"{database.name} was opened without keys")
    return database.keyring


async def prepare_sealing(database: Database, sets: Sequence[MigrationSet]) -> int:
    """At a start, after ``migrate``: create a missing key, seal clear values; rows sealed.

    Values that an earlier version wrote in clear are sealed (and, on SQLite, wiped from the file);
    an interrupted rotation is finished. Errors: ``KeyMissing`` when this database was sealed with a
    key that the key file does not have.
    """
    keyring = keyring_for(database)
    async with database.transaction() as tx:
        await tx.exclude("storage/sealing")
        rows = list(await tx.execute(select(sealing)))
        if not rows:
            keyring.create()
        _check(keyring, rows)
        await _mark(database, tx, keyring.current)
    if [(row.key_id, row.complete) for row in rows] == [(keyring.current, True)]:
        return 0
    count = await reseal(database, sets)
    if not rows and count and database.is_sqlite:
        await database.wipe()
    await finish_sealing(database, sets)
    return count


async def rotate_key(
    database: Database, sets: Sequence[MigrationSet], progress: Progress = _ignored
) -> int:
    """Create a new key and seal everything with it; the number of rows sealed again.

    Services may run meanwhile: they use the new key as soon as it is in the file. If it is
    interrupted, the next call or the next start of a service finishes it (without a further key).
    Errors: ``KeyMissing``, ``StorageError`` when no service has used the database with keys yet.
    """
    keyring = keyring_for(database)
    async with database.read() as tx:
        rows = list(await tx.execute(select(sealing)))
        await _refuse_copies(database, tx, keyring)
    if not rows:
        raise StorageError("nothing is sealed in this database yet: start a service on it first")
    _check(keyring, rows)
    if [(row.key_id, row.complete) for row in rows] == [(keyring.current, True)]:
        keyring.add()
    async with database.transaction() as tx:
        await _mark(database, tx, keyring.current)
    count = await reseal(database, sets, progress)
    return count + await finish_sealing(database, sets)


async def finish_sealing(database: Database, sets: Sequence[MigrationSet]) -> int:
    """Drop the keys that no value is sealed with; the number of rows sealed again before that.

    SQLite has one writer at a time, so while this unit of work runs no other can write. On
    PostgreSQL the tables are locked against writers for this last check; when a table is in use the
    lock is tried again, to avoid a deadlock with a service. Errors: ``DatabaseBusy`` when the lock
    cannot be taken; then every key is kept.
    """
    tries = 1 if database.is_sqlite else LOCK_TRIES
    while True:
        try:
            return await _finish(database, sets)
        except DatabaseBusy:
            tries -= 1
            if not tries:
                raise
            await asyncio.sleep(0.05)


async def _finish(database: Database, sets: Sequence[MigrationSet]) -> int:
    keyring = keyring_for(database)
    current = keyring.current
    tables = _columns(sets)
    count = 0
    async with database.transaction() as tx:
        if not database.is_sqlite:
            names = ", ".join(columns[0].table.name for columns in tables)
            await tx.execute(text(f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE NOWAIT"))
        for columns in tables:
            while done := await _batch(tx, columns, current):
                count += done
        await tx.execute(delete(sealing).where(sealing.c.key_id != current))
        await tx.execute(update(sealing).values(complete=True))
    keyring.keep_only([current])
    return count


async def reseal(
    database: Database, sets: Sequence[MigrationSet], progress: Progress = _ignored
) -> int:
    """Seal values that are in clear or sealed with another key; the number of rows changed."""
    current = keyring_for(database).current
    count = 0
    for columns in _columns(sets):
        changed = 0
        while True:
            async with database.transaction() as tx:
                done = await _batch(tx, columns, current)
            if not done:
                break
            changed += done
            progress(columns[0].table.name, changed)
        count += changed
    return count


def _check(keyring: Keyring, rows: Sequence[Row[Any]]) -> None:
    known = keyring.ids
    for row in rows:
        if row.key_id not in known:
            raise KeyMissing(row.key_id, keyring.file)


async def _refuse_copies(database: Database, tx: Transaction, keyring: Keyring) -> None:
    """Refuse to rotate while a service uses a copy of the keys: it would seal with the old one."""
    if database.is_sqlite:
        return
    query = text(
        "SELECT DISTINCT coalesce(host(client_addr), 'this machine') AS place FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'vetro keys %'"
        " AND application_name <> :ours ORDER BY place"
    )
    rows = await tx.execute(query.bindparams(ours=application_name(keyring)))
    places = [str(row.place) for row in rows]
    if places:
        raise StorageError(
            f"services that use this database have key files of their own ({', '.join(places)}): stop"
            f" them, rotate, copy {keyring.file} to them, and start them again; or give all of them"
            " one directory (server.shared_dir)"
        )


async def _mark(database: Database, tx: Transaction, key: str) -> None:
    if (await tx.execute(select(sealing).where(sealing.c.key_id == key))).first() is None:
        values = {"key_id": key, "since": database.clock.now(), "complete": False}
        await tx.execute(insert(sealing).values(**values))


def _columns(sets: Sequence[MigrationSet]) -> list[list[Column[object]]]:
    every = {one.room: one for one in (STORAGE_MIGRATIONS, *sets)}
    return [
        columns
        for one in every.values()
        if one.tables is not None
        for columns in sealed_columns(one.tables)
    ]


def _raw(column: Column[object]) -> ColumnElement[object]:
    """The column without decryption, as the stored text or bytes."""
    return type_coerce(column, _seal_of(column))


def _seal_of(column: Column[object]) -> TypeEngine[Any]:
    return SealedBytes() if isinstance(column.type, SealedBytes) else SealedText()


def _other(column: Column[object], current: str) -> ColumnElement[bool]:
    """Whether a column has a value that is not sealed with the key ``current``."""
    mark = f"{PREFIX}{current}:"
    if isinstance(column.type, SealedBytes):
        start = MAGIC + mark.encode()
        begins = func.substr(type_coerce(column, LargeBinary), 1, len(start))
        return type_coerce(begins, LargeBinary) != literal(start, LargeBinary)
    return func.substr(type_coerce(column, Text), 1, len(mark)) != mark


async def _batch(tx: Transaction, columns: list[Column[object]], current: str) -> int:
    """Seal some rows of a table; how many: 0 when there are no more."""
    table = columns[0].table
    keys = list(table.primary_key.columns)
    raw = [_raw(column).label(f"raw_{at}") for at, column in enumerate(columns)]
    # The condition is null for a null value, so such a row is not selected.
    query = select(*keys, *raw).where(or_(*(_other(column, current) for column in columns)))
    rows = list(await tx.execute(query.limit(BATCH).with_for_update()))
    for row in rows:
        where = and_(*(key == value for key, value in zip(keys, row[: len(keys)], strict=True)))
        values = {
            column: type_coerce(bindparam(None, value, _seal_of(column)), _seal_of(column))
            for column, value in zip(columns, row[len(keys) :], strict=True)
        }
        await tx.execute(update(table).where(where).values(values))
    return len(rows)
