"""The waitlist: over HTTP, in random orders against a model, with several services (§11)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.compute.conftest import NODE, OTHER, TIME_PASSES, MakeWorld, World
from tests.effort import examples
from tests.waiting import eventually

from vetro.compute import MIGRATIONS
from vetro.compute.waitlist.tickets import TicketStore, channel, expiry_of
from vetro.storage import Database, ManualClock, migrate

TICKETS = f"/servers/{NODE}/tickets"
BODY = {"scope": "vm", "id": "x", "expires_at": "3000"}


async def test_creating_says_who_is_before(any_world: World) -> None:
    """202 with the queue, oldest first; the ticket remembers its request."""
    world = any_world
    answer = await world.call("POST", TICKETS, {**BODY, "action": "provision", "extra": {"a": 1}})
    assert answer.status == 202
    first = answer.json()
    assert [one["status"] for one in first["queue"]] == ["active"]
    second = await world.ok("POST", TICKETS, BODY)
    assert [one["uuid"] for one in second["queue"]] == [first["uuid"], second["uuid"]]
    shown = await world.ok("GET", f"/tickets/{first['uuid']}")
    assert shown["reqid"] == answer.headers["x-request-id"]
    assert (shown["action"], shown["extra"]) == ("provision", {"a": 1})
    assert shown["expires_at"] == "3000-01-01T00:00:00.000Z"
    assert (await world.ok("POST", f"/tickets/{second['uuid']}"))["waiting_on"] == [first["uuid"]]
    again = await world.ok("POST", TICKETS, {**BODY, "uuid": second["uuid"]})
    assert again["uuid"] == second["uuid"]
    assert len(again["queue"]) == 2
    elsewhere = {**BODY, "uuid": second["uuid"], "id": "y"}
    assert (await world.refused("POST", TICKETS, elsewhere))[0] == 409


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["scope", "id", "expires_at"]),
        ({**BODY, "scope": 5}, ["scope"]),
        ({**BODY, "scope": ""}, ["scope"]),
        ({**BODY, "id": "x" * 300}, ["id"]),
        ({**BODY, "id": "a\0b"}, ["id"]),
        ({**BODY, "action": 5}, ["action"]),
        ({**BODY, "extra": []}, ["extra"]),
        ({**BODY, "uuid": "nonsense"}, ["uuid"]),
    ],
)
async def test_tickets_with_bad_fields(
    any_world: World, body: dict[str, Any], fields: list[str]
) -> None:
    """500 InvalidParameters naming each of them."""
    answer = await any_world.call("POST", TICKETS, body)
    assert (answer.status, answer.json()["code"]) == (500, "InvalidParameters")
    assert [one["field"] for one in answer.json()["errors"]] == fields


async def test_tickets_of_default_and_of_unknown_servers(world: World) -> None:
    """``default`` has queues too; an unknown server is 404."""
    assert (await world.ok("POST", "/servers/default/tickets", BODY))["server_uuid"] == "default"
    assert (await world.refused("POST", f"/servers/{OTHER}/tickets", BODY))[0] == 404


@pytest.mark.parametrize("verb", ["PUT", "GET", "POST"])
async def test_a_release_lets_the_next_in(any_world: World, verb: str) -> None:
    """The next is active when the reply comes; again it is nothing; unknown ones are 404."""
    world = any_world
    first, second, third = [await world.ok("POST", TICKETS, BODY) for _ in range(3)]
    path = f"/tickets/{first['uuid']}/release"
    assert (await world.call(verb, path)).status == 204
    assert (await world.ok("GET", f"/tickets/{second['uuid']}"))["status"] == "active"
    assert (await world.call(verb, path)).status == 204
    assert (await world.ok("GET", f"/tickets/{third['uuid']}"))["status"] == "queued"
    # A queued ticket may be given back as well, or deleted.
    assert (await world.call("DELETE", f"/tickets/{second['uuid']}")).status == 204
    assert (await world.ok("GET", f"/tickets/{third['uuid']}"))["status"] == "active"
    for unknown in (OTHER, "nonsense"):
        refused = await world.refused(verb, f"/tickets/{unknown}/release")
        assert refused[:2] == (404, "ResourceNotFound")


async def until_waiting(world: World, ticket: dict[str, Any], count: int = 1) -> None:
    """Wait until so many calls wait for a ticket at this service."""
    listening = world.database._switchboard._channels
    name = channel(ticket["uuid"])
    await eventually(lambda: len(listening.get(name, ())) == count)


async def test_waiting_for_a_turn(any_world: World) -> None:
    """204 when active or finished, 404 when deleted meanwhile or unknown."""
    world = any_world
    first, second, third = [await world.ok("POST", TICKETS, BODY) for _ in range(3)]

    def wait(ticket: dict[str, Any]) -> asyncio.Task[Any]:
        return asyncio.create_task(world.call("GET", f"/tickets/{ticket['uuid']}/wait"))

    assert (await wait(first)).status == 204
    seconds = [wait(second), wait(second)]
    thirds = wait(third)
    await until_waiting(world, second, 2)
    await until_waiting(world, third)
    assert not any(one.done() for one in [*seconds, thirds])
    await world.ok("PUT", f"/tickets/{first['uuid']}/release")
    assert [(await one).status for one in seconds] == [204, 204]
    assert not thirds.done()
    assert (await wait(first)).status == 204
    await world.ok("DELETE", f"/tickets/{third['uuid']}")
    gone = await thirds
    assert (gone.status, gone.json()["message"]) == (404, f"no such ticket {third['uuid']}")
    assert (await world.refused("GET", f"/tickets/{OTHER}/wait"))[0] == 404


@pytest.mark.parametrize(("setting", "status"), [(500, 500), (204, 204)])
async def test_waiting_for_a_ticket_that_expires(
    make_world: MakeWorld, setting: int, status: int
) -> None:
    """500 with the document's words, or 204 as the seed has it; then the next is in."""
    clock = ManualClock()
    world = await make_world(clock=clock, expired_wait_status=setting)
    await world.server()

    def until(seconds: int) -> str:
        return (clock.now() + timedelta(seconds=seconds)).isoformat()

    first = await world.ok("POST", TICKETS, {**BODY, "expires_at": until(5)})
    second = await world.ok("POST", TICKETS, {**BODY, "expires_at": until(10)})
    third = await world.ok("POST", TICKETS, BODY)
    waiting = asyncio.create_task(world.call("GET", f"/tickets/{second['uuid']}/wait"))
    await until_waiting(world, second)
    clock.advance(11)
    await world.service.tickets.expire()
    answer = await waiting
    assert answer.status == status
    if status == 500:
        assert answer.json()["message"] == "ticket has expired"
        refused = await world.refused("GET", f"/tickets/{first['uuid']}/wait")
        assert refused == (500, "InternalError", f"ticket {first['uuid']} is expired")
    assert (await world.ok("GET", f"/tickets/{third['uuid']}"))["status"] == "active"


