"""Numbers that rise over all service processes: of arrival in queues, of fabrics."""

from __future__ import annotations

from sqlalchemy import insert, update

from vetro.compute.tables import counters
from vetro.storage import Transaction


async def next_number(tx: Transaction, name: str) -> int:
    """The next number of a counter. Numbers rise in the order in which transactions commit."""
    raised = await tx.execute(
        update(counters)
        .where(counters.c.name == name)
        .values(value=counters.c.value + 1)
        .returning(counters.c.value)
    )
    row = raised.first()
    if row is not None:
        return int(row.value)
    await tx.execute(insert(counters).values(name=name, value=1))
    return 1
