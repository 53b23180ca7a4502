"""Where a task of XML workflows stands: kept between rounds, so that another worker continues from there.

A row of a task belongs to the run with the highest fence; an engine that lost its lease without noticing
can store nothing more. Answers of plans are kept until the round they belong to is over: a plan that was
answered is not sent again.
"""

from __future__ import annotations

from sqlalchemy import delete, insert, select, update

from vetro.engine.errors import EngineError
from vetro.engine.tables import answers, checkpoints, journal
from vetro.json_values import Json
from vetro.storage import Database, Transaction


class TakenOver(EngineError):
    """Another engine has taken over the task."""


class Checkpoints:
    """What one run of a task stores and finds."""

    def __init__(self, database: Database, task_id: str, fence: int) -> None:
        self._database = database
        self._task_id = task_id
        self._fence = fence

    async def take_over(self) -> dict[str, Json] | None:
        """Make the task this run's; the progress that a former run has stored. Raises: TakenOver."""
        async with self._database.transaction() as tx:
            found = await tx.execute(
                select(checkpoints.c.progress).where(checkpoints.c.task_id == self._task_id)
            )
            row = found.first()
            if row is not None:
                await self._change(tx, {"fence": self._fence})
                return row.progress
            fresh = {"task_id": self._task_id, "fence": self._fence, "round": 0}
            now = self._database.clock.now()
            await tx.execute(insert(checkpoints).values(**fresh, updated=now))
            return None

    async def save(self, progress: dict[str, Json], round_number: int) -> None:
        """Store where the task stands after a round. Raises: TakenOver."""
        async with self._database.transaction() as tx:
            await self._change(tx, {"progress": progress, "round": round_number})
            await tx.execute(delete(answers).where(answers.c.task_id == self._task_id))

    async def _change(self, tx: Transaction, values: dict[str, Json]) -> None:
        changed = await tx.execute(
            update(checkpoints)
            .where(checkpoints.c.task_id == self._task_id, checkpoints.c.fence <= self._fence)
            .values(updated=self._database.clock.now(), **values)
        )
        if changed.rowcount != 1:
            raise TakenOver(f"Another engine has taken over the deployment {self._task_id}")

    async def answer_of(self, plan_id: str) -> dict[str, Json] | None:
        """The result of a plan in this round, from this run or a former one; ``None``: none yet."""
        async with self._database.read() as tx:
            found = await tx.execute(
                select(answers.c.answer).where(
                    answers.c.task_id == self._task_id, answers.c.plan_id == plan_id
                )
            )
            return found.scalar_one_or_none()

    async def keep_answer(self, plan_id: str, answer: dict[str, Json]) -> None:
        """Store what came of a plan."""
        mine = (answers.c.task_id == self._task_id, answers.c.plan_id == plan_id)
        row = {"task_id": self._task_id, "plan_id": plan_id, "answer": answer}
        async with self._database.transaction() as tx:
            await tx.execute(delete(answers).where(*mine))
            await tx.execute(insert(answers).values(**row))

    async def journaled(self) -> int:
        """The last number of this fence's rows in the journal; a worker that died has left them."""
        async with self._database.read() as tx:
            found = await tx.execute(
                select(journal.c.sequence)
                .where(journal.c.task_id == self._task_id, journal.c.fence == self._fence)
                .order_by(journal.c.sequence.desc())
                .limit(1)
            )
            return int(found.scalar_one_or_none() or 0)
