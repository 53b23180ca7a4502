"""Pruning history: deployments of removed environments, and old ones of existing environments.

One service at a time does it, every hour, under a lease that is queued again (docs/decisions/0155).
Unfinished deployments and the newest deployment of an existing environment are never removed.
"""

from __future__ import annotations

from datetime import timedelta

import structlog
from sqlalchemy import Select, delete, func, select

from vetro.environments.api_settings import HistorySection
from vetro.environments.rounds import Rounds
from vetro.environments.tables import statuses, tasks, traces
from vetro.storage import Database, LeaseQueue, Worker

log = structlog.get_logger("vetro.environments")

QUEUE = "history"
KEY = "prune"
INTERVAL_SECONDS = 3600.0
BATCH = 100
"""Deployments removed per commit, so that other writers get their turn."""


class HistoryPruning:
    """Prunes the history in one database."""

    def __init__(self, database: Database, settings: HistorySection | None = None) -> None:
        self.database = database
        self.settings = settings or HistorySection()
        self.queue = LeaseQueue(database, QUEUE)

    async def worker(self, owner: str) -> Worker:
        """Prunes now and every hour, unless another service does."""
        return await Rounds(self.database, self.queue, KEY, INTERVAL_SECONDS, self.prune).worker(
            owner
        )

    async def prune(self) -> int:
        """Remove history beyond the limits; the number of deployments removed."""
        removed = 0
        for chosen in self._chosen():
            while found := await self._remove(chosen):
                removed += found
        if removed:
            log.info("history_pruned", deployments=removed)
        return removed

    def _chosen(self) -> list[Select[tuple[str]]]:
        queries: list[Select[tuple[str]]] = []
        ended = tasks.c.finished.is_not(None)
        if self.settings.days:
            before = self.database.clock.now() - timedelta(days=self.settings.days)
            queries.append(select(tasks.c.id).where(ended, tasks.c.environment_gone < before))
        if self.settings.deployments:
            place = func.row_number().over(
                partition_by=tasks.c.environment_id, order_by=tasks.c.sequence.desc()
            )
            newest_first = select(tasks.c.id, tasks.c.finished, place.label("place"))
            of_living = newest_first.where(tasks.c.environment_gone.is_(None)).subquery()
            queries.append(
                select(of_living.c.id).where(
                    of_living.c.place > self.settings.deployments, of_living.c.finished.is_not(None)
                )
            )
        return queries

    async def _remove(self, chosen: Select[tuple[str]]) -> int:
        async with self.database.read() as tx:
            ids = [row.id for row in await tx.execute(chosen.limit(BATCH))]
        if not ids:
            return 0
        async with self.database.transaction() as tx:
            for table in (statuses, traces):
                await tx.execute(delete(table).where(table.c.task_id.in_(ids)))
            await tx.execute(delete(tasks).where(tasks.c.id.in_(ids)))
        return len(ids)
