"""The stacks of a project that is deleted."""

from __future__ import annotations

from sqlalchemy import delete, select

from vetro.stacks.tables import resources, stacks
from vetro.storage import Transaction


async def forget_of_project(tx: Transaction, project_id: str) -> None:
    """Delete a project's remaining stacks: those of abandoned environments, without resources."""
    mine = select(stacks.c.id).where(stacks.c.project_id == project_id)
    await tx.execute(delete(resources).where(resources.c.stack_id.in_(mine)))
    await tx.execute(delete(stacks).where(stacks.c.project_id == project_id))
