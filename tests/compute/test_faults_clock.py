"""Wall clocks that are set forward or back while the service runs."""

from __future__ import annotations

import asyncio
import uuid
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select, update
from tests.compute.conftest import NODE, OTHER, MakeWorld, World

from vetro.compute.servers.heartbeats import Heartbeats
from vetro.compute.tables import instances, servers, tasks
from vetro.compute.work.takeover import TaskTakeover
from vetro.storage import ManualClock

HOUR = 3600.0
MINUTES = 600.0


@pytest.fixture
def clock() -> ManualClock:
    """A clock that tests move and set."""
    return ManualClock()


@pytest.fixture(autouse=True)
def no_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks happen when the test says so."""

    async def watch(_self: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Heartbeats, "watch", watch)
    monkeypatch.setattr(TaskTakeover, "watch", watch)


async def status_of(world: World, uuid_: str) -> str:
    """The stored status of a server."""
    async with world.database.read() as tx:
        found = await tx.execute(select(servers.c.status).where(servers.c.uuid == uuid_))
        return found.one().status


@pytest.mark.parametrize("jump", [HOUR, -HOUR, 12.0, -12.0])
async def test_only_the_silent_one_becomes_unknown(
    make_world: MakeWorld, clock: ManualClock, jump: float
) -> None:
    """Whichever way the clock is set: who is heard runs on, who is not is found out in time."""
    world = await make_world(clock=clock)
    await world.server()
    await world.server(OTHER)
    heartbeats = world.service.heartbeats
    await heartbeats.look()
    clock.advance(4)
    heartbeats.beat(NODE)
    heartbeats.beat(OTHER)
    clock.jump(jump)
    assert await heartbeats.look() == []
    silent = 0
    while await status_of(world, OTHER) == "running":
        clock.advance(5)
        silent += 5
        heartbeats.beat(NODE)
        await heartbeats.look()
    assert 11 < silent <= 16
    assert await status_of(world, NODE) == "running"
    heartbeats.beat(OTHER)
    await heartbeats.look()
    assert await status_of(world, OTHER) == "running"
    shown = (await world.ok("GET", f"/servers/{NODE}"))["last_heartbeat"]
    assert shown == clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_a_server_moves_to_another_service_whose_clock_was_set(
    make_world: MakeWorld, clock: ManualClock, jump: float
) -> None:
    """The one that hears nothing any more never overwrites the other's entry, nor the status."""
    one = await make_world(clock=clock)
    two = await make_world(clock=clock)
    await one.server()
    ours, theirs = one.service.heartbeats, two.service.heartbeats
    await ours.look()
    clock.jump(jump)
    for _ in range(4):
        clock.advance(5)
        theirs.beat(NODE)
        await theirs.look()
        await ours.look()
        assert await status_of(one, NODE) == "running"
    assert ours.last(NODE) is None
    assert theirs.last(NODE) == clock.now()
    for _ in range(4):
        clock.advance(5)
        await theirs.look()
    assert await status_of(one, NODE) == "unknown"


@pytest.mark.parametrize("ahead", [MINUTES, -MINUTES])
async def test_a_server_moves_between_services_whose_clocks_differ(
    make_world: MakeWorld, clock: ManualClock, ahead: float
) -> None:
    """Neither calls a server silent that the other one hears, whichever clock is ahead."""
    one = await make_world(clock=clock)
    two = await make_world(clock=clock.apart(ahead))
    await one.server()
    ours, theirs = one.service.heartbeats, two.service.heartbeats
    await ours.look()
    for hears, deaf in ((theirs, ours), (ours, theirs), (theirs, ours)):
        for _ in range(5):
            clock.advance(5)
            hears.beat(NODE)
            await hears.look()
            assert await deaf.look() == []
            assert await status_of(one, NODE) == "running"
        assert deaf.last(NODE) is None
    assert theirs.last(NODE) == two.database.clock.now()
    for _ in range(4):
        clock.advance(5)
        await theirs.look()
    assert await status_of(one, NODE) == "unknown"


async def test_tickets_expire_at_once_when_the_clock_is_set_beyond_their_time(
    make_world: MakeWorld, clock: ManualClock
) -> None:
    """Without another event the waiter gets an error, and the next ticket is active."""
    world = await make_world(clock=clock)
    await world.server()

    async def ticket(hours: int) -> str:
        until = clock.now() + timedelta(hours=hours)
        body = {"scope": "vm", "id": "one", "expires_at": until.isoformat()}
        return (await world.ok("POST", f"/servers/{NODE}/tickets", body))["uuid"]

    first, second, third = await ticket(2), await ticket(1), await ticket(9)
    assert (await world.ok("GET", f"/tickets/{first}"))["status"] == "active"
    async with asyncio.timeout(240):
        waits = [
            asyncio.create_task(world.call("GET", f"/tickets/{one}/wait"))
            for one in (second, third)
        ]
        await asyncio.sleep(0)
        clock.jump(3 * HOUR)
        expired, active = await asyncio.gather(*waits)
    assert (expired.status, active.status) == (500, 204)
    assert "expired" in expired.json()["message"]
    assert (await world.ok("GET", f"/tickets/{first}"))["status"] == "expired"
    # Back again: what has ended stays ended.
    clock.jump(-3 * HOUR)
    assert (await world.ok("GET", f"/tickets/{first}"))["status"] == "expired"
    assert (await world.ok("GET", f"/tickets/{third}"))["status"] == "active"


@pytest.mark.parametrize("jump", [-HOUR, HOUR, 0])
async def test_tasks_of_the_living_are_left_to_them_and_those_of_the_dead_are_not(
    make_world: MakeWorld, clock: ManualClock, jump: float
) -> None:
    """A clock that is set ends no service; one that has said nothing for 30 s loses its tasks."""
    one = await make_world(clock=clock)
    two = await make_world(clock=clock)
    await one.server()
    number = str(uuid.uuid4())
    async with one.database.transaction() as tx:
        now = clock.now()
        await tx.execute(insert(instances).values(name="dead", seen=now))
        await tx.execute(
            insert(tasks).values(
                id=number, server_uuid=NODE, task="nop", status="active", params={},
                instance="dead", history=[], created=now,
            )
        )  # fmt: skip
    assert await two.service.takeover.take_over() == []
    clock.jump(jump)
    assert await two.service.takeover.take_over() == []
    clock.advance(30)
    await one.service.takeover.show_alive()
    await two.service.takeover.show_alive()
    assert await two.service.takeover.take_over() == [number]
    async with one.database.transaction() as tx:
        await tx.execute(
            update(tasks)
            .where(tasks.c.id == number)
            .values(status="active", instance=one.service.instance)
        )
    await one.service.takeover.show_alive()
    assert await two.service.takeover.take_over() == []
