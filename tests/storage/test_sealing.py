"""What is secret is stored sealed, with a key that is not in the database."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, insert, select, update

from vetro.storage import (
    Database,
    DatabaseReadOnly,
    KeyMissing,
    Keyring,
    MigrationSet,
    SealedBytes,
    SealedJson,
    SealedText,
    StorageError,
    migrate,
    prepare_sealing,
    rotate_key,
)
from vetro.storage import sealing as module
from vetro.storage.tables import sealing

SECRET = "correct horse battery staple"
metadata = MetaData()
models = Table(
    "sealed_models",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("model", SealedJson),
    Column("note", SealedText),
    Column("body", SealedBytes),
    Column("name", Text),
)
SETS = [MigrationSet("tests", Path(__file__).parent, metadata)]
VALUES = {"model": {"password": SECRET}, "note": SECRET, "body": SECRET.encode(), "name": "n"}
Open = Callable[..., Awaitable[Database]]


@pytest.fixture
async def opened(database_url: str, tmp_path: Path) -> AsyncIterator[Open]:
    """Opens the database with the keys of a file, as a process of its own would."""
    databases: list[Database] = []

    async def start(keys: str | None = "keys") -> Database:
        ring = Keyring(tmp_path / keys) if keys else None
        database = await Database.open(database_url, keyring=ring)
        databases.append(database)
        await migrate(database, [])
        async with database.transaction() as tx:
            await tx.connection.run_sync(metadata.create_all)
        return database

    yield start
    for database in databases:
        await database.close()


async def stored(database: Database) -> list[Any]:
    """The rows as the database has them."""
    async with database.read() as tx:
        return list(await tx.connection.exec_driver_sql("SELECT * FROM sealed_models ORDER BY id"))


async def values(database: Database) -> list[dict[str, Any]]:
    """The rows as programs see them."""
    query = select(models.c.model, models.c.note, models.c.body, models.c.name)
    async with database.read() as tx:
        return [dict(row._mapping) for row in await tx.execute(query.order_by(models.c.id))]


async def add(database: Database, **other: Any) -> None:
    """One more row."""
    async with database.transaction() as tx:
        await tx.execute(insert(models).values(**{**VALUES, **other}))


def keys_of(row: Any) -> set[str]:
    """The ids of the keys that sealed a row."""
    return {
        (one.removeprefix(b"\x00vetro\x00").decode() if isinstance(one, bytes) else one).split(":")[
            1
        ]
        for one in row[1:4]
        if one is not None
    }


async def test_a_secret_is_nowhere_in_the_database(opened: Open) -> None:
    """Text, JSON and bytes are stored sealed and read back unchanged."""
    database = await opened()
    await prepare_sealing(database, SETS)
    await add(database)
    await add(database, model=None, note=None, body=None)
    assert SECRET not in str(await stored(database))
    assert await values(database) == [
        VALUES,
        {"model": None, "note": None, "body": None, "name": "n"},
    ]


async def test_nothing_is_sealed_with_keys_that_are_only_in_memory(
    opened: Open, tmp_path: Path
) -> None:
    """Writes are refused while the key file is gone, readiness says so; with the file back all goes on."""
    database = await opened()
    await prepare_sealing(database, SETS)
    await add(database)
    (tmp_path / "keys").rename(tmp_path / "elsewhere")
    with pytest.raises(DatabaseReadOnly, match="the key file .*keys is gone"):
        await add(database)
    with pytest.raises(DatabaseReadOnly, match="Restore it"):
        await database.check()
    assert await values(database) == [VALUES]
    (tmp_path / "elsewhere").rename(tmp_path / "keys")
    await database.check()
    await add(database)
    assert await values(database) == [VALUES] * 2


async def test_the_same_value_is_sealed_differently_each_time(opened: Open) -> None:
    """A reader of the database cannot see which secrets are equal."""
    database = await opened()
    await prepare_sealing(database, SETS)
    await add(database)
    await add(database)
    first, second = await stored(database)
    assert first[1] != second[1]


async def test_what_an_earlier_version_wrote_is_sealed_at_the_start(
    opened: Open, database_url: str
) -> None:
    """Values in clear are read, sealed by the next start, and wiped from SQLite's file."""
    older = await opened(None)
    for _ in range(45):
        await add(older)
    await older.close()
    database = await opened()
    assert await prepare_sealing(database, SETS) == 45
    assert await values(database) == [VALUES] * 45
    assert SECRET not in str(await stored(database))
    assert await prepare_sealing(database, SETS) == 0
    if database.is_sqlite:
        file = Path(database_url.removeprefix("sqlite:///"))
        for path in file.parent.glob(f"{file.name}*"):
            assert SECRET.encode() not in path.read_bytes()


