"""Statements whose spelling differs between the two databases."""

from __future__ import annotations

import asyncio

from sqlalchemy import select

from vetro.storage import Database, Transaction, insert_if_new
from vetro.storage.tables import fences


async def test_two_that_insert_one_row_at_a_time_do_not_fail(database: Database) -> None:
    """The second waits for the end of the first, and is told that the row is there."""
    first_wrote, first_ends = asyncio.Event(), asyncio.Event()

    async def write(tx: Transaction, value: int) -> bool:
        return await insert_if_new(tx, fences, {"queue": "q", "value": value})

    async def first() -> bool:
        async with database.transaction() as tx:
            inserted = await write(tx, 1)
            first_wrote.set()
            await first_ends.wait()
            return inserted

    async def second() -> bool:
        await first_wrote.wait()
        first_ends.set()
        async with database.transaction() as tx:
            return await write(tx, 2)

    assert await asyncio.gather(first(), second()) == [True, False]
    async with database.read() as tx:
        assert (await tx.execute(select(fences.c.value))).scalars().all() == [1]
