"""Failing deployments that no engine takes (catalog-api.md §8, ``engine.task_timeout``).

Without it, an environment stays ``deploying`` for as long as no engine runs, or all are busy. Whoever
fails a deployment takes its lease first, as an engine would: so an engine that comes back at that moment
and the time-out cannot both end it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from vetro.environments.rounds import Rounds
from vetro.environments.tasks import TaskStore
from vetro.json_values import Json
from vetro.storage import LeaseLost, LeaseQueue, StorageError, Worker, carried_through

log = structlog.get_logger("vetro.environments")
QUEUE = "unanswered"
KEY = "fail"
OWNER = "timeout"
LEASE_SECONDS = 60.0
SHORTEST, LONGEST = 0.5, 60.0
"""Seconds between two looks."""
KeptAttributes = Callable[[str], Awaitable[list[Json]]]


class UnansweredTasks:
    """Fails what waited longer than ``seconds`` for an engine, or for another one after the first died.

    ``kept``: the attributes that the first has left for the model of a task.
    """

    def __init__(
        self, tasks: TaskStore, seconds: float, kept: KeptAttributes | None = None
    ) -> None:
        self.tasks = tasks
        self.seconds = seconds
        self._kept = kept

    async def worker(self, owner: str) -> Worker:
        """Looks now and then, unless another service does."""
        database = self.tasks.database
        pause = min(max(self.seconds / 4, SHORTEST), LONGEST)
        queue = LeaseQueue(database, QUEUE)
        return await Rounds(database, queue, KEY, pause, self.fail_all).worker(owner)

    async def fail_all(self) -> int:
        """Fail each of them; how many there were."""
        async with self.tasks.database.read() as tx:
            found = await self.tasks.queue.overdue(tx, self.seconds)
        failed = 0
        for task_id in found:
            claimed = await self.tasks.claim(OWNER, LEASE_SECONDS, task_id=task_id)
            if claimed is None:
                continue  # an engine came after all
            text = (
                f"No engine took this deployment within {self.seconds:g} seconds (engine.task_timeout):"
                " an operator has to see whether engines run and what keeps them busy; then deploy again"
            )
            try:
                kept = [] if self._kept is None else await self._kept(task_id)
                await self.tasks.fail_task(claimed[0], text, attributes=kept)
            except LeaseLost:
                continue
            except BaseException:
                # An engine may take it again at once; nobody has begun it.
                with suppress(StorageError):
                    await carried_through(self.tasks.queue.unclaim(claimed[0]))
                raise
            log.warning("deployment_unanswered", deployment=task_id, seconds=self.seconds)
            failed += 1
        return failed
