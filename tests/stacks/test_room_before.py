"""Before an update lets a machine go, the one that comes for it has to have room."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import select
from tests.stacks.conftest import PROJECT
from tests.stacks.test_guard import servers
from tests.stacks.test_on_compute_service import NODE, World, world

from vetro.stacks import StackStatus
from vetro.stacks.compute_service.port import ServerSpec
from vetro.stacks.memory import MemoryCompute, MemoryStacks
from vetro.stacks.model import Stack
from vetro.stacks.tables import resources

__all__ = ["world"]
ANEW = {"scheduler_hints": {"take": "2"}}
"""Another value of this makes a machine another one."""


async def made(world: World, **flavors: str) -> dict[str, Any]:
    """A stack with machines of these flavors, and what is recorded of it; the node has 6.8 GiB for them."""
    template = servers(**{name: {"name": name, "flavor": one} for name, one in flavors.items()})
    stack = await world.stacks.create(PROJECT, "env", template)
    assert stack.status is StackStatus.CREATE_COMPLETE, stack.reason
    world.node.tasks.clear()
    return await recorded(world)


def changes(world: World) -> list[str]:
    """What the node was told to do with machines since they were made."""
    return [one for one in world.node.tasks if one.startswith("machine_") and one != "machine_load"]


async def recorded(world: World) -> dict[str, Any]:
    """The rows of the stack's resources by name."""
    async with world.database.read() as tx:
        return {row.name: tuple(row) for row in await tx.execute(select(resources))}


async def updated(world: World, *may_lose: str, **of: dict[str, Any]) -> Stack:
    """The stack after an update to other machines."""
    lost = [f"machine {name}" for name in may_lose]
    found = await world.stacks.update(PROJECT, "env", servers(**of), may_lose=lost)
    assert found is not None
    return found


async def assert_unchanged(world: World, before: dict[str, Any], failed: Stack) -> None:
    """The update was refused before anything was done."""
    assert failed.status is StackStatus.UPDATE_FAILED
    assert "Nothing was changed" in failed.reason
    assert changes(world) == []
    assert await recorded(world) == before


@pytest.mark.parametrize("renamed", [False, True])
async def test_a_flavor_larger_than_any_node_costs_no_machine(world: World, renamed: bool) -> None:
    """Also when the machine that goes is another resource of the template; the next update goes on."""
    before = await made(world, web="m1.tiny")
    name = "web2" if renamed else "web"
    failed = await updated(world, "web", **{name: {"name": "web", "flavor": "m1.xlarge", **ANEW}})
    await assert_unchanged(world, before, failed)
    assert f"Resource '{name}' failed" in failed.reason
    assert "No node takes the machine web (8 GiB of memory, 8 cores): " in failed.reason
    assert NODE in failed.reason
    assert failed.failure is not None
    assert failed.failure.details
    done = await updated(world, web={"name": "web", "flavor": "m1.tiny"})
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason
    assert changes(world) == []


@pytest.mark.parametrize("renamed", [False, True])
async def test_a_machine_that_fits_because_the_old_one_goes_is_made(
    world: World, renamed: bool
) -> None:
    """The node has no room for both: what goes first is not counted."""
    await made(world, web="m1.large")
    [old] = world.node.vms
    name = "web2" if renamed else "web"
    done = await updated(world, "web", **{name: {"name": "web", "flavor": "m1.large", **ANEW}})
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason
    assert old not in world.node.vms
    assert len(world.node.vms) == 1


@pytest.mark.parametrize("second", ["web2", "other"])
async def test_two_machines_that_would_only_fit_singly_are_refused_together(
    world: World, second: str
) -> None:
    """Each takes its room before the other one, whether it replaces a machine or is new."""
    before = await made(world, web1="m1.small", web2="m1.small")
    wanted = {
        "web1": {"name": "web1", "flavor": "m1.large", **ANEW},
        second: {"name": second, "flavor": "m1.large", **ANEW},
    }
    await assert_unchanged(world, before, await updated(world, "web1", "web2", **wanted))
    wanted[second] = {"name": second, "flavor": "m1.small", **ANEW}
    done = await updated(world, "web1", "web2", **wanted)
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason


async def test_a_quota_that_the_new_machine_would_exceed_costs_no_machine(world: World) -> None:
    """What the old one holds is given back first, and is enough for one of the quota's size."""
    before = await made(world, web="m1.small")
    async with world.database.transaction() as tx:
        await world.service.quotas.change(tx, PROJECT, {"memory": 2048, "instances": 1})
    failed = await updated(world, "web", web={"name": "web", "flavor": "m1.large", **ANEW})
    await assert_unchanged(world, before, failed)
    assert "Quota exceeded for memory: 0 of 2048 MiB used, 4096 more requested" in failed.reason
    done = await updated(world, "web", web={"name": "web", "flavor": "m1.medium", **ANEW})
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason


async def test_a_replacement_that_turns_out_later_asks_for_room_as_well(world: World) -> None:
    """The machine's port is another one now, which is known when that is made: the machine stays."""

    def template(network: str, flavor: str) -> dict[str, Any]:
        port = {"networks": [{"port": {"get_resource": "port"}}], "name": "web", "flavor": flavor}
        found = servers(web=port)
        found["resources"] |= {
            "other": {"type": "OS::Neutron::Net"},
            "others": {
                "type": "OS::Neutron::Subnet",
                "properties": {"network": {"get_resource": "other"}, "cidr": "10.0.8.0/24"},
            },
            "port": {
                "type": "OS::Neutron::Port",
                "depends_on": ["sub", "others"],
                "properties": {"network": {"get_resource": network}},
            },
        }
        return found

    stack = await world.stacks.create(PROJECT, "env", template("net", "m1.tiny"))
    assert stack.status is StackStatus.CREATE_COMPLETE, stack.reason
    [vm] = world.node.vms
    failed = await world.stacks.update(PROJECT, "env", template("other", "m1.xlarge"))
    assert failed is not None
    assert failed.status is StackStatus.UPDATE_FAILED
    assert "The machine that is there was kept" in failed.reason
    assert [*world.node.vms] == [vm]


