"""Stacks from create to delete (core-library.md §9, §9.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.clouds import is_empty
from tests.stacks.conftest import PROJECT
from tests.waiting import eventually

from vetro.stacks import (
    ChangeKind,
    PlacementFailure,
    ResourceFailure,
    StackBusy,
    StackEngine,
    StackExists,
    StackNotFound,
    StackStatus,
    TemplateError,
)
from vetro.stacks.memory import MemoryCompute

WEB = "web.0 x"


async def test_an_application_stack_from_create_to_delete(
    stacks: StackEngine, compute: MemoryCompute, application_template: Any
) -> None:
    """Everything is made in order, outputs say what it is, and delete leaves nothing."""
    stack = await stacks.create(PROJECT, "env", application_template(), tags=["murano"])
    assert (stack.status, stack.reason) == (StackStatus.CREATE_COMPLETE, "")
    [server] = compute.server_list.values()
    assert stack.outputs[f"{WEB}-id"] == server.spec.uuid
    assert [one["addr"] for one in stack.outputs[f"addresses-{WEB}"]] == ["10.0.7.2", "192.0.2.1"]
    assert stack.outputs[f"{WEB}-floating"] == "192.0.2.1"
    assert stack.outputs["network-id"] in compute.network_list
    assert server.spec.hostname == "web-0-x"
    assert (server.spec.memory, server.spec.cpu) == (512, 100)
    user_data = server.spec.customer_metadata["user-data"]
    assert "#cloud-config" in user_data
    assert "echo 0" in user_data
    [port] = compute.port_list.values()
    [group] = compute.group_list
    assert port.security_groups == [group]
    rules = compute.group_list[group].rules
    assert rules[2]["remote_group_id"] == group
    assert [rule["direction"] for rule in rules] == [
        *(["ingress"] * 3),
        *(["egress"] * 2),
    ]
    assert compute.tickets == {}
    assert await stacks.delete(PROJECT, "env") is None
    assert is_empty(compute)
    assert await stacks.get(PROJECT, "env") is None
    assert await stacks.delete(PROJECT, "env") is None


async def test_an_unchanged_template_touches_nothing(
    stacks: StackEngine, compute: MemoryCompute, application_template: Any
) -> None:
    """The same template again makes no call, but a new update time."""
    before = await stacks.create(PROJECT, "env", application_template(2))
    compute.calls.clear()
    plan = await stacks.plan(PROJECT, "env", application_template(2))
    assert plan.exists
    assert plan.empty
    after = await stacks.update(PROJECT, "env", application_template(2))
    assert after.status is StackStatus.UPDATE_COMPLETE
    assert compute.calls == []
    assert after.outputs == before.outputs
    assert after.updated is not None
    assert before.updated is not None
    assert after.updated > before.updated


async def test_servers_come_and_go_with_the_template(
    stacks: StackEngine, compute: MemoryCompute, application_template: Any
) -> None:
    """Growing adds, shrinking removes exactly what was added; the rest is not touched."""
    await stacks.create(PROJECT, "env", application_template(1))
    first = set(compute.server_list)
    grown = await stacks.update(PROJECT, "env", application_template(3))
    assert grown.status is StackStatus.UPDATE_COMPLETE
    assert len(compute.server_list) == 3
    plan = await stacks.plan(PROJECT, "env", application_template(1))
    assert {c.kind for c in plan.changes} == {ChangeKind.KEEP, ChangeKind.DELETE}
    await stacks.update(PROJECT, "env", application_template(1))
    assert set(compute.server_list) == first
    assert len(compute.port_list) == 1


async def test_changes_in_place_keep_the_server(
    stacks: StackEngine, compute: MemoryCompute, application_template: Any
) -> None:
    """Name, metadata and flavor change the server that is there."""
    await stacks.create(PROJECT, "env", application_template())
    [uuid] = compute.server_list
    template = application_template(1, metadata={"role": "db"}, flavor="m1.small")
    plan = await stacks.plan(PROJECT, "env", template)
    [change] = [one for one in plan.changes if one.kind is not ChangeKind.KEEP]
    assert (change.resource, change.kind) == (WEB, ChangeKind.UPDATE)
    assert change.properties == ("flavor", "metadata")
    assert (await stacks.update(PROJECT, "env", template)).status is StackStatus.UPDATE_COMPLETE
    assert compute.server_list[uuid].spec.metadata == {"role": "db"}
    assert compute.server_list[uuid].spec.memory == 1024


async def test_a_new_network_replaces_what_stands_on_it(
    stacks: StackEngine, compute: MemoryCompute, application_template: Any
) -> None:
    """A changed range replaces subnet, interface, port and server, and nothing old stays."""
    await stacks.create(PROJECT, "env", application_template())
    old = set(compute.server_list)
    template = application_template()
    template["resources"]["subnet-1"]["properties"]["cidr"] = "10.0.8.0/24"
    plan = await stacks.plan(PROJECT, "env", template)
    kinds = {one.resource: one.kind for one in plan.changes}
    assert kinds["network-1"] is ChangeKind.KEEP
    for name in ("subnet-1", "ri-1", f"port-{WEB}", WEB):
        assert kinds[name] is ChangeKind.REPLACE, name
    assert kinds[f"fip-{WEB}"] is ChangeKind.UPDATE
    stack = await stacks.update(PROJECT, "env", template)
    assert (stack.status, stack.reason) == (StackStatus.UPDATE_COMPLETE, "")
    assert stack.outputs[f"addresses-{WEB}"][0]["addr"] == "10.0.8.2"
    assert not old & set(compute.server_list)
    assert len(compute.server_list) == len(compute.port_list) == len(compute.subnet_list) == 1
    await stacks.delete(PROJECT, "env")
    assert is_empty(compute)


async def test_a_server_keeps_the_user_data_of_its_first_start(
    stacks: StackEngine, compute: MemoryCompute, application_template: Any
) -> None:
    """A changed boot script keeps the server, which has read it; a preview says so, and the next server
    gets the new one."""
    await stacks.create(PROJECT, "env", application_template())
    [server] = compute.server_list
    [port] = compute.port_list
    template = application_template()
    script = template["resources"][f"boot_script_{WEB}"]
    script["properties"]["config"] = "#!/bin/sh\necho other\n"
    plan = await stacks.plan(PROJECT, "env", template)
    said = {one.resource: (one.kind, one.reason) for one in plan.changes}
    assert said[WEB] == (ChangeKind.KEEP, "user_data: read at the first start only")
    for _ in range(2):
        stack = await stacks.update(PROJECT, "env", template)
        assert (stack.status, stack.reason) == (StackStatus.UPDATE_COMPLETE, "")
        assert list(compute.server_list) == [server]
        assert "echo 0" in compute.server_list[server].spec.customer_metadata["user-data"]
    template["resources"][WEB]["properties"]["image"] = "vetro-balancer"
    await stacks.update(PROJECT, "env", template)
    [new] = compute.server_list
    assert new != server
    assert list(compute.port_list) == [port]
    assert "echo other" in compute.server_list[new].spec.customer_metadata["user-data"]


async def test_other_user_data_is_another_server_where_the_template_says_so(
    stacks: StackEngine, compute: MemoryCompute, application_template: Any
) -> None:
    """With the policy REPLACE; the port stays, with its address."""
    template = application_template()
    template["resources"][WEB]["properties"]["user_data_update_policy"] = "REPLACE"
    await stacks.create(PROJECT, "env", template)
    [old] = compute.server_list
    [port] = compute.port_list
    template["resources"][WEB]["properties"]["user_data"] = "#!/bin/sh\necho other\n"
    stack = await stacks.update(PROJECT, "env", template)
    assert (stack.status, stack.reason) == (StackStatus.UPDATE_COMPLETE, "")
    [new] = compute.server_list
    assert new != old
    assert list(compute.port_list) == [port]
    assert "echo other" in compute.server_list[new].spec.customer_metadata["user-data"]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"user_data": "#!/bin/sh\n"}, {"user_data": "#!/bin/sh\n:\n"}),
        ({}, {"user_data": "#!/bin/sh\n"}),
        ({"user_data": "#!/bin/sh\n"}, {}),
        ({"user_data_format": "RAW"}, {"user_data_format": "HEAT_CFNTOOLS"}),
        (
            {"user_data": "#!/bin/sh\n"},
            {"user_data": "#!/bin/sh\n:\n", "name": "other", "metadata": {"a": "b"}},
        ),
        ({"user_data": "#!/bin/sh\n"}, {"user_data": "x", "user_data_update_policy": "IGNORE"}),
    ],
)
async def test_what_is_read_at_the_first_start_only_never_replaces(
    stacks: StackEngine,
    compute: MemoryCompute,
    application_template: Any,
    first: dict[str, str],
    then: dict[str, str],
) -> None:
    """However it changes, alone or beside what is changed in place, and after a change that failed."""

    def template(of: dict[str, str]) -> Any:
        made = application_template()
        kept = made["resources"][WEB]["properties"]
        for key in ("user_data", "user_data_format"):
            kept.pop(key)
        kept.update(of)
        return made

    await stacks.create(PROJECT, "env", template(first))
    [server] = compute.server_list
    for wanted in (then, first, then):
        stack = await stacks.update(PROJECT, "env", template(wanted))
        assert (stack.status, stack.reason) == (StackStatus.UPDATE_COMPLETE, "")
        assert list(compute.server_list) == [server]


async def test_no_room_names_resource_and_reasons(
    stacks: StackEngine, compute: MemoryCompute, application_template: Any
) -> None:
    """The stack's reason has the failure of the allocation, and a later update succeeds."""
    compute.room = 0
    stack = await stacks.create(PROJECT, "env", application_template())
    assert stack.status is StackStatus.CREATE_FAILED
    assert stack.reason == f"Resource '{WEB}' failed: No server has enough free resources"
    assert stack.resources[WEB].status is StackStatus.CREATE_FAILED
    compute.room = 5
    stack = await stacks.update(PROJECT, "env", application_template())
    assert (stack.status, stack.reason) == (StackStatus.UPDATE_COMPLETE, "")
    assert len(compute.server_list) == 1
    await stacks.delete(PROJECT, "env")
    assert is_empty(compute)


