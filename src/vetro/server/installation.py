"""An installation's database: opened with its keys, migrated and sealed; rotation of its keys."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
from sqlalchemy import make_url, text

from vetro.blobs import BlobStore, BlobsUnavailable
from vetro.http import Readings
from vetro.server import data_directory
from vetro.server.errors import StartError
from vetro.server.settings import Settings
from vetro.server.starting import TO_REACH
from vetro.storage import (
    Database,
    DatabaseTooNew,
    KeyMissing,
    Keyring,
    MigrationSet,
    StorageError,
    Transaction,
    copy_database,
    migrate,
    prepare_sealing,
    rotate_key,
    sqlite_file,
)

log = structlog.get_logger(__name__)
KEYS = "keys"
"""The name of the key file, in the directory that services on one database share."""


def migration_sets() -> list[MigrationSet]:
    """The migrations of all rooms."""
    from vetro import (
        blobs,
        catalog,
        compute,
        engine,
        environments,
        identity,
        messaging,
        repository,
        stacks,
    )

    rooms = (identity, blobs, catalog, environments, messaging, stacks, compute, engine, repository)
    return [room.MIGRATIONS for room in rooms]


def refuse_lost_database(settings: Settings) -> None:
    """Refuse to create a new database where an installation lost its own. ``StartError``."""
    if settings.server.database_url:
        return
    database, openrc = settings.data_dir / "vetro.db", settings.data_dir / "admin-openrc"
    if not openrc.exists():
        return
    try:
        # SQLite takes an empty file for a new database, and removes the journal beside it.
        what = "" if database.stat().st_size else "empty"
    except FileNotFoundError:
        what = "missing"
    except OSError:
        return  # opening it says why
    if what:
        raise StartError(
            f"The database {database} is {what}, but the rest of the installation exists",
            "Restore it from a backup (docs/operating.md). To begin an empty installation, remove"
            f" {openrc} as well, or choose another directory with --data-dir.",
        )


@asynccontextmanager
async def opened(settings: Settings) -> AsyncGenerator[Database]:
    """The database as it is, with its keys. Errors: ``StartError``."""
    try:
        database = await Database.open(
            settings.database_url,
            data_dir=settings.data_dir,
            keyring=Keyring(settings.shared_dir / KEYS),
            use=settings.database_use,
        )
    except (StorageError, OSError) as error:
        if isinstance(error, OSError) and error.errno in data_directory.OF_THE_DISK:
            raise
        hint = (
            TO_REACH if settings.server.database_url else "See server.database_url and --data-dir."
        )
        raise StartError(f"The database cannot be opened: {error}", hint) from error
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncGenerator[Database]:
    """The database, migrated and with all its secrets sealed. Errors: ``StartError``."""
    refuse_lost_database(settings)
    async with opened(settings) as database:
        await database.check()
        async with database.transaction():
            pass  # a file that may be read only is refused here, not by the first part that writes
        try:
            await migrate(database, migration_sets())
            sealed = await prepare_sealing(database, migration_sets())
        except DatabaseTooNew as error:
            raise StartError(str(error), "The data directory belongs to a newer Vetro.") from error
        except KeyMissing as error:
            raise _without_keys(error, settings.shared_dir) from error
        if sealed:
            log.info("secrets_sealed", rows=sealed)
        yield database


async def refuse_missing(what: str, files: Sequence[str], blobs: BlobStore) -> None:
    """Refuse a store without any of the files that the database knows. Errors: ``StartError``."""
    try:
        for name in files:
            if await blobs.exists(name):
                return
    except BlobsUnavailable as error:
        # Other calls are served meanwhile; those that need a file are refused (503) until the store
        # answers.
        log.warning("files_not_checked", of=what, error=str(error))
        return
    if files:
        raise StartError(
            f"The database refers to {what}, but their files are not in {blobs.where}",
            "Services on one database need one place for them: name the first one's with"
            " server.shared_dir or [blobs], or restore it from a backup (docs/several-services.md).",
        )


async def rotate(settings: Settings, progress: Callable[[str, int], None]) -> int:
    """Seal everything with a new key; rows sealed again. Errors: ``StartError``."""
    directory, keys = settings.data_dir, settings.shared_dir / KEYS
    if not keys.exists():
        raise StartError(
            f"{keys} is not there: nothing of this installation is sealed yet",
            f"Is {directory} the data directory of 'vetro up'? See --data-dir and"
            " server.shared_dir; the keys are made when it starts.",
        )
    async with opened(settings) as database:
        try:
            return await rotate_key(database, migration_sets(), progress)
        except KeyMissing as error:
            raise _without_keys(error, settings.shared_dir) from error
        except StorageError as error:
            raise StartError(
                f"The keys were not rotated: {error}",
                "Nothing is lost: all keys are kept. Run 'vetro key rotate' again: it continues.",
            ) from error


async def copy_rows(
    source: str,
    target: str,
    progress: Callable[[str, int], None] = lambda _table, _rows: None,
    *,
    without: Collection[str] = (),
) -> int:
    """Copy the database at one address to the empty one at another; rows copied.

    Without keys: sealed values are copied as they are. Services may use the source meanwhile: it is
    read at one moment. The rows of the tables ``without`` are left out. Errors: ``StorageError``.
    """
    from vetro.catalog import rebuild_index

    async with _closing(source) as old, _closing(target) as new:
        return await copy_database(
            old, new, migration_sets(), rebuild=[rebuild_index], progress=progress, without=without
        )


async def copy(settings: Settings, target: str, progress: Callable[[str, int], None]) -> int:
    """Copy the installation's database to the empty one at ``target``; rows copied.

    Nothing of the installation may run: the data directory is locked meanwhile. Files are not copied, and
    the settings are not changed. Errors: ``StartError``.
    """
    refuse_lost_database(settings)
    if not settings.data_dir.is_dir():
        raise StartError(
            f"The data directory {settings.data_dir} does not exist",
            "Name that of 'vetro up' with --data-dir.",
        )
    ours = settings.database_url
    if (sqlite_file(target) or make_url(target)) == (sqlite_file(ours) or make_url(ours)):
        raise StartError("The database would be copied to itself", "Name another with --to.")
    with data_directory.lock(settings.data_dir):
        try:
            async with _closing(settings.database_url) as source:
                await _refuse_services(source)
            return await copy_rows(settings.database_url, target, progress)
        except StorageError as error:
            raise StartError(
                f"The database was not copied: {error}",
                "Nothing was changed; the service keeps using its present database.",
            ) from error


@asynccontextmanager
async def _closing(url: str) -> AsyncGenerator[Database]:
    database = await Database.open(url)
    try:
        yield database
    finally:
        await database.close()


async def _refuse_services(source: Database) -> None:
    if source.is_sqlite:
        return
    query = text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'vetro keys %'"
    )
    async with source.read() as tx:
        if (await tx.execute(query)).scalar_one():
            raise StorageError("services use it: stop all of them first")


def _without_keys(error: KeyMissing, shared: Path) -> StartError:
    return StartError(
        str(error)[:1].upper() + str(error)[1:],
        "A second service on one database needs the directory of the first:"
        f" server.shared_dir is {shared} (docs/several-services.md).",
    )


Reader = Callable[[Transaction], Awaitable[None]]


def stored_readings(database: Database, readers: Sequence[Reader]) -> Readings:
    """Reads the gauges of all rooms in one database transaction."""

    async def read() -> None:
        async with database.read() as tx:
            for reader in readers:
                await reader(tx)

    return Readings(read)
