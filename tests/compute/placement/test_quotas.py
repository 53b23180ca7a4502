"""Quotas of instances, addresses and volumes: enforced where they are given out."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable
from typing import Any

import pytest
from tests.compute.conftest import IMAGE, NODE, PROJECT

from vetro.compute.values.records import DISK_KEYS
from vetro.compute.work.agents import NodeTaskError
from vetro.quotas import QuotasSection
from vetro.storage import ManualClock

GIB = 2**30


@pytest.fixture
def clock() -> ManualClock:
    """Time that stands still: however slow a machine is, nodes stay alive."""
    return ManualClock()


async def room(world: Any) -> None:
    """Let the node have room for VMs."""
    await world.server(NODE, **{"VM Brands": ["lx"]})
    sample = {
        "vms": {},
        "meminfo": {"total_bytes": 64 * GIB, "availrmem_bytes": 64 * GIB},
        "diskinfo": {**dict.fromkeys(DISK_KEYS, 0), "pool_size_bytes": 1000 * GIB},
    }
    path = f"/servers/{NODE}/events/status"
    await world.ok("POST", path, sample, token="", headers=world.key_of(NODE))


async def limit(world: Any, **amounts: int) -> None:
    """Give the project limits."""
    async with world.database.transaction() as tx:
        await world.service.quotas.change(tx, PROJECT, amounts)


async def used(world: Any) -> dict[str, int]:
    """What the project has."""
    async with world.database.read() as tx:
        return {
            name: one.used for name, one in (await world.service.quotas.usage(tx, PROJECT)).items()
        }


def asked(memory: int = 256, cpu: int = 150, **more: Any) -> dict[str, Any]:
    """A reservation for a VM of the project."""
    vm = {
        "vm_uuid": str(uuid.uuid4()), "owner_uuid": PROJECT, "ram": memory, "cpu_cap": cpu,
        "brand": "lx", "quota": 1,
    }  # fmt: skip
    return {"vm": vm, "image": {}, "nic_tags": [], "reserve": True, **more}


async def allocate(world: Any, bodies: Iterable[Any]) -> list[Any]:
    """The answers to requests that are sent at once."""
    return await asyncio.gather(*(world.call("POST", "/allocate", one) for one in bodies))


async def test_the_allocator_refuses_what_a_project_may_not_have(any_world: Any) -> None:
    """Instances, whole cores and memory; an answer that holds nothing is refused too."""
    world = any_world
    await room(world)
    await limit(world, instances=3, cores=5, memory=1024)
    first = asked()
    await world.ok("POST", "/allocate", first)
    assert await used(world) == {
        "instances": 1, "cores": 2, "memory": 256, "addresses": 0, "volumes": 0, "disk": 0,
    }  # fmt: skip
    assert (await world.ok("POST", "/allocate", first))["server"]["uuid"] == NODE
    for body, said in (
        (asked(memory=800), "Quota exceeded for memory: 256 of 1024 MiB used, 800 more requested"),
        (asked(cpu=301), "Quota exceeded for cores: 2 of 5 used, 4 more requested"),
        (asked(memory=800, reserve=False), "Quota exceeded for memory: 256 of 1024"),
    ):
        status, code, message = await world.refused("POST", "/allocate", body)
        assert (status, code) == (403, "QuotaExceeded")
        assert said in message
    other = asked(memory=4096)
    other["vm"]["owner_uuid"] = PROJECT[::-1]
    await world.ok("POST", "/allocate", other)
    await limit(world, instances=1)
    refused = (await world.call("POST", "/allocate", asked(memory=1))).json()
    assert refused["quota"] == {"resource": "instances", "used": 1, "asked": 1, "limit": 1}


async def test_many_at_once_get_what_there_is(make_world: Any) -> None:
    """Two services allocate side by side: together they hand out no more than the quota."""
    clock = ManualClock()
    one, two = [await make_world(clock=clock, quotas=QuotasSection(instances=5)) for _ in range(2)]
    await room(one)
    answers = await asyncio.gather(
        allocate(one, [asked() for _ in range(8)]), allocate(two, [asked() for _ in range(8)])
    )
    assert sorted(answer.status for every in answers for answer in every) == [200] * 5 + [403] * 11
    assert (await used(one))["instances"] == 5


async def test_what_ends_is_given_back(any_world: Any) -> None:
    """A destroyed VM, a reservation that is dropped, and a VM that could not be made hold nothing."""
    world = any_world
    await room(world)
    await limit(world, instances=1)
    reserved = asked()
    await world.ok("POST", "/allocate", reserved)
    path = f"/servers/{NODE}/vms/{reserved['vm']['vm_uuid']}"
    await world.ok("DELETE", path)
    made = await world.vm()
    assert (await world.call("POST", "/allocate", asked())).status == 403
    gone = await world.ok("DELETE", f"/servers/{NODE}/vms/{made}")
    await world.ended(gone["id"])
    world.nodes.answers["machine_create"] = NodeTaskError("no room for it", {})
    body = {
        "uuid": str(uuid.uuid4()), "image_uuid": IMAGE, "brand": "lx", "owner_uuid": PROJECT,
        "max_physical_memory": 256, "quota": 1,
    }  # fmt: skip
    failed = await world.ok("POST", f"/servers/{NODE}/vms", body)
    assert (await world.ended(failed["id"]))["status"] != "complete"
    assert (await used(world))["instances"] == 0
    world.nodes.answers.clear()
    await world.vm()
    status, code, _ = await world.refused("POST", f"/servers/{NODE}/vms", body)
    assert (status, code) == (403, "QuotaExceeded")


async def test_a_vm_may_not_become_larger_than_what_was_reserved_for_it(any_world: Any) -> None:
    """Its creation is admitted with what it holds already: the rest must be within the quota."""
    world = any_world
    await room(world)
    await world.image()
    await limit(world, memory=512)
    reserved = asked(memory=256)
    await world.ok("POST", "/allocate", reserved)
    body = {
        "uuid": reserved["vm"]["vm_uuid"], "image_uuid": IMAGE, "brand": "lx",
        "owner_uuid": PROJECT, "max_physical_memory": 1024, "quota": 1,
    }  # fmt: skip
    _, _, message = await world.refused("POST", f"/servers/{NODE}/vms", body)
    assert "256 of 512 MiB used, 768 more requested" in message
    assert await world.vm(uuid=body["uuid"], max_physical_memory=512) == body["uuid"]


async def grow(world: Any, vm: str, **size: int) -> Any:
    """The answer to an update of a VM."""
    return await world.call("POST", f"/servers/{NODE}/vms/{vm}/update", size)


async def test_a_vm_that_grows_in_place_is_admitted(any_world: Any) -> None:
    """Memory and cores count from the request on; what it may not have never reaches its node."""
    world = any_world
    await room(world)
    await limit(world, memory=1024, cores=2)
    vm = await world.vm(max_physical_memory=256, cpu_cap=100)
    for size, said in (
        ({"max_physical_memory": 1025}, "256 of 1024 MiB used, 769 more requested"),
        ({"ram": 1025}, "256 of 1024 MiB used, 769 more requested"),
        ({"cpu_cap": 201}, "cores: 1 of 2 used, 2 more requested"),
    ):
        answer = await grow(world, vm, **size)
        assert (answer.status, answer.json()["code"]) == (403, "QuotaExceeded")
        assert said in answer.json()["message"]
    assert "machine_update" not in world.nodes.tasks
    world.nodes.answers["machine_update"] = lambda call: {
        "vm": {**world.nodes.vms[vm], **call.params}
    }
    grown = await grow(world, vm, max_physical_memory=1024, cpu_cap=200)
    assert (await used(world))["memory"] == 1024
    await world.ended(grown.json()["id"])
    assert (await used(world))["cores"] == 2


async def test_a_growth_that_the_node_refuses_is_given_back(any_world: Any) -> None:
    """The VM holds what it held before."""
    world = any_world
    await room(world)
    await limit(world, memory=1024)
    vm = await world.vm(max_physical_memory=256)
    world.nodes.answers["machine_update"] = NodeTaskError("no room for it", {})
    ended = await world.ended((await grow(world, vm, max_physical_memory=1024)).json()["id"])
    assert ended["status"] != "complete"
    assert (await used(world))["memory"] == 256


async def test_many_that_grow_at_once_get_what_there_is(make_world: Any) -> None:
    """Two services take updates side by side: together the VMs have no more than the quota."""
    clock = ManualClock()
    section = QuotasSection(memory=256 * 6)
    one, two = [await make_world(clock=clock, quotas=section) for _ in range(2)]
    await room(one)
    machines = [await one.vm(max_physical_memory=256) for _ in range(4)]
    working = asyncio.Event()
    for world in (one, two):
        world.nodes.answers["machine_update"] = lambda _call: working.wait()
    answers = await asyncio.gather(
        *(
            grow(world, vm, max_physical_memory=512)
            for vm, world in zip(machines, (one, two, one, two), strict=True)
        )
    )
    assert sorted(answer.status for answer in answers) == [200, 200, 403, 403]
    assert (await used(one))["memory"] == 256 * 6
    working.set()


async def test_volumes_that_grow_at_once_get_what_there_is(make_world: Any) -> None:
    """Two services grow volumes on a node side by side; what could not be grown is not counted."""
    clock = ManualClock()
    section = QuotasSection(disk=6)
    one, two = [await make_world(clock=clock, quotas=section) for _ in range(2)]
    await room(one)
    vm = await one.vm(owner_uuid=PROJECT)
    made = [await one.ok("POST", "/volumes", {"size": 1}, token="user") for _ in range(4)]
    for volume in made:
        await one.ok("POST", f"/volumes/{volume['uuid']}/attach", {"vm_uuid": vm}, token="user")
    working = asyncio.Event()

    async def refuse(_call: Any) -> None:
        await working.wait()
        raise NodeTaskError("the disk is full", {"restCode": "NoSpace"})

    for world in (one, two):
        world.nodes.answers["volume_grow"] = refuse
    calls = [
        asyncio.create_task(
            world.call("PUT", f"/volumes/{volume['uuid']}", {"size": 2}, token="user")
        )
        for volume, world in zip(made, (one, two, one, two), strict=True)
    ]
    refused, growing = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    while len(refused) < 2:
        more, growing = await asyncio.wait(growing, return_when=asyncio.FIRST_COMPLETED)
        refused |= more
    assert {(await task).status for task in refused} == {403}
    assert (await used(one))["disk"] == 6
    working.set()
    assert {answer.status for answer in await asyncio.gather(*growing)} == {500}
    assert (await used(one))["disk"] == 4


async def test_addresses_and_volumes_have_quotas(any_world: Any) -> None:
    """Floating addresses by number, volumes by number and size; another try once one is removed."""
    world = any_world
    await limit(world, addresses=1, volumes=2, disk=10)
    many = await asyncio.gather(
        *(world.call("POST", "/floating-ips", {}, token="user") for _ in range(3))
    )
    assert sorted(one.status for one in many)[1:] == [403, 403]
    address = next(one.json() for one in many if one.status < 300)
    await world.call("DELETE", f"/floating-ips/{address['uuid']}", token="user")
    await world.ok("POST", "/floating-ips", {}, token="user")
    volume = await world.ok("POST", "/volumes", {"size": 6}, token="user")
    for call in (
        ("POST", "/volumes", {"size": 5}),
        ("PUT", f"/volumes/{volume['uuid']}", {"size": 11}),
    ):
        status, _, message = await world.refused(*call, token="user")
        assert status == 403
        assert message.startswith("Quota exceeded for disk: 6 of 10 GiB used, 5 more requested")
    grown = await world.ok("PUT", f"/volumes/{volume['uuid']}", {"size": 9}, token="user")
    assert grown["size"] == 9
    await world.ok("POST", "/volumes", {"size": 1}, token="user")
    assert (await world.refused("POST", "/volumes", {"size": 1}, token="user"))[2].startswith(
        "Quota exceeded for volumes: 2 of 2 used"
    )
