"""Backups of an installation: its database and files in one archive, made while it runs; restoring.

A backup is a tar archive, readable for its owner only::

    vetro.db         the database at one moment, as SQLite, also of an installation on PostgreSQL
    broker.db        the service broker's database, where there is one
    packages/        archives of the catalog, whatever keeps them (``[blobs]``)
    images/          images of the compute service
    volume-backups/  its backups of volumes
    keys, …          the files by which the parts of the installation know each other
    backup.json      the last member: version, time, and the SHA-256 and size of every other

Instances are not in it: they are backed up like machines.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO

import msgspec

from vetro.blobs import BlobMissing, BlobsUnavailable
from vetro.server import data_directory
from vetro.server.blobs import open_stores
from vetro.server.compute import compute_settings
from vetro.server.errors import StartError
from vetro.server.installation import (
    KEYS,
    copy_rows,
    open_database,
    refuse_lost_database,
)
from vetro.server.settings import Settings
from vetro.storage import Database, StorageError, sqlite_file

FORMAT = 1
MANIFEST = "backup.json"
DATABASE = "vetro.db"
BROKER = "broker.db"
DIRECTORIES = data_directory.FILE_DIRECTORIES
#: Of the shared directory.
FILES = (
    KEYS,
    "node-key",
    "service-key",
    "dashboard-key",
    "broker-key",
    "engine-signing.pem",
    "admin-openrc",
)
_FILES_IN_DATABASE = ("blobs", "blobs_parts")
_ATTEMPTS = 5
_CHUNK = 2**20


class _Member(msgspec.Struct):
    sha256: str
    bytes: int


class _Manifest(msgspec.Struct):
    format: int
    vetro: str
    made: str
    members: dict[str, _Member]


@dataclass(frozen=True)
class Contents:
    """What is in a backup: files without the manifest, and their bytes."""

    made: str
    files: int
    bytes: int


async def back_up(settings: Settings, target: Path) -> Contents:
    """Write a backup of the installation, which may run, to ``target``.

    Errors: ``StartError``: the file exists, the database cannot be read, files of it are missing.
    """
    refuse_lost_database(settings)
    if target.exists():
        raise StartError(f"{target} exists already", "Choose another name, or remove it first.")
    if not settings.shared_dir.is_dir():
        raise StartError(
            f"There is no installation in {settings.shared_dir}",
            "Name the directory of 'vetro up' with --data-dir.",
        )
    if not target.parent.is_dir():
        raise StartError(f"The directory {target.parent} does not exist", "Make it first.")
    missing = Path()
    with TemporaryDirectory(dir=target.parent, prefix=".vetro-backup-") as place:
        directory = Path(place)
        for attempt in range(_ATTEMPTS):
            made = directory / "backup.tar"
            try:
                files = await _gather(settings, directory / str(attempt))
                contents = await asyncio.to_thread(_write, made, files)
            except FileNotFoundError as error:
                # A package or an image that was deleted since the database was copied: copy it again.
                missing = Path(str(error.filename))
                continue
            made.replace(target)
            return contents
    raise StartError(
        f"The database refers to {missing}, but the file is missing",
        "Restore the file, or delete what it belongs to, and make the backup then.",
    )


async def _gather(settings: Settings, directory: Path) -> dict[str, Path]:
    """The files of a backup by their names in it; databases are copied to ``directory``."""
    directory.mkdir()
    files = {DATABASE: directory / DATABASE}
    await _copy_database(settings, files[DATABASE])
    shared = settings.shared_dir
    for name in FILES:
        if (shared / name).exists():
            files[name] = shared / name
    if (settings.data_dir / BROKER).exists():
        files[BROKER] = directory / BROKER
        await asyncio.to_thread(_copy_file, settings.data_dir / BROKER, files[BROKER])
    needed = await _needed(settings, files[DATABASE])
    if settings.blobs.store == "directory":
        for purpose, name in needed:
            files[f"{purpose}/{name}"] = settings.blob_directory(purpose) / name
        return files
    async with open_stores(settings) as stores:
        for purpose, name in needed:
            files[f"{purpose}/{name}"] = copied = directory / f"{purpose}-{name}"
            try:
                await stores[purpose].copy_to(name, copied)
            except BlobMissing as error:
                raise FileNotFoundError(errno.ENOENT, str(error), name) from error
            except BlobsUnavailable as error:
                raise StartError(str(error), "Nothing was written.") from error
    return files


async def _copy_database(settings: Settings, target: Path) -> None:
    file = sqlite_file(settings.database_url)
    try:
        if file is not None:
            await asyncio.to_thread(_copy_file, file, target)
            await asyncio.to_thread(_without_files, target)
        else:
            await copy_rows(
                settings.database_url, f"sqlite:///{target}", without=_FILES_IN_DATABASE
            )
    except (StorageError, sqlite3.Error) as error:
        raise StartError(
            f"The database cannot be copied: {error}", "Nothing was written."
        ) from error


def _copy_file(source: Path, target: Path) -> None:
    """Copy a SQLite database at one moment, while others write to it."""
    with closing(
        sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=60)
    ) as connection:
        connection.execute("VACUUM INTO ?", (str(target),))


def _without_files(copied: Path) -> None:
    """Remove the files that a copied database has: they are members of the backup."""
    with closing(sqlite3.connect(copied)) as connection:
        rows = sum(
            connection.execute(f"DELETE FROM {table}").rowcount  # noqa: S608 - our constants
            for table in _FILES_IN_DATABASE
        )
        connection.commit()
        if rows:
            connection.execute("VACUUM")


async def _needed(settings: Settings, copied: Path) -> list[tuple[str, str]]:
    """The files that the rows of a copied database refer to: what each is for, and its name."""
    from vetro.catalog import Catalog
    from vetro.compute import ComputeService

    database = await Database.open(f"sqlite:///{copied}")
    try:
        images = settings.blob_directory("images")
        compute = ComputeService(
            database, compute_settings(settings, image_dir=images, node_key="")
        )
        known = {
            "packages": await Catalog(database, settings.blob_directory("packages")).archives(None),
            "images": await compute.images.files(None),
            "volume-backups": await compute.volumes.files(),
        }
        return [(purpose, name) for purpose, names in known.items() for name in names]
    finally:
        await database.close()


class _Digest:
    """Reads a file for an archive, and digests what it reads."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.sha256 = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data = self.file.read(size)
        self.sha256.update(data)
        return data


