"""What keeps a process from working, for ``/readyz``: its database, and the directories that it writes to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from vetro.server.settings import Settings
from vetro.server.starting import unusable
from vetro.storage import Database, StorageError


async def missing(settings: Settings, database: Database | None) -> dict[str, str]:
    """What is wrong, by part: ``database``, ``disk`` (full) and ``files``; empty when all is well."""
    found: dict[str, str] = {}
    if database is not None:
        try:
            await database.check()
        except StorageError as error:
            found["database"] = str(error)
    return found | await asyncio.to_thread(_of_directories, settings)


def _of_directories(settings: Settings) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    seen: set[int] = set()
    for directory in dict.fromkeys(_written_to(settings)):
        try:
            device = directory.stat().st_dev
        except OSError:
            device = -1  # the probe says why
        # The room is that of the file system: one large probe of it will do.
        problem = unusable(directory, ask_for_room=device not in seen)
        seen.add(device)
        if problem is not None:
            found.setdefault("disk" if problem.is_full else "files", []).append(problem.text)
    return {part: "; ".join(texts) for part, texts in found.items()}


def _written_to(settings: Settings) -> Iterator[Path]:
    from vetro.blobs import BLOB_SUFFIXES

    yield settings.data_dir
    yield settings.shared_dir
    for purpose in BLOB_SUFFIXES:
        directory = settings.blob_directory(purpose)
        # Copies of what is elsewhere are made where they are needed first.
        if settings.blobs.store == "directory" or directory.parent.exists():
            yield directory
    if settings.database_url.startswith("sqlite"):
        yield settings.data_dir / "notify"
    if settings.node.enabled:
        yield settings.data_dir / "node"
