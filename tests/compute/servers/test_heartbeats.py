"""Heartbeats: unknown and back, take-over between services, a database that is away (§5)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import select, update
from tests.compute.conftest import NODE, OTHER, MakeWorld, World
from tests.waiting import eventually

from vetro.compute.servers.heartbeats import Heartbeats
from vetro.compute.tables import servers, status
from vetro.compute.work.takeover import TaskTakeover
from vetro.storage import Database, DatabaseUnavailable, ManualClock


async def status_of(world: World, uuid: str = NODE) -> str:
    """The stored status of a server."""
    async with world.database.read() as tx:
        found = await tx.execute(select(servers.c.status).where(servers.c.uuid == uuid))
        return found.one().status


async def entry(world: World) -> Any:
    """The status entry of the node."""
    async with world.database.read() as tx:
        return (await tx.execute(select(status))).first()


@pytest.fixture
def clock() -> ManualClock:
    """A clock that tests move."""
    return ManualClock()


@pytest.fixture(autouse=True)
def no_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks happen when the test says so."""

    async def watch(_self: Heartbeats) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Heartbeats, "watch", watch)


async def test_silence_makes_unknown_within_sixteen_seconds(
    make_world: MakeWorld, clock: ManualClock
) -> None:
    """Eleven seconds and a look every five; back to running with the next heartbeat, nothing lost."""
    world = await make_world(clock=clock)
    await world.server()
    look = world.service.heartbeats.look
    for _ in range(4):  # 20 s of heartbeats
        clock.advance(5)
        await world.ok("POST", f"/servers/{NODE}/events/heartbeat", {})
        assert await look() == []
    silent = 0
    while await status_of(world) == "running":
        clock.advance(5)
        silent += 5
        await look()
    assert 11 < silent <= 16
    assert world.service.heartbeats.last(NODE) is None
    assert (await world.ok("GET", f"/servers/{NODE}"))["status"] == "unknown"
    await world.ok("POST", f"/servers/{NODE}/events/heartbeat", {})
    await look()
    assert await status_of(world) == "running"


async def test_heartbeats_write_nothing_after_the_first(
    make_world: MakeWorld, clock: ManualClock
) -> None:
    """The entry says since when; later heartbeats stay in memory and are shown from there."""
    world = await make_world(clock=clock)
    await world.server()
    await world.service.heartbeats.look()
    first = await entry(world)
    assert first.instance == world.service.instance
    for _ in range(5):
        clock.advance(5)
        world.service.heartbeats.beat(NODE)
        await world.service.heartbeats.look()
    assert (await entry(world)).last_heartbeat == first.last_heartbeat
    shown = (await world.ok("GET", f"/servers/{NODE}"))["last_heartbeat"]
    assert shown == "2026-01-01T00:00:25.000Z"


async def test_a_heartbeat_of_an_unknown_server_is_taken(world: World) -> None:
    """204: the server need not exist; its uuid must be one."""
    path = f"/servers/{OTHER}/events/heartbeat"
    assert (await world.call("POST", path, {})).status == 204
    await world.service.heartbeats.look()
    assert (await world.refused("POST", "/servers/nonsense/events/heartbeat", {}))[:2] == (
        409, "InvalidArgument",
    )  # fmt: skip
    assert (await world.refused("POST", path, {"x": 1}))[0] == 409


async def test_a_server_that_moved_to_another_service_is_left_to_it(
    make_world: MakeWorld, clock: ManualClock
) -> None:
    """The one that hears nothing any more finds a newer entry and never overwrites it."""
    one = await make_world(clock=clock)
    two = await make_world(clock=clock)
    await one.server()
    await one.service.heartbeats.look()
    for _ in range(4):
        clock.advance(5)
        two.service.heartbeats.beat(NODE)
        await two.service.heartbeats.look()
        await one.service.heartbeats.look()
        assert await status_of(one) == "running"
    assert one.service.heartbeats.last(NODE) is None
    assert (await entry(one)).instance == two.service.instance
    # The other way round, long after: entries are not renewed, so their age says nothing.
    for _ in range(100):
        clock.advance(5)
        two.service.heartbeats.beat(NODE)
        await two.service.heartbeats.look()
    for _ in range(4):
        clock.advance(5)
        one.service.heartbeats.beat(NODE)
        await one.service.heartbeats.look()
        await two.service.heartbeats.look()
        assert await status_of(one) == "running"
    assert two.service.heartbeats.last(NODE) is None


async def test_a_service_that_hears_nothing_asks_the_others_first(
    make_world: MakeWorld, clock: ManualClock
) -> None:
    """The service that received the last heartbeat reports it before the time is over."""
    one = await make_world(clock=clock)
    two = await make_world(clock=clock)
    await one.server()
    ours, theirs = one.service.heartbeats, two.service.heartbeats
    theirs.beat(NODE)
    await ours.look()
    await theirs.look()
    async with one.database.listen("compute/who-hears") as questions:
        for _ in range(30):
            clock.advance(5)
            theirs.beat(NODE)
            if ours.last(NODE) is not None and ours.last(NODE) == clock.now():
                continue
            await ours.look()
            while (question := await questions.wait(0.05)) is not None:
                theirs.answer(question)
                ours.answer(question)
            await theirs.look()
            await ours.look()
            assert await status_of(one) == "running"
    assert ours.last(NODE) is None
    assert (await entry(one)).instance == two.service.instance


