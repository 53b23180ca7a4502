"""What goes with a machine that is made again: its volumes, its deployments, changes of it, its data."""

from __future__ import annotations

from typing import Any

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