def _write(target: Path, files: dict[str, Path]) -> Contents:
    members: dict[str, _Member] = {}
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        with tarfile.open(fileobj=opened, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, path in files.items():
                with path.open("rb") as file:
                    reading: object = _Digest(file)
                    info = archive.gettarinfo(arcname=name, fileobj=file)
                    info.uid = info.gid = 0
                    info.uname = info.gname = ""
                    info.mode = 0o600
                    archive.addfile(info, reading)
                    members[name] = _Member(reading.sha256.hexdigest(), info.size)
            made = datetime.now(UTC).isoformat(timespec="seconds")
            manifest = _Manifest(FORMAT, version("vetro"), made, members)
            text = target.with_name(MANIFEST)
            text.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1))
            archive.add(text, MANIFEST)
        opened.flush()
        os.fsync(opened.fileno())
    return Contents(made, len(members), sum(one.bytes for one in members.values()))


async def restore(settings: Settings, file: Path) -> Contents:
    """Restore a backup into the empty directories, and the empty database, of the settings.

    Every file is checked against its digest, and the database opened with its keys, before anything
    is put in place. Errors: ``StartError``.
    """
    data, shared = settings.data_dir, settings.shared_dir
    _refuse_used(settings)
    data_directory.prepare(data, shared)
    with (
        data_directory.lock(data),
        TemporaryDirectory(dir=shared, prefix=".restore-") as place,
    ):
        directory = Path(place)
        manifest = await asyncio.to_thread(_unpack, file, directory)
        here = replace(settings.server, data_dir=place, shared_dir=place, database_url="")
        # As at a start: an older database is migrated, a newer one refused, its keys are tried.
        async with open_database(replace(settings, server=here)):
            pass
        if settings.server.database_url:
            await _fill(f"sqlite:///{directory / DATABASE}", settings.database_url)
            (directory / DATABASE).unlink()
        for name in manifest.members:
            where = data if name in (DATABASE, BROKER) else shared
            if (directory / name).is_file() and "/" not in name:
                (directory / name).replace(where / name)
        await _keep(settings, directory, [name for name in manifest.members if "/" in name])
    sizes = [one.bytes for one in manifest.members.values()]
    return Contents(manifest.made, len(sizes), sum(sizes))


