"""Workers: work is run once, several at a time, and survives the one that runs it."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.interrupting import interruptions
from tests.waiting import eventually

from vetro.storage import (
    Database,
    DatabaseBusy,
    Lease,
    LeaseLost,
    LeaseQueue,
    StorageError,
    Worker,
)

LONG = 600.0


@asynccontextmanager
async def working(*workers: Worker) -> AsyncGenerator[list[asyncio.Task[None]], None]:
    """Workers at work for the duration of the block."""
    tasks = [asyncio.create_task(one.work()) for one in workers]
    try:
        yield tasks
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def put(database: Database, *keys: str, party: str | None = None) -> None:
    """Queue work."""
    queue = LeaseQueue(database, "q")
    async with database.transaction() as tx:
        for key in keys:
            await queue.enqueue(tx, key, party=party)


async def keys(database: Database) -> set[str]:
    """The work that has not ended."""
    async with database.read() as tx:
        return await LeaseQueue(database, "q").keys(tx)


async def holds(database: Database, wanted: set[str]) -> bool:
    """Whether this is the work that has not ended."""
    return await keys(database) == wanted


async def done(database: Database, lease: Lease) -> None:
    """End work."""
    queue = LeaseQueue(database, "q")
    async with database.transaction() as tx:
        await queue.complete(tx, lease)


async def test_each_piece_is_run_once_by_one_of_several(database: Database) -> None:
    """Work from before the start and from after it, with more work than slots."""
    ran = asyncio.Queue[str]()

    async def run(lease: Lease) -> None:
        await done(database, lease)
        ran.put_nowait(lease.key)

    await put(database, "a", "b", "c")
    queue = LeaseQueue(database, "q")
    workers = [Worker(queue, 2, run, owner=name, ttl_seconds=LONG) for name in ("one", "two")]
    async with working(*workers):
        first = {await ran.get() for _ in range(3)}
        await put(database, "d", "e")
        second = {await ran.get() for _ in range(2)}
    assert (first, second) == ({"a", "b", "c"}, {"d", "e"})
    assert ran.empty()
    assert await keys(database) == set()


@pytest.mark.parametrize("slots", [2, None])
async def test_no_more_runs_than_slots(database: Database, slots: int | None) -> None:
    """Without a number of slots all that is there runs; what is shown is how many."""
    began, go = asyncio.Queue[str](), asyncio.Event()
    shown: list[int] = []

    async def run(lease: Lease) -> None:
        began.put_nowait(lease.key)
        await go.wait()
        await done(database, lease)

    await put(database, "a", "b", "c")
    worker = Worker(
        LeaseQueue(database, "q"), slots, run, owner="w", ttl_seconds=LONG, shown=shown.append
    )
    async with working(worker):
        most = slots or 3
        assert [await began.get() for _ in range(most)] == ["a", "b", "c"][:most]
        assert began.empty()
        go.set()
        await eventually(lambda: holds(database, set()))
    assert max(shown) == most
    assert (shown[0], shown[-1]) == (0, 0)


async def test_a_party_gets_its_next_slot_when_its_run_ends(database: Database) -> None:
    """The end of an own run is noticed, although nothing notifies of it."""
    order = asyncio.Queue[str]()
    idle = asyncio.Event()

    async def run(lease: Lease) -> None:
        await idle.wait()  # the worker has found no more work that it may take
        order.put_nowait(lease.key)
        await done(database, lease)

    await put(database, "a", "b", party="p")
    worker = Worker(
        LeaseQueue(database, "q"), 2, run,
        owner="w", ttl_seconds=LONG, most_per_party=1, idle=idle.set,
    )  # fmt: skip
    async with working(worker):
        assert [await order.get(), await order.get()] == ["a", "b"]


async def test_a_cancelled_worker_gives_its_work_back(database: Database) -> None:
    """Another one gets it at once, and the fence of the first is no longer good."""
    held = asyncio.Queue[Lease]()

    async def run(lease: Lease) -> None:
        held.put_nowait(lease)
        await asyncio.Event().wait()

    await put(database, "a")
    queue = LeaseQueue(database, "q")
    async with working(Worker(queue, 1, run, owner="one", ttl_seconds=LONG)):
        first = await held.get()
    async with working(Worker(queue, 1, run, owner="two", ttl_seconds=LONG)):
        second = await held.get()
    assert second.fence > first.fence
    assert (second.key, second.attempt) == ("a", 2)


@pytest.mark.parametrize("again", [False, True], ids=["once", "again"])
async def test_a_worker_that_is_cancelled_anywhere_gives_its_work_back(
    database: Database, again: bool
) -> None:
    """Also when its claim is just being written, or when it is cancelled while it gives work back."""
    queue = LeaseQueue(database, "q")
    cancelled: list[bool] = []
    ran: list[Lease] = []

    def work() -> Coroutine[Any, Any, None]:
        async def run(lease: Lease) -> None:
            ran.append(lease)
            worker.drain()
            for _ in range(5):
                await asyncio.sleep(0)
            await done(database, lease)

        worker = Worker(queue, 1, run, owner="one", ttl_seconds=LONG)
        return worker.work()

    await put(database, "a")
    async for ended in interruptions(work, again=again):
        cancelled.append(ended.cancelled())
        if not await keys(database):
            ran.clear()
        else:
            lease = await queue.claim("two", LONG)
            assert lease is not None, f"cancelled at wait {len(cancelled)}"
            assert lease.attempt == 1 + len(ran), "work that was not begun was counted"
            ran.clear()
            await done(database, lease)
        await put(database, "a")
    assert database.is_sqlite or len(cancelled) > 5
    assert not cancelled[-1]


@pytest.mark.parametrize(
    "error",
    [LeaseLost("q", "a", 1), StorageError("no"), ValueError("no")],
    ids=lambda e: type(e).__name__,
)
async def test_a_run_that_fails_does_not_end_the_worker(
    database: Database, error: Exception
) -> None:
    """Its work stays, and other work runs."""
    ran = asyncio.Queue[str]()

    async def run(lease: Lease) -> None:
        ran.put_nowait(lease.key)
        if lease.key == "a":
            raise error
        await done(database, lease)

    await put(database, "a", "b")
    async with working(Worker(LeaseQueue(database, "q"), 1, run, owner="w", ttl_seconds=LONG)):
        assert [await ran.get(), await ran.get()] == ["a", "b"]
        await eventually(lambda: holds(database, {"a"}))


async def test_a_database_that_is_away_is_waited_for(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that fails is tried again after a pause."""
    monkeypatch.setattr("vetro.storage.worker.PAUSE_SECONDS", 0.0)
    ran = asyncio.Event()
    queue = LeaseQueue(database, "q")
    claim = queue.claim
    failures = [DatabaseBusy("away"), DatabaseBusy("away")]

    async def sometimes(*arguments: object, **options: object) -> Lease | None:
        if failures:
            raise failures.pop()
        return await claim(*arguments, **options)  # type: ignore[arg-type]

    async def run(_lease: Lease) -> None:
        ran.set()

    monkeypatch.setattr(queue, "claim", sometimes)
    await put(database, "a")
    async with working(Worker(queue, 1, run, owner="w", ttl_seconds=LONG)):
        await ran.wait()
    assert failures == []


