"""Stores of files by name: a directory, or a place elsewhere with copies on this machine.

Names have no directories; the caller locks a name that it adopts or removes, and never changes the content
of a name that has a digest.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import shutil
import time
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import msgspec

from vetro.blobs.errors import BlobMissing
from vetro.storage import Transaction

#: A copy that was used within these seconds stays on this machine, however many there are.
IN_USE_SECONDS = 3600.0


class StoredBlob(msgspec.Struct, frozen=True):
    """A file in a store: its name, its size in bytes, and when it was stored."""

    name: str
    bytes: int
    stored: datetime


class BlobStore(ABC):
    """The files of one purpose. ``directory``: on this machine, for uploads; ``where``: for messages."""

    def __init__(self, directory: Path, suffix: str, where: str) -> None:
        self.directory = directory
        self.suffix = suffix
        self.where = where
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    @abstractmethod
    async def fetch(self, name: str, *, sha256: str = "", tx: Transaction | None = None) -> Path:
        """The path of a file on this machine, to read it.

        ``sha256``: its digest, where it is known: a copy from elsewhere is checked. ``tx``: the caller's
        transaction, if it is in one. Errors: ``BlobMissing``, ``BlobsUnavailable``.
        """

    @abstractmethod
    async def exists(self, name: str) -> bool:
        """Whether the store has a file. Errors: ``BlobsUnavailable``."""

    @abstractmethod
    async def adopt(
        self, file: Path, name: str, *, sha256: str = "", tx: Transaction | None = None
    ) -> None:
        """Move a file (in ``directory``) into the store; an older one of that name is replaced.

        With ``tx``, a store in the database keeps it when that transaction is committed. Errors:
        ``BlobsFull``, ``BlobsUnavailable``, ``OSError``.
        """

    async def add(
        self, content: bytes, name: str, *, sha256: str = "", tx: Transaction | None = None
    ) -> None:
        """Store a small file by its content; see `adopt`."""
        file = self.directory / f".{secrets.token_hex(12)}.added"
        try:
            _write_new(file, content)
            await self.adopt(file, name, sha256=sha256, tx=tx)
        finally:
            file.unlink(missing_ok=True)

    @abstractmethod
    async def remove(self, name: str, *, tx: Transaction | None = None) -> None:
        """Remove a file, if it is there. Errors: ``BlobsUnavailable``."""

    @abstractmethod
    async def listing(self) -> list[StoredBlob]:
        """All files of the store. Errors: ``BlobsUnavailable``."""

    @abstractmethod
    async def copy_to(self, name: str, target: Path) -> None:
        """Write a file's content to ``target``. Errors: ``BlobMissing``, ``BlobsUnavailable``."""

    def share(self, name: str, other: str) -> bool:
        """Let a file and another one with the same content take the room of one; whether they do now."""
        return name == other

    async def discard_unfinished(self, older_than_seconds: float) -> int:
        """Remove what uploads that were interrupted left in the store; returns how many."""
        del older_than_seconds
        return 0


class DirectoryBlobs(BlobStore):
    """Files in a directory, which all services on one database share."""

    def __init__(self, directory: Path, suffix: str = "") -> None:
        super().__init__(directory, suffix, str(directory))

    def path(self, name: str) -> Path:
        """The path of a file."""
        return self.directory / name

    async def fetch(self, name: str, *, sha256: str = "", tx: Transaction | None = None) -> Path:
        """See `BlobStore.fetch`; nothing is checked: the file is where it was written."""
        del sha256, tx
        return self.path(name)

    async def exists(self, name: str) -> bool:
        """See `BlobStore.exists`."""
        return self.path(name).exists()

    async def adopt(
        self, file: Path, name: str, *, sha256: str = "", tx: Transaction | None = None
    ) -> None:
        """See `BlobStore.adopt`."""
        del sha256, tx
        os.replace(file, f"{self.directory}/{name}")

    async def add(
        self, content: bytes, name: str, *, sha256: str = "", tx: Transaction | None = None
    ) -> None:
        """See `BlobStore.add`. A name with a digest is written as it is: nobody reads it before its
        transaction is committed. Another file of that name was left by a process that was killed."""
        path = f"{self.directory}/{name}"
        if not sha256:
            await super().add(content, name, tx=tx)
            return
        try:
            _write_new(path, content)
        except FileExistsError:
            if await asyncio.to_thread(Path(path).read_bytes) != content:
                await super().add(content, name, tx=tx)

    async def remove(self, name: str, *, tx: Transaction | None = None) -> None:
        """See `BlobStore.remove`."""
        del tx
        # Texts, not paths: making a path takes as long as removing a file.
        try:
            os.unlink(f"{self.directory}/{name}")
        except FileNotFoundError:
            return

    async def listing(self) -> list[StoredBlob]:
        """See `BlobStore.listing`."""
        return await asyncio.to_thread(self._listing)

    def _listing(self) -> list[StoredBlob]:
        found: list[StoredBlob] = []
        with os.scandir(self.directory) as entries:
            for entry in entries:
                if entry.name.endswith(self.suffix) and entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(FileNotFoundError):
                        known = entry.stat()
                        stored = datetime.fromtimestamp(known.st_mtime, UTC)
                        found.append(StoredBlob(entry.name, known.st_size, stored))
        return sorted(found, key=lambda one: one.name)

    async def copy_to(self, name: str, target: Path) -> None:
        """See `BlobStore.copy_to`."""
        try:
            await asyncio.to_thread(shutil.copyfile, self.path(name), target)
        except FileNotFoundError as error:
            raise BlobMissing(f"{self.where} has no file {name}") from error

    def share(self, name: str, other: str) -> bool:
        """Make a file a hard link to another one with the same content."""
        linked = self.directory / f".{name}.linked"
        linked.unlink(missing_ok=True)
        try:
            linked.hardlink_to(self.path(other))
        except OSError:
            return False
        linked.replace(self.path(name))
        return True