async def _keep(settings: Settings, directory: Path, names: list[str]) -> None:
    """Move the files of a backup to where the settings keep them."""
    try:
        async with open_stores(settings) as stores:
            for purpose, name in (one.split("/") for one in names):
                await stores[purpose].adopt(directory / purpose / name, name)
    except StorageError as error:
        raise StartError(
            f"The database was restored, but its files were not: {error}",
            "Make the store of [blobs] usable, empty the directory and the database, and restore again.",
        ) from error


async def _fill(source: str, target: str) -> None:
    try:
        await copy_rows(source, target)
    except StorageError as error:
        raise StartError(
            f"The database was not restored: {error}",
            "server.database_url must name an empty database; nothing was changed.",
        ) from error


def _refuse_used(settings: Settings) -> None:
    """Refuse directories that have an installation already."""
    for directory, names in (
        (settings.data_dir, (DATABASE, BROKER)),
        (settings.shared_dir, (*FILES, *DIRECTORIES)),
    ):
        for name in names:
            path = directory / name
            if path.is_file() or (path.is_dir() and any(path.iterdir())):
                raise StartError(
                    f"{directory} has an installation already: there is {name}",
                    "A backup is restored into an empty directory: choose another with --data-dir.",
                )


def _unpack(file: Path, directory: Path) -> _Manifest:
    """Unpack and check the archive; what it says of itself."""
    found: dict[str, _Member] = {}
    manifest: _Manifest | None = None
    for name in DIRECTORIES:
        (directory / name).mkdir(mode=0o700)
    try:
        with tarfile.open(file, "r:") as archive:
            for info, content in _regular(archive):
                if info.name == MANIFEST:
                    manifest = msgspec.json.decode(content.read(2**28), type=_Manifest)
                elif _belongs(info.name):
                    found[info.name] = _take(content, directory / info.name)
                else:
                    raise _damaged(file, f"it has a member {info.name!r}, which no backup has")
    except FileNotFoundError as error:
        raise StartError(
            f"There is no file {file}", "Name a file that 'vetro backup' wrote."
        ) from error
    except (tarfile.TarError, EOFError, msgspec.DecodeError, ValueError) as error:
        raise _damaged(file, str(error)) from error
    if manifest is None:
        raise _damaged(file, f"it has no {MANIFEST}: it is truncated, or not a backup of Vetro")
    if manifest.format != FORMAT:
        raise StartError(
            f"{file} has the format {manifest.format}, made by Vetro {manifest.vetro}",
            f"This version reads the format {FORMAT}: restore it with the version that made it.",
        )
    for name in sorted({*found, *manifest.members}):
        if found.get(name) != manifest.members.get(name):
            raise _damaged(file, f"{name} differs from what was backed up")
    if DATABASE not in found:
        raise _damaged(file, "it has no database")
    return manifest


def _regular(archive: tarfile.TarFile) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    for info in archive:
        content = archive.extractfile(info) if info.isreg() else None
        if content is None:
            raise ValueError(f"its member {info.name!r} is not a file")
        yield info, content


def _belongs(name: str) -> bool:
    parts = PurePosixPath(name).parts
    if len(parts) == 2:
        return parts[0] in DIRECTORIES and parts[1] not in (".", "..")
    return name in (DATABASE, BROKER, *FILES)


def _take(content: IO[bytes], path: Path) -> _Member:
    digest, size = hashlib.sha256(), 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as target:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
            size += target.write(chunk)
    return _Member(digest.hexdigest(), size)


def _damaged(file: Path, why: str) -> StartError:
    return StartError(
        f"{file} is not a usable backup: {why}", "Nothing was changed. Restore another one."
    )
