"""Waiting for what the database says."""

import asyncio

import pytest
from sqlalchemy import insert, select

from vetro.storage import Database, DatabaseBusy, LookAgain, await_until, waiting, watch
from vetro.storage.notify import MAX_WAITING, Switchboard
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


class _Looks:
    """Records what each look of a watch is given; fails where the test says so."""

    def __init__(self, *answers: LookAgain | Exception | None) -> None:
        self.given: asyncio.Queue[set[str] | None] = asyncio.Queue()
        self._answers = list(answers)

    async def __call__(self, named: set[str] | None) -> LookAgain | None:
        self.given.put_nowait(named)
        answer = self._answers.pop(0) if self._answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer


async def _stop(watching: asyncio.Task[None]) -> None:
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_a_watch_looks_at_everything_first_and_then_at_what_is_notified(
    database: Database,
) -> None:
    """Payloads that come while it looks are gathered for the next look."""
    looks = _Looks()
    watching = asyncio.create_task(watch(database, "c", looks))
    assert await looks.given.get() is None
    await database.notify("c", "one")
    assert await looks.given.get() == {"one"}
    await _stop(watching)


async def test_a_watch_that_lost_notifications_looks_at_everything(database: Database) -> None:
    """An empty payload says that some may be lost."""
    looks = _Looks()
    watching = asyncio.create_task(watch(database, "c", looks))
    assert await looks.given.get() is None
    await database.notify("c")
    assert await looks.given.get() is None
    await _stop(watching)


async def test_a_watch_looks_again_when_the_time_of_its_look_is_over(database: Database) -> None:
    """Then nothing was notified, and it is given an empty set."""
    looks = _Looks(LookAgain(0.0))
    watching = asyncio.create_task(watch(database, "c", looks))
    assert await looks.given.get() is None
    assert await looks.given.get() == set()
    await _stop(watching)


async def test_a_watch_survives_a_database_that_is_away(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed look is repeated, for everything."""
    monkeypatch.setattr(waiting, "PAUSE_SECONDS", 0.0)
    looks = _Looks(None, ConnectionError("away"), DatabaseBusy("away"))
    watching = asyncio.create_task(watch(database, "c", looks))
    assert await looks.given.get() is None
    await database.notify("c", "one")
    assert [await looks.given.get() for _ in range(3)] == [{"one"}, None, None]
    await _stop(watching)


def test_a_subscription_that_holds_too_much_says_that_it_lost_some() -> None:
    """Its reader is given one empty payload, and so re-reads everything."""
    subscription = Switchboard().subscribe("c")
    for number in range(MAX_WAITING + 1):
        subscription.deliver(str(number))
    assert subscription.drain() == [""]