def grouped(policy: str, image: str, *names: str) -> dict[str, Any]:
    """A template with machines of one server group."""
    hints = {"group": {"get_resource": "group"}}
    of = {one: {"name": one, "image": image, "scheduler_hints": hints} for one in names}
    found = servers(**of)
    found["resources"]["group"] = {
        "type": "OS::Nova::ServerGroup",
        "properties": {"policies": [policy]},
    }
    return found


async def test_machines_of_a_group_are_looked_at_together() -> None:
    """A third one that has to be apart from two has no host of two, and the two are not replaced for it."""
    compute = MemoryCompute(hosts=2)
    stacks = MemoryStacks(compute=compute)
    await stacks.create(PROJECT, "env", grouped("anti-affinity", "debian", "a", "b"))
    there, lost = [*compute.server_list], ["machine a", "machine b"]
    assert len(there) == 2
    three = grouped("anti-affinity", "vetro-balancer", "a", "b", "c")
    failed = await stacks.update(PROJECT, "env", three, may_lose=lost)
    assert "No server meets the policy of the server group" in failed.reason
    assert [*compute.server_list] == there
    two = grouped("anti-affinity", "vetro-balancer", "a", "b")
    done = await stacks.update(PROJECT, "env", two, may_lose=lost)
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason


async def test_a_machine_need_not_be_near_one_that_goes() -> None:
    """All of a group that has to be together are replaced: where the former ones are says nothing."""
    stacks = MemoryStacks(compute=MemoryCompute(hosts=2))
    await stacks.create(PROJECT, "env", grouped("affinity", "debian", "a", "b"))
    wanted = grouped("affinity", "vetro-balancer", "a", "b")
    done = await stacks.update(PROJECT, "env", wanted, may_lose=["machine a", "machine b"])
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason


@dataclass
class Asked(MemoryCompute):
    """A compute service that notes what room it was asked for, and without what."""

    asked: list[tuple[ServerSpec, set[str]]] = field(default_factory=list[Any])

    async def would_place(
        self,
        spec: ServerSpec,
        *,
        without: Collection[str] = (),
        beside: Sequence[tuple[str, ServerSpec]] = (),
    ) -> str:
        self.asked.append((spec, {*without}))
        return await super().would_place(spec, without=without, beside=beside)


async def test_only_what_is_made_again_asks_for_room() -> None:
    """Not what keeps its machine, as its image is only written by its id, or is changed in place."""
    compute = Asked()
    stacks = MemoryStacks(compute=compute)
    await stacks.create(PROJECT, "env", servers(a={"name": "a"}, b={"name": "b"}, c={"name": "c"}))
    assert compute.asked == []
    by_id = compute.images["debian"].uuid
    wanted = servers(
        a={"name": "a", "image": by_id},
        b={"name": "b", "image": "vetro-balancer"},
        c={"name": "c", "flavor": "m1.small"},
    )
    there = {one.spec.name: uuid for uuid, one in compute.server_list.items()}
    done = await stacks.update(PROJECT, "env", wanted, may_lose=["machine b"])
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason
    assert {spec.name for spec, _ in compute.asked} == {"b"}
    assert all(without == {there["b"]} for _, without in compute.asked)
    assert there["b"] not in {spec.uuid for spec, _ in compute.asked}


async def test_a_machine_that_stays_as_retained_keeps_its_room() -> None:
    """It is not removed when its resource leaves, so nothing of it is free for another one."""
    compute = Asked()
    stacks = MemoryStacks(compute=compute)
    first = servers(a={"name": "a"}, b={"name": "b"})
    first["resources"]["a"]["deletion_policy"] = "Retain"
    await stacks.create(PROJECT, "env", first)
    there = {one.spec.name: uuid for uuid, one in compute.server_list.items()}
    compute.room = 2
    wanted = servers(c={"name": "c"}, d={"name": "d"})
    failed = await stacks.update(PROJECT, "env", wanted, may_lose=["machine b"])
    assert "No node takes the machine" in failed.reason
    assert [*compute.server_list] == [*there.values()]
    assert all(without == {there["b"]} for _, without in compute.asked)


async def test_the_volumes_of_a_machine_are_those_of_its_successor() -> None:
    """It is asked for where they are."""
    compute = Asked()
    stacks = MemoryStacks(compute=compute)

    def template(image: str) -> dict[str, Any]:
        found = servers(web={"name": "web", "image": image})
        found["resources"] |= {
            "disk": {"type": "OS::Cinder::Volume", "properties": {"size": 1}},
            "held": {
                "type": "OS::Cinder::VolumeAttachment",
                "properties": {
                    "instance_uuid": {"get_resource": "web"},
                    "volume_id": {"get_resource": "disk"},
                },
            },
        }
        return found

    await stacks.create(PROJECT, "env", template("debian"))
    done = await stacks.update(PROJECT, "env", template("vetro-balancer"), may_lose=["machine web"])
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason
    assert [list(spec.later_volumes) for spec, _ in compute.asked] == [[*compute.volume_list]] * 2
