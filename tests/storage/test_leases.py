"""Leases: handed out once, lost by expiry, completed exactly once."""

import asyncio
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.effort import examples

from vetro.storage import (
    AlreadyQueued,
    Database,
    Lease,
    LeaseLost,
    LeaseQueue,
    ManualClock,
    migrate,
)


async def fill(database: Database, queue: LeaseQueue, *keys: str) -> None:
    """Enqueue work."""
    async with database.transaction() as tx:
        for key in keys:
            await queue.enqueue(tx, key, {"key": key})


async def test_work_is_handed_out_in_order_and_once(database: Database) -> None:
    """Claims are served first in, first out, and held work is not handed out."""
    queue = LeaseQueue(database, "q")
    await fill(database, queue, "a", "b")
    first, second = await queue.claim("x", 10), await queue.claim("y", 10)
    assert first is not None
    assert second is not None
    assert (first.key, second.key) == ("a", "b")
    assert first.payload == {"key": "a"}
    assert second.fence > first.fence
    assert await queue.claim("z", 10) is None


async def test_parties_come_in_turn(database: Database) -> None:
    """A party with much work does not delay others, and a claimer's limit per party is kept."""
    queue = LeaseQueue(database, "q")
    async with database.transaction() as tx:
        for key in ("a1", "a2", "a3", "a4", "b1", "b2", "c1", "none"):
            await queue.enqueue(tx, key, party=key[0] if key != "none" else None)

    async def taken(owner: str, **share: int) -> str | None:
        lease = await queue.claim(owner, 10, **share)
        return lease and lease.key

    assert [await taken("x", most_per_party=2) for _ in range(4)] == ["a1", "b1", "c1", "none"]
    assert [await taken("x", most_per_party=2) for _ in range(3)] == ["a2", "b2", None]
    assert await queue.wait_for_work(0, owner="x", most_per_party=2) is False
    # Another claimer counts its own, and takes what is left.
    assert await queue.wait_for_work(0, owner="y", most_per_party=2) is True
    assert await taken("y", most_per_party=1) == "a3"
    assert await taken("y", most_per_party=1) is None
    assert await taken("y") == "a4"


async def test_certain_work_can_be_claimed_out_of_order(database: Database) -> None:
    """A key is claimed alone unless it is held or absent; the queue lists all its keys."""
    queue = LeaseQueue(database, "q")
    await fill(database, queue, "a", "b", "c")
    lease = await queue.claim("x", 10, key="b")
    assert lease is not None
    assert lease.key == "b"
    assert await queue.claim("x", 10, key="b") is None
    assert await queue.claim("x", 10, key="d") is None
    async with database.transaction() as tx:
        await queue.complete(tx, lease)
    async with database.read() as tx:
        assert await queue.keys(tx) == {"a", "c"}


async def test_work_nobody_holds_can_be_withdrawn(database: Database) -> None:
    """Waiting work is withdrawn, held work stays with its owner, unknown keys are ignored."""
    queue = LeaseQueue(database, "q")
    await fill(database, queue, "a", "b")
    lease = await queue.claim("x", 10)
    assert lease is not None
    async with database.transaction() as tx:
        assert await queue.withdraw(tx, ["a", "b", "none"]) == {"b"}
        assert await queue.withdraw(tx, []) == set()
    assert await queue.claim("y", 10) is None
    async with database.transaction() as tx:
        await queue.complete(tx, lease)


async def test_an_expired_lease_goes_to_the_next(database: Database, clock: ManualClock) -> None:
    """After expiry another owner claims it; the former cannot complete, renew or release it."""
    queue = LeaseQueue(database, "q")
    await fill(database, queue, "a")
    old = await queue.claim("x", 10)
    assert old is not None
    clock.advance(10)
    new = await queue.claim("y", 10)
    assert new is not None
    assert (new.key, new.attempt) == ("a", 2)
    assert new.fence > old.fence
    with pytest.raises(LeaseLost):
        await queue.renew(old, 10)
    with pytest.raises(LeaseLost):
        await queue.release(old)
    with pytest.raises(LeaseLost):
        async with database.transaction() as tx:
            await queue.complete(tx, old)
    async with database.transaction() as tx:
        await queue.complete(tx, new)
    clock.advance(100)
    assert await queue.claim("z", 10) is None


