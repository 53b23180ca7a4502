"""One at a time, over all service processes, within a transaction.

On SQLite a writing transaction is alone anyway. On PostgreSQL a transaction-scoped advisory lock on a
name does it: it ends with the transaction, however that ends.
"""

from __future__ import annotations

import hashlib

from sqlalchemy import text

from vetro.compute.tables import counters
from vetro.storage import Database, Transaction


async def exclude(database: Database, tx: Transaction, name: str) -> None:
    """Wait until no other transaction is in here under ``name``."""
    if database.is_sqlite:
        return
    digest = hashlib.blake2b(f"vetro compute {name}".encode(), digest_size=8).digest()
    number = int.from_bytes(digest, "big", signed=True)
    await tx.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})


async def next_number(tx: Transaction, name: str) -> int:
    """The next number of a counter. Numbers rise in the order in which transactions commit."""
    from sqlalchemy import insert, update

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
