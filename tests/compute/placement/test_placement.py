"""Placement on the database: side by side, followed by the index, over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, update

from vetro import compute
from vetro.compute.placement.placement import Placement, PlacementSettings
from vetro.compute.servers.store import ServerStore
from vetro.compute.tables import servers, tickets, vms
from vetro.http import Fault
from vetro.storage import Database, DatabaseUnavailable, ManualClock, migrate

OWNER = "11111111-1111-4111-8111-111111111111"
GIB = 2**30
DISK = dict.fromkeys(
    (
        "pool_alloc_bytes",
        "system_used_bytes",
        "installed_images_used_bytes",
        "cores_quota_used_bytes",
        "cores_quota_bytes",
        "zone_quota_bytes",
        "zone_quota_used_bytes",
        "kvm_quota_bytes",
        "kvm_quota_used_bytes",
        "kvm_zvol_used_bytes",
        "kvm_zvol_volsize_bytes",
    ),
    0,
)


def name_of(number: int) -> str:
    """A uuid for a number."""
    return f"00000000-0000-4000-8000-{number:012x}"


@pytest.fixture
def clock() -> ManualClock:
    """A clock that tests move."""
    return ManualClock()


@dataclass
class Site:
    """A database with servers, and service processes on it, each with a connection of its own."""

    databases: list[Database]
    clock: ManualClock

    def placement(self, number: int = 0, **settings: Any) -> Placement:
        """The placement of one service."""
        database = self.databases[number]
        return Placement(database, ServerStore(database), PlacementSettings(**settings))

    async def add_server(self, number: int, *, gib: float = 8, cores: int = 16) -> str:
        """A server whose memory is all for VMs, as agents register it."""
        store = ServerStore(self.databases[0])
        uuid = name_of(number)
        await store.register(
            uuid,
            {
                "UUID": uuid,
                "Setup": True,
                "Live Image": "20260101T000000Z",
                "System Type": "Linux",
                "VM Brands": ["lx", "kvm"],
                "CPU Total Cores": cores,
                "Network Interfaces": {"eth0": {"Link Status": "up", "NIC Names": ["admin"]}},
            },
        )
        memory = {"total_bytes": int(gib * GIB), "availrmem_bytes": int(gib * GIB)}
        sample = {"meminfo": memory, "diskinfo": {**DISK, "pool_size_bytes": 1000 * GIB}}
        await store.status(uuid, {"vms": {}, **sample})
        await store.change(uuid, {"reservation_ratio": 0.0})
        return uuid

    async def memory_held(self) -> dict[str, int]:
        """MiB of VMs by server."""
        held: dict[str, int] = {}
        async with self.databases[0].read() as tx:
            for row in await tx.execute(select(vms.c.server_uuid, vms.c.memory_mib)):
                held[row.server_uuid] = held.get(row.server_uuid, 0) + row.memory_mib
        return held


@pytest.fixture
async def site(database_url: str, clock: ManualClock) -> AsyncIterator[Site]:
    """Three services on one database."""
    async with AsyncExitStack() as stack:
        databases: list[Database] = []
        for _ in range(3):
            databases.append(await Database.open(database_url, clock=clock))
            stack.push_async_callback(databases[-1].close)
        await migrate(databases[0], [compute.MIGRATIONS])
        yield Site(databases, clock)


def request(number: int, *, ram: int = 1024, **changes: Any) -> dict[str, Any]:
    """The body of a request that reserves."""
    vm = {"vm_uuid": name_of(0x900 + number), "owner_uuid": OWNER, "ram": ram, "brand": "lx"}
    vm["cpu_cap"] = 100
    return {"vm": vm, "image": {}, "nic_tags": [], "reserve": True, **changes}


async def test_services_side_by_side_never_overcommit(site: Site) -> None:
    """Three processes, forty requests at once for twenty-four places: twenty-four get one."""
    names = [await site.add_server(number) for number in (1, 2, 3)]
    services = [site.placement(number) for number in (0, 1, 2)]
    done = await asyncio.gather(
        *(services[number % 3].allocate(request(number)) for number in range(40))
    )
    placed = [one for one in done if one.outcome.chosen is not None]
    assert len(placed) == 24
    assert await site.memory_held() == dict.fromkeys(names, 8192)
    for one in done:
        if one.outcome.chosen is None:
            assert one.outcome.error == (
                "No compute resources available: no servers with enough unreserved RAM"
            )


async def test_a_choice_that_was_overtaken_is_made_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that changed between choice and reservation is judged again, the last time under a lock."""
    for number in (1, 2):
        await site.add_server(number)
    placement = site.placement()
    choose, choices = placement.chooser.choose, []

    def overtaken(*args: Any, **kwargs: Any) -> Any:
        outcome = choose(*args, **kwargs)
        choices.append(outcome.chosen)
        if len(choices) <= 4:
            placement.index.stamps[outcome.chosen] -= 1
        return outcome

    monkeypatch.setattr(placement.chooser, "choose", overtaken)
    placed = await placement.allocate(request(1))
    assert len(choices) == 5
    assert await site.memory_held() == {placed.outcome.chosen: 1024}