async def test_a_missing_image_names_it(
    stacks: StackEngine, compute: MemoryCompute, application_template: Any
) -> None:
    """An image that does not exist is in the reason; nothing is left after delete."""
    stack = await stacks.create(PROJECT, "env", application_template(1, image="absent"))
    assert stack.status is StackStatus.CREATE_FAILED
    assert "There is no image 'absent'" in stack.reason
    await stacks.delete(PROJECT, "env")
    assert is_empty(compute)


async def test_rollback_of_a_create_leaves_nothing(
    stacks: StackEngine, compute: MemoryCompute, application_template: Any
) -> None:
    """With rollback a failed create removes what it made and keeps the reason."""
    compute.fail["create_server"] = ResourceFailure("the node is on fire")
    stack = await stacks.create(PROJECT, "env", application_template(), rollback=True)
    assert stack.status is StackStatus.ROLLBACK_COMPLETE
    assert "the node is on fire" in stack.reason
    assert is_empty(compute)
    assert stack.resources == {}


async def test_rollback_of_an_update_goes_back(
    stacks: StackEngine, compute: MemoryCompute, application_template: Any
) -> None:
    """With rollback a failed update returns to the former template."""
    await stacks.create(PROJECT, "env", application_template(1))
    before = set(compute.server_list)
    compute.room = 1
    stack = await stacks.update(PROJECT, "env", application_template(3), rollback=True)
    assert stack.status is StackStatus.ROLLBACK_COMPLETE
    assert "No server has enough free resources" in stack.reason
    assert set(compute.server_list) == before
    assert len(compute.port_list) == 1
    assert (await stacks.plan(PROJECT, "env", application_template(1))).empty


