"""Deadlines on a machine whose clock is set."""

from datetime import timedelta

import pytest

from vetro.storage import Database, LeaseLost, LeaseQueue, ManualClock, migrate

DAY = 86_400.0


@pytest.mark.parametrize("jump", [DAY, -DAY], ids=["forward", "back"])
async def test_setting_the_clock_changes_no_lease(
    database: Database, clock: ManualClock, jump: float
) -> None:
    """A lease ends after its time, however the wall clock was set meanwhile."""
    queue = LeaseQueue(database, "q")
    async with database.transaction() as tx:
        await queue.enqueue(tx, "now")
        await queue.enqueue(tx, "later", delay_seconds=60)
    lease = await queue.claim("one", 30)
    assert lease is not None
    clock.jump(jump)
    clock.advance(29)
    assert await queue.claim("two", 30) is None
    lease = await queue.renew(lease)
    clock.jump(-2 * jump)
    clock.advance(29)
    assert await queue.claim("two", 30) is None
    clock.advance(1)
    taken = await queue.claim("two", 30)
    assert taken is not None
    assert taken.key == "now"
    with pytest.raises(LeaseLost):
        await queue.renew(lease)
    clock.advance(1)
    delayed = await queue.claim("two", 30)
    assert delayed is not None
    assert delayed.key == "later"


async def test_processes_of_one_machine_agree(
    database_url: str, database: Database, clock: ManualClock
) -> None:
    """One that starts after the clock was set compares with the same time as the others."""
    clock.advance(100)
    clock.jump(DAY)
    other = await Database.open(database_url, clock=clock)
    try:
        assert other.steady_now() == database.steady_now()
        assert clock.now() - other.steady_now() == timedelta(days=1)
        await migrate(other, [])
        assert other.steady_now() == database.steady_now()
    finally:
        await other.close()


async def test_another_machine_follows_its_own_clock(database_url: str, database: Database) -> None:
    """What it agrees on is its own wall clock at its first start, not what others were set to."""
    elsewhere = ManualClock(database.clock.now() + timedelta(seconds=5))
    other = await Database.open(database_url, clock=elsewhere)
    try:
        await migrate(other, [])
        assert other.steady_now() - database.steady_now() == timedelta(seconds=5)
    finally:
        await other.close()


async def test_before_the_first_migration_it_is_the_wall_clock(database_url: str) -> None:
    """A database that was never migrated has nothing to agree on."""
    clock = ManualClock()
    empty = await Database.open(database_url, clock=clock)
    try:
        clock.jump(DAY)
        assert empty.steady_now() == clock.now()
    finally:
        await empty.close()
