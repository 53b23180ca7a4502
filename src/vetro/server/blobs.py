"""The files of an installation (``[blobs]``): moved to another store, and swept."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from vetro.blobs import BLOB_SUFFIXES, BlobMissing, BlobStore, StoredBlob, open_blobs
from vetro.server.compute import compute_settings
from vetro.server.errors import StartError
from vetro.server.installation import opened, refuse_lost_database
from vetro.server.packages import catalog_of
from vetro.server.settings import Settings
from vetro.storage import Database, StorageError

if TYPE_CHECKING:
    from vetro.catalog import Catalog
    from vetro.compute import ComputeService

#: Younger files may belong to an upload that has not ended.
SWEPT_AFTER_SECONDS = 86_400.0


@asynccontextmanager
async def open_stores(settings: Settings) -> AsyncGenerator[dict[str, BlobStore]]:
    """The store of each purpose, on the installation's database. Errors: ``StartError``."""
    async with opened(settings) as database:
        yield {
            purpose: open_blobs(settings.blobs, purpose, settings.blob_directory(purpose), database)
            for purpose in BLOB_SUFFIXES
        }


class _Known:
    """What the database refers to, and the stores."""

    def __init__(self, settings: Settings, database: Database) -> None:
        from vetro.compute import ComputeService

        images = settings.blob_directory("images")
        self.catalog: Catalog = catalog_of(settings, database)
        self.compute: ComputeService = ComputeService(
            database, compute_settings(settings, image_dir=images, node_key="")
        )
        self.stores = {
            "packages": self.catalog.blobs,
            "images": self.compute.images.blobs,
            "volume-backups": self.compute.volumes.blobs,
        }

    async def names(self, purpose: str) -> list[str]:
        """The files of a purpose that the database refers to."""
        if purpose == "packages":
            return await self.catalog.archives(None)
        if purpose == "images":
            return await self.compute.images.files(None)
        return await self.compute.volumes.files()

    async def remove(self, purpose: str, name: str) -> None:
        """Remove a file, unless it has come to be used."""
        if purpose == "packages":
            await self.catalog.drop_unused(name.removesuffix(BLOB_SUFFIXES[purpose]))
        elif name not in await self.names(purpose):
            await self.stores[purpose].remove(name)


async def copy_files(
    settings: Settings,
    source: str,
    progress: Callable[[str, str], None] = lambda _what, _name: None,
) -> int:
    """Copy the files that the database refers to from another store of the settings; how many.

    Files that are there already are not copied again, so that an interrupted copy continues. The
    services may run meanwhile, with either store. Errors: ``StartError``.
    """
    if source == settings.blobs.store:
        raise StartError(
            f"blobs.store is {source}: the files would be copied to themselves",
            "Set blobs.store to the new store, and name the old one with --from.",
        )
    refuse_lost_database(settings)
    old = replace(settings, blobs=replace(settings.blobs, store=source))
    copied = 0
    try:
        async with opened(settings) as database:
            known = _Known(settings, database)
            for purpose, store in known.stores.items():
                before = open_blobs(old.blobs, purpose, old.blob_directory(purpose), database)
                there = {one.name for one in await store.listing()}
                for name in await known.names(purpose):
                    if name in there:
                        continue
                    progress(purpose, name)
                    await _copy(before, store, name)
                    copied += 1
    except (StorageError, OSError) as error:
        raise StartError(
            f"{copied} files were copied, then one was not: {error}",
            "Nothing of the old store was changed. Run the command again: it continues.",
        ) from error
    return copied


async def _copy(source: BlobStore, target: BlobStore, name: str) -> None:
    temporary = target.directory / f".{name}.copied"
    try:
        temporary.unlink(missing_ok=True)
        await source.copy_to(name, temporary)
        await target.adopt(temporary, name)
    finally:
        temporary.unlink(missing_ok=True)


async def sweep(settings: Settings, *, remove: bool) -> list[tuple[str, StoredBlob]]:
    """The files older than a day that nothing refers to, with what they were for; removed if ``remove``.

    Processes that are killed between two steps leave such files. The services may run meanwhile. Errors:
    ``StartError``.
    """
    refuse_lost_database(settings)
    found: list[tuple[str, StoredBlob]] = []
    try:
        async with opened(settings) as database:
            known = _Known(settings, database)
            before = database.clock.now() - timedelta(seconds=SWEPT_AFTER_SECONDS)
            for purpose, store in known.stores.items():
                stored = [one for one in await store.listing() if one.stored < before]
                needed = set(await known.names(purpose))
                unused = [one for one in stored if one.name not in needed]
                found += [(purpose, one) for one in unused]
                for one in unused if remove else ():
                    await known.remove(purpose, one.name)
                if remove:
                    await store.discard_unfinished(SWEPT_AFTER_SECONDS)
    except (StorageError, OSError) as error:
        raise StartError(
            f"Unused files cannot be removed: {error}", "Nothing else was removed."
        ) from error
    return found


async def try_store(settings: Settings, file: Path) -> str:
    """Write, read and remove a small file in the store; why that fails, '' if it does not."""
    name = "vetro-doctor" + BLOB_SUFFIXES["packages"]
    try:
        async with opened(settings) as database:
            store = open_blobs(settings.blobs, "packages", file.parent, database)
            file.write_bytes(b"written by vetro doctor")
            await store.adopt(file, name)
            try:
                path = await store.fetch(name)
                if path.read_bytes() != b"written by vetro doctor":
                    return f"{store.where} gives back other content than it was given"
            except BlobMissing as error:
                return f"what was written to {store.where} is not there: {error}"
            finally:
                await store.remove(name)
    except (StorageError, StartError, OSError) as error:
        return str(error)
    return ""
