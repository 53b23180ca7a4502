"""The compute service's stores: waitlist, addresses, silent servers."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path

import pytest

from vetro import compute
from vetro.compute.networks.fabric import ExternalNetwork, Fabric
from vetro.compute.servers.store import ServerStore
from vetro.compute.tables import ports
from vetro.compute.waitlist.tickets import TicketStore
from vetro.compute.wire import AddressWish, NewNetwork, NewPort, NewSubnet
from vetro.http import Fault
from vetro.storage import Database, ManualClock, migrate


@pytest.fixture
def clock() -> ManualClock:
    """A clock that tests move."""
    return ManualClock()


@pytest.fixture
async def database(tmp_path: Path, clock: ManualClock) -> AsyncGenerator[Database, None]:
    """A database with the room's tables."""
    opened = await Database.open(f"sqlite:///{tmp_path}/c.db", clock=clock)
    await migrate(opened, [compute.MIGRATIONS])
    yield opened
    await opened.close()


async def test_tickets_are_active_one_at_a_time_in_order(
    database: Database, clock: ManualClock
) -> None:
    """First come first served for each thing; a release lets the next in."""
    store = TicketStore(database)
    until = (clock.now() + timedelta(hours=1)).isoformat()
    body = {"scope": "vm", "id": "x", "expires_at": until}
    for name in ("a", "b", "c"):
        await store.create(name, "server", body)
    assert (await store.create("o", "server", {**body, "id": "y"}))["status"] == "active"
    states = [(await store.get(name))["status"] for name in "abc"]
    assert states == ["active", "queued", "queued"]
    assert (await store.get("c"))["waiting_on"] == ["a", "b"]
    waiting = asyncio.create_task(store.wait("b"))
    await asyncio.sleep(0)
    await store.release("a")
    assert await waiting == "active"
    assert (await store.get("b"))["fence"] > (await store.get("a"))["fence"]
    await store.remove("b")
    assert (await store.get("c"))["status"] == "active"


async def test_an_overdue_ticket_lets_the_next_in(database: Database, clock: ManualClock) -> None:
    """Expiry ends a holder that never released."""
    store = TicketStore(database)
    soon = (clock.now() + timedelta(seconds=5)).isoformat()
    late = (clock.now() + timedelta(hours=1)).isoformat()
    await store.create("a", "s", {"scope": "vm", "id": "x", "expires_at": soon})
    await store.create("b", "s", {"scope": "vm", "id": "x", "expires_at": late})
    clock.advance(6)
    assert await store.expire() == 1
    assert (await store.get("a"))["status"] == "expired"
    assert (await store.get("b"))["status"] == "active"


@pytest.mark.parametrize("missing", ["scope", "id", "expires_at"])
async def test_a_ticket_needs_its_fields(
    database: Database, clock: ManualClock, missing: str
) -> None:
    """Each absent field is named in the error."""
    body = {"scope": "vm", "id": "x", "expires_at": clock.now().isoformat()}
    del body[missing]
    with pytest.raises(Fault) as caught:
        await TicketStore(database).create("a", "s", body)
    assert caught.value.type == "InvalidParameters"
    assert caught.value.extra["errors"][0]["field"] == missing


async def network(fabric: Fabric, cidr: str = "10.9.0.0/29") -> str:
    """A network with one subnet."""
    name = str(uuid.uuid4())
    await fabric.create_network(name, "p", NewNetwork(name="n"))
    subnet = NewSubnet(network_uuid=name, cidr=cidr)
    await fabric.create_subnet(str(uuid.uuid4()), "p", subnet)
    return name


async def test_addresses_are_given_out_once(database: Database) -> None:
    """Side by side callers get different addresses until none is left; then it is said."""
    fabric = Fabric(database, ExternalNetwork("ext", "172.30.0.0/29"))
    await fabric.prepare()
    name = await network(fabric)
    wanted = [str(uuid.uuid4()) for _ in range(5)]
    new = NewPort(network_uuid=name)
    await asyncio.gather(*(fabric.create_port(w, "p", new) for w in wanted))
    rows = await fabric.rows(ports, "p")
    assert {row.ip for row in rows} == {f"10.9.0.{n}" for n in range(2, 7)}
    assert len({row.mac for row in rows}) == 5
    await fabric.create_port(wanted[0], "p", new)
    with pytest.raises(Fault, match="no free address"):
        await fabric.create_port(str(uuid.uuid4()), "p", new)


async def test_overlapping_networks_and_taken_addresses_are_refused(database: Database) -> None:
    """What one node could not route is a conflict."""
    fabric = Fabric(database, ExternalNetwork("ext", "172.30.0.0/29"))
    await fabric.prepare()
    name = await network(fabric)
    with pytest.raises(Fault, match="overlaps"):
        await network(fabric, "10.9.0.0/24")
    wish = NewPort(network_uuid=name, fixed_ips=[AddressWish(ip="10.9.0.3")])
    await fabric.create_port(str(uuid.uuid4()), "p", wish)
    with pytest.raises(Fault, match="taken"):
        await fabric.create_port(str(uuid.uuid4()), "p", wish)
    with pytest.raises(Fault, match="outside"):
        outside = NewPort(network_uuid=name, fixed_ips=[AddressWish(ip="10.8.0.3")])
        await fabric.create_port(str(uuid.uuid4()), "p", outside)


async def test_a_silent_server_becomes_unknown_and_comes_back(
    database: Database, clock: ManualClock
) -> None:
    """Eleven seconds without a heartbeat; the next one makes it running again."""
    store = ServerStore(database)
    name = str(uuid.uuid4())
    info = {"UUID": name, "Hostname": "h", "Setup": True, "Admin IP": "127.0.0.1"}
    await store.register(name, info)
    clock.advance(11)
    assert await store.heartbeats.look() == []
    clock.advance(1)
    assert await store.heartbeats.look() == [name]
    await store.heartbeat(name)
    await store.heartbeats.look()
    async with database.read() as tx:
        assert (await store.row(tx, name)).status == "running"
