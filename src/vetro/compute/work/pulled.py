"""Tasks of agents that fetch their work, as nobody can reach them (compute-node-api.md §7, pull mode)."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

from sqlalchemy import select, update

from vetro.compute.tables import tasks
from vetro.compute.values.faults import not_found
from vetro.compute.values.records import Record
from vetro.compute.work.agents import NodeTaskError, outcome_of
from vetro.compute.work.node_tasks import PULL, PULLED, NodeTasks, pull_channel
from vetro.storage import StorageError, await_until, carried_through


class PulledTasks:
    """What agents in pull mode are given, and the results that they bring."""

    def __init__(self, tasks_of_nodes: NodeTasks) -> None:
        self._tasks = tasks_of_nodes

    async def next(
        self, server_uuid: str, timeout_seconds: float, *, restarted: bool
    ) -> Record | None:
        """The next task for an agent that asks; ``None`` after the time. ``restarted``: what was
        given to the agent before is given again (it has the results of what it did)."""
        if restarted:
            async with self._tasks.database.transaction() as tx:
                await tx.execute(
                    update(tasks)
                    .where(
                        tasks.c.server_uuid == server_uuid,
                        tasks.c.status == "active",
                        tasks.c.instance == PULLED,
                    )
                    .values(instance=PULL)
                )
        look = partial(self._take, server_uuid)
        return await await_until(
            self._tasks.database, pull_channel(server_uuid), look, timeout_seconds
        )

    async def _take(self, server_uuid: str) -> Record | None:
        waiting = (
            (tasks.c.server_uuid == server_uuid)
            & (tasks.c.status == "active")
            & (tasks.c.instance == PULL)
        )
        async with self._tasks.database.read() as tx:
            if (await tx.execute(select(tasks.c.id).where(waiting).limit(1))).first() is None:
                return None
        row = None
        try:
            async with self._tasks.database.transaction() as tx:
                query = select(tasks).where(waiting).order_by(tasks.c.created).limit(1)
                row = (await tx.execute(query.with_for_update(skip_locked=True))).first()
                if row is None:
                    return None
                await tx.execute(update(tasks).where(tasks.c.id == row.id).values(instance=PULLED))
        except asyncio.CancelledError:
            # A commit that has begun is completed all the same: nobody would get the task.
            if row is not None:
                with contextlib.suppress(StorageError):
                    await carried_through(self._put_back(server_uuid, row.id))
            raise
        taken: Record = {
            "id": row.id,
            "task": row.task,
            "params": row.params or {},
            "request_id": row.req_id or "",
        }
        if row.traceparent:
            taken["traceparent"] = row.traceparent
        return {**taken, "fence": row.fence} if row.fence else taken

    async def _put_back(self, server_uuid: str, id_: str) -> None:
        async with self._tasks.database.transaction() as tx:
            taken = (tasks.c.id == id_) & (tasks.c.status == "active")
            await tx.execute(update(tasks).where(taken).values(instance=PULL))
            tx.notify(pull_channel(server_uuid), id_)

    async def finish(self, server_uuid: str, id_: str, status: int, body: object) -> None:
        """Take the result of a pulled task; again: nothing. Errors: 404."""
        async with self._tasks.database.read() as tx:
            query = select(tasks).where(tasks.c.id == id_, tasks.c.server_uuid == server_uuid)
            row = (await tx.execute(query)).first()
        if row is None:
            raise not_found("no such task found")
        if row.status != "active":
            return
        try:
            result, good = outcome_of(status, body), True
        except NodeTaskError as error:
            result, good = {"error": str(error), "details": error.details}, False
        await self._tasks.end(row, good, result)
