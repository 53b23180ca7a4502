"""Sessions in the database, and how lost changes are noticed (catalog-api.md §5.2).

The first deployed session, or an action, invalidates the other sessions. They keep their changes
until their user drops them or opens a session on the current model with the same changes
(``rebase``). A caller can ask to be refused before that happens (``refuse_loss``).

All checks for a change run inside the transaction of the change: a session cannot be deployed
twice, and two sessions cannot both be deployed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from sqlalchemy import and_, bindparam, delete, insert, select, update

from vetro.catalog import api_time
from vetro.environments import pending, states
from vetro.environments.checking import Before, check_model
from vetro.environments.component_users import owners, refuse_used
from vetro.environments.flat import WORKFLOW, complete, initial_flat_model, is_workflow
from vetro.environments.machine_names import TakenNames
from vetro.environments.model import named, new_id
from vetro.environments.store import (
    MODELS_CHANNEL,
    EnvironmentStore,
    SessionRequired,
    project_channel,
)
from vetro.environments.tables import environments, sessions, tasks
from vetro.environments.views import Change, OpenedSession, SessionChanges, SessionView
from vetro.http import BadRequest, Conflict, Forbidden, NotFound, Principal, Unauthorized
from vetro.json_values import JsonObject
from vetro.storage import Prepared, StoredRow, Transaction

T = TypeVar("T")

_NEW_SESSION = Prepared(
    insert(sessions).returning(
        *(column for column in sessions.c if column.name not in ("model", "base"))
    )
)
_DROPPED = Prepared(
    delete(sessions).where(sessions.c.id == bindparam("wanted")).execution_options(short=True)
)
_CHANGED = Prepared(
    update(sessions)
    .where(sessions.c.id == bindparam("wanted"))
    .values(
        model=bindparam("changed", type_=sessions.c.model.type),
        updated=bindparam("now", type_=sessions.c.updated.type),
    )
)

#: What `updated` of a session with changes is later than `created`, at least.
WRITTEN = timedelta(microseconds=1)


class SessionStore:
    """Opens, shows, changes and drops the sessions of environments."""

    def __init__(self, store: EnvironmentStore) -> None:
        self.store = store
        self.database = store.database

    def session_view(self, row: StoredRow) -> SessionView:
        """A session as the API shows it."""
        return {
            "id": row.id,
            "environment_id": row.environment_id,
            "user_id": row.user_id,
            "state": row.state,
            "version": row.version,
            "created": api_time(row.created),
            "updated": api_time(row.updated),
        }

    async def refuse_active(self, tx: Transaction, environment: StoredRow) -> None:
        """Refuse to begin anything while a task is changing an environment. Errors: 403."""
        status = await self.store.activity(tx, environment.id)
        if status is None:
            return
        query = (
            select(tasks.c.id, tasks.c.action)
            .where(tasks.c.environment_id == environment.id, tasks.c.finished.is_(None))
            .order_by(tasks.c.sequence.desc())
            .limit(1)
        )
        task = (await tx.execute(query)).first()
        text = f"Environment {environment.id} is {status}"
        if task is not None:
            text += f" by deployment {task.id} ({(task.action or {}).get('method', 'delete')})"
        raise Forbidden(f"{text}; wait until it has finished")

    async def open_session(
        self,
        tx: Transaction,
        environment: StoredRow,
        user_id: str,
        model: JsonObject | None = None,
    ) -> SessionView:
        """Open a session on an environment that no task is changing. Errors: 403.

        ``model``: with these changes already; by default the environment's.
        """
        await self.refuse_active(tx, environment)
        now = self.database.clock.now()
        values = {
            "id": new_id(),
            "environment_id": environment.id,
            "user_id": user_id,
            "state": states.OPENED,
            "version": environment.version,
            "model": named(environment.model if model is None else model, environment.name),
            "created": now,
            # A session that nobody has written to says so by these two (`EnvironmentStore.with_changes`).
            "updated": now if model is None else now + WRITTEN,
        }
        return self.session_view((await tx.execute(_NEW_SESSION, values)).one())

    async def configure(self, principal: Principal, environment_id: str) -> SessionView:
        """``POST …/configure``. Errors: 403, 404."""
        async with self.database.transaction() as tx:
            await self.store.lock(tx, environment_id)
            row = await self.store.environment(tx, principal, environment_id)
            return await self.open_session(tx, row, principal.user_id)

    async def own_session(
        self,
        tx: Transaction,
        principal: Principal,
        environment_id: str,
        session_id: str,
        *,
        lock: bool = False,
        with_model: bool = True,
    ) -> tuple[StoredRow, StoredRow]:
        """A session and its environment, checked in the order of §5.2."""
        session = await self.store.session(tx, environment_id, session_id, lock=lock)
        environment = await self.store.environment(
            tx, principal, environment_id, with_model=with_model
        )
        return session, environment

    async def _users_own(
        self,
        tx: Transaction,
        principal: Principal,
        environment_id: str,
        session_id: str,
        *,
        lock: bool = False,
        with_model: bool = False,
    ) -> tuple[StoredRow, StoredRow]:
        """The same, of the caller and no other user of the project. Errors: 401 beside those."""
        session, environment = await self.own_session(
            tx, principal, environment_id, session_id, lock=lock, with_model=with_model
        )
        if session.user_id != principal.user_id:
            raise Unauthorized(f"Session <SessionId {session_id}> belongs to another user")
        return session, environment

    async def show_session(
        self, principal: Principal, environment_id: str, session_id: str
    ) -> SessionView:
        """A session of the caller. Errors: 404, 400, 403, 401, 403 when it was overtaken."""
        async with self.database.read() as tx:
            session, environment = await self._users_own(tx, principal, environment_id, session_id)
            rows = await self.store.session_states(tx, environment_id)
            overtaken = self.store.invalid(session, environment.version, rows)
            if session.state not in states.FINAL and overtaken:
                raise await self.overtaken(tx, environment, session)
            return self.session_view(session)

    async def delete_session(
        self, principal: Principal, environment_id: str, session_id: str
    ) -> None:
        """Drop a session. Errors: 404, 400, 403, 401, 403 while it deploys."""
        async with self.database.transaction() as tx:
            session, environment = await self._users_own(tx, principal, environment_id, session_id)
            if session.state in states.ACTIVE:
                raise Forbidden(f"Session <SessionId {session_id}> is {session.state}")
            await tx.execute(_DROPPED, {"wanted": session_id})
            tx.notify(MODELS_CHANNEL)
            tx.notify(project_channel(environment.tenant_id), environment.id)

    async def writable(
        self, tx: Transaction, environment: StoredRow, session_id: str | None
    ) -> StoredRow:
        """The session that a change is written to. Errors: 400 without one, 404, 400, 403."""
        if not session_id:
            raise SessionRequired(
                "X-Configuration-Session header is required: open a session first",
                type_="BadRequest",
            )
        session = await self.store.session(tx, environment.id, session_id, lock=True)
        rows = await self.store.active_sessions(tx, environment.id)
        if self.store.invalid(session, environment.version, rows):
            raise await self.overtaken(tx, environment, session)
        if session.state != states.OPENED:
            raise Forbidden(f"Session <SessionId {session_id}> is {session.state}")
        return session

    async def change_objects(
        self,
        principal: Principal,
        environment_id: str,
        session_id: str | None,
        change: Callable[[JsonObject], T],
        condition: Callable[[JsonObject, str], None] | None = None,
        *,
        keep_used: bool = False,
    ) -> T:
        """Change the root object of a session's model; all or nothing. Errors: §5.3, and ``change``'s.

        ``condition`` gets the model before the change, and the environment's status; it may raise.
        ``keep_used``: 409 when components that stay refer to what the change takes out.
        """
        return await self.change_model(
            principal,
            environment_id,
            session_id,
            lambda model: change(model["Objects"]),
            condition,
            keep_used=keep_used,
        )

    async def change_model(
        self,
        principal: Principal,
        environment_id: str,
        session_id: str | None,
        change: Callable[[JsonObject], T],
        condition: Callable[[JsonObject, str], None] | None = None,
        *,
        keep_used: bool = False,
    ) -> T:
        """Change a session's model; all or nothing. Errors: §5.3, and ``change``'s.

        A host name that the change gives to a second machine is a 409 (``machine_names``). Concurrent
        changes of one session are serialised by a lock on its row.
        """
        async with self.database.transaction() as tx:
            environment = await self.store.environment(
                tx, principal, environment_id, with_model=False
            )
            session = await self.writable(tx, environment, session_id)
            model: JsonObject = session.model
            objects: JsonObject = model.get("Objects") or {}
            model["Objects"] = objects
            if condition is not None:
                condition(model, await self.store.status(tx, environment.id))
            before = copy.deepcopy(objects.get("services")) if is_workflow(model) else None
            known = Before.of(objects, model.get("ObjectsCopy"))
            names = TakenNames(objects, model.get("ObjectsCopy"))
            parts = owners(objects) if keep_used else {}
            result = change(model)
            if is_workflow(model):
                # The times of flat services end in Z, as all of their dialect (§3).
                complete(model["Objects"], before, f"{api_time(self.database.clock.now())}Z")
            else:
                check_model(objects, known)
                names.number(objects)
                names.refuse(objects)
                refuse_used(parts, objects)
            await self.store.settings.refuse_large(objects)
            now = max(self.database.clock.now(), session.created + WRITTEN)
            await tx.execute(_CHANGED, {"wanted": session.id, "changed": model, "now": now})
            tx.notify(project_channel(environment.tenant_id), environment.id)
            return result

    async def become_flat(
        self, principal: Principal, environment_id: str, session_id: str | None
    ) -> bool:
        """Let an empty, never deployed environment have flat services; whether it could (§7)."""
        async with self.database.transaction() as tx:
            await self.store.lock(tx, environment_id)
            row = await self.store.environment(tx, principal, environment_id)
            session = await self.writable(tx, row, session_id)
            if row.model_kind == WORKFLOW:
                return True
            opened = and_(sessions.c.environment_id == row.id, sessions.c.state == states.OPENED)
            others = await tx.execute(select(sessions.c.model).where(opened))
            models: list[JsonObject] = [
                row.model,
                session.model,
                *(one.model for one in others),
            ]
            objects: list[JsonObject] = [one.get("Objects") or {} for one in models]
            if row.version != 0 or any(one.get("services") for one in objects):
                return False
            model = initial_flat_model(row.id, row.name, row.tenant_id, row.user_id)
            await tx.execute(
                update(environments)
                .where(environments.c.id == row.id)
                .values(model=model, model_kind=WORKFLOW)
            )
            # No opened session has changes: all of them continue with the new model.
            now = self.database.clock.now()
            await tx.execute(update(sessions).where(opened).values(model=model, updated=now))
            return True

    def changes_of(self, environment: StoredRow, session: StoredRow) -> list[Change]:
        """The undeployed changes of an opened session (``pending.changes``)."""
        base = environment.model if session.version == environment.version else session.base
        if base is None:  # overtaken before bases were kept, or without any change
            return []
        return pending.of_session(environment.name, base, session.model)

    async def overtaken(
        self, tx: Transaction, environment: StoredRow, session: StoredRow
    ) -> Forbidden:
        """The error for an overtaken session: its deployment, and the changes it would lose.

        A session whose own deployment has ended is as invalid (§5.2), but nothing overtook it.
        """
        if session.state in states.FINAL:
            return Forbidden(
                f"Session <SessionId {session.id}> is already {session.state}: its own deployment has"
                " ended; open another session"
            )
        query = (
            select(tasks.c.id, tasks.c.action, tasks.c.finished)
            .where(tasks.c.environment_id == environment.id, tasks.c.session_id != session.id)
            .order_by(tasks.c.sequence.desc())
            .limit(1)
        )
        task = (await tx.execute(query)).first()
        text = f"Session <SessionId {session.id}> is invalid: it was overtaken"
        if task is not None:
            text += f" by deployment {task.id} ({(task.action or {}).get('method', 'delete')})"
        held: list[Change] = []
        if session.state == states.OPENED:
            held = self.changes_of(await self.store.whole(tx, environment.id), session)
        if held:
            path = f"/v1/environments/{environment.id}/sessions/{session.id}/rebase"
            after = "" if task is None or task.finished is not None else ", once that has ended"
            text += (
                f". It has changes that are not deployed: {pending.described(held)}."
                f" POST {path} opens a new session that has them{after}"
            )
        return Forbidden(text, type_="SessionOvertaken", extra={"changes": held} if held else None)

    async def _opened(self, tx: Transaction, environment_id: str) -> list[StoredRow]:
        query = (
            select(sessions)
            .where(sessions.c.environment_id == environment_id, sessions.c.state == states.OPENED)
            .order_by(sessions.c.version.desc(), sessions.c.updated.desc(), sessions.c.id)
        )
        return list(await tx.execute(query))

    async def listing(self, principal: Principal, environment_id: str) -> list[OpenedSession]:
        """The opened sessions, newest first. Errors: 403, 404.

        Each with its ``changes`` and their ``summary`` in words, whether it is the caller's ``own``
        and whether it was ``overtaken``.
        """
        async with self.database.read() as tx:
            environment = await self.store.environment(tx, principal, environment_id)
            states_ = await self.store.session_states(tx, environment_id)
            found = [
                (row, self.changes_of(environment, row))
                for row in await self._opened(tx, environment_id)
            ]
        return [
            {
                **self.session_view(row),
                "own": row.user_id == principal.user_id,
                "overtaken": self.store.invalid(row, environment.version, states_),
                "changes": held,
                "summary": pending.described(held),
            }
            for row, held in found
        ]

    async def refuse_loss(
        self,
        tx: Transaction,
        principal: Principal,
        environment: StoredRow,
        *,
        but: str | None = None,
    ) -> None:
        """Refuse what would invalidate sessions with changes. Errors: 409 that names them."""
        held: list[SessionChanges] = []
        for row in await self._opened(tx, environment.id):
            if row.id == but or row.version != environment.version:
                continue
            found = self.changes_of(environment, row)
            if found:
                own = row.user_id == principal.user_id
                held.append(
                    {"session": row.id, "user_id": row.user_id, "own": own, "changes": found}
                )
        if held:
            said = "; ".join(
                f"{'yours' if one['own'] else 'of user ' + one['user_id']}"
                f" (session {one['session']}): {pending.described(one['changes'])}"
                for one in held
            )
            raise Conflict(
                f"There are changes that are not deployed, and this would overtake them: {said}",
                type_="PendingChanges",
                extra={"pending": held},
            )

    async def keep_bases(self, tx: Transaction, environment_id: str, version: int) -> None:
        """Before a newer model is stored: keep the old one for the sessions that changed it.

        Models are large, so the database copies them without passing them through this process.
        """
        model = (
            select(environments.c.model)
            .where(environments.c.id == environment_id)
            .scalar_subquery()
        )
        await tx.execute(
            update(sessions)
            .where(
                sessions.c.environment_id == environment_id,
                sessions.c.state == states.OPENED,
                sessions.c.version == version,
                sessions.c.base.is_(None),
                sessions.c.model != model,
            )
            .values(base=model)
        )

    async def restore(
        self, principal: Principal, environment_id: str, deployment_id: str
    ) -> SessionView:
        """Open a session with the applications that a deployment was submitted with.

        Everything else of the model is as it is now. What was on machines that are gone does not come
        back. Errors: 400 for a deployment of another environment, 403, 404, 409 when what it had is not
        kept.
        """
        async with self.database.transaction() as tx:
            await self.store.lock(tx, environment_id)
            environment = await self.store.environment(tx, principal, environment_id)
            task = (await tx.execute(select(tasks).where(tasks.c.id == deployment_id))).first()
            if task is None:
                raise NotFound(
                    f"Deployment with id {deployment_id} not found", type_="DeploymentNotFound"
                )
            if task.environment_id != environment_id:
                raise BadRequest(
                    f"Deployment {deployment_id} is not tied with Environment {environment_id}"
                )
            query = select(sessions.c.model).where(sessions.c.id == task.session_id)
            then: JsonObject = (await tx.execute(query)).scalar_one_or_none() or {}
            objects: JsonObject | None = then.get("Objects")
            if objects is None:
                raise Conflict(
                    f"The applications of deployment {deployment_id} are not kept: it destroyed the"
                    " environment, or its session was deleted",
                    type_="NothingToRestore",
                )
            now: JsonObject = environment.model.get("Objects") or {}
            services = pending.restored(now.get("services", []), objects.get("services", []))
            model = {**environment.model, "Objects": {**now, "services": services}}
            if not is_workflow(environment.model):
                check_model(model["Objects"], Before.of(now, model.get("ObjectsCopy")))
            return await self.open_session(tx, environment, principal.user_id, model)

    async def rebase(
        self, principal: Principal, environment_id: str, session_id: str
    ) -> SessionView:
        """Replace an overtaken session with one on the current model that has the same changes.

        A session that is valid is returned as it is. Errors: 404, 400, 403, 401; 409 when a change
        cannot be applied to the current model, or when the changes are unknown.
        """
        async with self.database.transaction() as tx:
            await self.store.lock(tx, environment_id)
            session, environment = await self._users_own(
                tx, principal, environment_id, session_id, lock=True, with_model=True
            )
            if session.state != states.OPENED:
                raise Forbidden(f"Session <SessionId {session_id}> is already {session.state}")
            if session.version == environment.version:
                return self.session_view(session)
            view = await self.open_session(tx, environment, session.user_id)
            if session.base is None:
                raise Conflict(
                    f"The changes of session {session_id} are not known: it has none, or it was "
                    f"overtaken before changes were stored",
                    type_="NothingToRebase",
                )
            objects, lost = pending.carry_over(
                session.base.get("Objects"),
                session.model.get("Objects"),
                environment.model.get("Objects"),
            )
            if lost:
                raise Conflict(
                    f"Not all changes of session {session_id} can be applied now: {'; '.join(lost)}",
                    type_="ChangesLost",
                )
            now, deployed = environment.model.get("Objects"), environment.model.get("ObjectsCopy")
            check_model(objects, Before.of(now, deployed))
            names = TakenNames(now, deployed)
            names.count_on(objects)
            names.refuse(objects)
            await tx.execute(
                update(sessions)
                .where(sessions.c.id == view["id"])
                .values(
                    model={**environment.model, "Objects": objects},
                    updated=self.database.clock.now() + WRITTEN,
                )
            )
            await tx.execute(_DROPPED, {"wanted": session_id})
            tx.notify(project_channel(environment.tenant_id), environment.id)
            return view
