"""Files in a bucket of Amazon S3 or of any store that speaks its protocol (Ceph, MinIO, Swift, Garage)."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from vetro.blobs.errors import BlobMissing, BlobsFull, BlobsUnavailable
from vetro.blobs.settings import BlobsSection
from vetro.blobs.store import StoredBlob
from vetro.storage import Transaction

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Store

#: How long a request is repeated while the store does not answer, or answers 5xx.
RETRY_SECONDS = 10.0
CONNECT_SECONDS = 5.0
REQUEST_SECONDS = 600.0
_CHUNK_BYTES = 2**20
_FULL = re.compile(r"\b507\b|StorageFull|QuotaExceeded|InsufficientStorage|XMinioStorageFull")


class S3Blobs:
    """Objects of a bucket; see `vetro.blobs.store.Remote`.

    Objects appear as a whole: large files are sent in parts, and an upload that is interrupted leaves no
    object (let the bucket's lifecycle rule remove unfinished parts).
    """

    def __init__(self, section: BlobsSection) -> None:
        self.where = f"the bucket {section.bucket} at {section.endpoint or 'Amazon S3'}"
        self._section = section
        self._opened: S3Store | None = None

    @property
    def _store(self) -> S3Store:
        # Imported with the first use: services with a directory do not load it.
        from obstore.store import S3Store

        if self._opened is None:
            given = self._section
            # What is not given comes from the variables AWS_…, or from the machine's role.
            config: S3Config = {"region": given.region}
            if given.endpoint:
                config["endpoint"] = given.endpoint
            if given.access_key:
                config["access_key_id"] = given.access_key
                config["secret_access_key"] = given.secret_key
            self._opened = S3Store(
                given.bucket,
                prefix=given.prefix.strip("/") or None,
                config=config,
                client_options={
                    "allow_http": given.endpoint.startswith("http://"),
                    "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
                    "timeout": timedelta(seconds=REQUEST_SECONDS),
                },
                retry_config={
                    "max_retries": 4,
                    "retry_timeout": timedelta(seconds=RETRY_SECONDS),
                },
            )
        return self._opened

    @asynccontextmanager
    async def _explained(self, key: str) -> AsyncGenerator[None]:
        """Raise the errors of the library as ours, in one line."""
        from obstore.exceptions import BaseError

        try:
            yield
        except FileNotFoundError as error:
            raise BlobMissing(f"{self.where} has no file {key}") from error
        except BaseError as error:
            text = " ".join(str(error).partition("\n\nDebug source")[0].split())[:600]
            if _FULL.search(text):
                raise BlobsFull(f"{self.where} has no room for {key}: {text}") from error
            raise BlobsUnavailable(f"{self.where} cannot be used for {key}: {text}") from error

    async def put(self, key: str, file: Path, tx: Transaction | None) -> None:
        """Store the content of a file."""
        import obstore

        del tx
        async with self._explained(key):
            await obstore.put_async(self._store, key, file)

    async def get(self, key: str, target: Path, tx: Transaction | None) -> None:
        """Write the content of a key to a new file."""
        import obstore

        del tx
        async with self._explained(key):
            found = await obstore.get_async(self._store, key)
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as opened:
                async for chunk in found.stream(min_chunk_size=_CHUNK_BYTES):
                    opened.write(chunk)

    async def exists(self, key: str) -> bool:
        """Whether there is content of this key."""
        import obstore

        try:
            async with self._explained(key):
                await obstore.head_async(self._store, key)
        except BlobMissing:
            return False
        return True

    async def remove(self, key: str, tx: Transaction | None) -> None:
        """Remove the content of a key, if there is any."""
        import obstore

        del tx
        try:
            async with self._explained(key):
                await obstore.delete_async(self._store, key)
        except BlobMissing:
            return

    async def listing(self, prefix: str) -> list[StoredBlob]:
        """The keys that begin with a prefix."""
        import obstore

        found: list[StoredBlob] = []
        async with self._explained(prefix):
            async for page in obstore.list(self._store, prefix, chunk_size=1000):
                found += [
                    StoredBlob(one["path"], one["size"], one["last_modified"]) for one in page
                ]
        return sorted(found, key=lambda one: one.name)

    async def discard_unfinished(self, older_than_seconds: float) -> int:
        """Nothing: unfinished parts are the bucket's (see the class)."""
        del older_than_seconds
        return 0
