"""What was in a machine that is made again, because it was lost or anew from its image, comes back."""

from __future__ import annotations

from typing import Any

import pytest
from tests.stacks.test_resource_types import SERVER, VOLUME, attachment

from vetro.compute.client.calls import VOLUMES
from vetro.stacks import DEFAULT_FLAVORS, ChangeKind, LossRefused, ResourceFailure, StackStatus
from vetro.stacks.memory import MemoryStacks

PROJECT = "p"


def template(flavor: str = "m1.small") -> dict[str, Any]:
    """A machine with a volume and a deployment, which prints."""
    server = {
        **SERVER["vm"]["properties"],
        "flavor": flavor,
        "user_data_format": "SOFTWARE_CONFIG",
    }
    return {
        "resources": {
            **SERVER,
            **VOLUME,
            "vm": {**SERVER["vm"], "properties": server},
            "a": attachment({"get_resource": "v"}, "vm"),
            "c": {"type": "OS::Heat::SoftwareConfig", "properties": {"config": "x"}},
            "d": {"type": "OS::Heat::SoftwareDeployment", "properties": {
                "config": {"get_resource": "c"}, "server": {"get_resource": "vm"},
                "actions": ["CREATE"]}},
        },
        "outputs": {"o": {"value": {"get_attr": ["d", "deploy_stdout"]}}},
    }  # fmt: skip


async def made(stacks: MemoryStacks) -> str:
    """The stack is created; the id of its machine."""
    stack = await stacks.create(PROJECT, "s", template())
    assert stack.status is StackStatus.CREATE_COMPLETE, stack.reason
    return stack.resources["vm"].physical_id


def lost(stacks: MemoryStacks, vm: str) -> None:
    """The node has lost the machine; its volumes are free."""
    stacks.compute.server_list[vm].state = "missing"
    for volume in stacks.compute.volume_list.values():
        volume.vm_uuid = None


async def test_what_was_in_a_machine_is_there_again() -> None:
    """Its volume is attached, its deployment carried out once more, its size changed."""
    stacks = MemoryStacks()
    vm = await made(stacks)
    lost(stacks, vm)
    plan = await stacks.plan(PROJECT, "s", template())
    told = {one.resource: one.kind for one in plan.changes if one.kind is not ChangeKind.KEEP}
    assert told == {"vm": ChangeKind.UPDATE, "a": ChangeKind.UPDATE}
    done = await stacks.update(PROJECT, "s", template("m1.medium"), may_lose=[])
    assert (done.status, done.reason) == (StackStatus.UPDATE_COMPLETE, "")
    assert len(done.warnings) == 1
    assert stacks.compute.server_list[vm].state == "running"
    assert stacks.compute.server_list[vm].spec.memory == DEFAULT_FLAVORS["m1.medium"].memory
    [volume] = await stacks.compute.all(VOLUMES, PROJECT)
    assert volume.vm_uuid == vm
    assert len(stacks.guests.ran) == 2
    assert done.outputs["o"].startswith("ran ")
    again = await stacks.update(PROJECT, "s", template("m1.medium"))
    assert (again.warnings, len(stacks.guests.ran)) == ([], 2)


async def test_a_machine_that_cannot_be_made_again_fails_each_operation_until_it_can() -> None:
    """Also when the operation was interrupted between the machine and what is in it."""
    stacks = MemoryStacks()
    vm = await made(stacks)
    lost(stacks, vm)
    for call in ("place", "create_server", "attach_volume"):
        stacks.compute.fail = {call: ResourceFailure("no room")}
        failed = await stacks.update(PROJECT, "s", template())
        assert failed.status is StackStatus.UPDATE_FAILED
        assert "no room" in failed.reason
    stacks.compute.fail = {}
    done = await stacks.update(PROJECT, "s", template())
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason
    [volume] = await stacks.compute.all(VOLUMES, PROJECT)
    assert (volume.vm_uuid, len(stacks.guests.ran)) == (vm, 2)