@TIME_PASSES
async def test_expiry_is_seen_without_any_other_activity(any_world: World) -> None:
    """The watch sleeps until the first expiry; a new ticket that is earlier wakes it."""
    world = any_world
    soon = (world.database.clock.now() + timedelta(seconds=0.3)).isoformat()
    first = await world.ok("POST", TICKETS, {**BODY, "expires_at": soon})
    second = await world.ok("POST", TICKETS, BODY)
    async with asyncio.timeout(240):
        assert (await world.call("GET", f"/tickets/{second['uuid']}/wait")).status == 204
    assert (await world.ok("GET", f"/tickets/{first['uuid']}"))["status"] == "expired"


async def test_lists_of_tickets(any_world: World) -> None:
    """All states, sorted by any indexed field, ties by arrival, in pages."""
    world = any_world
    made = [
        await world.ok("POST", TICKETS, {**BODY, "id": name, "scope": scope})
        for name, scope in (("b", "vm"), ("a", "vm"), ("a", "image"))
    ]
    await world.ok("PUT", f"/tickets/{made[0]['uuid']}/release")
    await world.ok("POST", "/servers/default/tickets", BODY)

    async def places(query: str) -> list[int]:
        uuids = [one["uuid"] for one in made]
        return [uuids.index(one["uuid"]) for one in await world.ok("GET", f"{TICKETS}?{query}")]

    assert await places("") == [0, 1, 2]
    assert await places("order=desc") == [2, 1, 0]
    assert await places("attribute=id") == [1, 2, 0]
    assert await places("attribhute=scope&order=ASC") == [2, 0, 1]
    assert await places("limit=1&offset=1") == [1]
    assert len(await world.ok("GET", "/tickets")) == 4
    for query, wanted in (
        ("limit=1001", (409, "InvalidArgument")),
        ("limit=0", (500, "InvalidParameters")),
        ("offset=-1", (500, "InvalidParameters")),
        ("offset=01", (500, "InvalidParameters")),
        ("attribute=extra", (500, "InvalidParameters")),
        ("order=up", (500, "InvalidParameters")),
        ("x=1", (409, "InvalidArgument")),
    ):
        assert (await world.refused("GET", f"{TICKETS}?{query}"))[:2] == wanted