def known_to(placement: Placement) -> dict[str, Any]:
    """What a placement's index believes of each server."""
    return {record.uuid: record.server for record in placement.index.fleet.records}


async def test_what_is_reserved_is_counted_as_it_would_be_read(site: Site) -> None:
    """After its own reservations an index is what a new one reads from the database."""
    for number in (1, 2, 3):
        await site.add_server(number)
    placement, body = site.placement(), {**request(0), "reserve": False}
    details = {"alias": "web", "tags": {"role": "web"}, "docker": True, "quota": 10}
    bodies = [request(number) for number in range(1, 9)]
    bodies[0]["vm"].update(details)
    bodies[1] = {**bodies[1], "reserve_seconds": 60, "package": {"quota": 7000, "cpu_cap": 50}}
    bodies[2]["vm"].update(owner_uuid=OWNER.upper().lower(), brand="kvm", alias="x" * 300)
    await asyncio.gather(*(placement.allocate(one) for one in bodies))
    # Nothing of what it wrote was read back: its stamps are those in the database already.
    before = placement.index.fleet.records
    await placement.allocate(body)
    assert placement.index.fleet.records is before
    fresh = site.placement(1)
    await fresh.allocate(body)
    assert known_to(placement) == known_to(fresh)
    assert placement.index.reserved_until == fresh.index.reserved_until != {}
    for ours, theirs in zip(
        sorted(placement.index.fleet.records, key=lambda one: one.uuid),
        sorted(fresh.index.fleet.records, key=lambda one: one.uuid),
        strict=True,
    ):
        assert (ours.facets, ours.vm_facets) == (theirs.facets, theirs.vm_facets)
    assert (await placement.capacity()).capacities == (await fresh.capacity()).capacities


