"""How a task ends: its result, the environment's next model, the session's final state."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import cast

from sqlalchemy import case, delete, insert, literal, select, update

from vetro.environments import states
from vetro.environments.halfway import halfway
from vetro.environments.history import TaskHistory
from vetro.environments.leaked import LeakedObjects
from vetro.environments.lifecycle import Ending, Outcome, TaskIdentity
from vetro.environments.model import RENAMED, from_engine, new_id
from vetro.environments.sessions import WRITTEN, SessionStore
from vetro.environments.store import MODELS_CHANNEL, EnvironmentStore, project_channel
from vetro.environments.tables import environments, sessions, statuses, tasks
from vetro.environments.task_reports import TaskReports
from vetro.environments.task_values import (
    MOST_LOGGED,
    StoredResult,
    TaskResult,
    is_deployment,
    shortened,
    task_channel,
)
from vetro.json_values import JsonObject
from vetro.storage import Database, StoredRow, Transaction


@dataclass(eq=False, repr=False)
class TaskEndings:
    """Stores the ends of tasks, in the caller's transaction."""

    database: Database
    store: EnvironmentStore
    sessions: SessionStore
    history: TaskHistory
    reports: TaskReports

    def __post_init__(self) -> None:
        self.leaked = LeakedObjects(self.database, self.store)

    def ending(
        self, row: StoredRow, outcome: Outcome, reason: str = "", created: datetime | None = None
    ) -> Ending:
        """The ending of a task, for logs, metrics and notifications; of an environment that was
        ``created`` then."""
        identity = TaskIdentity(
            row.id,
            row.environment_id,
            row.environment_name,
            row.project_id,
            row.user_id,
            row.action,
            created,
        )
        # Another service may have begun it, by a clock that is ahead of this one.
        seconds = max(0.0, (self.database.clock.now() - row.started).total_seconds())
        return Ending(identity, outcome, seconds, shortened(reason, MOST_LOGGED))

    async def finish(
        self, tx: Transaction, task: StoredRow, result: TaskResult, outcome: Outcome = "failed"
    ) -> Ending:
        """Store the outcome of a task; its ending. ``outcome``: the name of a failure."""
        tx.notify(task_channel(task.id))
        tx.notify(project_channel(task.project_id), task.environment_id)
        now = self.database.clock.now()
        levels = (await self.history.levels(tx, [task.id])).get(task.id, {})
        failed = result.is_exception or levels.get("error", 0) > 0
        if failed and task.cancellation is not None:
            outcome = "cancelled"
        elif not failed:
            outcome = "warnings" if levels.get("warning", 0) else "success"
        if task.environment_gone is not None:
            await self.close(tx, task.id, result.action, "abandoned")
            return self.ending(task, "abandoned", await self._why(tx, task.id))
        why = await self._why(tx, task.id, result) if failed else ""
        of = select(environments.c.created).where(environments.c.id == task.environment_id)
        created = (await tx.execute(of)).scalar_one_or_none()
        ending = self.ending(task, outcome, why, created)
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
        await self.reports.store(tx, task.id, task.environment_id, "info", text)
        await self.close(tx, task.id, result.action, outcome)
        if result.untouched:
            await self._as_before(tx, task, now)
            return ending
        if deleting and not failed and objects is None and result.model.get("ObjectsCopy") is None:
            await self.store.remove(tx, task.environment_id)
            return ending
        model, wished = result.model, None
        if result.halfway and session is not None:
            environment = await self.store.whole(tx, task.environment_id)
            model, wished = halfway(environment.model, session.model, model)
        stored = await self._store_model(tx, task.environment_id, model, now, deleting=deleting)
        await self.leaked.settle(tx, task.environment_id, task.id, stored, result.leaked)
        if deleting:
            state = states.DELETE_FAILURE if failed else states.DEPLOYED
        else:
            state = states.DEPLOY_FAILURE if failed else states.DEPLOYED
        await tx.execute(
            update(sessions)
            .where(sessions.c.id == task.session_id)
            .values(state=state, updated=now)
        )
        if session is not None and wished is not None:
            await self._wait_on(tx, session, wished, now)
        return ending

    async def _wait_on(
        self, tx: Transaction, session: StoredRow, wished: JsonObject, now: datetime
    ) -> None:
        """Open a session again, on the model that was stored after it.

        Another one says that its deployment has failed: when the changes are dropped, what it made is
        still there.
        """
        failed: JsonObject = {
            "id": new_id(),
            "environment_id": session.environment_id,
            "user_id": session.user_id,
            "state": states.DEPLOY_FAILURE,
            "version": session.version,
            "model": {},
            "created": session.created,
            "updated": now,
        }
        await tx.execute(insert(sessions).values(failed))
        await tx.execute(
            update(sessions)
            .where(sessions.c.id == session.id)
            .values(
                state=states.OPENED,
                version=session.version + 1,
                model=wished,
                base=None,
                updated=max(now, session.created + WRITTEN),
            )
        )

    async def _as_before(self, tx: Transaction, task: StoredRow, now: datetime) -> None:
        """A task has changed nothing: a session's changes wait as they did, an action's session goes."""
        mine = sessions.c.id == task.session_id
        if is_deployment(task.action, task.environment_id):
            await tx.execute(update(sessions).where(mine).values(state=states.OPENED, updated=now))
        else:
            await tx.execute(delete(sessions).where(mine))

    async def close(
        self, tx: Transaction, task_id: str, result: StoredResult, outcome: Outcome
    ) -> None:
        """Store the result and the end of a task, which is not before its beginning."""
        now = self.database.clock.now()
        ended = case(
            (tasks.c.started > now, tasks.c.started), else_=literal(now, tasks.c.started.type)
        )
        await tx.execute(
            update(tasks)
            .where(tasks.c.id == task_id)
            .values(finished=ended, updated=ended, result=result, outcome=outcome)
        )
        tx.notify(task_channel(task_id))

    async def _why(self, tx: Transaction, task_id: str, result: TaskResult | None = None) -> str:
        """Why a task failed: the message of its result, else its first error."""
        said = result.result if result is not None and result.is_exception else None
        if isinstance(said, dict) and said.get("message"):  # pyright: ignore[reportUnknownMemberType]
            return str(cast("dict[str, object]", said)["message"])
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
        model: dict[str, object],
        now: datetime,
        *,
        deleting: bool,
    ) -> dict[str, object]:
        environment = (
            await tx.execute(select(environments).where(environments.c.id == environment_id))
        ).one()
        stored = {**model, "Objects": from_engine(model.get("Objects"))}
        if stored["Objects"] is None and deleting:
            # A failed deletion keeps the objects, so that they are shown and can be deleted again.
            stored["Objects"] = environment.model.get("Objects")
        objects = cast("dict[str, object]", stored["Objects"] or {})
        if environment.model.get(RENAMED) and objects.get("name") != environment.name:
            stored[RENAMED] = True  # its session was opened before
        await self.sessions.keep_bases(tx, environment_id, environment.version)
        await tx.execute(
            update(environments)
            .where(environments.c.id == environment_id)
            .values(model=stored, version=environment.version + 1, updated=now)
        )
        tx.notify(MODELS_CHANNEL)
        return stored