async def test_one_turn_can_be_asked_for(database: Database) -> None:
    """It says whether there was work; errors of the run are the caller's."""

    async def run(lease: Lease) -> None:
        if lease.key == "bad":
            raise ValueError(lease.key)
        await done(database, lease)

    worker = Worker(LeaseQueue(database, "q"), 1, run, owner="w", ttl_seconds=LONG)
    assert not await worker.once()
    await put(database, "good", "bad")
    assert await worker.once()
    with pytest.raises(ValueError, match="bad"):
        await worker.once()
    assert not await worker.once()


async def test_a_draining_worker_ends_what_it_runs(database: Database) -> None:
    """It takes nothing more, waits for what runs, and returns; one that runs nothing returns at once."""
    began, go = asyncio.Event(), asyncio.Event()

    async def run(lease: Lease) -> None:
        began.set()
        await go.wait()
        await done(database, lease)

    def worker(name: str) -> Worker:
        return Worker(LeaseQueue(database, name), 2, run, owner="w", ttl_seconds=LONG)

    draining, idle = worker("q"), worker("nothing")
    await put(database, "running")
    async with working(draining, idle) as tasks:
        await began.wait()
        for one in (draining, idle):
            one.drain()
        await put(database, "left")
        await tasks[1]
        assert not tasks[0].done()
        go.set()
        await tasks[0]
    assert await keys(database) == {"left"}
