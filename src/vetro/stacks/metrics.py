"""What the metrics say of stacks."""

from __future__ import annotations

from sqlalchemy import func, select

from vetro.http import show_counts, stored_gauge
from vetro.stacks.model import StackStatus
from vetro.stacks.tables import stacks
from vetro.storage import Transaction

STACKS = stored_gauge(
    "vetro_stacks",
    "Stacks of the native back end by status.",
    status=", ".join(f"`{one.value}`" for one in StackStatus) + ".",
)


async def read_stored(tx: Transaction) -> None:
    """Set the gauges of the room."""
    query = select(stacks.c.status, func.count().label("number")).group_by(stacks.c.status)
    found: dict[str, float] = {row.status: row.number for row in await tx.execute(query)}
    show_counts(STACKS, found, [one.value for one in StackStatus])
