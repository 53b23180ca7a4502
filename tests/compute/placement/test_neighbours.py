"""VMs of one network: their servers must reach each other, however many are placed side by side."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from tests.compute.conftest import NODE, OTHER, PROJECT

from vetro.compute.values.records import DISK_KEYS
from vetro.storage import ManualClock

GIB = 2**30
THIRD = "5f0f3a7e-5a1b-4d8a-9a55-93a0b5c0a003"


@pytest.fixture
def clock() -> ManualClock:
    """Time that stands still: however slow a machine is, nodes stay alive."""
    return ManualClock()


async def ready(world: Any, server: str, address: str, **more: Any) -> None:
    """A server at an address, with room."""
    await world.server(server, **{"VM Brands": ["lx"], "Admin IP": address, **more})
    sample = {
        "vms": {},
        "meminfo": {"total_bytes": 32 * GIB, "availrmem_bytes": 32 * GIB},
        "diskinfo": {**dict.fromkeys(DISK_KEYS, 0), "pool_size_bytes": 1000 * GIB},
    }
    path = f"/servers/{server}/events/status"
    await world.ok("POST", path, sample, token="", headers=world.key_of(server))


async def network(world: Any, number: int = 0, **more: Any) -> str:
    """A network with a subnet of a range of its own."""
    made = str(uuid.uuid4())
    await world.ok("POST", "/networks", {"uuid": made, "name": "blue", **more})
    subnet = {"uuid": str(uuid.uuid4()), "network_uuid": made, "cidr": f"10.9.{number}.0/24"}
    await world.ok("POST", "/subnets", subnet)
    return made


async def asked(world: Any, net: str, memory: int = 128, **more: Any) -> dict[str, Any]:
    """A request for room for a VM with a port in a network."""
    port = str(uuid.uuid4())
    await world.ok("POST", "/ports", {"uuid": port, "network_uuid": net})
    vm = {
        "vm_uuid": str(uuid.uuid4()), "owner_uuid": PROJECT, "ram": memory, "cpu_cap": 10,
        "brand": "lx",
    }  # fmt: skip
    return {"vm": vm, "image": {}, "nic_tags": [], "ports": [port], "reserve": True, **more}


async def places(world: Any, bodies: list[Any]) -> list[str]:
    """The servers of requests that are sent at once."""
    answers = await asyncio.gather(*(world.ok("POST", "/allocate", one) for one in bodies))
    return [answer["server"]["uuid"] for answer in answers]


async def test_machines_of_a_network_that_are_placed_at_once_agree(make_world: Any) -> None:
    """Through two services: where the first one is, the others are, or servers that reach it."""
    worlds = [await make_world() for _ in range(2)]
    await ready(worlds[0], NODE, "192.0.2.1")
    await ready(worlds[0], OTHER, "127.0.0.1")
    await ready(worlds[0], THIRD, "192.0.2.3")
    seen: set[frozenset[str]] = set()
    for number in range(6):
        net = await network(worlds[0], number)
        bodies = [await asked(worlds[0], net) for _ in range(6)]
        found = await asyncio.gather(places(worlds[0], bodies[:3]), places(worlds[1], bodies[3:]))
        seen.add(frozenset(found[0] + found[1]))
    assert all(one == {OTHER} or OTHER not in one for one in seen)


@pytest.mark.parametrize(
    "lonely", [{"address": "127.0.0.1"}, {"address": "192.0.2.2", "CN Agent Pull": True}]
)
async def test_a_server_that_others_do_not_reach_is_left_out(any_world: Any, lonely: Any) -> None:
    """By its address, or since it asks for its tasks; and nobody joins one that is there alone."""
    world = any_world
    await ready(world, NODE, "192.0.2.1")
    await ready(world, OTHER, **lonely)
    net = await network(world)
    first = await asked(world, net, servers=[NODE])
    assert await places(world, [first]) == [NODE]
    assert await places(world, [await asked(world, net) for _ in range(4)]) == [NODE] * 4
    refused = await world.call("POST", "/allocate", await asked(world, net, servers=[OTHER]))
    assert refused.status == 409
    assert "no other server reaches it" in refused.json()["not_considered"][OTHER]
    # A network of its own it may have; the reservation becomes a VM, and the network stays there.
    alone = await network(world, 1)
    body = await asked(world, alone, servers=[OTHER])
    assert await places(world, [body]) == [OTHER]
    if "CN Agent Pull" not in lonely:
        vm = body["vm"]["vm_uuid"]
        await world.vm(OTHER, uuid=vm, cpu_cap=10, ports=body["ports"])
    assert await places(world, [await asked(world, alone) for _ in range(4)]) == [OTHER] * 4
    large = await world.call("POST", "/allocate", await asked(world, alone, memory=60000))
    assert large.status == 409
    assert (
        f"on server {OTHER}, which no other server reaches" in large.json()["not_considered"][NODE]
    )
    asking = await asked(world, alone, reserve=False)
    assert await places(world, [asking]) == [OTHER]


async def test_a_network_of_the_machines_own_wire_leaves_no_server_out(world: Any) -> None:
    """Neither do networks without VMs, nor ports that nothing knows."""
    await ready(world, NODE, "192.0.2.1")
    await ready(world, OTHER, "127.0.0.1")
    net = await network(world, uplink={"nic_tag": "admin", "vlan_id": 7})
    for server in (NODE, OTHER):
        assert await places(world, [await asked(world, net, servers=[server])]) == [server]
    body = await asked(world, net, servers=[OTHER])
    assert await places(world, [{**body, "ports": [str(uuid.uuid4())]}]) == [OTHER]
