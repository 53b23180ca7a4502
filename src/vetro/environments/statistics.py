"""What the database holds about an environment's applications and instances (catalog-api.md §5.7)."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select

from vetro.environments.tables import instances, statuses, tasks
from vetro.storage import StoredRow, Transaction


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
