"""Tasks: from *deploy* to a result, with reports in between (catalog-api.md §5.5, §5.6, §8).

A task row, its work in the lease queue and the session's change of state are stored in one commit;
the result, the model, the session's final state and the end of the work are one commit as well. So
a task is neither lost nor finished twice, whichever process dies at whatever moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast

from sqlalchemy import bindparam, func, insert, select, update

from vetro import log_context, tracing
from vetro.environments import lifecycle, states
from vetro.environments.checking import check_headers
from vetro.environments.component_users import dangling
from vetro.environments.flat import WORKFLOW, is_workflow
from vetro.environments.history import TaskHistory
from vetro.environments.instance_records import InstanceRecords
from vetro.environments.lifecycle import Ending, Outcome, TaskIdentity
from vetro.environments.model import (
    check_arguments,
    find_action,
    from_engine,
    new_id,
    sanitise,
    to_engine,
)
from vetro.environments.sessions import SessionStore
from vetro.environments.store import ENVIRONMENT_EXTRAS, project_channel
from vetro.environments.tables import sessions, tasks
from vetro.environments.task_endings import TaskEndings
from vetro.environments.task_reports import TaskReports
from vetro.environments.task_values import (
    Delegations,
    EngineTask,
    StoredResult,
    TaskAction,
    TaskResult,
    cancel_channel,
    task_channel,
)
from vetro.environments.views import DeploymentView
from vetro.http import (
    UNCONDITIONAL,
    BadRequest,
    Condition,
    Conflict,
    Forbidden,
    Principal,
)
from vetro.json_values import Json, JsonObject
from vetro.secrecy import Cover, secrets_in
from vetro.storage import Database, Lease, LeaseQueue, Prepared, StoredRow, Transaction, await_until

QUEUE = "engine"
_UNFINISHED = Prepared(
    select(tasks).where(tasks.c.environment_id == bindparam("wanted"), tasks.c.finished.is_(None))
)


@dataclass
class _Delegated:
    """What a task acts as its user with (empty: nothing), and whether a task has it."""

    value: dict[str, str]
    taken: bool = False


class TaskStore:
    """Submits tasks, hands them to engines, and ends them.

    ``history`` reads deployments, ``reports`` adds reports, ``instances`` records instances.
    """

    def __init__(
        self,
        database: Database,
        sessions: SessionStore,
        delegations: Delegations | None = None,
    ) -> None:
        self.database = database
        self.delegations = delegations
        self.store = store = sessions.store
        self.sessions = sessions
        self.history = TaskHistory(database, store)
        self.reports = TaskReports(database, self.history)
        self.instances = InstanceRecords(database)
        self.endings = TaskEndings(database, store, sessions, self.history, self.reports)
        self.queue = LeaseQueue(database, QUEUE)

    # API side

    async def deploy(
        self,
        principal: Principal,
        environment_id: str,
        session_id: str,
        *,
        overtake: bool = True,
        may_lose: list[str] | None = None,
        looked_at: bool = False,
    ) -> str | None:
        """Submit a session; the task's id, or ``None`` when the environment was removed at once.

        ``overtake``: deploy although other sessions hold changes; otherwise that is a 409.
        ``may_lose``: the machines, volumes and addresses that may be lost; ``None``: any.
        ``looked_at``: whether what it refers to was looked at; otherwise references to what was taken
        out are a 409 (``Dangling``).
        """
        async with self._delegated(principal) as delegated, self.database.transaction() as tx:
            await self.store.lock(tx, environment_id)
            session, environment = await self.sessions.own_session(
                tx, principal, environment_id, session_id, lock=True
            )
            rows = await self.store.session_states(tx, environment_id)
            if self.store.invalid(session, environment.version, rows):
                raise await self.sessions.overtaken(tx, environment, session)
            if session.state != states.OPENED:
                raise Forbidden(f"Session <SessionId {session_id}> is already {session.state}")
            if not overtake:
                await self.sessions.refuse_loss(tx, principal, environment, but=session_id)
            if not looked_at and not is_workflow(session.model):
                deployed = (environment.model.get("Objects"), session.model.get("ObjectsCopy"))
                refusal = dangling(deployed, session.model.get("Objects"))
                if refusal is not None:
                    raise refusal
            action = TaskAction(object_id=environment_id, method="deploy", args={})
            return await self._submit(
                tx, principal, environment, session, action, delegated, may_lose
            )

    @asynccontextmanager
    async def _delegated(self, principal: Principal | None) -> AsyncGenerator[_Delegated]:
        """What a task may act as its user with; ended when no task takes it."""
        door = self.delegations
        delegated = _Delegated(await door.grant(principal) if door and principal else {})
        try:
            yield delegated
        except BaseException:
            delegated.taken = False
            raise
        finally:
            if door and delegated.value and not delegated.taken:
                await door.revoke(delegated.value)

    async def _submit(
        self,
        tx: Transaction,
        principal: Principal,
        environment: StoredRow,
        session: StoredRow,
        action: TaskAction | None,
        delegated: _Delegated,
        may_lose: list[str] | None = None,
    ) -> str | None:
        model: JsonObject = session.model
        deletes = model.get("Objects") is None
        called = None if deletes else action
        if deletes and model.get("ObjectsCopy") is None:
            await self.store.remove(tx, environment.id)
            return None
        now = self.database.clock.now()
        # This condition excludes a double deploy on every database and isolation level.
        changed = await tx.execute(
            update(sessions)
            .where(sessions.c.id == session.id, sessions.c.state == states.OPENED)
            .values(state=states.DELETING if deletes else states.DEPLOYING, updated=now)
        )
        if changed.rowcount != 1:
            raise Forbidden(f"Session <SessionId {session.id}> is already being deployed")
        task_id = new_id()
        objects = model.get("Objects")
        flat = is_workflow(model)
        if flat and objects is not None:
            objects |= {"id": environment.id, "name": environment.name}
            objects["tenant_id"] = environment.tenant_id
            objects["version"] = environment.version
        elif objects is not None:
            objects["?"]["id"] = environment.id
        description: JsonObject = {"services": []} if deletes else sanitise(objects)
        description.setdefault("services", [])
        count = await tx.execute(
            select(func.max(tasks.c.sequence)).where(tasks.c.environment_id == environment.id)
        )
        await tx.execute(
            insert(tasks).values(
                id=task_id,
                environment_id=environment.id,
                environment_name=environment.name,
                project_id=environment.tenant_id,
                user_id=principal.user_id,
                user_name=principal.user_name,
                session_id=session.id,
                sequence=(count.scalar() or 0) + 1,
                action=called,
                description=description,
                started=now,
                created=now,
                updated=now,
            )
        )
        payload = {
            "environment_id": environment.id,
            "environment_name": environment.name,
            "request_id": log_context.said().get("request_id", ""),
            "session_id": session.id,
            # An operator may deploy for others: the environment's project owns the resources.
            "project_id": environment.tenant_id,
            "user_id": principal.user_id,
            "action": called,
            "model_kind": environment.model_kind,
            "model": {**model, "Objects": objects if flat else to_engine(objects)},
        }
        if given := tracing.traceparent():
            payload["traceparent"] = given
        if may_lose is not None and not deletes:
            payload["may_lose"] = may_lose
        if delegated.value:
            # Sealed, and gone with the task.
            payload["delegation"] = delegated.value
            delegated.taken = True
        await self.queue.enqueue(tx, task_id, payload, party=environment.tenant_id)
        method = "delete" if called is None else called["method"]
        # What users of the first generation have always read first (§8).
        old = environment.model_kind == WORKFLOW and method == "deploy"
        text = "Deployment scheduled" if old else f"Action {method} is scheduled"
        await self.reports.store(tx, task_id, environment.id, "info", text)
        tx.notify(task_channel(task_id))
        tx.notify(project_channel(environment.tenant_id), environment.id)
        return task_id

    async def delete_environment(
        self,
        principal: Principal,
        environment_id: str,
        *,
        abandon: bool,
        condition: Condition = UNCONDITIONAL,
    ) -> str | None:
        """Destroy an environment, or with ``abandon`` only forget it. Errors: 403, 404, 412."""
        # Abandoning an environment needs nothing of the cloud.
        caller = None if abandon else principal
        async with self._delegated(caller) as delegated, self.database.transaction() as tx:
            await self.store.lock(tx, environment_id)
            environment = await self.store.environment(
                tx, principal, environment_id, with_model=bool(condition) or not abandon
            )
            if condition:
                condition.check(await self.store.shown(tx, environment, None), ENVIRONMENT_EXTRAS)
            if abandon:
                endings = await self._abandon(tx, principal, environment)
            else:
                return await self._destroy(tx, principal, environment, delegated)
        for ending in endings:
            lifecycle.task_ended(ending)
        lifecycle.log.info(
            "environment_abandoned",
            environment=environment_id,
            environment_name=environment.name,
            project=environment.tenant_id,
            user=principal.user_id,
        )
        return None

    async def _destroy(
        self, tx: Transaction, principal: Principal, environment: StoredRow, delegated: _Delegated
    ) -> str | None:
        """Submit the destruction of the deployed resources."""
        if environment.model.get("ObjectsCopy") is None:  # nothing was ever deployed
            await self.sessions.refuse_active(tx, environment)
            await self.store.remove(tx, environment.id)
            return None
        view = await self.sessions.open_session(tx, environment, principal.user_id)
        session = await self.store.session(tx, environment.id, view["id"])
        model = {**session.model, "Objects": None}
        await tx.execute(update(sessions).where(sessions.c.id == session.id).values(model=model))
        session = await self.store.session(tx, environment.id, session.id)
        return await self._submit(tx, principal, environment, session, None, delegated)

    async def _abandon(
        self, tx: Transaction, principal: Principal, environment: StoredRow
    ) -> list[Ending]:
        """Forget an environment; the endings of its tasks that were not begun."""
        environment_id = environment.id
        # A task that was not begun must not build anything for a removed environment.
        unfinished = list(await tx.execute(_UNFINISHED, {"wanted": environment_id}))
        withdrawn = await self.queue.withdraw(tx, [row.id for row in unfinished])
        text = f"The environment was abandoned by {principal.user_name or principal.user_id}"
        for row in unfinished:
            await self.reports.store(tx, row.id, environment_id, "error", text)
            if row.id in withdrawn:
                result = {"message": text, "details": None}
                failed = StoredResult(result=result, isException=True)
                await self.endings.close(tx, row.id, failed, "abandoned")
        await self.store.remove(tx, environment_id)
        return [
            self.endings.ending(row, "abandoned", text, environment.created)
            for row in unfinished
            if row.id in withdrawn
        ]

    async def call_action(
        self,
        principal: Principal,
        environment_id: str,
        action_id: str,
        arguments: object,
        *,
        overtake: bool = True,
        may_lose: list[str] | None = None,
    ) -> str:
        """Submit an action. Errors: 400, 403, 404; a failure leaves no session behind.

        ``overtake``: submit although sessions hold undeployed changes; otherwise that is a 409.
        ``may_lose``: see ``deploy``.
        """
        async with self._delegated(principal) as delegated, self.database.transaction() as tx:
            await self.store.lock(tx, environment_id)
            environment = await self.store.environment(tx, principal, environment_id)
            if arguments is not None and not isinstance(arguments, dict):
                raise BadRequest("The arguments of an action must be an object")
            check_headers(arguments, "arguments")
            await self.sessions.refuse_active(tx, environment)
            object_id, action = find_action(environment.model.get("Objects"), action_id)
            check_arguments(action, cast("dict[str, object]", arguments or {}))
            if not overtake:
                await self.sessions.refuse_loss(tx, principal, environment)
            view = await self.sessions.open_session(tx, environment, principal.user_id)
            session = await self.store.session(tx, environment_id, view["id"])
            task_id = await self._submit(
                tx,
                principal,
                environment,
                session,
                {"object_id": object_id, "method": action["name"], "args": arguments or {}},
                delegated,
                may_lose,
            )
            assert task_id is not None
            return task_id

    async def cancel(
        self, principal: Principal, environment_id: str, task_id: str, reason: str = ""
    ) -> DeploymentView:
        """Cancel a deployment; the deployment as it is now.

        A waiting one ends at once. For a running one the engine is notified: it stops between two
        statements, or interrupts what it waits for, and stores the state reached. Cancelling again
        changes nothing. Errors: 400, 403, 404, 409 when it has ended already.
        """
        ending: Ending | None = None
        async with self.database.transaction() as tx:
            await self.store.lock(tx, environment_id)
            row = await self.history.task(tx, principal, environment_id, task_id)
            if row.finished is not None:
                raise Conflict(f"Deployment {task_id} has ended already")
            who = principal.user_name or principal.user_id
            text = f"Cancelled by {who}" + (f": {reason}" if reason else "")
            if await self.queue.withdraw(tx, [task_id]):
                await self.reports.store(tx, task_id, environment_id, "error", text)
                session = await self.store.session(tx, environment_id, row.session_id)
                model: dict[str, object] = dict(session.model)
                if model.get("ObjectsCopy") is None:
                    # As after any failure: a later deletion asks the engine to check for resources.
                    objects = model.get("Objects")
                    model["ObjectsCopy"] = objects if is_workflow(model) else to_engine(objects)
                result = {"message": text, "details": None}
                failed = TaskResult(model, result, is_exception=True)
                ending = await self.endings.finish(tx, row, failed, outcome="cancelled")
            elif row.cancellation is None:
                await tx.execute(
                    update(tasks).where(tasks.c.id == task_id).values(cancellation=text)
                )
                await self.reports.store(
                    tx, task_id, environment_id, "info", f"Cancellation requested: {text}"
                )
                tx.notify(task_channel(task_id))
                tx.notify(cancel_channel(task_id))
            now = (await tx.execute(select(tasks).where(tasks.c.id == task_id))).one()
            counts = await self.history.levels(tx, [task_id])
        if ending is not None:
            lifecycle.task_ended(ending)
        return self.history.view(now, counts.get(task_id, {}))

    async def cancelled(self, task_id: str) -> str:
        """Wait until cancellation of a task is requested; returns the reason. Without a request it never
        returns."""

        async def look() -> str | None:
            async with self.database.read() as tx:
                found = await tx.execute(select(tasks.c.cancellation).where(tasks.c.id == task_id))
                return found.scalar_one_or_none()

        return str(await await_until(self.database, cancel_channel(task_id), look))

    # Engine side

    async def claim(
        self, owner: str, ttl_seconds: float, *, task_id: str | None = None
    ) -> tuple[Lease, EngineTask] | None:
        """Take a waiting task, or the one with ``task_id``; ``None`` when there is none."""
        lease = await self.queue.claim(owner, ttl_seconds, key=task_id)
        return None if lease is None else (lease, self.task_of(lease))

    @staticmethod
    def task_of(lease: Lease) -> EngineTask:
        """The task that a lease of the queue is for."""
        return EngineTask(id=lease.key, **lease.payload)

    def began(self, lease: Lease, task: EngineTask) -> None:
        """Log and count that an engine begins a task."""
        identity = TaskIdentity(
            task.id,
            task.environment_id,
            task.environment_name,
            task.project_id,
            task.user_id,
            task.action,
        )
        lifecycle.task_began(identity, lease.waited_seconds, lease.attempt)

    async def read_stored(self, tx: Transaction, calls: LeaseQueue) -> None:
        """Set the room's gauges."""
        queues = {"deployments": self.queue, "calls": calls}
        await lifecycle.read_stored(tx, queues)

    async def finish_task(self, lease: Lease, result: TaskResult) -> None:
        """Store an engine's result and end the work, in one commit. Errors: ``LeaseLost``."""
        async with self.database.transaction() as tx:
            await self.queue.complete(tx, lease)
            task = await self._row(tx, lease.key)
            if task is None:
                return  # its environment was abandoned by a version that kept no history
            ending = await self.endings.finish(tx, task, result)
        lifecycle.task_ended(ending)

    async def fail_task(
        self,
        lease: Lease,
        message: str,
        details: str | None = None,
        *,
        outcome: Outcome = "failed",
        attributes: Sequence[Json] = (),
    ) -> None:
        """End a task that its engine could not: a report with the reason, the model from before.

        ``outcome``: how the history calls it. ``attributes``: rows that hold all the same, after those
        of the model. Errors: ``LeaseLost``.
        """
        payload = cast("JsonObject", lease.payload)
        # The reason may quote values that the program was given.
        known = await asyncio.to_thread(secrets_in, [payload["model"], payload["action"]])
        cover = Cover(known)
        message, details = cover(message), None if details is None else cover(details)
        async with self.database.transaction() as tx:
            await self.queue.complete(tx, lease)
            task = await self._row(tx, lease.key)
            if task is None:
                return
            await self.reports.store(
                tx, lease.key, payload["environment_id"], "error", message, details
            )
            model = {**payload["model"], "Objects": from_engine(payload["model"]["Objects"])}
            if model.get("ObjectsCopy") is None:
                # Resources may exist: a later deletion must ask the engine to check.
                model["ObjectsCopy"] = payload["model"]["Objects"]
            if attributes:
                model["Attributes"] = [*(model.get("Attributes") or []), *attributes]
            result = TaskResult(model, {"message": message, "details": details}, is_exception=True)
            ending = await self.endings.finish(tx, task, result, outcome=outcome)
        lifecycle.task_ended(ending)

    async def _row(self, tx: Transaction, task_id: str) -> StoredRow | None:
        return (await tx.execute(select(tasks).where(tasks.c.id == task_id))).first()
