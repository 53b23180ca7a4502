"""The environments of a project that is deleted: their names and their destruction."""

from __future__ import annotations

import structlog
from sqlalchemy import delete, select

from vetro.environments import states
from vetro.environments.tables import environments, form_secrets, templates, wizards
from vetro.environments.tasks import TaskStore
from vetro.http import Fault, Principal
from vetro.storage import Transaction

log = structlog.get_logger("vetro.environments")


async def names_of_project(tx: Transaction, project_id: str) -> list[str]:
    """The names of a project's environments."""
    query = select(environments.c.name).where(environments.c.tenant_id == project_id)
    return [row.name for row in await tx.execute(query.order_by(environments.c.name))]


async def destroy_of_project(tasks: TaskStore, principal: Principal) -> None:
    """Request the destruction of every environment of the principal's project.

    An environment with a task in progress is skipped: call again later. A failed destruction is
    tried again.
    """
    query = select(environments.c.id, environments.c.name)
    async with tasks.database.read() as tx:
        mine = environments.c.tenant_id == principal.project_id
        found = list(await tx.execute(query.where(mine).order_by(environments.c.name)))
        idle = [row for row in found if await tasks.store.status(tx, row.id) not in states.ACTIVE]
    for row in idle:
        try:
            await tasks.delete_environment(principal, row.id, abandon=False)
        except Fault as error:
            # It is gone meanwhile, or has a task in progress.
            log.info("environment_not_destroyed_yet", environment=row.id, reason=error.message)


async def forget_of_project(tx: Transaction, project_id: str) -> None:
    """Delete a project's environment templates, the forms that it was filling in, and their secrets.

    Environments that others made of its templates stay.
    """
    await tx.execute(delete(templates).where(templates.c.tenant_id == project_id))
    for table in (wizards, form_secrets):
        await tx.execute(delete(table).where(table.c.project_id == project_id))
