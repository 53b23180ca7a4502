"""Opened sessions: their changes, and how none of them is lost unnoticed (catalog-api.md §5.2).

The first deployed session, or an action, invalidates the other sessions. They keep their changes
until their user drops them or opens a session on the current model with the same changes
(``rebase``). A caller can ask to be refused before that happens (``refuse_loss``).
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, delete, select, update

from vetro.environments import pending, states
from vetro.environments.model import check_model
from vetro.environments.store import EnvironmentStore
from vetro.environments.tables import environments, sessions
from vetro.http import Conflict, Forbidden, Principal, Unauthorized
from vetro.storage import Transaction


class OpenSessions:
    """The opened sessions of environments."""

    def __init__(self, store: EnvironmentStore) -> None:
        self.store = store
        self.database = store.database

    async def _opened(self, tx: Transaction, environment_id: str) -> list[Row[Any]]:
        query = (
            select(sessions)
            .where(sessions.c.environment_id == environment_id, sessions.c.state == states.OPENED)
            .order_by(sessions.c.version.desc(), sessions.c.updated.desc(), sessions.c.id)
        )
        return list(await tx.execute(query))

    async def listing(self, principal: Principal, environment_id: str) -> list[dict[str, Any]]:
        """The opened sessions, newest first. Errors: 403, 404.

        Each with its ``changes`` and their ``summary`` in words, whether it is the caller's ``own``
        and whether it was ``overtaken``.
        """
        async with self.database.read() as tx:
            environment = await self.store.environment(tx, principal, environment_id)
            states_ = await self.store.session_states(tx, environment_id)
            found = [
                (row, self.store.changes_of(environment, row))
                for row in await self._opened(tx, environment_id)
            ]
        return [
            {
                **self.store.session_view(row),
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
        environment: Row[Any],
        *,
        but: str | None = None,
    ) -> None:
        """Refuse what would invalidate sessions with changes. Errors: 409 that names them."""
        held: list[dict[str, Any]] = []
        for row in await self._opened(tx, environment.id):
            if row.id == but or row.version != environment.version:
                continue
            found = self.store.changes_of(environment, row)
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

    async def rebase(
        self, principal: Principal, environment_id: str, session_id: str
    ) -> dict[str, Any]:
        """Replace an overtaken session with one on the current model that has the same changes.

        A session that is valid is returned as it is. Errors: 404, 400, 403, 401; 409 when a change
        cannot be applied to the current model, or when the changes are unknown.
        """
        async with self.database.transaction() as tx:
            await self.store.lock(tx, environment_id)
            session, environment = await self.store.own_session(
                tx, principal, environment_id, session_id, lock=True
            )
            if session.user_id != principal.user_id:
                raise Unauthorized(f"Session <SessionId {session_id}> belongs to another user")
            if session.state != states.OPENED:
                raise Forbidden(f"Session <SessionId {session_id}> is already {session.state}")
            if session.version == environment.version:
                return self.store.session_view(session)
            view = await self.store.open_session(tx, environment, session.user_id)
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
            check_model(objects)
            await tx.execute(
                update(sessions)
                .where(sessions.c.id == view["id"])
                .values(model={**environment.model, "Objects": objects})
            )
            await tx.execute(delete(sessions).where(sessions.c.id == session_id))
            return view