async def test_renewing_keeps_a_lease(database: Database, clock: ManualClock) -> None:
    """A renewed lease is not handed out at its first expiry."""
    queue = LeaseQueue(database, "q")
    await fill(database, queue, "a")
    lease = await queue.claim("x", 10)
    assert lease is not None
    clock.advance(9)
    lease = await queue.renew(lease, 10)
    clock.advance(9)
    assert await queue.claim("y", 10) is None
    clock.advance(1)
    assert await queue.claim("y", 10) is not None


async def test_released_work_is_free_at_once(database: Database) -> None:
    """A graceful shutdown hands its work back."""
    queue = LeaseQueue(database, "q")
    await fill(database, queue, "a")
    lease = await queue.claim("x", 1000)
    assert lease is not None
    await queue.release(lease)
    again = await queue.claim("y", 10)
    assert again is not None
    assert again.fence > lease.fence


async def test_completion_and_result_are_one_commit(database: Database) -> None:
    """When the unit that completes is rolled back, the work is still held."""
    queue = LeaseQueue(database, "q")
    await fill(database, queue, "a")
    lease = await queue.claim("x", 10)
    assert lease is not None
    with pytest.raises(RuntimeError):
        async with database.transaction() as tx:
            await queue.complete(tx, lease)
            raise RuntimeError
    await queue.renew(lease, 10)


async def test_waiting_ends_when_work_comes(database: Database) -> None:
    """A waiter is woken by the commit of new work."""
    queue = LeaseQueue(database, "q")
    waiter = asyncio.create_task(queue.wait_for_work(20))
    await asyncio.sleep(0)
    await fill(database, queue, "a")
    assert await waiter is True
    assert await queue.claim("x", 1000) is not None
    assert await queue.wait_for_work(0.01) is False


async def test_the_work_of_dead_owners_can_be_freed(database: Database) -> None:
    """A successor frees exactly the work that its predecessor held."""
    queue = LeaseQueue(database, "q")
    await fill(database, queue, "a", "b")
    await queue.claim("host1/7", 1000)
    await queue.claim("host2/7", 1000)
    async with database.transaction() as tx:
        assert await queue.expire_owner(tx, "host1/") == ["a"]
    lease = await queue.claim("host1/8", 10)
    assert lease is not None
    assert lease.key == "a"
    assert await queue.claim("host1/8", 10) is None


async def test_many_claimers_complete_each_work_once(database: Database) -> None:
    """Concurrent claimers, some of which crash, complete everything exactly once."""
    queue = LeaseQueue(database, "q")
    keys = [f"k{i}" for i in range(20)]
    await fill(database, queue, *keys)
    done: list[str] = []
    fences: list[int] = []
    chance = random.Random(7)

    async def worker(name: str) -> None:
        while True:
            lease = await queue.claim(name, 1000)
            if lease is None:
                return
            fences.append(lease.fence)
            if chance.random() < 0.3:
                await queue.release(lease)
                continue
            async with database.transaction() as tx:
                await queue.complete(tx, lease)
            done.append(lease.key)

    await asyncio.gather(*(worker(f"w{i}") for i in range(6)))
    assert sorted(done) == sorted(keys)
    assert len(set(fences)) == len(fences)


async def test_work_under_a_taken_key_is_refused_and_the_unit_goes_on(database: Database) -> None:
    """A second enqueueing under a key raises; the unit's other changes are kept."""
    queue = LeaseQueue(database, "q")
    async with database.transaction() as tx:
        await queue.enqueue(tx, "a", 1)
        with pytest.raises(AlreadyQueued, match="'a'"):
            await queue.enqueue(tx, "a", 2)
        await queue.enqueue(tx, "b", 3)
    first, second = await queue.claim("x", 10), await queue.claim("x", 10)
    assert first is not None
    assert second is not None
    assert [first.payload, second.payload] == [1, 3]


async def test_delayed_work_waits_for_its_time_even_while_other_work_is_held(
    database: Database, clock: ManualClock
) -> None:
    """A held piece of work does not hide when a delayed one becomes available."""
    queue = LeaseQueue(database, "q")
    await fill(database, queue, "now")
    assert await queue.claim("x", 1000) is not None
    async with database.transaction() as tx:
        await queue.enqueue(tx, "later", delay_seconds=0.05)
    waiter = asyncio.create_task(queue.wait_for_work(20))
    assert await queue.claim("y", 10) is None
    clock.advance(1)
    # The waiter sleeps in real time for the 50 ms it saw; no notification comes.
    assert await waiter is True
    lease = await queue.claim("y", 10)
    assert lease is not None
    assert lease.key == "later"


