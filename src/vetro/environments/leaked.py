"""Objects that could not be destroyed properly (core-library.md, "Beyond upstream"; decision 0580).

A failing ``.destroy`` does not fail a deployment. What the object stood for may be left behind, and the
model does not have the object any more: its id, class, name and the error stay here until somebody has
looked after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import bindparam, delete, insert, select

from vetro.catalog import api_time
from vetro.environments.model import object_id, walk
from vetro.environments.store import EnvironmentStore
from vetro.environments.tables import leaked_objects
from vetro.environments.task_values import LeakedObject
from vetro.environments.views import LeakedView
from vetro.http import NotFound, Principal
from vetro.storage import Database, Prepared, Transaction

MOST = 1000
"""Objects that are kept of an environment; the oldest go first."""
_IDS = Prepared(
    select(leaked_objects.c.object_id)
    .where(leaked_objects.c.environment_id == bindparam("wanted"))
    .order_by(leaked_objects.c.created, leaked_objects.c.object_id)
)


class LeakedObjects:
    """Those of all environments."""

    def __init__(self, database: Database, store: EnvironmentStore) -> None:
        self.database = database
        self.store = store

    async def settle(
        self,
        tx: Transaction,
        environment_id: str,
        task_id: str,
        model: dict[str, object],
        found: Sequence[LeakedObject],
    ) -> None:
        """Keep what a task could not destroy, except objects that the model still has: the next
        task destroys them again."""
        known = [row.object_id for row in await tx.execute(_IDS, {"wanted": environment_id})]
        if not known and not found:
            return
        alive = {
            object_id(one)
            for part in ("Objects", "ObjectsCopy")
            for one in walk(model.get(part))
            if not one["?"].get("destroyed")
        }
        new = {one.object_id: one for one in found if one.object_id not in alive}
        kept = [id_ for id_ in known if id_ not in alive and id_ not in new]
        new = dict([*new.items()][:MOST])
        kept = kept[max(0, len(kept) + len(new) - MOST) :]
        gone = [id_ for id_ in known if id_ not in set(kept)]
        if gone:
            await tx.execute(
                delete(leaked_objects).where(
                    leaked_objects.c.environment_id == environment_id,
                    leaked_objects.c.object_id.in_(gone),
                )
            )
        if new:
            now = self.database.clock.now()
            rows = [
                {
                    "environment_id": environment_id,
                    "object_id": one.object_id,
                    "type_name": one.type_name[:512],
                    "name": None if one.name is None else one.name[:255],
                    "error": one.error,
                    "task_id": task_id,
                    "created": now,
                }
                for one in new.values()
            ]
            await tx.execute(insert(leaked_objects).values(rows))

    async def listing(self, principal: Principal, environment_id: str) -> list[LeakedView]:
        """Those of an environment, oldest first. Errors: 403, 404."""
        query = (
            select(leaked_objects)
            .where(leaked_objects.c.environment_id == environment_id)
            .order_by(leaked_objects.c.created, leaked_objects.c.object_id)
        )
        async with self.database.read() as tx:
            await self.store.environment(tx, principal, environment_id, with_model=False)
            rows = (await tx.execute(query)).all()
        return [
            {
                "id": row.object_id,
                "type": row.type_name,
                "name": row.name,
                "error": row.error,
                "deployment_id": row.task_id,
                "created": api_time(row.created),
            }
            for row in rows
        ]

    async def dismiss(self, principal: Principal, environment_id: str, object_id_: str) -> None:
        """Forget one: somebody has looked after it. Errors: 403, 404."""
        async with self.database.transaction() as tx:
            await self.store.environment(tx, principal, environment_id, with_model=False)
            removed = await tx.execute(
                delete(leaked_objects).where(
                    leaked_objects.c.environment_id == environment_id,
                    leaked_objects.c.object_id == object_id_,
                )
            )
            if not removed.rowcount:
                raise NotFound(
                    f"Environment {environment_id} lists no leaked object {object_id_:.80}"
                )
