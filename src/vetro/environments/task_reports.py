"""Reports of tasks, and what a task waits on (catalog-api.md §5.5)."""

from __future__ import annotations

from sqlalchemy import delete, func, insert, select, update

from vetro.environments.history import TaskHistory
from vetro.environments.model import new_id
from vetro.environments.tables import statuses, tasks, traces
from vetro.environments.task_values import MOST_REPORTS, shortened, task_channel
from vetro.storage import Database, Transaction


class TaskReports:
    """Adds reports to tasks."""

    def __init__(self, database: Database, history: TaskHistory) -> None:
        self.database = database
        self.history = history

    async def add(
        self,
        task_id: str,
        entity_id: str | None,
        level: str,
        text: str,
        details: str | None = None,
        *,
        entity: str | None = None,
    ) -> None:
        """Add a report to a task. Levels: info, warning, error.

        Long texts are cut (``shortened``). Beyond ``MOST_REPORTS`` only the first of each level is
        kept, because the state of a deployment follows from the levels.
        """
        text, details = shortened(text), None if details is None else shortened(details)
        async with self.database.transaction() as tx:
            levels = (await self.history.levels(tx, [task_id])).get(task_id, {})
            count = sum(levels.values())
            if count > MOST_REPORTS and levels.get(level):
                return
            if count == MOST_REPORTS:
                said = f"There are more than {MOST_REPORTS} reports; the rest is not kept"
                await self.store(tx, task_id, None, "warning", said)
            await self.store(tx, task_id, entity_id, level, text, details, entity)
            tx.notify(task_channel(task_id))

    async def keep_trace(
        self, task_id: str, round_number: int, events: list[dict[str, object]]
    ) -> None:
        """Store what rules did in a round; what a run of it that was cut off had stored is replaced."""
        mine = (traces.c.task_id == task_id, traces.c.round == round_number)
        row = {"task_id": task_id, "round": round_number, "events": events}
        async with self.database.transaction() as tx:
            await tx.execute(delete(traces).where(*mine))
            await tx.execute(insert(traces).values(**row))

    async def say_waiting(self, task_id: str, text: str) -> None:
        """Store what a running task waits on; an empty text: it does not wait."""
        async with self.database.transaction() as tx:
            await tx.execute(
                update(tasks)
                .where(tasks.c.id == task_id, tasks.c.finished.is_(None))
                .values(waiting_on=text or None)
            )
            tx.notify(task_channel(task_id))

    async def store(
        self,
        tx: Transaction,
        task_id: str,
        entity_id: str | None,
        level: str,
        text: str,
        details: str | None = None,
        entity: str | None = None,
    ) -> None:
        """Add a report in the caller's transaction, without limits and without a notification."""
        # The lock on the task row orders concurrent reports.
        await tx.execute(select(tasks.c.id).where(tasks.c.id == task_id).with_for_update())
        last = await tx.execute(
            select(func.max(statuses.c.sequence)).where(statuses.c.task_id == task_id)
        )
        await tx.execute(
            insert(statuses).values(
                task_id=task_id,
                sequence=(last.scalar() or 0) + 1,
                id=new_id(),
                entity_id=entity_id,
                entity=entity,
                text=text,
                level=level,
                details=details,
                created=self.database.clock.now(),
            )
        )