class Remote(Protocol):
    """A place for files elsewhere, by key. Errors of all calls: those of `BlobStore`."""

    async def put(self, key: str, file: Path, tx: Transaction | None) -> None:
        """Store the content of a file; an older one of that key is replaced."""
        ...

    async def get(self, key: str, target: Path, tx: Transaction | None) -> None:
        """Write the content of a key to a new file."""
        ...

    async def exists(self, key: str) -> bool:
        """Whether there is content of this key."""
        ...

    async def remove(self, key: str, tx: Transaction | None) -> None:
        """Remove the content of a key, if there is any."""
        ...

    async def listing(self, prefix: str) -> list[StoredBlob]:
        """The keys that begin with a prefix."""
        ...

    async def discard_unfinished(self, older_than_seconds: float) -> int:
        """Remove what interrupted uploads left; returns how many."""
        ...


class RemoteBlobs(BlobStore):
    """Files elsewhere, with copies of those that were used in ``directory``.

    ``cache_bytes``: the copies that were not used for the longest time are removed beyond that.
    """

    def __init__(
        self,
        directory: Path,
        remote: Remote,
        *,
        purpose: str,
        suffix: str,
        where: str,
        cache_bytes: int,
    ) -> None:
        super().__init__(directory, suffix, where)
        self._remote = remote
        self._prefix = f"{purpose}/"
        self._cache_bytes = cache_bytes
        self._fetching: dict[str, asyncio.Lock] = {}

    def _copy(self, name: str, sha256: str) -> Path:
        """Where the copy of a file is: content of another digest has another name."""
        known = not sha256 or name.startswith(sha256)
        return self.directory / (name if known else f"{sha256[:16]}-{name}")

    async def fetch(self, name: str, *, sha256: str = "", tx: Transaction | None = None) -> Path:
        """See `BlobStore.fetch`. Without a digest it is unknown whether a copy is old: it is not used."""
        copy = self._copy(name, sha256)
        lock = self._fetching.setdefault(copy.name, asyncio.Lock())
        async with lock:
            try:
                if sha256:
                    os.utime(copy)
                    return copy
            except FileNotFoundError:
                pass
            await self._fetch(name, copy, sha256, tx)
        if not lock.locked():
            self._fetching.pop(copy.name, None)
        await asyncio.to_thread(self._trim)
        return copy

    async def _fetch(self, name: str, copy: Path, sha256: str, tx: Transaction | None) -> None:
        temporary = self.directory / f".{secrets.token_hex(12)}.fetched"
        try:
            await self._remote.get(self._prefix + name, temporary, tx)
            if sha256:
                found = await asyncio.to_thread(digest_of, temporary)
                if found != sha256:
                    raise BlobMissing(
                        f"{name} from {self.where} is damaged: its SHA-256 is {found}, not {sha256}:"
                        " restore it from a backup"
                    )
            temporary.replace(copy)
        finally:
            temporary.unlink(missing_ok=True)

    async def exists(self, name: str) -> bool:
        """See `BlobStore.exists`."""
        return await self._remote.exists(self._prefix + name)

    async def adopt(
        self, file: Path, name: str, *, sha256: str = "", tx: Transaction | None = None
    ) -> None:
        """See `BlobStore.adopt`."""
        await self._remote.put(self._prefix + name, file, tx)
        if not sha256:
            file.unlink()  # later it would be unknown whether a copy of it is the right one
            return
        file.replace(self._copy(name, sha256))
        await asyncio.to_thread(self._trim)

    async def remove(self, name: str, *, tx: Transaction | None = None) -> None:
        """See `BlobStore.remove`; other machines keep their copies until they need the room."""
        await self._remote.remove(self._prefix + name, tx)
        (self.directory / name).unlink(missing_ok=True)

    async def listing(self) -> list[StoredBlob]:
        """See `BlobStore.listing`."""
        cut = len(self._prefix)
        return [
            StoredBlob(one.name[cut:], one.bytes, one.stored)
            for one in await self._remote.listing(self._prefix)
        ]

    async def copy_to(self, name: str, target: Path) -> None:
        """See `BlobStore.copy_to`."""
        await self._remote.get(self._prefix + name, target, None)

    async def discard_unfinished(self, older_than_seconds: float) -> int:
        """See `BlobStore.discard_unfinished`."""
        return await self._remote.discard_unfinished(older_than_seconds)

    def _trim(self) -> None:
        """Remove the copies that were not used for the longest time, beyond the limit."""
        copies: list[tuple[float, int, str]] = []
        with os.scandir(self.directory) as entries:
            for entry in entries:
                if entry.name.endswith(self.suffix):
                    with contextlib.suppress(FileNotFoundError):
                        known = entry.stat(follow_symlinks=False)
                        copies.append((known.st_mtime, known.st_size, entry.path))
        size, before = sum(one[1] for one in copies), time.time() - IN_USE_SECONDS
        for used, bytes_, path in sorted(copies):
            if size <= self._cache_bytes or used > before:
                return
            Path(path).unlink(missing_ok=True)
            size -= bytes_


def _write_new(path: Path | str, content: bytes) -> None:
    """Write a file that must not be there yet, for this user only; nothing is left of it after an error.

    Errors: ``OSError``, among them ``FileExistsError``.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(descriptor)


def digest_of(file: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
