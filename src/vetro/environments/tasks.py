"""Tasks: from *deploy* to a result, with reports in between (catalog-api.md §5.5, §5.6, §8).

A task row and its work in the lease queue are made in one commit with the session's change of state; the
result, the model, the session's final state and the end of the work are one commit as well. So a task
is neither lost nor finished twice, whatever process dies when.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Row, func, insert, select, update
from structlog.contextvars import get_contextvars

from vetro.catalog import api_time, api_time_or_none
from vetro.environments import states
from vetro.environments.model import (
    check_arguments,
    find_action,
    from_engine,
    new_id,
    sanitise,
    to_engine,
)
from vetro.environments.opened import OpenSessions
from vetro.environments.store import EnvironmentStore
from vetro.environments.tables import environments, instances, sessions, statuses, tasks
from vetro.http import BadRequest, Conflict, Forbidden, NotFound, Principal
from vetro.storage import Database, Lease, LeaseQueue, Transaction

QUEUE = "engine"


MOST_REPORTS = 10_000
"""Reports of one task that a program may add."""
REPORT_LENGTH = 64 * 1024
"""Characters of a report's text, and of its details."""


def shortened(text: str, most: int = REPORT_LENGTH) -> str:
    """A text that is no longer than allowed: what is too long loses its middle, and says so."""
    if len(text) <= most:
        return text
    half = (most - 60) // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters are cut …\n{text[-half:]}"


def cancel_channel(task_id: str) -> str:
    """Notifications that a task is to be cancelled."""
    return f"task/{task_id}/cancel"


def task_channel(task_id: str) -> str:
    """Notifications of reports and of the end of one task."""
    return f"task/{task_id}"


@dataclass(frozen=True)
class EngineTask:
    """What an engine runs. ``action`` is ``None`` for a deletion (``model.Objects`` is null then)."""

    id: str
    environment_id: str
    session_id: str
    project_id: str
    user_id: str
    action: dict[str, Any] | None
    model: dict[str, Any]
    environment_name: str = ""
    request_id: str = ""
    """Of the request that asked for it: what a user quotes and an operator finds in the log."""

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


