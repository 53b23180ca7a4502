"""Tasks on nodes: sent to the agent, kept in the database, waited for (§7)."""

from __future__ import annotations

import asyncio
import uuid as uuids
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from sqlalchemy import Row, insert, select, update

from vetro.compute.faults import not_found
from vetro.compute.servers import Agent, ServerStore, api_time
from vetro.compute.tables import tasks
from vetro.http.client import HttpClient, TransportError
from vetro.storage import Database

log = structlog.get_logger(__name__)

Finish = Callable[[bool, dict[str, Any]], Awaitable[None]]
AGENT_SECONDS = 3700.0


class NodeTaskError(Exception):
    """The node's agent said no, or could not be reached."""

    def __init__(self, message: str, details: Any = None) -> None:
        super().__init__(message)
        self.details = details


def channel(task_id: str) -> str:
    """Notifications of one task."""
    return f"node-task/{task_id}"


class NodeTasks:
    """Runs tasks on agents; each is a row before it is sent and has its result after."""

    def __init__(self, database: Database, servers: ServerStore, node_key: str) -> None:
        self.database = database
        self.servers = servers
        self._http = HttpClient(
            timeout_seconds=AGENT_SECONDS, headers={"Authorization": f"Bearer {node_key}"}
        )
        self._running: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Stop waiting for agents; the tasks go on there."""
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._http.close()

    async def recover(self) -> None:
        """At start: tasks a killed service waited for are over; who waits for them must be told."""
        async with self.database.transaction() as tx:
            rows = await tx.execute(select(tasks.c.id).where(tasks.c.status == "active"))
            for row in list(rows):
                await tx.execute(
                    update(tasks)
                    .where(tasks.c.id == row.id)
                    .values(
                        status="failure",
                        result={"error": "the compute service was restarted meanwhile"},
                        finished=self.database.clock.now(),
                    )
                )
                tx.notify(channel(row.id))

    async def run(self, agent: Agent, task: str, params: dict[str, Any]) -> dict[str, Any]:
        """Run a task and return its result. Errors: ``NodeTaskError``."""
        try:
            answer = await self._http.request(
                "POST",
                f"{agent.url}/tasks",
                json={"task": task, "params": params},
                headers={"x-server-uuid": agent.server_uuid, "x-request-id": str(uuids.uuid4())},
                timeout_seconds=AGENT_SECONDS,
            )
        except TransportError as error:
            raise NodeTaskError(
                f"the agent of server {agent.server_uuid} broke off during {task}: {error}"
            ) from error
        try:
            value: Any = answer.json() or {}
        except ValueError:
            value = {"error": answer.text[:500]}
        if answer.status != 200:
            message = value.get("error") or value.get("message") or f"status {answer.status}"
            raise NodeTaskError(str(message), value.get("details"))
        return value

    async def start(
        self,
        agent: Agent,
        task: str,
        params: dict[str, Any],
        *,
        vm_uuid: str | None = None,
        finish: Finish | None = None,
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> str:
        """Start a task in the background; its id. ``finish`` is told how it ended, before waiters are."""
        id_ = str(uuids.uuid4())
        async with self.database.transaction() as tx:
            await tx.execute(
                insert(tasks).values(
                    id=id_,
                    server_uuid=agent.server_uuid,
                    task=task,
                    status="active",
                    vm_uuid=vm_uuid,
                    history=[],
                    created=self.database.clock.now(),
                )
            )
        work = asyncio.create_task(
            self._work(id_, agent, task, params, finish, before), name=f"node task {task}"
        )
        self._running.add(work)
        work.add_done_callback(self._running.discard)
        return id_

    async def _work(
        self,
        id_: str,
        agent: Agent,
        task: str,
        params: dict[str, Any],
        finish: Finish | None,
        before: Callable[[], Awaitable[None]] | None,
    ) -> None:
        good = True
        try:
            if before is not None:
                await before()
            result = await self.run(agent, task, params)
        except NodeTaskError as error:
            good, result = False, {"error": str(error), "details": error.details}
            log.warning("a node task failed", task=task, server=agent.server_uuid, error=str(error))
        if finish is not None:
            await finish(good, result)
        event = {"name": "finish" if good else "error", "event": result}
        async with self.database.transaction() as tx:
            await tx.execute(
                update(tasks)
                .where(tasks.c.id == id_)
                .values(
                    status="complete" if good else "failure",
                    result=result,
                    history=[event],
                    finished=self.database.clock.now(),
                )
            )
            tx.notify(channel(id_))

    def view(self, row: Row[Any]) -> dict[str, Any]:
        """A task as the API shows it."""
        return {
            "id": row.id,
            "server_uuid": row.server_uuid,
            "task": row.task,
            "status": row.status,
            "progress": 100 if row.status == "complete" else 0,
            "timestamp": api_time(row.created),
            "history": row.history,
            "result": row.result,
        }

    async def get(self, id_: str) -> dict[str, Any]:
        """A task. Errors: 404."""
        async with self.database.read() as tx:
            row = (await tx.execute(select(tasks).where(tasks.c.id == id_))).first()
        if row is None:
            raise not_found("no such task found")
        return self.view(row)

    async def wait(self, id_: str, timeout_seconds: float) -> dict[str, Any]:
        """The task when it ended, or as it is after ``timeout_seconds``. Errors: 404."""
        async with self.database.listen(channel(id_)) as subscription:
            view = await self.get(id_)
            if view["status"] == "active":
                await subscription.wait(timeout_seconds)
                view = await self.get(id_)
            return view
