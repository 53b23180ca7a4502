"""VMs that grow where they are: their server is asked for the difference."""

from __future__ import annotations

import asyncio
from typing import Any

from sqlalchemy import select
from tests.compute.conftest import NODE

from vetro.compute.tables import vms
from vetro.compute.values.records import DISK_KEYS

GIB = 2**30


async def room(world: Any) -> None:
    """Let the node have 6963 MiB for VMs, 800 % of CPU, and a disk."""
    sample = {
        "vms": {},
        "meminfo": {"total_bytes": 8 * GIB, "availrmem_bytes": 8 * GIB},
        "diskinfo": {**dict.fromkeys(DISK_KEYS, 0), "pool_size_bytes": 1000 * GIB},
    }
    path = f"/servers/{NODE}/events/status"
    await world.ok("POST", path, sample, token="", headers=world.key_of(NODE))


async def grow(world: Any, vm: str, **size: int) -> Any:
    """The answer to an update of a VM."""
    return await world.call("POST", f"/servers/{NODE}/vms/{vm}/update", size)


async def held(world: Any, vm: str) -> tuple[int, int, int]:
    """What a VM's record holds of its server."""
    async with world.database.read() as tx:
        row = (await tx.execute(select(vms).where(vms.c.uuid == vm))).one()
    return row.memory_mib, row.quota_gib, row.cpu_cap


async def test_a_server_without_room_refuses_a_growth_before_anything_changes(
    any_world: Any,
) -> None:
    """The refusal has the figures and says what to do; the node hears nothing of it."""
    world = any_world
    await room(world)
    vm = await world.vm(max_physical_memory=1024, cpu_cap=100)
    for size, said in (
        ({"max_physical_memory": 8192}, "calculated 7168 RAM is less than server's spare 5939"),
        ({"cpu_cap": 16100}, "calculated 1000 CPU is less than server's spare 793"),
    ):
        answer = await grow(world, vm, **size)
        assert (answer.status, answer.json()["code"]) == (409, "Conflict")
        message = answer.json()["message"]
        assert f"VM {vm} cannot grow on server {NODE}: VM's {said}. Ask for less" in message
    assert await held(world, vm) == (1024, 5, 100)
    assert "machine_update" not in world.nodes.tasks
    assert (await grow(world, vm, max_physical_memory=6963)).status == 200
    assert (await grow(world, vm, quota=6, max_physical_memory=512)).status == 200


async def test_a_disk_grows_within_its_server_when_disks_are_asked_for(world: Any) -> None:
    """With the switch that the allocator has for it, as for new VMs."""
    await room(world)
    vm = await world.vm()
    assert (await grow(world, vm, quota=5000)).status == 200
    await world.service.metadata.change({"ALLOC_FILTER_MIN_DISK": "true"})
    answer = await grow(world, vm, quota=9000)
    assert (answer.status, "MiB disk is more than" in answer.text) == (409, True)


async def test_what_takes_nothing_of_a_server_is_not_refused(world: Any) -> None:
    """A first cap, a VM that becomes smaller and another name, on a server that has nothing left."""
    await room(world)
    vm = await world.vm(max_physical_memory=9000)
    for size in ({"cpu_cap": 400}, {"max_physical_memory": 8000}, {"alias": "new"}, {"quota": 6}):
        assert (await grow(world, vm, **size)).status == 200


async def test_a_virtual_machine_grows_by_what_its_guest_gets(world: Any) -> None:
    """What its hypervisor needs is in what it holds, not in what is asked for."""
    await room(world)
    vm = await world.vm(brand="kvm", max_physical_memory=2048, ram=1024)
    answer = await grow(world, vm, max_physical_memory=6000)
    assert "calculated 4976 RAM is less than server's spare 4915" in answer.text
    assert (await grow(world, vm, max_physical_memory=5900)).status == 200
    assert (await held(world, vm))[0] == 6924


async def test_two_that_grow_at_once_get_what_there_is(make_world: Any) -> None:
    """Through two services, with room for one of them and for a new VM beside."""
    one, two = [await make_world() for _ in range(2)]
    await one.server()
    await room(one)
    machines = [await one.vm(max_physical_memory=1024) for _ in range(2)]
    working = asyncio.Event()
    for world in (one, two):
        world.nodes.answers["machine_update"] = lambda _call: working.wait()
    answers = await asyncio.gather(
        *(
            grow(world, vm, max_physical_memory=5120)
            for vm, world in zip(machines, (one, two), strict=True)
        )
    )
    assert sorted(answer.status for answer in answers) == [200, 409]
    working.set()
