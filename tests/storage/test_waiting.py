"""Waiting for what the database says."""

import asyncio

from sqlalchemy import insert, select

from vetro.storage import Database, LookAgain, await_until
from vetro.storage.tables import fences


async def test_what_is_there_is_found_at_once(database: Database) -> None:
    """No notification is needed for what was stored before."""

    async def look() -> str:
        return "here"

    assert await await_until(database, "c", look) == "here"


async def test_a_change_in_another_process_ends_the_wait(
    database: Database, database_url: str
) -> None:
    """The look after the notification sees the change that was committed with it."""
    looks = 0
    looked = asyncio.Event()

    async def look() -> int | None:
        nonlocal looks
        looks += 1
        async with database.read() as tx:
            row = (await tx.execute(select(fences.c.value))).first()
        looked.set()
        return row.value if row is not None else None

    waiting = asyncio.create_task(await_until(database, "c", look))
    await looked.wait()
    other = await Database.open(database_url)
    async with other.transaction() as tx:
        await tx.execute(insert(fences).values(queue="q", value=7))
        tx.notify("c")
    assert await waiting == 7
    assert looks == 2
    await other.close()


async def test_nothing_in_time_is_nothing(database: Database) -> None:
    """With no time it looks once; false values are found like others."""
    looks = 0

    async def never() -> None:
        nonlocal looks
        looks += 1

    async def zero() -> int:
        return 0

    assert await await_until(database, "c", never, 0) is None
    assert await await_until(database, "c", never, -1) is None
    assert looks == 2
    assert await await_until(database, "c", zero, 0) == 0


async def test_a_look_may_be_repeated_without_a_notification(database: Database) -> None:
    """What begins at a known moment is found then."""
    answers: list[LookAgain | str | None] = ["now", LookAgain(0.0), LookAgain(0.01)]

    async def look() -> LookAgain | str | None:
        return answers.pop()

    assert await await_until(database, "c", look, 60) == "now"
    assert answers == []
