"""Tasks: from *deploy* to a result, with reports in between (catalog-api.md §5.5, §5.6, §8).

A task row, its work in the lease queue and the session's change of state are stored in one commit;
the result, the model, the session's final state and the end of the work are one commit as well. So
a task is neither lost nor finished twice, whichever process dies at whatever moment.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Row, func, insert, select, update
from structlog.contextvars import get_contextvars

from vetro.environments import lifecycle, states
from vetro.environments.history import TaskHistory
from vetro.environments.lifecycle import Ending, Outcome, TaskIdentity
from vetro.environments.model import (
    check_arguments,
    find_action,
    from_engine,
    new_id,
    sanitise,
    to_engine,
)
from vetro.environments.opened import OpenSessions
from vetro.environments.store import MODELS_CHANNEL, EnvironmentStore
from vetro.environments.tables import environments, instances, sessions, statuses, tasks
from vetro.http import BadRequest, Conflict, Forbidden, Principal
from vetro.secrecy import Cover, secrets_in
from vetro.storage import Database, Lease, LeaseQueue, Transaction

QUEUE = "engine"


MOST_REPORTS = 10_000
"""Reports of one task that a program may add."""
REPORT_LENGTH = 64 * 1024
"""Characters of a report's text, and of its details."""
MOST_LOGGED = 2000
"""Characters of a reason that are logged."""


def shortened(text: str, most: int = REPORT_LENGTH) -> str:
    """A text of at most ``most`` characters: a longer one is cut in its middle, with a note."""
    if len(text) <= most:
        return text
    half = (most - 60) // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters are cut …\n{text[-half:]}"


def cancel_channel(task_id: str) -> str:
    """The channel of notifications that a task is to be cancelled."""
    return f"task/{task_id}/cancel"


def task_channel(task_id: str) -> str:
    """The channel of notifications about the reports and the end of one task."""
    return f"task/{task_id}"


@dataclass(frozen=True)
class EngineTask:
    """An engine's task. ``action`` is ``None`` for a deletion (``model.Objects`` is null then)."""

    id: str
    environment_id: str
    session_id: str
    project_id: str
    user_id: str
    action: dict[str, Any] | None
    model: dict[str, Any]
    environment_name: str = ""
    request_id: str = ""
    """The id of the request that asked for it: users quote it, operators find it in the log."""

    @property
    def is_delete(self) -> bool:
        """Whether the environment is to be destroyed."""
        return self.model.get("Objects") is None


@dataclass(frozen=True)
class TaskResult:
    """What an engine returns: the model after the run and the action's result."""

    model: dict[str, Any]
    result: Any = None
    is_exception: bool = False
    extra: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def action(self) -> dict[str, Any]:
        """The stored result (§5.6)."""
        return {"result": self.result, "isException": self.is_exception}