async def test_rotation_under_writers_loses_nothing(opened: Open, tmp_path: Path) -> None:
    """A service keeps running during a rotation; afterwards no value needs the old key."""
    service, operator = await opened(), await opened()
    await prepare_sealing(service, SETS)
    old = Keyring(tmp_path / "keys").current
    for _ in range(30):
        await add(service)
    stop = asyncio.Event()

    async def work() -> int:
        count = 0
        while not stop.is_set():
            await add(service)
            async with service.transaction() as tx:
                await tx.execute(update(models).where(models.c.id == 1 + count % 5).values(VALUES))
            count += 1
        return count

    working = asyncio.create_task(work())
    await rotate_key(operator, SETS)
    stop.set()
    more = await working
    ids = Keyring(tmp_path / "keys").ids
    assert len(ids) == 1
    assert ids != [old]
    assert await values(await opened()) == [VALUES] * (30 + more)
    for row in await stored(service):
        assert keys_of(row) == set(ids)


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
async def test_an_interrupted_rotation_is_finished(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """After a stop at any step all values are readable; the next start finishes with that key."""
    database = await opened()
    await prepare_sealing(database, SETS)
    for _ in range(50):
        await add(database)
    batch, done = module._batch, 0

    async def breaks(*arguments: Any) -> int:
        nonlocal done
        done += 1
        if done > steps:
            raise KeyboardInterrupt
        return await batch(*arguments)

    monkeypatch.setattr(module, "_batch", breaks)
    with pytest.raises(KeyboardInterrupt):
        await rotate_key(database, SETS)
    monkeypatch.undo()
    assert await values(await opened()) == [VALUES] * 50
    new = Keyring(tmp_path / "keys").current
    await prepare_sealing(await opened(), SETS)
    assert Keyring(tmp_path / "keys").ids == [new]
    assert {key for row in await stored(database) for key in keys_of(row)} == {new}


async def test_an_interrupted_rotation_does_not_make_a_third_key(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeated rotation continues an interrupted one with the key that it created."""
    database = await opened()
    await prepare_sealing(database, SETS)
    await add(database)
    keyring = Keyring(tmp_path / "keys")
    new = keyring.add()
    await rotate_key(database, SETS)
    assert Keyring(tmp_path / "keys").ids == [new]


async def test_a_database_without_its_keys_is_refused(opened: Open, tmp_path: Path) -> None:
    """A service with a wrong or missing key file does not start and creates no key."""
    database = await opened()
    await prepare_sealing(database, SETS)
    await add(database)
    (key,) = Keyring(tmp_path / "keys").ids
    Keyring(tmp_path / "other").create()
    with pytest.raises(KeyMissing, match=f"the key {key}, which is not in .*other"):
        await prepare_sealing(await opened("other"), SETS)
    with pytest.raises(KeyMissing, match="missing, which must have its keys, is missing"):
        await prepare_sealing(await opened("missing"), SETS)
    assert not (tmp_path / "missing").exists()
    async with database.read() as tx:
        assert [row.key_id for row in await tx.execute(select(sealing))] == [key]


async def test_a_value_that_was_changed_is_not_opened(opened: Open, tmp_path: Path) -> None:
    """A sealed value is authentic: a changed bit is an error, not other data."""
    keyring = Keyring(tmp_path / "keys")
    keyring.create()
    head, _, body = keyring.seal(b"secret").rpartition(":")
    changed = bytearray(base64.b64decode(body))
    changed[-1] ^= 1
    with pytest.raises(StorageError, match="damaged"):
        keyring.open(f"{head}:{base64.b64encode(changed).decode()}")


def test_the_key_file_is_private_and_made_once(tmp_path: Path) -> None:
    """Only this user reads the keys; a second process takes the file that is there."""
    first, second = Keyring(tmp_path / "keys"), Keyring(tmp_path / "keys")
    first.create()
    key = first.current
    second._write(["00000000 AAAA"], fresh=True)
    assert second.ids == [key]
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["keys"]
