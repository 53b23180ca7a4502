"""What keeps a process from working, for ``/readyz``: its database, and the directories that it writes to."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from pathlib import Path

from vetro.server.settings import Settings
from vetro.server.starting import unusable
from vetro.storage import Database, StorageError


class Readiness:
    """What keeps a process from working: a call answers what is wrong, by part, and nothing when all is well.

    Parts: ``database``, ``disk`` (full) and ``files``. ``purposes``: the kinds of files that the process
    writes or copies (`vetro.blobs.BLOB_SUFFIXES`); ``has_node``: instances run in it. What other processes
    on the machine write is not asked for: it may be another user's.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database | None,
        purposes: Collection[str] = (),
        *,
        has_node: bool = False,
    ) -> None:
        self._settings = settings
        self._database = database
        self._purposes = purposes
        self._has_node = has_node
        self._copies: set[Path] = set()

    async def __call__(self) -> dict[str, str]:
        """See the class."""
        found: dict[str, str] = {}
        if self._database is not None:
            try:
                await self._database.check()
            except StorageError as error:
                found["database"] = str(error)
        return found | await asyncio.to_thread(self._of_directories)

    def _of_directories(self) -> dict[str, str]:
        found: dict[str, list[str]] = {}
        seen: set[int] = set()
        for directory in dict.fromkeys(self._written_to()):
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

    def _written_to(self) -> Iterator[Path]:
        settings = self._settings
        yield settings.data_dir
        kept = {settings.blob_directory(purpose) for purpose in self._purposes}
        if settings.blobs.store == "directory":
            if kept:
                yield settings.shared_dir
            yield from sorted(kept)
        else:
            # Made where the first copy is; else the shared directory has only keys, which are read.
            self._copies |= {directory for directory in kept if directory.exists()}
            yield from sorted(self._copies)
        if settings.database_url.startswith("sqlite"):
            yield settings.data_dir / "notify"
        if self._has_node:
            yield settings.data_dir / "node"
