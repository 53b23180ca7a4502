"""Periodic notifications of the deployed environments that exist (catalog-api.md §11).

Who bills or audits counts on it: an environment that has at least one successful deployment is reported
until it is removed, whether or not anything happens to it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from vetro.environments.rounds import Rounds
from vetro.environments.tables import environments, statuses, tasks
from vetro.storage import Database, LeaseQueue, Worker

QUEUE = "existing"
KEY = "tell"
BATCH = 100
"""Environments that are read at a time."""


@dataclass(frozen=True)
class Existing:
    """An environment, and its newest deployment that succeeded."""

    environment: str
    name: str
    project: str
    created: datetime
    deployment: str
    started: datetime
    finished: datetime


class ExistingEnvironments:
    """Notifies of all environments of one database, every ``minutes``."""

    def __init__(
        self, database: Database, report: Callable[[Existing], None], minutes: float
    ) -> None:
        self.database = database
        self.report = report
        queue = LeaseQueue(database, QUEUE)
        self.rounds = Rounds(database, queue, KEY, minutes * 60, self.report_all)

    async def worker(self, owner: str) -> Worker:
        """Notifies now and every period, unless another service does."""
        return await self.rounds.worker(owner)

    async def report_all(self) -> None:
        """Notify of each environment once."""
        async for one in self._found():
            self.report(one)

    async def _found(self) -> AsyncGenerator[Existing, None]:
        run = tasks.alias("run")
        failed = select(statuses.c.id).where(
            statuses.c.task_id == run.c.id, statuses.c.level == "error"
        )
        newest = (
            select(run.c.id)
            .where(
                run.c.environment_id == environments.c.id,
                run.c.finished.is_not(None),
                ~failed.exists(),
            )
            .order_by(run.c.sequence.desc())
            .limit(1)
            .correlate(environments)
            .scalar_subquery()
        )
        here = environments.c
        query = (
            select(
                here.id, here.name, here.tenant_id, here.created,
                tasks.c.id.label("deployment"), tasks.c.started, tasks.c.finished,
            )
            .select_from(environments)
            .join(tasks, tasks.c.id == newest)
            .order_by(here.id)
            .limit(BATCH)
        )  # fmt: skip
        last = ""
        while True:
            async with self.database.read() as tx:
                rows = list(await tx.execute(query.where(here.id > last)))
            for row in rows:
                yield Existing(*row)
            if len(rows) < BATCH:
                return
            last = rows[-1].id
