"""Status events: answered at once, written together, newest per server (compute-node-api.md §5).

The newest sample of each server waits in memory for the next write; one transaction writes them
all. While the database is unavailable they stay, newer ones replace older ones, and nothing is
lost.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import structlog

from vetro.compute.servers.store import ServerStore
from vetro.compute.values.records import mapping
from vetro.storage import Database

log = structlog.get_logger(__name__)

#: How long an event's answer may wait for its write: long enough to read it back, but bounded.
PATIENCE_SECONDS = 1.0
BATCH = 200
PAUSE_SECONDS = 1.0


#: A sample, and whether it reports VMs only.
Waiting = tuple[dict[str, Any], bool]


class Samples:
    """The samples of one service instance on their way to the database."""

    def __init__(self, database: Database, servers: ServerStore) -> None:
        self.database = database
        self.servers = servers
        #: How long an answer waits for its write.
        self.patience_seconds = PATIENCE_SECONDS
        self._waiting: dict[str, Waiting] = {}
        self._written: dict[str, asyncio.Future[None]] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    async def take(self, uuid: str, sample: dict[str, object], *, only_vms: bool = False) -> None:
        """Queue a sample; returns when it is written, or after ``patience_seconds`` if that takes longer.

        Whoever reads the server's record at once may therefore not find the sample in it.
        """
        before = self._waiting.get(uuid)
        if before is not None:
            sample, only_vms = joined(before, (sample, only_vms))
        self._waiting[uuid] = (sample, only_vms)
        written = self._written.get(uuid)
        if written is None:
            written = self._written[uuid] = asyncio.get_running_loop().create_future()
        self._wake.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.patience_seconds):
                await asyncio.shield(written)

    async def watch(self) -> None:
        """Write waiting samples, until cancelled; then write the remaining ones once more."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._write_all()
        finally:
            with contextlib.suppress(OSError, TimeoutError):
                while self._waiting:
                    await self._write(list(self._waiting)[:BATCH])

    async def _write_all(self) -> None:
        while self._waiting:
            try:
                await self._write(list(self._waiting)[:BATCH])
            except (OSError, TimeoutError) as error:
                log.warning("status_samples_wait_for_database", error=str(error))
                await asyncio.sleep(PAUSE_SECONDS)

    async def _write(self, uuids: list[str]) -> None:
        taken = {uuid: self._waiting[uuid] for uuid in uuids}
        try:
            async with self.database.transaction() as tx:
                for uuid in sorted(taken):
                    sample, only_vms = taken[uuid]
                    await self.servers.apply_sample(tx, uuid, sample, only_vms=only_vms)
        except (OSError, TimeoutError):
            raise
        except Exception as error:
            if len(uuids) > 1:
                for uuid in uuids:
                    await self._write([uuid])
                return
            log.error("status_sample_not_stored", server=uuids[0], exc_info=error)
        for uuid, sample in taken.items():
            if self._waiting.get(uuid) is not sample:
                continue  # a newer one arrived meanwhile: it must still be written
            del self._waiting[uuid]
            written = self._written.pop(uuid, None)
            if written is not None and not written.done():
                written.set_result(None)


def joined(first: Waiting, second: Waiting) -> Waiting:
    """Two samples of one server as one; ordered by the node's clock, not by arrival."""
    stamps = [str(sample.get("timestamp") or "") for sample, _ in (first, second)]
    if all(stamps) and stamps[1] < stamps[0]:
        first, second = second, first
    older, newer, only_vms = first[0], second[0], second[1]
    if not only_vms:
        return second
    # Of the older one only the VMs have changed, or some of them.
    merged: dict[str, object] = {**older, "partial": False, "vms": {}, **newer}
    if newer.get("partial") is True:
        merged["vms"] = {**mapping(older.get("vms")), **mapping(newer.get("vms"))}
        merged["partial"] = older.get("partial") is True
    return merged, first[1]