async def test_an_unexpected_error_is_a_reason_too(
    stacks: StackEngine, compute: MemoryCompute, application_template: Any
) -> None:
    """Any exception of a resource fails the stack with its type and text."""
    compute.fail["create_network"] = ConnectionError("reset by peer")
    stack = await stacks.create(PROJECT, "env", application_template())
    assert stack.status is StackStatus.CREATE_FAILED
    assert stack.reason == "Resource 'network-1' failed: ConnectionError: reset by peer"


async def test_a_delete_that_fails_can_be_repeated(
    stacks: StackEngine, compute: MemoryCompute, application_template: Any
) -> None:
    """DELETE_FAILED names what stays; the next delete finishes."""
    await stacks.create(PROJECT, "env", application_template())
    compute.fail["delete_server"] = ResourceFailure("the node does not answer")
    stack = await stacks.delete(PROJECT, "env")
    assert stack is not None
    assert stack.status is StackStatus.DELETE_FAILED
    assert WEB in stack.reason
    assert "the node does not answer" in stack.reason
    compute.fail.clear()
    assert await stacks.delete(PROJECT, "env") is None
    assert is_empty(compute)


async def test_a_timeout_says_what_was_waited_on(
    stacks: StackEngine, compute: MemoryCompute, application_template: Any
) -> None:
    """An operation over its time fails with the resources it waited on, and can be removed."""
    never = asyncio.Event()

    async def hang(*_args: Any, **_named: Any) -> None:
        await never.wait()

    # The first thing of all: however slow the machine, it has come that far.
    compute.create = hang  # type: ignore[method-assign]
    stack = await stacks.create(PROJECT, "env", application_template(), timeout=0.3)
    assert stack.status is StackStatus.CREATE_FAILED
    assert "did not finish within 0.3 s" in stack.reason
    assert "network-1: being created" in stack.reason
    await stacks.delete(PROJECT, "env")
    assert is_empty(compute)


