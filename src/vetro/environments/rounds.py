"""Work that is done again and again, by one service at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from vetro.storage import AlreadyQueued, Database, Lease, LeaseQueue, Worker

log = structlog.get_logger("vetro.environments")
LEASE_SECONDS = 120.0


@dataclass(eq=False, repr=False)
class Rounds:
    """A lease that is queued again for the next round by the service that did the last one
    (docs/decisions/0155).

    ``work`` is done now and every ``seconds``, unless another service does it.
    """

    database: Database
    queue: LeaseQueue
    key: str
    seconds: float
    work: Callable[[], Awaitable[object]]

    async def worker(self, owner: str) -> Worker:
        """Does the rounds."""
        async with self.database.transaction() as tx:
            if self.key not in await self.queue.keys(tx):
                try:
                    await self.queue.enqueue(tx, self.key)
                except AlreadyQueued:
                    log.debug("round_planned", work=self.key, by="another service")
        return Worker(self.queue, 1, self._turn, owner=owner, ttl_seconds=LEASE_SECONDS)

    async def _turn(self, lease: Lease) -> None:
        async with self.queue.hold(lease):
            await self.work()
        async with self.database.transaction() as tx:
            await self.queue.complete(tx, lease)
            await self.queue.enqueue(tx, self.key, delay_seconds=self.seconds)