async def test_all_tickets_of_a_server_go_by_force_only(any_world: World) -> None:
    """412 without force; with it every ticket is removed, and their waiters get an error."""
    world = any_world
    made = [await world.ok("POST", TICKETS, BODY) for _ in range(3)]
    refused = await world.refused("DELETE", TICKETS)
    assert refused == (
        412, "PreconditionFailed", "Will not delete all tickets without ?force=true",
    )  # fmt: skip
    waiting = asyncio.create_task(world.call("GET", f"/tickets/{made[2]['uuid']}/wait"))
    await until_waiting(world, made[2])
    assert (await world.call("DELETE", f"{TICKETS}?force=true")).status == 204
    assert await world.ok("GET", TICKETS) == []
    assert (await waiting).status == 404


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("3000", "3000-01-01T00:00:00+00:00"),
        ("2030-05", "2030-05-01T00:00:00+00:00"),
        ("2030-05-06T07:08:09", "2030-05-06T07:08:09+00:00"),
        ("2030-05-06T07:08:09.5Z", "2030-05-06T07:08:09.500000+00:00"),
        ("2030-05-06T07:08:09+02:00", "2030-05-06T05:08:09+00:00"),
        ("soon", "9999-12-31T00:00:00+00:00"),
        ("1 May", "1970-01-01T00:00:00+00:00"),
        ("0001-01-01T00:00:00+23:00", "1970-01-01T00:00:00+00:00"),
    ],
)
def test_times_of_expiry(text: str, moment: str) -> None:
    """ISO 8601, UTC without a zone, a bare year; anything else compares as text."""
    assert expiry_of(text, ManualClock().now()).isoformat() == moment


# Several services


async def test_a_wait_at_one_service_ends_by_a_release_at_another(make_world: MakeWorld) -> None:
    """The store notifies the waiter, without polling."""
    one = await make_world()
    two = await make_world()
    await one.server()
    first = await one.ok("POST", TICKETS, BODY)
    second = await two.ok("POST", TICKETS, BODY)
    waiting = asyncio.create_task(one.call("GET", f"/tickets/{second['uuid']}/wait"))
    await until_waiting(one, second)
    await two.ok("PUT", f"/tickets/{first['uuid']}/release")
    async with asyncio.timeout(240):
        assert (await waiting).status == 204