async def test_a_machine_of_which_nothing_is_known_is_left_alone() -> None:
    """The operation fails; nothing in it is done once more when its node is back."""
    stacks = MemoryStacks()
    vm = await made(stacks)
    stacks.compute.server_list[vm].state = "unknown"
    stacks.compute.calls.clear()
    assert await stacks.lost(PROJECT, "s") == []
    assert await stacks.altered(PROJECT, "s") == ["vm"]
    failed = await stacks.update(PROJECT, "s", template())
    assert (failed.status, "is silent" in failed.reason) == (StackStatus.UPDATE_FAILED, True)
    stacks.compute.server_list[vm].state = "running"
    assert (await stacks.update(PROJECT, "s", template())).status is StackStatus.UPDATE_COMPLETE
    assert stacks.compute.calls == []
    assert len(stacks.guests.ran) == 1


async def test_what_is_missing_already_is_no_loss() -> None:
    """Removing a stack asks for the machines that are there, and for volumes."""
    stacks = MemoryStacks()
    lost(stacks, await made(stacks))
    try:
        await stacks.delete(PROJECT, "s", may_lose=[])
    except LossRefused as refused:
        assert [one.kind for one in refused.losses] == ["volume"]
    assert await stacks.delete(PROJECT, "s") is None


def ref(name: str) -> dict[str, str]:
    """``get_resource``."""
    return {"get_resource": name}


def deployed(type_: str, **more: Any) -> dict[str, Any]:
    """A server with a configuration that is carried out in it."""
    kind = "Structured" if "Structured" in type_ else "Software"
    config = {"a": 1} if kind == "Structured" else "true"
    properties = {**SERVER["vm"]["properties"], "user_data_format": "SOFTWARE_CONFIG"}
    return {
        **SERVER,
        "vm": {**SERVER["vm"], "properties": properties},
        "c": {"type": f"OS::Heat::{kind}Config", "properties": {"config": config}},
        "d": {"type": type_, "properties": {"config": ref("c"), "server": ref("vm"), **more}},
    }


BALANCED = {
    **SERVER,
    "pool": {
        "type": "OS::Neutron::Pool",
        "properties": {
            "protocol": "HTTP", "subnet": ref("sub"), "lb_method": "ROUND_ROBIN",
            "vip": {"protocol_port": 80},
        },
    },
    "members": {
        "type": "OS::Neutron::LoadBalancer",
        "properties": {"pool_id": ref("pool"), "protocol_port": 80, "members": [ref("vm")]},
    },
}  # fmt: skip
SOFTWARE = "OS::Heat::SoftwareDeployment"
#: What a stack has, and how many plans run on the server that is made anew.
STACKS = [
    (deployed(SOFTWARE), 1),
    (deployed("OS::Heat::StructuredDeployment"), 1),
    (deployed(SOFTWARE, actions=["CREATE"]), 1),
    (deployed(SOFTWARE, actions=["UPDATE"]), 0),
    (deployed(SOFTWARE, signal_transport="NO_SIGNAL"), 1),
    (BALANCED, 1),
]


@pytest.mark.parametrize(("resources", "runs"), STACKS)
async def test_what_was_carried_out_is_carried_out_again(
    resources: dict[str, Any], runs: int
) -> None:
    """Once, by a plan of its own; not when nothing happened, and again when it has failed."""
    stacks = MemoryStacks()
    template = {"heat_template_version": "2013-05-23", "resources": resources}
    made = await stacks.create(PROJECT, "s", template)
    assert made.status is StackStatus.CREATE_COMPLETE, made.reason
    assert await stacks.altered(PROJECT, "s") == []
    ran = stacks.guests.ran
    count = len(ran)
    for uuid in stacks.compute.server_list:
        stacks.compute.disks[uuid] += 1  # made anew from its image
    assert len(await stacks.altered(PROJECT, "s")) == 1
    good = stacks.guests.answer

    async def bad(server: str, plan: dict[str, Any]) -> Any:
        return {**await good(server, plan), "deploy_status_code": 1}

    waits = runs and "signal_transport" not in str(resources)
    if waits:
        stacks.guests.answer = bad
        failed = await stacks.update(PROJECT, "s", template)
        assert (failed.status, len(ran)) == (StackStatus.UPDATE_FAILED, count + 1)
        stacks.guests.answer = good
    done = await stacks.update(PROJECT, "s", template)
    assert done.status is StackStatus.UPDATE_COMPLETE, done.reason
    assert len(ran) == count + runs + (1 if waits else 0)
    assert await stacks.altered(PROJECT, "s") == []
    await stacks.update(PROJECT, "s", template)
    assert len(ran) == count + runs + (1 if waits else 0)