async def test_progress_and_waiting_on_are_told(
    stacks: StackEngine, compute: MemoryCompute, application_template: Any
) -> None:
    """While an operation runs, callback and stack say what it waits on; afterwards nothing."""
    said: list[str] = []
    gate, there = asyncio.Event(), asyncio.Event()

    async def wait_turn(*_args: Any) -> None:
        there.set()
        await gate.wait()

    compute.wait_turn = wait_turn  # type: ignore[method-assign]
    creating = asyncio.create_task(
        stacks.create(PROJECT, "env", application_template(), progress=said.append)
    )
    await there.wait()

    async def only_its_turn() -> bool:
        stack = await stacks.get(PROJECT, "env")
        assert stack is not None
        assert stack.status is StackStatus.CREATE_IN_PROGRESS
        # What the other resources wait on is said beside it, until they are there.
        return stack.waiting_on == f"{WEB}: waiting for its turn on host-1"

    await eventually(only_its_turn)
    gate.set()
    stack = await creating
    assert stack.waiting_on is None
    assert any("a server with enough free resources" in text for text in said)
    assert said[-1] == ""


async def test_a_stack_that_waits_for_an_image_says_how_far_it_is(
    stacks: StackEngine, compute: MemoryCompute, application_template: Any
) -> None:
    """Image and node from the first moment, percents as soon as they are known."""
    steps = [asyncio.Event() for _ in range(3)]
    images: list[str] = []

    async def ensure_image(_placement: Any, image: Any, say: Callable[[int], None]) -> None:
        images.append(image.name)
        for step, percent in zip(steps, (40, 90, None), strict=True):
            await step.wait()
            if percent is not None:
                say(percent)

    compute.ensure_image = ensure_image  # type: ignore[method-assign]
    creating = asyncio.create_task(stacks.create(PROJECT, "env", application_template()))
    for step, percents in zip(steps, ("", ": 40 %", ": 90 %"), strict=True):

        async def said(percents: str = percents) -> bool:
            assert not creating.done()
            stack = await stacks.get(PROJECT, "env")
            waits = stack.waiting_on if stack is not None else None
            wanted = [
                f"{WEB}: waiting for the image {image} on host-1{percents}" for image in images
            ]
            return waits in wanted

        await eventually(said)
        step.set()
    assert (await creating).waiting_on is None


async def test_independent_servers_are_made_side_by_side(
    stacks: StackEngine, compute: MemoryCompute, application_template: Any
) -> None:
    """Ten servers are under way at once."""
    started = 0
    gate = asyncio.Event()

    async def ensure_image(*_args: Any) -> None:
        nonlocal started
        started += 1
        if started == 10:
            gate.set()
        await gate.wait()

    compute.ensure_image = ensure_image  # type: ignore[method-assign]
    stack = await asyncio.wait_for(
        stacks.create(PROJECT, "env", application_template(10)), timeout=60
    )
    assert stack.status is StackStatus.CREATE_COMPLETE


async def test_two_operations_do_not_meet(
    stacks: StackEngine,
    make_stacks: Callable[[], StackEngine],
    compute: MemoryCompute,
    application_template: Any,
) -> None:
    """While one works, create, update and delete of the same stack are refused."""
    gate, there = asyncio.Event(), asyncio.Event()

    async def wait_turn(*_args: Any) -> None:
        there.set()
        await gate.wait()

    compute.wait_turn = wait_turn  # type: ignore[method-assign]
    creating = asyncio.create_task(stacks.create(PROJECT, "env", application_template()))
    await there.wait()
    other = make_stacks()
    with pytest.raises(StackExists):
        await other.create(PROJECT, "env", application_template())
    with pytest.raises(StackBusy, match="CREATE_IN_PROGRESS"):
        await other.update(PROJECT, "env", application_template(2))
    with pytest.raises(StackBusy):
        await other.delete(PROJECT, "env")
    gate.set()
    assert (await creating).status is StackStatus.CREATE_COMPLETE


