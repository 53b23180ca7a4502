"""The applications and instances of environments over time, for statistics (catalog-api.md §5.7)."""

from __future__ import annotations

from datetime import datetime
from typing import NotRequired, TypedDict

from sqlalchemy import insert, select, update

from vetro.environments.tables import environments, instances, statuses, tasks
from vetro.storage import Database, StoredRow, Transaction


class Tracked(TypedDict):
    """An application or instance that exists; ``instance_type``: 100 an application, 200 an instance."""

    instance_id: str
    instance_type: int
    type_name: str | None
    type_title: NotRequired[str | None]
    unit_count: NotRequired[int | None]


class InstanceRecords:
    """Records when applications and instances appeared and when they were removed."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def track(self, environment_id: str, values: Tracked) -> None:
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

    async def untrack(self, environment_id: str, instance_id: str) -> None:
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


async def newest_reports(tx: Transaction, environment_id: str) -> dict[str, StoredRow]:
    """The newest report of each object of an environment, by its id."""
    found = await tx.execute(
        select(statuses)
        .join(tasks, tasks.c.id == statuses.c.task_id)
        .where(tasks.c.environment_id == environment_id)
        .order_by(tasks.c.sequence, statuses.c.sequence)
    )
    return {one.entity_id: one for one in found}


async def instance_statistics(
    tx: Transaction, environment_id: str, instance_id: str, now: datetime
) -> list[dict[str, object]]:
    """How long the instances of an environment (or the one that is named) have existed."""
    query = select(instances).where(instances.c.environment_id == environment_id)
    if instance_id:
        query = query.where(instances.c.instance_id == instance_id)
    return [
        {
            "type": row.instance_type,
            "type_name": row.type_name,
            "type_title": row.type_title,
            "unit_count": row.unit_count,
            "instance_id": row.instance_id,
            # The clocks of the services that recorded the two may differ.
            "duration": max(0, int(((row.destroyed or now) - row.created).total_seconds())),
            "active": row.destroyed is None,
        }
        for row in await tx.execute(query)
    ]
