"""Tasks on nodes: kept in the database, sent to the agent, waited for (compute-node-api.md §7).

A task is stored before it is sent, with everything needed to send it again. Its id is the
idempotency key: when the service that sent it dies, another sends it again and gets the result of
the first run. Actions before and after a kind of task (the VM registry, the networks) are
registered by name, not kept in memory with the call.
"""

from __future__ import annotations

import asyncio
import uuid as uuids
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
from sqlalchemy import insert, select, update

from vetro import tracing
from vetro.compute.servers.store import Agent, ServerStore
from vetro.compute.tables import servers, tasks, vms
from vetro.compute.values.faults import not_found
from vetro.compute.values.records import Record, api_time, mapping
from vetro.compute.wire import Task
from vetro.compute.work.agents import (
    AGENT_SECONDS,
    RETRY_SECONDS,
    AgentClient,
    AgentLost,
    NodeTaskError,
    TaskCall,
)
from vetro.http import Fault
from vetro.storage import Database, StoredRow, Transaction, await_until

log = structlog.get_logger(__name__)

__all__ = ["About", "Agent", "NodeTaskError", "NodeTasks", "TaskEnd"]

#: ``instance`` of tasks that wait for an agent in pull mode, and of those it has taken.
PULL, PULLED = "(pull)", "(pulled)"
_PATIENCE_SECONDS = 3600.0
#: An agent that is lost while its heartbeats are fresh gets this long to start again. Its process
#: needs 3 to 10 s for that; after 11 s without a heartbeat the server does not count as running.
RESTART_SECONDS = 30.0


@dataclass(frozen=True)
class TaskEnd:
    """How a task ended. ``result``: the agent's answer, or ``{error, details}``."""

    id: str
    task: str
    server_uuid: str
    vm_uuid: str | None
    params: Record
    good: bool
    result: Record


@dataclass(frozen=True)
class About:
    """What a task is about, and on whose behalf it is done (``fence``: in which turn)."""

    vm_uuid: str | None = None
    request_id: str = ""
    fence: Record | None = None
    job_uuid: str | None = None


#: Tasks that an agent which was lost does not get again: done twice, they do something else.
_ONCE = ("command_execute", "server_reboot")


Before = Callable[[str, Record], Awaitable[None]]
After = Callable[[TaskEnd], Awaitable[TaskEnd | None]]
Note = Callable[[str, Record], Awaitable[None]]


def _addressed(agent: Agent, params: Record) -> Record:
    """A task's parameters are the request's, its path's among them (§7)."""
    return {"server_uuid": agent.server_uuid, **params}


def channel(task_id: str) -> str:
    """Notifications of one task."""
    return f"node-task/{task_id}"


def pull_channel(server_uuid: str) -> str:
    """Notifications of tasks for an agent in pull mode."""
    return f"pull/{server_uuid}"