async def test_projects_do_not_see_each_other(
    stacks: StackEngine, application_template: Any
) -> None:
    """The same name in another project is another stack."""
    await stacks.create(PROJECT, "env", application_template())
    assert await stacks.get("other", "env") is None
    with pytest.raises(StackNotFound):
        await stacks.update("other", "env", application_template())
    assert await stacks.delete("other", "env") is None
    assert await stacks.get(PROJECT, "env") is not None


@pytest.mark.parametrize("user_data", [None, "#!/bin/sh\necho x\n", {"get_resource": "mime"}])
async def test_a_key_pair_gets_into_the_server(
    stacks: StackEngine, compute: MemoryCompute, application_template: Any, user_data: Any
) -> None:
    """A generated key: its private half is an attribute, its public half is in the user data."""
    template = application_template(0)
    template["resources"] |= {
        "key": {
            "type": "OS::Nova::KeyPair",
            "properties": {"name": "ann", "save_private_key": True},
        },
        "mime": {
            "type": "OS::Heat::MultipartMime",
            "properties": {"parts": [{"config": "#!/bin/sh\necho x\n"}]},
        },
        "server": {
            "type": "OS::Nova::Server",
            "depends_on": "subnet-1",
            "properties": {
                "flavor": "m1.nano",
                "image": "debian",
                "key_name": {"get_resource": "key"},
                "user_data": user_data,
                "security_groups": [{"get_resource": "group"}],
            },
        },
    }
    template["outputs"]["private"] = {"value": {"get_attr": ["key", "private_key"]}}
    template["outputs"]["public"] = {"value": {"get_attr": ["key", "public_key"]}}
    stack = await stacks.create(PROJECT, "env", template)
    assert (stack.status, stack.reason) == (StackStatus.CREATE_COMPLETE, "")
    assert "PRIVATE KEY" in stack.outputs["private"]
    [server] = compute.server_list.values()
    assert stack.outputs["public"] in server.spec.customer_metadata["user-data"]
    assert ("echo x" in server.spec.customer_metadata["user-data"]) == bool(user_data)
    [port] = compute.port_list.values()
    assert port.security_groups == list(compute.group_list)
    assert (await stacks.plan(PROJECT, "env", template)).empty
    assert await stacks.delete(PROJECT, "env") is None
    assert is_empty(compute)


async def test_the_cfn_forms_of_old_packages(stacks: StackEngine, compute: MemoryCompute) -> None:
    """EC2 instances and groups on Neutron ports, nova addresses, one-element list outputs."""
    template = {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Parameters": {"Flavor": {"Type": "String", "Default": "m1.tiny"}},
        "Resources": {
            "net": {"Type": "OS::Neutron::Net"},
            "subnet": {
                "Type": "OS::Neutron::Subnet",
                "Properties": {"network_id": {"Ref": "net"}, "cidr": "10.0.1.0/24"},
            },
            "group": {
                "Type": "AWS::EC2::SecurityGroup",
                "Properties": {
                    "GroupDescription": "old",
                    "SecurityGroupIngress": [
                        {"FromPort": "-1", "ToPort": "-1", "IpProtocol": "icmp"},
                        {
                            "FromPort": "80",
                            "ToPort": "80",
                            "IpProtocol": "tcp",
                            "CidrIp": "0.0.0.0/0",
                        },
                    ],
                },
            },
            "port": {
                "Type": "OS::Neutron::Port",
                "Properties": {
                    "network_id": {"Ref": "net"},
                    "fixed_ips": [{"subnet_id": {"Ref": "subnet"}}],
                    "security_groups": [{"Ref": "group"}],
                },
            },
            "vm": {
                "Type": "AWS::EC2::Instance",
                "Properties": {
                    "InstanceType": {"Ref": "Flavor"},
                    "ImageId": "debian",
                    "KeyName": None,
                    "UserData": {"Fn::Base64": "#!/bin/sh\n"},
                    "NetworkInterfaces": [{"Ref": "port"}],
                },
            },
            "fip": {"Type": "OS::Nova::FloatingIP"},
            "association": {
                "Type": "OS::Nova::FloatingIPAssociation",
                "Properties": {"floating_ip": {"Ref": "fip"}, "server_id": {"Ref": "vm"}},
            },
        },
        "Outputs": {
            "vm-PublicIp": {"Value": [{"Fn::GetAtt": ["vm", "PrivateIp"]}]},
            "ip": {"Value": {"Fn::GetAtt": ["fip", "ip"]}},
        },
    }
    stack = await stacks.create(PROJECT, "old", template)
    assert (stack.status, stack.reason) == (StackStatus.CREATE_COMPLETE, "")
    assert stack.outputs == {"vm-PublicIp": ["10.0.1.2"], "ip": "192.0.2.1"}
    [floating] = compute.floating_list.values()
    assert floating.fixed_ip == "10.0.1.2"
    [server] = compute.server_list.values()
    assert server.spec.customer_metadata["user-data"] == "#!/bin/sh\n"
    [group] = compute.group_list.values()
    assert group.rules[0]["port_range_min"] is None
    assert group.rules[1]["port_range_min"] == 80
    assert (await stacks.plan(PROJECT, "old", template)).empty
    assert await stacks.delete(PROJECT, "old") is None
    assert is_empty(compute)