async def test_an_expiring_lease_wakes_a_waiter(database: Database, clock: ManualClock) -> None:
    """Without any notification the wait ends when the first lease runs out."""
    queue = LeaseQueue(database, "q")
    await fill(database, queue, "a")
    assert await queue.claim("x", 0.05) is not None
    waiter = asyncio.create_task(queue.wait_for_work(20))
    clock.advance(1)
    assert await waiter is True


async def test_holding_renews_until_the_block_ends(
    database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work that takes longer than its lease is renewed while it is held, and no longer."""
    queue = LeaseQueue(database, "q")
    await fill(database, queue, "a")
    lease = await queue.claim("x", 0.03)
    assert lease is not None
    renewals: asyncio.Queue[Lease] = asyncio.Queue()
    renew = queue.renew

    async def observed(lease: Lease, ttl_seconds: float | None = None) -> Lease:
        clock.advance(0.02)
        renewed = await renew(lease, ttl_seconds)
        renewals.put_nowait(renewed)
        return renewed

    monkeypatch.setattr(queue, "renew", observed)
    async with queue.hold(lease):
        for _ in range(3):
            last = await renewals.get()
        assert last.expires_at > lease.expires_at
        assert await queue.claim("y", 10) is None
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("renewal ")]
    async with database.transaction() as tx:
        await queue.complete(tx, last)


async def test_losing_a_held_lease_ends_the_block(database: Database, clock: ManualClock) -> None:
    """When another owner has claimed the work, the first holder's block raises the reason."""
    queue = LeaseQueue(database, "q")
    await fill(database, queue, "a")
    lease = await queue.claim("x", 0.1)
    assert lease is not None
    clock.advance(1)
    assert await queue.claim("y", 1000) is not None
    with pytest.raises(LeaseLost):
        async with queue.hold(lease):
            await asyncio.Event().wait()
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


async def test_a_holder_cancelled_from_outside_is_cancelled(database: Database) -> None:
    """Holding does not swallow a cancellation that is not its own."""
    queue = LeaseQueue(database, "q")
    await fill(database, queue, "a")
    lease = await queue.claim("x", 1000)
    assert lease is not None
    inside = asyncio.Event()

    async def work() -> None:
        async with queue.hold(lease):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await queue.renew(lease)).fence == lease.fence


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["enqueue", "claim", "renew", "complete", "release", "advance"]),
        st.integers(0, 5),
    ),
    max_size=40,
)


@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_any_history_keeps_the_promises(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    """Any sequence of operations keeps fences rising, one holder and one completion."""

    async def history() -> None:
        clock = ManualClock()
        directory = tmp_path_factory.mktemp("leases")
        database = await Database.open(f"sqlite:///{directory}/x.db", clock=clock)
        try:
            await migrate(database, [])
            await play(database, clock)
        finally:
            await database.close()

    async def play(database: Database, clock: ManualClock) -> None:
        queue = LeaseQueue(database, "q")
        leases: list[Lease] = []
        holder: dict[str, tuple[int, float]] = {}  # key -> newest fence, expiry
        open_keys: list[str] = []
        count = 0
        for action, number in steps:
            if action == "enqueue":
                key = f"k{count}"
                count += 1
                await fill(database, queue, key)
                open_keys.append(key)
            elif action == "claim":
                now = clock.monotonic()
                free = [k for k in open_keys if k not in holder or holder[k][1] <= now]
                lease = await queue.claim(f"o{number}", 5)
                assert (lease.key if lease else None) == (free[0] if free else None)
                if lease is not None:
                    assert all(lease.fence > other.fence for other in leases)
                    leases.append(lease)
                    holder[lease.key] = (lease.fence, now + 5)
            elif action == "advance":
                clock.advance(number)
            elif leases:
                lease = leases[number % len(leases)]
                valid = lease.key in open_keys and holder.get(lease.key, (0, 0.0))[0] == lease.fence
                try:
                    if action == "renew":
                        await queue.renew(lease, 5)
                        holder[lease.key] = (lease.fence, clock.monotonic() + 5)
                    elif action == "release":
                        await queue.release(lease)
                        del holder[lease.key]
                    else:
                        async with database.transaction() as tx:
                            await queue.complete(tx, lease)
                        open_keys.remove(lease.key)
                        del holder[lease.key]
                    assert valid
                except LeaseLost:
                    assert not valid

    asyncio.run(history())