class TaskStore(TaskHistory):
    """Submits tasks, hands them to engines, stores reports and results."""

    def __init__(self, database: Database, store: EnvironmentStore) -> None:
        super().__init__(database, store)
        self.sessions = OpenSessions(store)
        self.queue = LeaseQueue(database, QUEUE)

    # API side

    async def deploy(
        self,
        principal: Principal,
        environment_id: str,
        session_id: str,
        *,
        overtake: bool = True,
    ) -> str | None:
        """Submit a session; the task's id, or ``None`` when the environment was removed at once.

        ``overtake``: deploy although other sessions hold changes; otherwise that is a 409.
        """
        async with self.database.transaction() as tx:
            await self.store.lock(tx, environment_id)
            session, environment = await self.store.own_session(
                tx, principal, environment_id, session_id, lock=True
            )
            rows = await self.store.session_states(tx, environment_id)
            if self.store.invalid(session, environment.version, rows):
                raise await self.store.overtaken(tx, environment, session)
            if session.state != states.OPENED:
                raise Forbidden(f"Session <SessionId {session_id}> is already {session.state}")
            if not overtake:
                await self.sessions.refuse_loss(tx, principal, environment, but=session_id)
            action: dict[str, Any] = {
                "object_id": environment_id,
                "method": "deploy",
                "args": {},
            }
            return await self._submit(tx, principal, environment, session, action)

    async def _submit(
        self,
        tx: Transaction,
        principal: Principal,
        environment: Row[Any],
        session: Row[Any],
        action: dict[str, Any],
    ) -> str | None:
        model: dict[str, Any] = session.model
        deletes = model.get("Objects") is None
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
        if objects is not None:
            objects["?"]["id"] = environment.id
        description: dict[str, Any] = {"services": []} if deletes else sanitise(objects)
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
                action=None if deletes else action,
                description=description,
                started=now,
                created=now,
                updated=now,
            )
        )
        payload = {
            "environment_id": environment.id,
            "environment_name": environment.name,
            "request_id": str(get_contextvars().get("request_id", "")),
            "session_id": session.id,
            # An operator may deploy for others: the environment's project owns the resources.
            "project_id": environment.tenant_id,
            "user_id": principal.user_id,
            "action": None if deletes else action,
            "model": {**model, "Objects": to_engine(objects)},
        }
        await self.queue.enqueue(tx, task_id, payload, party=environment.tenant_id)
        method = "delete" if deletes else action["method"]
        await self._report(tx, task_id, environment.id, "info", f"Action {method} is scheduled")
        tx.notify(task_channel(task_id))
        return task_id

    async def delete_environment(
        self, principal: Principal, environment_id: str, *, abandon: bool
    ) -> str | None:
        """Destroy an environment, or with ``abandon`` only forget it. Errors: 403, 404."""
        async with self.database.transaction() as tx:
            await self.store.lock(tx, environment_id)
            environment = await self.store.environment(tx, principal, environment_id)
            if abandon:
                endings = await self._abandon(tx, principal, environment_id)
            else:
                return await self._destroy(tx, principal, environment)
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
        self, tx: Transaction, principal: Principal, environment: Row[Any]
    ) -> str | None:
        """Submit the destruction of the deployed resources."""
        view = await self.store.open_session(tx, environment, principal.user_id)
        session = await self.store.session(tx, environment.id, view["id"])
        model = {**session.model, "Objects": None}
        await tx.execute(update(sessions).where(sessions.c.id == session.id).values(model=model))
        session = await self.store.session(tx, environment.id, session.id)
        return await self._submit(tx, principal, environment, session, {})

    async def _abandon(
        self, tx: Transaction, principal: Principal, environment_id: str
    ) -> list[Ending]:
        """Forget an environment; the endings of its tasks that were not begun."""
        # A task that was not begun must not build anything for a removed environment.
        mine = select(tasks).where(
            tasks.c.environment_id == environment_id, tasks.c.finished.is_(None)
        )
        unfinished = list(await tx.execute(mine))
        withdrawn = await self.queue.withdraw(tx, [row.id for row in unfinished])
        text = f"The environment was abandoned by {principal.user_name or principal.user_id}"
        for row in unfinished:
            await self._report(tx, row.id, environment_id, "error", text)
            if row.id in withdrawn:
                result = {"message": text, "details": None}
                await self._close(tx, row.id, {"result": result, "isException": True})
        await self.store.remove(tx, environment_id)
        return [self._ending(row, "abandoned", text) for row in unfinished if row.id in withdrawn]

    async def call_action(
        self,
        principal: Principal,
        environment_id: str,
        action_id: str,
        arguments: object,
        *,
        overtake: bool = True,
    ) -> str:
        """Submit an action. Errors: 400, 403, 404; a failure leaves no session behind.

        ``overtake``: submit although sessions hold undeployed changes; otherwise that is a 409.
        """
        async with self.database.transaction() as tx:
            await self.store.lock(tx, environment_id)
            environment = await self.store.environment(tx, principal, environment_id)
            if arguments is not None and not isinstance(arguments, dict):
                raise BadRequest("The arguments of an action are an object")
            status = await self.store.status(tx, environment_id)
            if status in states.ACTIVE:
                raise Forbidden(f"Environment {environment_id} is {status}; wait until it is done")
            object_id, action = find_action(environment.model.get("Objects"), action_id)
            check_arguments(action, cast("dict[str, Any]", arguments or {}))
            if not overtake:
                await self.sessions.refuse_loss(tx, principal, environment)
            view = await self.store.open_session(tx, environment, principal.user_id)
            session = await self.store.session(tx, environment_id, view["id"])
            task_id = await self._submit(
                tx,
                principal,
                environment,
                session,
                {"object_id": object_id, "method": action["name"], "args": arguments or {}},
            )
            assert task_id is not None
            return task_id

    async def cancel(
        self, principal: Principal, environment_id: str, task_id: str, reason: str = ""
    ) -> dict[str, Any]:
        """Cancel a deployment; the deployment as it is now.

        A waiting one ends at once. For a running one the engine is notified: it stops between two
        statements, or interrupts what it waits for, and stores the state reached. Cancelling again
        changes nothing. Errors: 400, 403, 404, 409 when it has ended already.
        """
        ending: Ending | None = None
        async with self.database.transaction() as tx:
            await self.store.lock(tx, environment_id)
            row = await self.task(tx, principal, environment_id, task_id)
            if row.finished is not None:
                raise Conflict(f"Deployment {task_id} has ended already")
            who = principal.user_name or principal.user_id
            text = f"Cancelled by {who}" + (f": {reason}" if reason else "")
            if await self.queue.withdraw(tx, [task_id]):
                await self._report(tx, task_id, environment_id, "error", text)
                session = await self.store.session(tx, environment_id, row.session_id)
                model: dict[str, Any] = dict(session.model)
                if model.get("ObjectsCopy") is None:
                    # As after any failure: a later deletion asks the engine to check for resources.
                    model["ObjectsCopy"] = to_engine(model.get("Objects"))
                result = {"message": text, "details": None}
                failed = TaskResult(model, result, is_exception=True)
                ending = await self._finish(tx, row, failed, outcome="cancelled")
            elif row.cancellation is None:
                await tx.execute(
                    update(tasks).where(tasks.c.id == task_id).values(cancellation=text)
                )
                await self._report(tx, task_id, environment_id, "info", f"Is to end: {text}")
                tx.notify(task_channel(task_id))
                tx.notify(cancel_channel(task_id))
            now = (await tx.execute(select(tasks).where(tasks.c.id == task_id))).one()
            counts = await self.levels(tx, [task_id])
        if ending is not None:
            lifecycle.task_ended(ending)
        return self.view(now, counts.get(task_id, {}))

    async def cancelled(self, task_id: str) -> str:
        """Wait until a task is to be cancelled; the reason. Waits for ever if it is not."""
        async with self.database.listen(cancel_channel(task_id)) as subscription:
            while True:
                async with self.database.read() as tx:
                    found = await tx.execute(
                        select(tasks.c.cancellation).where(tasks.c.id == task_id)
                    )
                    reason = found.scalar_one_or_none()
                if reason is not None:
                    return str(reason)
                await subscription.wait()

    # Engine side

    async def claim(
        self,
        owner: str,
        ttl_seconds: float,
        *,
        task_id: str | None = None,
        most_per_project: int | None = None,
    ) -> tuple[Lease, EngineTask] | None:
        """Take a waiting task, or the one with ``task_id``; ``None`` when there is none.

        Projects take turns; ``most_per_project``: skip projects of which ``owner`` has so many
        tasks.
        """
        lease = await self.queue.claim(
            owner, ttl_seconds, key=task_id, most_per_party=most_per_project
        )
        if lease is None:
            return None
        return lease, EngineTask(id=lease.key, **lease.payload)

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

    async def report(
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
            levels = (await self.levels(tx, [task_id])).get(task_id, {})
            count = sum(levels.values())
            if count > MOST_REPORTS and levels.get(level):
                return
            if count == MOST_REPORTS:
                said = f"There are more than {MOST_REPORTS} reports; the others are not kept"
                await self._report(tx, task_id, None, "warning", said)
            await self._report(tx, task_id, entity_id, level, text, details, entity)
            tx.notify(task_channel(task_id))

    async def say_waiting(self, task_id: str, text: str) -> None:
        """Store what a running task waits on; an empty text: it does not wait."""
        async with self.database.transaction() as tx:
            await tx.execute(
                update(tasks)
                .where(tasks.c.id == task_id, tasks.c.finished.is_(None))
                .values(waiting_on=text or None)
            )
            tx.notify(task_channel(task_id))

    async def _report(
        self,
        tx: Transaction,
        task_id: str,
        entity_id: str | None,
        level: str,
        text: str,
        details: str | None = None,
        entity: str | None = None,
    ) -> None:
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

    async def track_instance(self, environment_id: str, values: dict[str, Any]) -> None:
        """Record that an application or instance exists (statistics, §5.7)."""
        async with self.database.transaction() as tx:
            found = await tx.execute(
                select(environments.c.id).where(environments.c.id == environment_id)
            )
            if found.first() is None:
                return
            mine = (instances.c.environment_id == environment_id) & (
                instances.c.instance_id == values["instance_id"]
            )
            if (await tx.execute(select(instances).where(mine))).first() is not None:
                await tx.execute(
                    update(instances).where(mine).values(unit_count=values.get("unit_count"))
                )
                return
            await tx.execute(
                insert(instances).values(
                    environment_id=environment_id,
                    created=self.database.clock.now(),
                    **values,
                )
            )

    async def untrack_instance(self, environment_id: str, instance_id: str) -> None:
        """Record that an instance is gone."""
        async with self.database.transaction() as tx:
            await tx.execute(
                update(instances)
                .where(
                    instances.c.environment_id == environment_id,
                    instances.c.instance_id == instance_id,
                    instances.c.destroyed.is_(None),
                )
                .values(destroyed=self.database.clock.now())
            )

    async def finish_task(self, lease: Lease, result: TaskResult) -> None:
        """Store an engine's result and end the work, in one commit. Errors: ``LeaseLost``."""
        async with self.database.transaction() as tx:
            await self.queue.complete(tx, lease)
            task = await self._row(tx, lease.key)
            if task is None:
                return  # its environment was abandoned by a version that kept no history
            ending = await self._finish(tx, task, result)
        lifecycle.task_ended(ending)

    async def fail_task(
        self,
        lease: Lease,
        message: str,
        details: str | None = None,
        *,
        outcome: Outcome = "failed",
    ) -> None:
        """End a task that its engine could not: a report with the reason, the model from before.

        ``outcome``: for the metrics. Errors: ``LeaseLost``.
        """
        payload = cast("dict[str, Any]", lease.payload)
        # The reason may quote values that the program was given.
        known = await asyncio.to_thread(secrets_in, [payload["model"], payload["action"]])
        cover = Cover(known)
        message, details = cover(message), None if details is None else cover(details)
        async with self.database.transaction() as tx:
            await self.queue.complete(tx, lease)
            task = await self._row(tx, lease.key)
            if task is None:
                return
            await self._report(tx, lease.key, payload["environment_id"], "error", message, details)
            model = {**payload["model"], "Objects": from_engine(payload["model"]["Objects"])}
            if model.get("ObjectsCopy") is None:
                # Resources may exist: a later deletion must ask the engine to check.
                model["ObjectsCopy"] = payload["model"]["Objects"]
            result = TaskResult(model, {"message": message, "details": details}, is_exception=True)
            ending = await self._finish(tx, task, result, outcome=outcome)
        lifecycle.task_ended(ending)

    async def _row(self, tx: Transaction, task_id: str) -> Row[Any] | None:
        return (await tx.execute(select(tasks).where(tasks.c.id == task_id))).first()

    def _ending(self, row: Row[Any], outcome: Outcome, reason: str = "") -> Ending:
        identity = TaskIdentity(
            row.id,
            row.environment_id,
            row.environment_name,
            row.project_id,
            row.user_id,
            row.action,
        )
        seconds = (self.database.clock.now() - row.started).total_seconds()
        return Ending(identity, outcome, seconds, shortened(reason, MOST_LOGGED))

    async def _finish(
        self, tx: Transaction, task: Row[Any], result: TaskResult, outcome: Outcome = "failed"
    ) -> Ending:
        """Store the outcome of a task; its ending. ``outcome``: the name of a failure."""
        tx.notify(task_channel(task.id))
        now = self.database.clock.now()
        levels = (await self.levels(tx, [task.id])).get(task.id, {})
        failed = result.is_exception or levels.get("error", 0) > 0
        if failed and task.cancellation is not None:
            outcome = "cancelled"
        elif not failed:
            outcome = "warnings" if levels.get("warning", 0) else "success"
        if task.environment_gone is not None:
            await self._close(tx, task.id, result.action)
            return self._ending(task, "abandoned", await self._why(tx, task.id))
        why = await self._why(tx, task.id, result) if failed else ""
        ending = self._ending(task, outcome, why)
        session = (
            await tx.execute(select(sessions).where(sessions.c.id == task.session_id))
        ).first()
        deleting = session is not None and session.state == states.DELETING
        objects = result.model.get("Objects")
        text = "Deletion finished" if deleting else "Deployment finished"
        if failed:
            text += " with errors"
        elif levels.get("warning", 0):
            text += " with warnings"
        await self._report(tx, task.id, task.environment_id, "info", text)
        await self._close(tx, task.id, result.action)
        if deleting and not failed and objects is None and result.model.get("ObjectsCopy") is None:
            await self.store.remove(tx, task.environment_id)
            return ending
        await self._store_model(tx, task.environment_id, result.model, now, deleting=deleting)
        if deleting:
            state = states.DELETE_FAILURE if failed else states.DEPLOYED
        else:
            state = states.DEPLOY_FAILURE if failed else states.DEPLOYED
        await tx.execute(
            update(sessions)
            .where(sessions.c.id == task.session_id)
            .values(state=state, updated=now)
        )
        return ending

    async def _close(self, tx: Transaction, task_id: str, result: dict[str, Any]) -> None:
        now = self.database.clock.now()
        await tx.execute(
            update(tasks)
            .where(tasks.c.id == task_id)
            .values(finished=now, updated=now, result=result)
        )
        tx.notify(task_channel(task_id))

    async def _why(self, tx: Transaction, task_id: str, result: TaskResult | None = None) -> str:
        """Why a task failed: the message of its result, else its first error."""
        said = result.result if result is not None and result.is_exception else None
        if isinstance(said, dict) and said.get("message"):  # pyright: ignore[reportUnknownMemberType]
            return str(cast("dict[str, Any]", said)["message"])
        query = (
            select(statuses.c.text)
            .where(statuses.c.task_id == task_id, statuses.c.level == "error")
            .order_by(statuses.c.sequence)
            .limit(1)
        )
        return str((await tx.execute(query)).scalar_one_or_none() or "")

    async def _store_model(
        self,
        tx: Transaction,
        environment_id: str,
        model: dict[str, Any],
        now: datetime,
        *,
        deleting: bool,
    ) -> None:
        environment = (
            await tx.execute(select(environments).where(environments.c.id == environment_id))
        ).one()
        stored = {**model, "Objects": from_engine(model.get("Objects"))}
        if stored["Objects"] is None and deleting:
            # A failed deletion keeps the objects, so that they are shown and can be deleted again.
            stored["Objects"] = environment.model.get("Objects")
        await self.sessions.keep_bases(tx, environment_id, environment.version)
        await tx.execute(
            update(environments)
            .where(environments.c.id == environment_id)
            .values(model=stored, version=environment.version + 1, updated=now)
        )
        tx.notify(MODELS_CHANNEL)