BAD = [
    ({"a": {"type": "OS::Cinder::Volume", "properties": {"size": 1}}}, "'a'.*OS::Cinder::Volume"),
    ({"a": {"type": "OS::Neutron::Prot"}}, "'a'.*did you mean OS::Neutron::Port"),
    ({"a": {"properties": {}}}, "'a': it has no type"),
    ({"a": {"type": "OS::Neutron::Net", "properties": {"nmae": "x"}}}, "did you mean 'name'"),
    ({"a": {"type": "OS::Neutron::Subnet", "properties": {"cidr": "10.0.0.0/24"}}}, "'a'.*network"),
    (
        {
            "a": {
                "type": "OS::Neutron::Subnet",
                "properties": {"network": "n", "cidr": "10.0.0.1/24"},
            }
        },
        "'a'.*host bits",
    ),
    (
        {"a": {"type": "OS::Neutron::Net", "properties": {"name": {"get_resource": "b"}}}},
        "'a'.*no resource 'b'",
    ),
    (
        {"a": {"type": "OS::Neutron::Net", "properties": {"name": {"get_param": "p"}}}},
        "'a'.*no parameter 'p'",
    ),
    (
        {
            "a": {"type": "OS::Neutron::Net"},
            "b": {
                "type": "OS::Neutron::Net",
                "properties": {"name": {"get_attr": ["a", "colour"]}},
            },
        },
        "no attribute 'colour'",
    ),
    (
        {
            "a": {"type": "OS::Neutron::Net", "depends_on": "b"},
            "b": {"type": "OS::Neutron::Net", "properties": {"name": {"get_resource": "a"}}},
        },
        "dependencies: a → b → a",
    ),
    ({"a": {"type": "OS::Neutron::Net", "depends_on": ["c"]}}, "'a'.*depends on 'c'"),
    ({"a": {"type": "OS::Neutron::Net", "properties": []}}, "'a'.*not a map"),
    ({"a": []}, "'a'.*not a map"),
    (
        {
            "a": {
                "type": "OS::Nova::Server",
                "properties": {
                    "flavor": "m1.tiny",
                    "image": "i",
                    "block_device_mapping_v2": [{"volume_id": "v"}],
                },
            }
        },
        "'a'.*block storage",
    ),
]


@pytest.mark.parametrize(("resources", "said"), BAD)
async def test_bad_templates_change_nothing(
    stacks: StackEngine, compute: MemoryCompute, resources: dict[str, Any], said: str
) -> None:
    """A template that cannot work is refused by name before anything is touched."""
    compute.offers = frozenset()
    template = {"heat_template_version": "2013-05-23", "resources": resources}
    with pytest.raises(TemplateError, match=said):
        await stacks.create(PROJECT, "env", template)
    with pytest.raises(TemplateError, match=said):
        await stacks.plan(PROJECT, "env", template)
    assert compute.calls == []
    assert await stacks.get(PROJECT, "env") is None


async def test_placement_failures_keep_their_steps() -> None:
    """The allocator's steps travel with the exception."""
    error = PlacementFailure("No server has enough free resources", details=[{"step": "x"}])
    assert error.details == [{"step": "x"}]


async def test_lost_servers_are_named(
    stacks: StackEngine, compute: MemoryCompute, application_template: Any
) -> None:
    """Those that somebody stopped or removed; a stack that is not there has none."""
    await stacks.create(PROJECT, "s", application_template(servers=3))
    assert await stacks.lost(PROJECT, "s") == []
    named = {one.spec.name: key for key, one in compute.server_list.items()}
    first, second, _ = sorted(named)
    del compute.server_list[named[first]]
    compute.server_list[named[second]].state = "stopped"
    assert len(await stacks.lost(PROJECT, "s")) == 2
    assert await stacks.lost(PROJECT, "absent") == []
