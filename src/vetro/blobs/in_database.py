"""Files in the database, in parts of 256 KiB: for services that share nothing but a PostgreSQL.

Rows, not large objects: a backup, a copy to the other kind of database, a logical replica and a pooler of
connections treat them like any other row (decision 0520).
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import IO

from sqlalchemy import bindparam, delete, insert, select

from vetro.blobs.errors import BlobMissing
from vetro.blobs.store import StoredBlob
from vetro.blobs.tables import blob_parts, blobs
from vetro.storage import Database, Transaction

PART_BYTES = 2**18
#: Parts that are written or read in one unit of work: 4 MiB.
AT_ONCE = 16

_FIND = select(blobs).where(blobs.c.key == bindparam("wanted"))
_PARTS = (
    select(blob_parts.c.content)
    .where(blob_parts.c.content_id == bindparam("of_content"))
    .where(blob_parts.c.number >= bindparam("first"))
    .order_by(blob_parts.c.number)
    .limit(AT_ONCE)
)
_FORGET = delete(blobs).where(blobs.c.key == bindparam("wanted"))
_DROP = delete(blob_parts).where(blob_parts.c.content_id == bindparam("of_content"))


class DatabaseBlobs:
    """Files as rows; see `vetro.blobs.store.Remote`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, key: str, file: Path, tx: Transaction | None) -> None:
        """Store a file: in the caller's transaction, or in several of its own."""
        content = uuid.uuid4().hex
        size = first = 0
        with file.open("rb") as opened:
            while parts := await asyncio.to_thread(_read, opened):
                rows = [
                    {
                        "content_id": content,
                        "number": first + place,
                        "content": part,
                        "stored": self._database.clock.now(),
                    }
                    for place, part in enumerate(parts)
                ]
                async with self._writing(tx) as writing:
                    await writing.execute(insert(blob_parts), rows)
                first += len(parts)
                size += sum(len(part) for part in parts)
        async with self._writing(tx) as writing:
            await writing.exclude(f"blobs/{key}")
            await _remove(writing, key)
            row = {
                "key": key,
                "content_id": content,
                "bytes": size,
                "stored": self._database.clock.now(),
            }
            await writing.execute(insert(blobs), row)

    async def get(self, key: str, target: Path, tx: Transaction | None) -> None:
        """Write the content of a key to a new file. Errors: ``BlobMissing``."""
        async with self._reading(tx) as reading:
            row = (await reading.execute(_FIND, {"wanted": key})).first()
        if row is None:
            raise BlobMissing(f"the database has no file {key}")
        first = 0
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            while True:
                wanted = {"of_content": row.content_id, "first": first}
                async with self._reading(tx) as reading:
                    parts = [bytes(part) for (part,) in await reading.execute(_PARTS, wanted)]
                await asyncio.to_thread(opened.writelines, parts)
                first += len(parts)
                if len(parts) < AT_ONCE:
                    break
            if opened.tell() != row.bytes:
                # Replaced or removed while it was read.
                raise BlobMissing(f"{key} was changed in the database while it was read: try again")

    async def exists(self, key: str) -> bool:
        """Whether there is content of this key."""
        async with self._database.read() as tx:
            return (await tx.execute(_FIND, {"wanted": key})).first() is not None

    async def remove(self, key: str, tx: Transaction | None) -> None:
        """Remove the content of a key, if there is any."""
        async with self._writing(tx) as writing:
            await writing.exclude(f"blobs/{key}")
            await _remove(writing, key)

    async def listing(self, prefix: str) -> list[StoredBlob]:
        """The keys that begin with a prefix."""
        query = select(blobs).where(blobs.c.key.startswith(prefix, autoescape=True))
        async with self._database.read() as tx:
            rows = await tx.execute(query.order_by(blobs.c.key))
            return [StoredBlob(row.key, row.bytes, row.stored) for row in rows]

    async def discard_unfinished(self, older_than_seconds: float) -> int:
        """Remove the parts of files whose upload was interrupted."""
        before = self._database.clock.now() - timedelta(seconds=older_than_seconds)
        unfinished = delete(blob_parts).where(
            blob_parts.c.stored < before,
            blob_parts.c.content_id.not_in(select(blobs.c.content_id)),
        )
        async with self._database.transaction() as tx:
            return (await tx.execute(unfinished)).rowcount

    @asynccontextmanager
    async def _writing(self, tx: Transaction | None) -> AsyncGenerator[Transaction]:
        if tx is not None:
            yield tx
            return
        async with self._database.transaction() as own:
            yield own

    @asynccontextmanager
    async def _reading(self, tx: Transaction | None) -> AsyncGenerator[Transaction]:
        if tx is not None:
            yield tx
            return
        async with self._database.read() as own:
            yield own


async def _remove(tx: Transaction, key: str) -> None:
    row = (await tx.execute(_FIND, {"wanted": key})).first()
    if row is not None:
        await tx.execute(_FORGET, {"wanted": key})
        await tx.execute(_DROP, {"of_content": row.content_id})


def _read(opened: IO[bytes]) -> list[bytes]:
    parts = (opened.read(PART_BYTES) for _ in range(AT_ONCE))
    return [part for part in parts if part]