class NodeTasks:
    """The tasks one service instance sends, and those of instances that died."""

    def __init__(
        self,
        database: Database,
        servers: ServerStore,
        *,
        instance: str = "alone",
        agents: AgentClient | None = None,
    ) -> None:
        self.database = database
        self.servers = servers
        self.instance = instance
        self.agents = agents or AgentClient()
        self.note: Note | None = None
        self._before: dict[str, Before] = {}
        self._after: dict[str, After] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    def before(self, task: str, what: Before) -> None:
        """Register what must be done before a kind of task is sent (server uuid, params)."""
        self._before[task] = what

    def after(self, task: str, what: After) -> None:
        """Register what is called with a task's end before waiters are; it may change the end."""
        self._after[task] = what

    async def active(self, task: str, server_uuid: str = "") -> list[Record]:
        """The parameters of tasks of one name that have not ended, of a server or of all."""
        wanted = (tasks.c.task == task) & (tasks.c.status == "active")
        if server_uuid:
            wanted &= tasks.c.server_uuid == server_uuid
        async with self.database.read() as tx:
            found = await tx.execute(select(tasks.c.params).where(wanted))
            return [mapping(row.params) for row in found]

    def runs(self, id_: str) -> bool:
        """Whether this instance waits for the agent of a task."""
        return id_ in self._running

    async def close(self) -> None:
        """Stop waiting for agents, which continue their tasks."""
        for work in list(self._running.values()):
            work.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        await self.agents.close()

    # Running tasks

    async def run(
        self,
        agent: Agent,
        task: str,
        params: Record,
        *,
        request_id: str = "",
        timeout_seconds: float = AGENT_SECONDS,
    ) -> Record:
        """Run a task that is not kept and return its result; a lost agent as in `_send`.

        Errors: ``NodeTaskError``.
        """
        params = _addressed(agent, params)
        if agent.pull:
            id_ = await self.start(agent, task, params, About(request_id=request_id))
            view = await self.wait(id_, timeout_seconds)
            if view.status == "active":
                raise TimeoutError
            result = mapping(view.result)
            if view.status == "failure":
                raise NodeTaskError(str(result.get("error")), result.get("details"))
            return result
        call = TaskCall(
            task,
            params,
            key=str(uuids.uuid4()),
            request_id=request_id,
            timeout_seconds=timeout_seconds,
        )
        if task in _ONCE:
            return await self.agents.run(agent, call)
        return await self._send(agent, call)

    async def start(self, agent: Agent, task: str, params: Record, about: About = About()) -> str:
        """Start a task; its id. It is stored when this returns, and ends whatever happens."""
        id_ = str(uuids.uuid4())
        async with self.database.transaction() as tx:
            await self.store(tx, id_, agent, task, params, about)
        await self.launch(id_)
        return id_

    async def store(
        self,
        tx: Transaction,
        id_: str,
        agent: Agent,
        task: str,
        params: Record,
        about: About = About(),
    ) -> None:
        """Keep a task with the caller's changes; `launch` it after the commit."""
        await tx.execute(
            insert(tasks).values(
                id=id_,
                server_uuid=agent.server_uuid,
                task=task,
                status="active",
                vm_uuid=about.vm_uuid,
                history=[],
                created=self.database.clock.now(),
                req_id=about.request_id[:128] or None,
                params=_addressed(agent, params),
                fence=about.fence,
                instance=self.instance,
                job_uuid=about.job_uuid,
                traceparent=tracing.traceparent() or None,
            )
        )

    async def launch(self, id_: str) -> None:
        """Send a stored task."""
        work = asyncio.create_task(self._work(id_), name=f"node task {id_}")
        self._running[id_] = work
        work.add_done_callback(lambda _: self._running.pop(id_, None))

    async def _work(self, id_: str) -> None:
        async with self.database.read() as tx:
            row = (await tx.execute(select(tasks).where(tasks.c.id == id_))).first()
            found = None
            if row is not None:
                query = select(servers).where(servers.c.uuid == row.server_uuid)
                found = (await tx.execute(query)).first()
        if row is None or row.status != "active":
            return
        await self._note(row, {"name": "start", "task": row.task})
        try:
            if found is None:
                raise NodeTaskError(f"Server {row.server_uuid} not found")
            agent = self.servers.agent_of(found)
            before = self._before.get(row.task)
            if before is not None:
                await before(row.server_uuid, row.params)
                if not await self._is_active(id_):
                    return  # withdrawn meanwhile
            if agent.pull:
                await self._leave_for_pull(id_, row.server_uuid)
                return
            call = TaskCall(
                row.task, row.params, key=id_, request_id=row.req_id or "", fence=row.fence
            )
            result, good = await self._send(agent, call, kept=True), True
        except NodeTaskError as error:
            good, result = False, {"error": str(error), "details": error.details}
        except Fault as error:
            good, result = False, {"error": error.message, "details": {"restCode": error.type}}
        except (OSError, TimeoutError) as error:
            # An error of our database: the task is still active and will be tried again.
            log.error("node_task_left", task=row.task, error=str(error))
            return
        except Exception as error:
            log.exception("node_task_broke", task=row.task)
            good, result = False, {"error": f"the compute service failed: {error!r}"}
        await self.end(row, good, result)

    async def _send(self, agent: Agent, call: TaskCall, *, kept: bool = False) -> Record:
        """Run a task. An agent that restarts gets it again, at the address it has then.

        The key stays the same, so an agent that knows the task returns what became of it. One that is
        ``kept`` ends when the agent ended it, or when it is withdrawn; the others begin anew.
        """
        loop = asyncio.get_running_loop()
        last = loop.time() + call.timeout_seconds
        end: float | None = None  # from the first loss: the task may have run for an hour before
        while True:
            try:
                return await self.agents.run(agent, call)
            except NodeTaskError as error:
                restarted = error.rest_code == "AgentRestarted" and not kept
                if not isinstance(error, AgentLost) and not restarted:
                    raise
                if end is not None and loop.time() >= end:
                    raise
                end = end or min(loop.time() + RESTART_SECONDS, last)
                await asyncio.sleep(RETRY_SECONDS)
                async with self.database.read() as tx:
                    query = select(servers).where(servers.c.uuid == agent.server_uuid)
                    row = (await tx.execute(query)).first()
                if row is None or row.status != "running":
                    raise
                if kept and not await self._is_active(call.key):
                    raise
                agent = self.servers.agent_of(row)

    async def _leave_for_pull(self, id_: str, server_uuid: str) -> None:
        async with self.database.transaction() as tx:
            await tx.execute(update(tasks).where(tasks.c.id == id_).values(instance=PULL))
            tx.notify(pull_channel(server_uuid), id_)

    async def give_up(self, server_uuid: str, reason: str) -> list[str]:
        """End the active tasks of a server that will not answer any more; returns their ids."""
        active = (tasks.c.server_uuid == server_uuid) & (tasks.c.status == "active")
        async with self.database.read() as tx:
            rows = (await tx.execute(select(tasks).where(active))).all()
        for row in rows:
            work = self._running.get(row.id)
            if work is not None:
                work.cancel()
                await asyncio.wait({work})
            await self.end(row, False, {"error": reason, "details": {"restCode": "GivenUp"}})
        return [row.id for row in rows]

    async def _is_active(self, id_: str) -> bool:
        async with self.database.read() as tx:
            query = select(tasks.c.status).where(tasks.c.id == id_)
            row = (await tx.execute(query)).first()
        return row is not None and row.status == "active"

    async def withdraw(self, tx: Transaction, vm_uuid: str, task: str, reason: str) -> list[str]:
        """End a VM's active tasks of a kind because of what is asked with the caller's changes.

        One that was sent may still run on its node; what is sent after it comes after it there too.
        Returns their ids.
        """
        query = (
            select(tasks)
            .where(tasks.c.vm_uuid == vm_uuid, tasks.c.task == task, tasks.c.status == "active")
            .with_for_update()
        )
        rows = (await tx.execute(query)).all()
        for row in rows:
            await self.keep_end(
                tx, row.id, False, {"error": reason, "details": {"restCode": "Withdrawn"}}
            )
        return [row.id for row in rows]

    async def end(self, row: StoredRow, good: bool, result: Record) -> None:
        """End a task as its agent did (``result`` as of `TaskEnd`); one that ended already stays as it is."""
        if not await self._is_active(row.id):
            log.info("node_task_ended_already", id=row.id, task=row.task)
            return
        end = TaskEnd(
            row.id, row.task, row.server_uuid, row.vm_uuid, row.params or {}, good, result
        )
        after = self._after.get(row.task)
        if after is not None:
            end = await after(end) or end
        if not end.good:
            log.warning(
                "node_task_failed",
                task=row.task,
                server=row.server_uuid,
                error=end.result.get("error"),
            )
        async with self.database.transaction() as tx:
            await self.keep_end(tx, row.id, end.good, end.result)
        await self._note(row, {"name": "finish" if end.good else "error", "task": row.task,
                               "event": end.result})  # fmt: skip

    async def keep_end(self, tx: Transaction, id_: str, good: bool, result: Record) -> None:
        """Write how an active task ended, and notify those who wait."""
        now = self.database.clock.now()
        stamp = api_time(now)
        if good:
            history: list[Record] = [{"name": "finish", "timestamp": stamp, "event": result}]
        else:
            event: Record = {"error": {"message": result.get("error") or "no error given"}}
            if result.get("details"):
                event["error"]["details"] = event["details"] = result["details"]
            history = [
                {"name": "error", "timestamp": stamp, "event": event},
                {"name": "finish", "timestamp": stamp, "event": {}},
            ]
        await tx.execute(
            update(tasks)
            .where(tasks.c.id == id_, tasks.c.status == "active")
            .values(
                status="complete" if good else "failure",
                result=result,
                history=history,
                finished=now,
                # Parameters may hold secrets: they are kept only for sending again.
                params=None,
            )
        )
        tx.notify(channel(id_))

    async def _note(self, row: StoredRow, entry: Record) -> None:
        """Notify the job that the request named; an unknown job never fails the task."""
        if row.job_uuid and self.note is not None:
            try:
                await self.note(row.job_uuid, {**entry, "task_id": row.id})
            except Fault as error:
                log.warning("job_not_advanced", job=row.job_uuid, error=error.message)

    # Looking at tasks

    def view(self, row: StoredRow) -> Task:
        """A task as the API shows it."""
        view = Task(
            id=row.id,
            req_id=row.req_id,
            server_uuid=row.server_uuid,
            task=row.task,
            status=row.status,
            progress=100 if row.status == "complete" else 0,
            timestamp=api_time(row.created),
            history=row.history,
            result=row.result,
        )
        if row.status == "active":
            view.waiting_on = (
                f"the agent of server {row.server_uuid}"
                if row.instance != PULL
                else f"server {row.server_uuid} to ask for its tasks"
            )
        return view

    async def get(self, id_: str) -> Task:
        """A task. Errors: 404."""
        row = None
        if len(id_) <= 36 and id_.isascii() and id_.isprintable():
            async with self.database.read() as tx:
                row = (await tx.execute(select(tasks).where(tasks.c.id == id_))).first()
        if row is None:
            raise not_found("no such task found")
        return self.view(row)

    async def owner_of(self, id_: str) -> str | None:
        """The project whose VM a task is about; ``None`` when there is none such."""
        query = (
            select(vms.c.owner_uuid)
            .join(tasks, tasks.c.vm_uuid == vms.c.uuid)
            .where(tasks.c.id == id_)
        )
        row = None
        if len(id_) <= 36 and id_.isascii() and id_.isprintable():
            async with self.database.read() as tx:
                row = (await tx.execute(query)).first()
        return row.owner_uuid if row is not None else None

    async def wait(self, id_: str, timeout_seconds: float = _PATIENCE_SECONDS) -> Task:
        """The task when it ended, or as it is after ``timeout_seconds``. Errors: 404."""

        async def look() -> Task | None:
            view = await self.get(id_)
            return view if view.status != "active" else None

        ended = await await_until(self.database, channel(id_), look, timeout_seconds)
        return ended or await self.get(id_)

    def waiting(self) -> dict[str, list[Record]]:
        """The tasks this instance waits for, as the diagnostics show them."""
        return {id_: [{"id": id_}] for id_ in self._running}
