"""The durable worker: claims work of a queue and runs it, several at once, until it is cancelled.

A worker that dies loses nothing: its leases expire, and another one claims the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass

import structlog

from vetro.storage.errors import LeaseLost, StorageError
from vetro.storage.leases import Lease, LeaseQueue
from vetro.storage.sqlite_driver import carried_through

log = structlog.get_logger(__name__)
PAUSE_SECONDS = 1.0


@dataclass(eq=False, repr=False)
class Worker:
    """Runs the work of a queue in ``slots`` places (``None``: as much as there is).

    ``run`` gets a lease and ends it: it completes or releases the work, and renews the lease meanwhile
    (``async with queue.hold(lease)``). Whatever it raises is logged: the work is claimed again when its
    lease expires. A run that is cancelled gives back what it has not ended.

    ``most_per_party``: how much work of one party it holds at most. ``idle`` is called before it waits
    for work, ``shown`` with the number of running ones whenever that changes.
    """

    queue: LeaseQueue
    slots: int | None
    run: Callable[[Lease], Awaitable[None]]
    _: KW_ONLY
    owner: str
    ttl_seconds: float
    most_per_party: int | None = None
    idle: Callable[[], None] | None = None
    shown: Callable[[int], None] | None = None

    def __post_init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        self._draining = False

    def drain(self) -> None:
        """Claim nothing more; `work` returns when the running ones have ended."""
        self._draining = True
        self._ended.set()

    async def work(self) -> None:
        """Claim and run until cancelled; the running ones are then cancelled and waited for."""
        self._show()
        try:
            while not self._draining:
                self._ended.clear()
                if self.slots is not None and len(self._running) >= self.slots:
                    await self._ended.wait()
                    continue
                try:
                    lease = await self.queue.claim(
                        self.owner, self.ttl_seconds, most_per_party=self.most_per_party
                    )
                    if lease is None:
                        await self._wait()
                        continue
                except StorageError as error:
                    log.warning("work_waits_for_database", queue=self.queue.name, error=str(error))
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                task = asyncio.create_task(
                    self._attend(lease), name=f"{self.queue.name} {lease.key}"
                )
                self._running.add(task)
                self._show()
                task.add_done_callback(self._end)
            if self._running:
                await asyncio.wait(self._running)
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    async def once(self) -> bool:
        """Claim one piece of work and run it; ``False`` when there is none. Errors: those of the run."""
        lease = await self.queue.claim(
            self.owner, self.ttl_seconds, most_per_party=self.most_per_party
        )
        if lease is not None:
            await self.run(lease)
        return lease is not None

    def _show(self) -> None:
        if self.shown is not None:
            self.shown(len(self._running))

    def _end(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._show()
        self._ended.set()

    async def _wait(self) -> None:
        """Wait for work that we may take, or for the end of a run: its party may have more."""
        if self.idle is not None:
            self.idle()
        work = asyncio.create_task(
            self.queue.wait_for_work(owner=self.owner, most_per_party=self.most_per_party)
        )
        end = asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait((work, end), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            work.cancel()
            end.cancel()
            await asyncio.gather(work, end, return_exceptions=True)

    async def _attend(self, lease: Lease) -> None:
        about = {"queue": self.queue.name, "key": lease.key}
        try:
            await self.run(lease)
        except LeaseLost:
            log.warning("work_taken_over", **about)
        except asyncio.CancelledError:
            with suppress(StorageError):
                await carried_through(self.queue.release(lease))
            raise
        except StorageError as error:
            log.error("work_left", **about, error=str(error))
        except Exception:
            log.exception("work_failed", **about)
