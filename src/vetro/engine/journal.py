"""The effects port that records every effect (DESIGN §1.4, §5).

A row is stored before an effect is executed; the result is stored in that row before the program
sees it. Reads of the clock, random numbers and fresh ids are stored in chunks: they come from a
generator that is seeded with the task's seed, so the seed is enough to repeat them.

Resuming a MuranoPL program from its journal after a crash is not implemented: its task ends as failed. The
rows are the basis for that, and show an operator how far a deployment came. XML workflows continue from
their last round (``checkpoints``).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from sqlalchemy import delete, insert, select, update

from vetro import tracing
from vetro.engine.services import ATTRIBUTE_KEPT
from vetro.engine.tables import answers, checkpoints, journal
from vetro.json_values import Json
from vetro.muranopl import current_thread, wait
from vetro.stacks import LossRefused
from vetro.storage import Database


def digest(value: Json) -> str:
    """A hash that identifies a request without keeping its content, which may hold secrets."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


_HARMLESS = frozenset(
    {
        *("stack.get", "stack.output", "stack.lost", "stack.losses", "stack.incarnations"),
        *("agent.credential", "agent.result"),
        *("workflow.result", "report", "track", "untrack"),
    }
)
"""Effects that read, or that nobody has to take back."""
_READS = ("identity.", "network.", "metadef.", "volume.")


class JournalEffects:
    """Executes and records the effects of one task."""

    def __init__(self, database: Database, task_id: str, fence: int) -> None:
        self._database = database
        # Green threads have no context of their own: effects name their parent.
        self._traceparent = tracing.traceparent()
        self._task_id = task_id
        self._fence = fence
        self._sequence = 0
        seed = hashlib.sha256(f"{task_id}/{fence}".encode()).digest()
        # Ids must not collide between runs; nothing secret is drawn here.
        self._random = random.Random(seed)  # noqa: S311

        self.changed: set[str] = set()
        """The kinds of effects so far that may have changed anything outside of the task."""

    def count_from(self, sequence: int) -> None:
        """Number the following entries from here: this run continues the task of another one."""
        self._sequence = sequence

    def perform(self, kind: str, request: Json, execute: Callable[[], Awaitable[Json]]) -> Json:
        """Record the start, execute the effect, record its result and return it."""
        self._sequence += 1
        return wait(self._recorded(self._sequence, str(current_thread()), kind, request, execute))

    async def record(
        self, kind: str, request: Json, execute: Callable[[], Awaitable[Json]]
    ) -> Json:
        """The same for a program that is no MuranoPL: from a coroutine of the engine's loop."""
        self._sequence += 1
        return await self._recorded(self._sequence, "", kind, request, execute)

    async def _recorded(
        self,
        sequence: int,
        thread: str,
        kind: str,
        request: Json,
        execute: Callable[[], Awaitable[Json]],
    ) -> Json:
        row = {
            "task_id": self._task_id,
            "fence": self._fence,
            "sequence": sequence,
            "thread": thread[:255],
            "kind": kind,
            "request_digest": digest(request),
            "state": "started",
            "started": self._database.clock.now(),
        }
        async with self._database.transaction() as tx:
            await tx.execute(insert(journal).values(**row))
        try:
            with tracing.span(kind, parent=self._traceparent, vetro_effect=sequence):
                result = await execute()
        except Exception as error:
            if not isinstance(error, LossRefused) or error.begun:
                self._note(kind)
            await self._settle(sequence, {"state": "failed", "error": str(error)[:4000]})
            raise
        self._note(kind)
        await self._settle(sequence, {"state": "done", "result": result})
        return result

    def _note(self, kind: str) -> None:
        if kind not in _HARMLESS and not kind.startswith(_READS):
            self.changed.add(kind)

    async def _settle(self, sequence: int, values: dict[str, object]) -> None:
        async with self._database.transaction() as tx:
            await tx.execute(
                update(journal)
                .where(
                    journal.c.task_id == self._task_id,
                    journal.c.fence == self._fence,
                    journal.c.sequence == sequence,
                )
                .values(finished=self._database.clock.now(), **values)
            )

    def sleep(self, seconds: float) -> None:
        """Suspend the calling green thread."""
        wait(asyncio.sleep(max(0.0, seconds)))

    def now(self) -> datetime:
        """The time."""
        return datetime.now(UTC)

    def random(self) -> float:
        """A number in [0, 1)."""
        return self._random.random()

    def new_id(self) -> str:
        """A fresh id."""
        return f"{self._random.getrandbits(128):032x}"


async def begun(database: Database, task_id: str) -> bool:
    """Whether any run of a task has begun an effect; if so, the task cannot be started afresh."""
    async with database.read() as tx:
        row = await tx.execute(
            select(journal.c.sequence).where(journal.c.task_id == task_id).limit(1)
        )
        return row.first() is not None


async def kept_attributes(database: Database, task_id: str) -> list[Json]:
    """The attributes that hold although the task was cut off: `[objectId, className, name, value]`."""
    mine = (journal.c.task_id == task_id, journal.c.kind == ATTRIBUTE_KEPT)
    async with database.read() as tx:
        rows = await tx.execute(
            select(journal.c.result).where(*mine).order_by(journal.c.fence, journal.c.sequence)
        )
        # A row without a result was begun when the engine ended: its program has done nothing yet.
        return [row.result for row in rows if row.result is not None]


async def journaled(database: Database) -> set[str]:
    """The ids of the tasks that have rows."""
    async with database.read() as tx:
        rows = await tx.execute(select(journal.c.task_id).distinct())
        kept = await tx.execute(select(checkpoints.c.task_id))
        return {str(row.task_id) for row in (*rows, *kept)}


async def forget(database: Database, task_id: str) -> None:
    """Remove the rows of an ended task, which will not be replayed."""
    async with database.transaction() as tx:
        for table in (journal, checkpoints, answers):
            await tx.execute(delete(table).where(table.c.task_id == task_id))