async def test_those_who_ask_together_are_written_together(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty requests at once cost a few transactions; each gets room of its own."""
    await site.add_server(1, gib=16)
    await site.add_server(2, gib=16)
    placement, units = site.placement(), 0
    transaction = site.databases[0].transaction

    def counted() -> Any:
        nonlocal units
        units += 1
        return transaction()

    monkeypatch.setattr(site.databases[0], "transaction", counted)
    done = await asyncio.gather(*(placement.allocate(request(number)) for number in range(20)))
    assert all(one.outcome.chosen for one in done)
    assert units <= 3
    assert sum((await site.memory_held()).values()) == 20 * 1024


async def test_one_that_cannot_be_written_takes_nobody_with_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that the database refuses fails only its own request of the round."""
    name = await site.add_server(1)
    placement = site.placement()
    row_of = placement.reservations._row

    def spoiled(one: Any, server: str) -> Any:
        row = row_of(one, server)
        return {**row, "created": None} if one.uuid == request(3)["vm"]["vm_uuid"] else row

    monkeypatch.setattr(placement.reservations, "_row", spoiled)
    done = await asyncio.gather(
        *(placement.allocate(request(number)) for number in range(6)), return_exceptions=True
    )
    assert [number for number, one in enumerate(done) if isinstance(one, BaseException)] == [3]
    assert await site.memory_held() == {name: 5 * 1024}
    monkeypatch.undo()
    await placement.allocate(request(3))
    assert known_to(placement)[name]["vms"].keys() == {name_of(0x900 + one) for one in range(6)}


async def test_a_caller_who_left_before_it_was_written_holds_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that is cancelled while it is being chosen for leaves no room taken."""
    name = await site.add_server(1)
    placement = site.placement()
    homes, reached, go_on = placement.reservations._homes, asyncio.Event(), asyncio.Event()

    async def held_up(tx: Any, uuids: Any) -> Any:
        if not tx.read_only:  # in the transaction that writes what was chosen
            reached.set()
            await go_on.wait()
        return await homes(tx, uuids)

    monkeypatch.setattr(placement.reservations, "_homes", held_up)
    leaving = asyncio.create_task(placement.allocate(request(1)))
    await reached.wait()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    staying = asyncio.create_task(placement.allocate(request(2)))
    go_on.set()
    assert (await staying).outcome.chosen == name
    await placement.reservations.settled()
    async with site.databases[1].read() as tx:
        assert [row.uuid for row in await tx.execute(select(vms.c.uuid))] == [name_of(0x902)]
    assert (await placement.capacity()).capacities[name]["ram"] == 8192 - 1024


async def test_a_caller_who_left_while_it_was_committed_finds_his_place(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that has begun is carried through; asking again gives the place it wrote."""
    name = await site.add_server(1)
    placement = site.placement()
    stamps, calls, reached, go_on = (
        placement.reservations._stamps,
        [],
        asyncio.Event(),
        asyncio.Event(),
    )

    async def held_up(tx: Any, chosen: Any) -> Any:
        calls.append(chosen)
        if len(calls) == 2:  # the row is written, the commit is next
            reached.set()
            await go_on.wait()
        return await stamps(tx, chosen)

    monkeypatch.setattr(placement.reservations, "_stamps", held_up)
    leaving = asyncio.create_task(placement.allocate(request(1)))
    await reached.wait()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    go_on.set()
    await placement.reservations.settled()
    again = await site.placement(1).allocate(request(1))
    assert (again.known, again.outcome.chosen) == (True, name)
    assert await site.memory_held() == {name: 1024}


async def test_a_database_that_is_away_fails_the_round_and_nothing_else(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every request of the round fails, its reservations are dropped, and the next round works."""
    name = await site.add_server(1)
    placement = site.placement()
    homes, away = placement.reservations._homes, True

    async def gone(tx: Any, uuids: Any) -> Any:
        if away and not tx.read_only:
            raise DatabaseUnavailable("the connection was lost")
        return await homes(tx, uuids)

    monkeypatch.setattr(placement.reservations, "_homes", gone)
    done = await asyncio.gather(
        *(placement.allocate(request(number)) for number in range(8)), return_exceptions=True
    )
    assert [type(one) for one in done] == [DatabaseUnavailable] * 8
    assert await site.memory_held() == {}
    away = False
    done = await asyncio.gather(*(placement.allocate(request(number)) for number in range(8)))
    assert [one.outcome.chosen for one in done] == [name] * 8


async def test_asking_again_gives_the_same_place(site: Site) -> None:
    """One VM has one place, also when two services are asked for it at the same moment."""
    for number in range(1, 6):
        await site.add_server(number)
    services = [site.placement(number) for number in (0, 1, 2)]
    done = await asyncio.gather(*(service.allocate(request(7)) for service in services))
    again = await services[0].allocate(request(7))
    assert len({one.outcome.chosen for one in (*done, again)}) == 1
    assert sum((await site.memory_held()).values()) == 1024


async def test_the_index_follows_every_change(site: Site) -> None:
    """What other processes write is seen by the next request: servers, VMs, tickets, removals."""
    first, second = await site.add_server(1), await site.add_server(2)
    placement = site.placement(1)
    other = site.databases[0]

    async def chosen(ram: int = 6000) -> str | None:
        found = await placement.allocate({**request(1, ram=ram), "package": {}, "reserve": False})
        return found.outcome.chosen

    async def write(*statements: Any) -> None:
        async with other.transaction() as tx:
            for statement in statements:
                await tx.execute(statement)

    assert await chosen() in (first, second)
    await write(update(servers).where(servers.c.uuid == first).values(reserved=True))
    assert await chosen() == second
    await write(
        update(servers).where(servers.c.uuid == first).values(reserved=False),
        update(servers).where(servers.c.uuid == second).values(status="unknown"),
    )
    assert await chosen() == first
    now = site.clock.now()
    vm = {"owner_uuid": OWNER, "state": "running", "quota_gib": 1, "cpu_cap": 100, "vm": {}}
    await write(
        insert(vms).values(uuid="v", server_uuid=first, memory_mib=4096, created=now, **vm),
        update(servers).where(servers.c.uuid == second).values(status="running"),
    )
    assert await chosen() == second
    # Moved from one server to the other: both have changed.
    await write(update(vms).where(vms.c.uuid == "v").values(server_uuid=second))
    assert await chosen() == first
    ticket = {
        "scope": "vm", "id": name_of(5), "action": "provision", "status": "queued", "fence": 1,
        "extra": {"owner_uuid": OWNER, "max_physical_memory": 4096, "cpu_cap": 100, "quota": 1},
        "created": now, "updated": now, "expires_at": now + timedelta(hours=1),
    }  # fmt: skip
    await write(insert(tickets).values(uuid="t", server_uuid=first, **ticket))
    assert await chosen() is None
    await write(update(tickets).where(tickets.c.uuid == "t").values(status="finished"))
    assert await chosen() == first
    await write(
        delete(vms).where(vms.c.uuid == "v"), delete(servers).where(servers.c.uuid == first)
    )
    assert await chosen() == second
    assert len(placement.index.fleet) == 1
    await site.add_server(3, gib=16)
    assert await chosen(12000) == name_of(3)


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_a_change_that_commits_late_is_not_missed(site: Site) -> None:
    """Stamps are taken in one order and committed in another; the index sees both."""
    first, second = await site.add_server(1), await site.add_server(2)
    placement = site.placement(1)
    body = {**request(1), "reserve": False}
    await placement.allocate(body)
    async with site.databases[0].transaction() as early:
        await early.execute(update(servers).where(servers.c.uuid == first).values(reserved=True))
        async with site.databases[2].transaction() as late:
            await late.execute(update(servers).where(servers.c.uuid == second).values(status="off"))
        assert (await placement.allocate(body)).outcome.chosen == first
    assert (await placement.allocate(body)).outcome.chosen is None


async def test_reservations_end_in_time(site: Site) -> None:
    """``reserve_seconds`` holds room that long; what became a VM meanwhile stays."""
    await site.add_server(1, gib=2)
    placement, other = site.placement(), site.placement(1)
    for number in (1, 2):
        body = {**request(number), "reserve": False, "reserve_seconds": 60}
        assert (await placement.allocate(body)).outcome.chosen is not None
    assert (await other.allocate(request(3))).outcome.chosen is None
    async with site.databases[2].transaction() as tx:
        made = update(vms).where(vms.c.uuid == name_of(0x901))
        await tx.execute(made.values(state="creating"))
    site.clock.advance(61)
    assert (await other.allocate(request(4))).outcome.chosen is not None
    assert (await other.allocate(request(5))).outcome.chosen is None
    async with site.databases[0].read() as tx:
        held = {row.uuid for row in await tx.execute(select(vms.c.uuid))}
    assert held == {name_of(0x901), name_of(0x904)}


@pytest.mark.parametrize("ahead", [600.0, -600.0])
async def test_reservations_end_in_time_for_a_service_whose_clock_differs(
    site: Site, database_url: str, ahead: float
) -> None:
    """Neither gives away what the other one holds, and neither holds it any longer."""
    await site.add_server(1, gib=2)
    async with AsyncExitStack() as stack:
        services: list[Placement] = []
        for clock in (site.clock, site.clock.apart(ahead)):
            database = await Database.open(database_url, clock=clock)
            stack.push_async_callback(database.close)
            services.append(Placement(database, ServerStore(database), PlacementSettings()))
        ours, theirs = services
        for number, service in ((1, ours), (2, theirs)):
            body = {**request(number), "reserve": False, "reserve_seconds": 60}
            assert (await service.allocate(body)).outcome.chosen is not None
        site.clock.advance(59)
        for number, service in ((3, ours), (4, theirs)):
            assert (await service.allocate(request(number))).outcome.chosen is None
        site.clock.advance(2)
        for number, service in ((5, ours), (6, theirs)):
            assert (await service.allocate(request(number))).outcome.chosen is not None


async def test_batches_and_seeds(site: Site) -> None:
    """With a seed the choice is repeatable; batches end at the first that has room."""
    for number in range(1, 9):
        await site.add_server(number)
    body = {**request(1), "reserve": False}
    chosen = {(await site.placement(seed=5).allocate(body)).outcome.chosen for _ in range(3)}
    assert len(chosen) == 1
    varied = {
        (await site.placement().allocate({**body, "seed": seed})).outcome.chosen
        for seed in range(20)
    }
    assert len(varied) > 1
    assert (await site.placement(batch_size=3).allocate(body)).outcome.steps[0].count == 3


async def test_metadata_takes_effect_with_the_next_request(site: Site) -> None:
    """``ALLOC_…`` keys are asked for each time."""
    await site.add_server(1)
    keys: dict[str, Any] = {}

    async def metadata(_tx: Any) -> dict[str, Any]:
        return keys

    database = site.databases[0]
    placement = Placement(database, ServerStore(database), metadata=metadata)
    body = {**request(1, ram=10**6), "package": {}, "reserve": False}
    assert (await placement.allocate(body)).outcome.chosen is None
    keys["ALLOC_FILTER_MIN_RESOURCES"] = "false"
    assert (await placement.allocate(body)).outcome.chosen is not None
    # What cannot be used (it is refused when it is written) leaves what was in force.
    keys["ALLOC_SERVER_SPREAD"] = "sideways"
    assert (await placement.allocate(body)).outcome.chosen is not None


async def test_capacity_is_what_is_left(site: Site) -> None:
    """Reserved servers are listed too; records have the figures of a capacity run."""
    first, second = await site.add_server(1), await site.add_server(2)
    placement = site.placement()
    await placement.allocate(request(1, servers=[first]))
    found = await placement.capacity()
    assert found.capacities[first]["ram"] == 8192 - 1024
    assert found.capacities[first]["cpu"] == 1600 - 25
    assert found.capacities[second]["ram"] == 8192
    assert list((await placement.capacity([second.upper()])).capacities) == [second]
    async with site.databases[0].read() as tx:
        records = await placement.index.servers.views(tx, [first])
    [shown] = await placement.with_capacity(records)
    assert (shown["unreserved_ram"], shown["score"]) == (7168, 0)
    assert shown["overprovision_ratios"] == {"cpu": 4.0, "ram": 1.0, "disk": 1.0}


async def test_wrong_requests_name_the_field(site: Site) -> None:
    """A reservation for no time and a bad VM are refused before anything is looked at."""
    placement = site.placement()
    await site.add_server(1)
    for body, field in (
        ({**request(1), "reserve_seconds": 0}, "reserve_seconds"),
        ({**request(1), "reserve_seconds": 1e300}, "reserve_seconds"),
        ({**request(1), "vm": {"owner_uuid": OWNER, "ram": 1, "uuid": "x" * 99}}, "vm"),
        ({**request(1), "vm": {"owner_uuid": "x", "ram": 1}}, "vm"),
    ):
        with pytest.raises(Fault) as caught:
            await placement.allocate(body)
        assert caught.value.extra["errors"][0]["field"] == field
    assert await site.memory_held() == {}


def test_bad_settings_stop_the_start() -> None:
    """A default or description that cannot be used is said when the service starts."""
    from vetro.compute.allocation import DefaultsError, DescriptionError

    nothing: Any = None  # neither is used before the first request
    with pytest.raises(DefaultsError, match="weight_unreserved_ram is not a number"):
        Placement(
            nothing,
            nothing,
            PlacementSettings(change_defaults={"weight_unreserved_ram": "much"}),
        )
    with pytest.raises(DescriptionError, match="Unrecognized algorithm: guess"):
        Placement(nothing, nothing, PlacementSettings(description=["pipe", "guess"]))