async def test_a_wrong_unknown_is_put_right(make_world: MakeWorld, clock: ManualClock) -> None:
    """A service that receives a heartbeat restores the state, at most once a lifetime."""
    world = await make_world(clock=clock)
    await world.server()
    await world.service.heartbeats.look()
    async with world.database.transaction() as tx:
        await tx.execute(update(servers).values(status="unknown"))
    for _ in range(3):
        clock.advance(5)
        world.service.heartbeats.beat(NODE)
        await world.service.heartbeats.look()
    assert await status_of(world) == "running"


async def test_a_service_that_starts_gives_servers_their_time(
    make_world: MakeWorld, clock: ManualClock
) -> None:
    """What ran stays running if it is heard, and becomes unknown if it stays silent."""
    one = await make_world(clock=clock)
    await one.server()
    await one.server(OTHER)
    await one.service.heartbeats.look()
    clock.advance(3600)
    two = await make_world(clock=clock)
    await two.service.heartbeats.look()
    assert await status_of(two) == "running"
    for _ in range(2):
        clock.advance(4)
        two.service.heartbeats.beat(NODE)
        await two.service.heartbeats.look()
    assert await status_of(two) == "running"
    assert await status_of(two, OTHER) == "unknown"


async def test_servers_of_a_service_that_is_gone_are_watched_by_the_others(
    make_world: MakeWorld, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that fell silent together with the service that heard it becomes unknown all the same."""
    monkeypatch.setattr(TaskTakeover, "watch", Heartbeats.watch)  # which does nothing here
    one = await make_world(clock=clock)
    two = await make_world(clock=clock)
    await one.server()
    await one.service.heartbeats.look()
    heirs = two.service.heartbeats
    for _ in range(4):  # the other one heard the node never, and lives
        clock.advance(5)
        await two.service.takeover.show_alive()
        assert await heirs.look() == []
    gone: list[str] = []
    for _ in range(8):
        clock.advance(5)
        await two.service.takeover.show_alive()
        gone = await heirs.look()
        if gone:
            break
    assert gone == [NODE]
    assert await status_of(two) == "unknown"


async def test_a_service_that_starts_after_another_died_finds_its_silent_servers(
    make_world: MakeWorld, clock: ManualClock
) -> None:
    """An entry of moments ago by a service that is gone says nothing of the time after it."""
    one = await make_world(clock=clock)
    await one.server()
    await one.service.heartbeats.look()
    clock.advance(2)
    two = await make_world(clock=clock)
    clock.advance(5)
    assert await two.service.heartbeats.look() == []
    clock.advance(5)
    assert await two.service.heartbeats.look() == [NODE]
    assert await status_of(two) == "unknown"


async def test_a_node_that_is_not_set_up_is_given_ninety_seconds(
    make_world: MakeWorld, clock: ManualClock
) -> None:
    """It may have no agent yet that sends heartbeats; with the first one it counts as any other."""
    world = await make_world(clock=clock)
    await world.server(Setup=False)
    look = world.service.heartbeats.look
    clock.advance(89)
    assert await look() == []
    clock.advance(2)
    assert await look() == [NODE]
    await world.server(Setup=False)
    world.service.heartbeats.beat(NODE)
    clock.advance(12)
    assert await look() == [NODE]


async def test_a_reboot_is_over_when_the_server_is_heard_again(
    make_world: MakeWorld, clock: ManualClock
) -> None:
    """Unknown shows as rebooting; a heartbeat after that, or a new boot time, clears it."""
    world = await make_world(clock=clock)
    await world.server()
    await world.ok("POST", f"/servers/{NODE}", {"transitional_status": "rebooting"})
    shown = await world.ok("GET", f"/servers/{NODE}")
    assert shown["status"] == "running"
    clock.advance(12)
    await world.service.heartbeats.look()
    shown = await world.ok("GET", f"/servers/{NODE}")
    assert (shown["status"], shown["transitional_status"]) == ("rebooting", "rebooting")
    world.service.heartbeats.beat(NODE)
    await world.service.heartbeats.look()
    shown = await world.ok("GET", f"/servers/{NODE}")
    assert shown["status"] == "running"
    assert "transitional_status" not in shown
    await world.ok("POST", f"/servers/{NODE}", {"transitional_status": "rebooting"})
    await world.server(**{"Boot Time": "1700009999"})
    assert "transitional_status" not in await world.ok("GET", f"/servers/{NODE}")


async def test_one_servers_trouble_does_not_keep_the_others(
    make_world: MakeWorld, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look goes on; the server with the trouble is new again with its next heartbeat."""
    world = await make_world(clock=clock)
    await world.server()
    await world.server(OTHER)
    heartbeats = world.service.heartbeats
    put = Heartbeats._put

    async def broken(self: Heartbeats, tx: Any, uuid: str, *more: Any) -> None:
        if uuid == NODE:
            raise ValueError("trouble")
        await put(self, tx, uuid, *more)

    monkeypatch.setattr(Heartbeats, "_put", broken)
    clock.advance(12)
    assert await heartbeats.look() == [OTHER]
    monkeypatch.undo()
    heartbeats.beat(NODE)
    await heartbeats.look()
    assert (await entry(world)) is not None


async def test_a_database_that_is_away_loses_no_heartbeat(
    make_world: MakeWorld, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten seconds without it: heartbeats answer 204, samples wait, no server becomes unknown."""
    world = await make_world(clock=clock)
    await world.server()
    await world.server(OTHER)
    look = world.service.heartbeats.look
    await look()
    own = {"token": "", "headers": world.key_of(NODE)}

    @contextlib.asynccontextmanager
    async def away(_self: Database) -> AsyncIterator[Any]:
        raise DatabaseUnavailable("the test took it away")
        yield

    with monkeypatch.context() as patch:
        patch.setattr(Database, "transaction", away)
        patch.setattr(Database, "read", away)
        patch.setattr(world.service.samples, "patience_seconds", 0.01)
        patch.setattr("vetro.compute.servers.samples.PAUSE_SECONDS", 0.01)
        for _ in range(2):
            clock.advance(5)
            answer = await world.call("POST", f"/servers/{NODE}/events/heartbeat", {}, **own)
            assert answer.status == 204
            sample = {"meminfo": {"total_bytes": 77}, "vms": {}}
            answer = await world.call("POST", f"/servers/{NODE}/events/status", sample, **own)
            assert answer.status == 204
            with contextlib.suppress(DatabaseUnavailable):
                await look()
        assert (await world.call("GET", f"/servers/{NODE}")).status == 503
    clock.advance(2)
    assert await look() == [OTHER]
    assert await status_of(world) == "running"
    await eventually(lambda: not len(world.service.samples))
    assert (await world.ok("GET", f"/servers/{NODE}"))["memory_total_bytes"] == 77


async def test_the_reconcilers_counters_are_exported(world: World) -> None:
    """Under the names of the document, the seed's among them."""
    await world.service.heartbeats.look()
    page = (await world.http.request("GET", "/metrics")).text
    for name in (
        "heartbeating_servers_count",
        "reconciler_new_heartbeaters_total",
        "reconciler_stale_heartbeaters_total",
        "reconciler_usurped_heartbeaters_total",
        "reconciler_server_put_total",
        "reconciler_server_put_etag_failures_total",
        "reconciler_server_put_failures_total",
        "reconciler_status_put_total",
        "reconciler_status_put_etag_failures_total",
        "reconciler_status_put_failures_total",
        "reconciler_status_failures_total",
    ):
        assert f"\n{name} " in page


async def test_requests_are_counted_by_operation(world: World) -> None:
    """Under the documented names; heartbeats on the short way too, refused requests with their status."""

    def counted(page: str, operation: str, code: int, method: str = "POST") -> float:
        labels = f'method="{method}",operation="{operation}",status_code="{code}"'
        found = [
            line.rpartition(" ")[2]
            for line in page.splitlines()
            if line.startswith(f"http_requests_completed{{{labels}}}")
        ]
        return float(found[0]) if found else 0.0

    async def page() -> str:
        return (await world.http.request("GET", "/metrics")).text

    before = await page()
    own = {"token": "", "headers": world.key_of(NODE)}
    await world.ok("POST", f"/servers/{NODE}/events/heartbeat", {}, **own)
    await world.refused("GET", f"/servers/{OTHER}")
    after = await page()
    for operation, code, method in (
        ("ServerEventHeartbeat", 204, "POST"),
        ("ServerGet", 404, "GET"),
    ):
        grown = counted(after, operation, code, method) - counted(before, operation, code, method)
        assert grown == 1, operation
    assert 'http_request_duration_seconds_count{method="GET",operation="ServerGet"' in after


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({}, b"{}", 204),
        ({}, b"", 204),
        ({"x-request-id": "mine"}, b"{}", 204),
        ({"x-request-id": "not acceptable!"}, b"{}", 204),
        ({}, b"[]", 500),
        ({}, b"{", 400),
        ({}, b'{"a":1}', 409),
        ({}, b"null", 204),
        ({"Authorization": "Bearer wrong"}, b"{}", 401),
        ({"Authorization": ""}, b"{}", 401),
    ],
)
async def test_the_lane_answers_as_the_usual_way_does(
    world: World, headers: dict[str, str], body: bytes, status: int
) -> None:
    """The fast way for heartbeats takes only what is exactly one; the rest gets the usual answers."""
    path = f"/compute/servers/{NODE}/events/heartbeat"
    given = {**world.key_of(NODE), "Content-Type": "application/json", **headers}
    answer = await world.http.request("POST", path, content=body, headers=given)
    assert answer.status == status, answer.text
    assert answer.headers["server"] == "Compute Node API"
    assert answer.headers["x-response-time"].isdigit()
    if headers.get("x-request-id") == "mine":
        assert answer.headers["x-request-id"] == "mine"
    elif "x-request-id" in headers:
        assert answer.headers["x-request-id"] != headers["x-request-id"]