async def test_services_at_once_make_one_queue(make_world: MakeWorld) -> None:
    """Tickets made side by side at two services: one active, fences all different, in their order."""
    worlds = [await make_world(), await make_world()]
    await worlds[0].server()
    await asyncio.gather(*(worlds[n % 2].ok("POST", TICKETS, BODY) for n in range(20)))
    listed = await worlds[0].ok("GET", TICKETS)
    assert sorted(one["status"] for one in listed) == ["active"] + ["queued"] * 19
    fences = [one["fence"] for one in listed]
    assert len(set(fences)) == 20
    assert next(one for one in listed if one["status"] == "active")["fence"] == min(fences)
    by_fence = sorted(listed, key=lambda one: one["fence"])
    for n, ticket in enumerate(by_fence):
        assert (await worlds[n % 2].ok("GET", f"/tickets/{ticket['uuid']}"))["status"] == "active"
        await worlds[n % 2].ok("PUT", f"/tickets/{ticket['uuid']}/release")


# Against a model


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[tuple[TicketStore, ManualClock]]:
    """A store with a clock that is moved."""
    clock = ManualClock()
    database = await Database.open(f"sqlite:///{tmp_path}/w.db", clock=clock)
    await migrate(database, [MIGRATIONS])
    yield TicketStore(database), clock
    await database.close()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.integers(0, 2), st.integers(1, 20)),
        st.tuples(st.just("release"), st.integers(0, 15), st.just(0)),
        st.tuples(st.just("remove"), st.integers(0, 15), st.just(0)),
        st.tuples(st.just("advance"), st.integers(0, 8), st.just(0)),
    ),
    min_size=1,
    max_size=25,
)


@given(steps=STEPS)
@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
async def test_any_order_of_events_agrees_with_the_model(
    store: tuple[TicketStore, ManualClock], steps: list[tuple[str, int, int]]
) -> None:
    """FIFO, one active ticket a queue, no lost wake-up, final terminal states, rising fences."""
    tickets, clock = store
    run = uuid.uuid4().hex  # the database is shared by the examples, the queues are not
    made: list[str] = []
    model: dict[str, list[Any]] = {}  # uuid: queue, status, expiry

    def promote() -> None:
        now = clock.now()
        for queue in range(3):
            mine = [one for one in model.values() if one[0] == queue]
            for one in mine:
                if one[1] in ("queued", "active") and one[2] <= now:
                    one[1] = "expired"
            if not any(one[1] == "active" for one in mine):
                first = next((one for one in mine if one[1] == "queued"), None)
                if first is not None:
                    first[1] = "active"

    for what, number, seconds in steps:
        if what == "create":
            name = str(uuid.uuid4())
            until = clock.now() + timedelta(seconds=seconds)
            body = {"scope": run, "id": str(number), "expires_at": until.isoformat()}
            await tickets.create(name, "s", body)
            made.append(name)
            model[name] = [number, "queued", until]
        elif what == "advance":
            clock.advance(number)
            await tickets.expire()
        elif made:
            name = made[number % len(made)]
            if name not in model:
                continue
            if what == "release":
                await tickets.release(name)
                if model[name][1] in ("queued", "active"):
                    model[name][1] = "finished"
            else:
                await tickets.remove(name)
                del model[name]
        promote()
        rows = [one for one in await tickets.listing("s") if one["scope"] == run]
        assert {one["uuid"]: one["status"] for one in rows} == {
            name: one[1] for name, one in model.items()
        }
        order = [one["uuid"] for one in sorted(rows, key=lambda one: one["fence"])]
        assert order == [name for name in made if name in model]


async def test_old_ended_tickets_are_forgotten(
    store: tuple[TicketStore, ManualClock],
) -> None:
    """After 30 days; open ones stay however old they are."""
    tickets, clock = store
    for name in ("a", "b"):
        await tickets.create(name, "s", {**BODY, "expires_at": "3000"})
    await tickets.release("a")
    clock.advance(31 * 86400)
    assert await tickets.forget_old() == 1
    assert [one["uuid"] for one in await tickets.listing("s")] == ["b"]