class TaskStore:
    """Submits tasks, hands them to engines, takes reports and results."""

    def __init__(self, database: Database, store: EnvironmentStore) -> None:
        self.database = database
        self.store = store
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

        ``overtake``: also when other sessions hold changes; else that is a 409.
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
        # The condition makes the two-deploys race impossible on every engine and isolation level.
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
            # An operator may deploy for others: the environment's project owns what is built.
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
        """Destroy, or with ``abandon`` only forget. Errors: 403, 404."""
        async with self.database.transaction() as tx:
            await self.store.lock(tx, environment_id)
            environment = await self.store.environment(tx, principal, environment_id)
            if abandon:
                # What no engine has begun must not build anything for an environment that is gone.
                mine = select(tasks.c.id).where(
                    tasks.c.environment_id == environment_id, tasks.c.finished.is_(None)
                )
                await self.queue.withdraw(tx, [row.id for row in await tx.execute(mine)])
                await self.store.remove(tx, environment_id)
                return None
            view = await self.store.open_session(tx, environment, principal.user_id)
            session = await self.store.session(tx, environment_id, view["id"])
            model = {**session.model, "Objects": None}
            await tx.execute(
                update(sessions).where(sessions.c.id == session.id).values(model=model)
            )
            session = await self.store.session(tx, environment_id, session.id)
            return await self._submit(tx, principal, environment, session, {})

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

        ``overtake``: also when sessions hold changes that are not deployed; else that is a 409.
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

    async def action_result(
        self, principal: Principal, environment_id: str, task_id: str
    ) -> dict[str, Any]:
        """The result of an action's task; ``{}`` while it runs. Errors: 403, 404."""
        async with self.database.read() as tx:
            await self.store.environment(tx, principal, environment_id, with_model=False)
            row = (await tx.execute(select(tasks).where(tasks.c.id == task_id))).first()
            if row is None or row.environment_id != environment_id:
                raise NotFound(f"There is no task {task_id} in this environment")
            return row.result if row.finished is not None else {}

    async def task(
        self, tx: Transaction, principal: Principal, environment_id: str, task_id: str
    ) -> Row[Any]:
        """A deployment of an environment the caller may see. Errors: 403, 404, 400."""
        await self.store.environment(tx, principal, environment_id, with_model=False)
        row = (await tx.execute(select(tasks).where(tasks.c.id == task_id))).first()
        if row is None:
            raise NotFound(f"Deployment with id {task_id} not found", type_="DeploymentNotFound")
        if row.environment_id != environment_id:
            raise BadRequest(f"Deployment {task_id} is not tied with Environment {environment_id}")
        return row

    async def deployments(
        self, principal: Principal, environment_id: str | None
    ) -> list[dict[str, Any]]:
        """Deployments of one environment, or of the caller's project; newest first."""
        query = select(tasks).order_by(tasks.c.started.desc(), tasks.c.sequence.desc())
        async with self.database.read() as tx:
            if environment_id is not None:
                await self.store.environment(tx, principal, environment_id, with_model=False)
                query = query.where(tasks.c.environment_id == environment_id)
            else:
                mine = select(environments.c.id).where(
                    environments.c.tenant_id == principal.project_id
                )
                query = query.where(tasks.c.environment_id.in_(mine))
            rows = list(await tx.execute(query))
            counts = await self._levels(tx, [row.id for row in rows])
        return [self.view(row, counts.get(row.id, {})) for row in rows]

    async def _levels(self, tx: Transaction, ids: list[str]) -> dict[str, dict[str, int]]:
        found = await tx.execute(
            select(statuses.c.task_id, statuses.c.level, func.count().label("number"))
            .where(statuses.c.task_id.in_(ids))
            .group_by(statuses.c.task_id, statuses.c.level)
        )
        counts: dict[str, dict[str, int]] = {}
        for row in found:
            counts.setdefault(row.task_id, {})[row.level] = row.number
        return counts

    async def cancel(
        self, principal: Principal, environment_id: str, task_id: str, reason: str = ""
    ) -> dict[str, Any]:
        """Have a deployment end; the deployment as it is now.

        One that no engine has begun ends at once. A running one is told to: the engine ends it
        between two statements, or out of whatever it waits for, and stores what there is by then.
        Asking again changes nothing. Errors: 400, 403, 404, 409 when it has ended already.
        """
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
                    # As after any failure: a later deletion asks the engine to look.
                    model["ObjectsCopy"] = to_engine(model.get("Objects"))
                result = {"message": text, "details": None}
                await self._finish(tx, task_id, TaskResult(model, result, is_exception=True))
            elif row.cancellation is None:
                await tx.execute(
                    update(tasks).where(tasks.c.id == task_id).values(cancellation=text)
                )
                await self._report(tx, task_id, environment_id, "info", f"Is to end: {text}")
                tx.notify(task_channel(task_id))
                tx.notify(cancel_channel(task_id))
            now = (await tx.execute(select(tasks).where(tasks.c.id == task_id))).one()
            counts = await self._levels(tx, [task_id])
            return self.view(now, counts.get(task_id, {}))

    async def cancelled(self, task_id: str) -> str:
        """Wait until somebody wants a task cancelled; why. For ever, if nobody does."""
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

    def view(self, row: Row[Any], levels: dict[str, int]) -> dict[str, Any]:
        """A deployment as the API shows it."""
        return {
            "id": row.id,
            "environment_id": row.environment_id,
            "created": api_time(row.created),
            "updated": api_time(row.updated),
            "started": api_time(row.started),
            "finished": api_time_or_none(row.finished),
            "state": states.deployment_state(
                finished=row.finished is not None,
                errors=levels.get("error", 0),
                warnings=levels.get("warning", 0),
            ),
            "action": row.action,
            "waiting_on": row.waiting_on if row.finished is None else None,
            "result": row.result or {},
            "description": row.description,
        }

    def report_view(self, row: Row[Any]) -> dict[str, Any]:
        """A report as the API shows it."""
        return {
            "id": row.id,
            "task_id": row.task_id,
            "entity_id": row.entity_id,
            "entity": row.entity,
            "level": row.level,
            "text": row.text,
            "details": row.details,
            "created": api_time(row.created),
            "updated": api_time(row.created),
        }

    async def reports(self, tx: Transaction, task_id: str, after: int = 0) -> list[Row[Any]]:
        """The reports of a task after a sequence number, oldest first."""
        query = (
            select(statuses)
            .where(statuses.c.task_id == task_id, statuses.c.sequence > after)
            .order_by(statuses.c.sequence)
        )
        return list(await tx.execute(query))

    async def progress(
        self, principal: Principal, environment_id: str, task_id: str, after: int
    ) -> tuple[list[Row[Any]], dict[str, Any]]:
        """New reports and the deployment, in one consistent view."""
        async with self.database.read() as tx:
            row = await self.task(tx, principal, environment_id, task_id)
            counts = await self._levels(tx, [task_id])
            return await self.reports(tx, task_id, after), self.view(row, counts.get(task_id, {}))

    # Engine side

    async def claim(
        self,
        owner: str,
        ttl_seconds: float,
        *,
        task_id: str | None = None,
        most_per_project: int | None = None,
    ) -> tuple[Lease, EngineTask] | None:
        """Take a waiting task, or a certain one; ``None`` when there is none.

        Projects come in turn; ``most_per_project``: none of a project of which ``owner`` has so many.
        """
        lease = await self.queue.claim(
            owner, ttl_seconds, key=task_id, most_per_party=most_per_project
        )
        if lease is None:
            return None
        return lease, EngineTask(id=lease.key, **lease.payload)

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

        Long ones are cut (``shortened``). Beyond ``MOST_REPORTS`` only the first of each level is
        kept: the state of a deployment follows from them.
        """
        text, details = shortened(text), None if details is None else shortened(details)
        async with self.database.transaction() as tx:
            levels = (await self._levels(tx, [task_id])).get(task_id, {})
            count = sum(levels.values())
            if count > MOST_REPORTS and levels.get(level):
                return
            if count == MOST_REPORTS:
                said = f"There are more than {MOST_REPORTS} reports; the others are not kept"
                await self._report(tx, task_id, None, "warning", said)
            await self._report(tx, task_id, entity_id, level, text, details, entity)
            tx.notify(task_channel(task_id))

    async def say_waiting(self, task_id: str, text: str) -> None:
        """Store what a running task waits on; empty: nothing."""
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
        # The task row orders concurrent reporters.
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
        """Remember that an application or instance exists (statistics, §5.7)."""
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
        """Remember that it is gone."""
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
            await self._finish(tx, lease.key, result)

    async def fail_task(self, lease: Lease, message: str, details: str | None = None) -> None:
        """End a task whose engine cannot: a report with the reason, the model as it was before."""
        async with self.database.transaction() as tx:
            await self.queue.complete(tx, lease)
            payload = cast("dict[str, Any]", lease.payload)
            await self._report(tx, lease.key, payload["environment_id"], "error", message, details)
            model = {**payload["model"], "Objects": from_engine(payload["model"]["Objects"])}
            if model.get("ObjectsCopy") is None:
                # Something may have been built: a later deletion must ask the engine to look.
                model["ObjectsCopy"] = payload["model"]["Objects"]
            result = TaskResult(model, {"message": message, "details": details}, is_exception=True)
            await self._finish(tx, lease.key, result)

    async def _finish(self, tx: Transaction, task_id: str, result: TaskResult) -> None:
        task = (await tx.execute(select(tasks).where(tasks.c.id == task_id))).first()
        tx.notify(task_channel(task_id))
        if task is None:
            return  # the environment was abandoned meanwhile
        now = self.database.clock.now()
        levels = (await self._levels(tx, [task_id])).get(task_id, {})
        failed = result.is_exception or levels.get("error", 0) > 0
        session = (
            await tx.execute(select(sessions).where(sessions.c.id == task.session_id))
        ).first()
        deleting = session is not None and session.state == states.DELETING
        objects = result.model.get("Objects")
        if deleting and not failed and objects is None and result.model.get("ObjectsCopy") is None:
            await self.store.remove(tx, task.environment_id)
            return
        await self._store_model(tx, task.environment_id, result.model, now, deleting=deleting)
        if deleting:
            state = states.DELETE_FAILURE if failed else states.DEPLOYED
        else:
            state = states.DEPLOY_FAILURE if failed else states.DEPLOYED
        text = "Deletion finished" if deleting else "Deployment finished"
        if levels.get("error", 0) or result.is_exception:
            text += " with errors"
        elif levels.get("warning", 0):
            text += " with warnings"
        await self._report(tx, task_id, task.environment_id, "info", text)
        await tx.execute(
            update(tasks)
            .where(tasks.c.id == task_id)
            .values(finished=now, updated=now, result=result.action)
        )
        await tx.execute(
            update(sessions)
            .where(sessions.c.id == task.session_id)
            .values(state=state, updated=now)
        )

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
            # A failed deletion keeps the objects: it can be seen and tried again.
            stored["Objects"] = environment.model.get("Objects")
        await self.sessions.keep_bases(tx, environment_id, environment.version)
        await tx.execute(
            update(environments)
            .where(environments.c.id == environment_id)
            .values(model=stored, version=environment.version + 1, updated=now)
        )
