"""Wait conditions on every cloud: successes, failures and time-outs, by the handle's address."""

from __future__ import annotations

import asyncio
import json
from email import message_from_string
from typing import Any, cast

import pytest
from tests.waiting import eventually

from vetro.ipv6_door import over_ipv6
from vetro.stacks import StackStatus

pytestmark = pytest.mark.asyncio(loop_scope="module")
Json = Any


def template(timeout: int = 60, count: int = 2) -> dict[str, Json]:
    """A handle with a condition, and outputs of both."""
    condition = {"handle": {"get_resource": "handle"}, "timeout": timeout, "count": count}
    return {
        "heat_template_version": "2013-05-23",
        "resources": {
            "handle": {"type": "OS::Heat::WaitConditionHandle"},
            "ready": {"type": "OS::Heat::WaitCondition", "properties": condition},
        },
        "outputs": {
            "command": {"value": {"get_attr": ["handle", "curl_cli"]}},
            "data": {"value": {"get_attr": ["ready", "data"]}},
        },
    }


async def address_of(cloud: Any, project: str) -> str:
    """The address of the handle of a stack that is being made."""

    async def found() -> str | None:
        row = await cloud.stacks._store.find(project, "s")
        rows = {one.name: one for one in row.resources} if row is not None else {}
        return rows["handle"].data.get("address") if "ready" in rows else None

    address = await eventually(found)
    assert address
    return address


async def test_a_condition_holds_after_its_signals(cloud: Any) -> None:
    """Signals are counted by their ids; their data is an attribute; repeating waits for nothing."""
    project = cloud.new_project()
    making = asyncio.create_task(cloud.stacks.create(project, "s", template()))
    address = await address_of(cloud, project)
    for number in ("1", "1", "2"):
        await cloud.signal(address, id=number, status="SUCCESS", data=f"data {number}")
    stack = await making
    assert (stack.status, stack.reason) == (StackStatus.CREATE_COMPLETE, "")
    assert json.loads(stack.outputs["data"]) == {"1": "data 1", "2": "data 2"}
    assert stack.outputs["command"].startswith("curl -i -X POST ")
    assert address in stack.outputs["command"]
    again = await cloud.stacks.update(project, "s", template())
    assert again.status is StackStatus.UPDATE_COMPLETE
    more = asyncio.create_task(cloud.stacks.update(project, "s", template(count=3)))
    await cloud.signal(address, id="3", status="SUCCESS")
    assert (await more).status is StackStatus.UPDATE_COMPLETE
    assert await cloud.stacks.delete(project, "s") is None


async def test_a_failure_is_reported_and_forgotten(cloud: Any) -> None:
    """The guest's reason fails the stack; the next deployment waits for new signals."""
    project = cloud.new_project()
    making = asyncio.create_task(cloud.stacks.create(project, "s", template(count=1)))
    address = await address_of(cloud, project)
    await cloud.signal(address, id="a", status="FAILURE", reason="no space left")
    stack = await making
    assert stack.status is StackStatus.CREATE_FAILED
    assert "no space left" in stack.reason
    again = asyncio.create_task(cloud.stacks.update(project, "s", template(count=1)))
    await cloud.signal(address, id="a", status="SUCCESS")
    assert (await again).status is StackStatus.UPDATE_COMPLETE
    assert await cloud.stacks.delete(project, "s") is None


async def test_a_condition_ends_with_its_time(cloud: Any) -> None:
    """The reason says how many signals have come, and in what time."""
    project = cloud.new_project()
    stack = await cloud.stacks.create(project, "s", template(timeout=1))
    assert stack.status is StackStatus.CREATE_FAILED
    assert "WaitConditionTimeout: 0 of 2 signals have come within 1 s" in stack.reason
    assert await cloud.stacks.delete(project, "s") is None


async def test_a_condition_is_given_up_with_its_stack(cloud: Any) -> None:
    """When something else fails, nobody waits for signals any longer."""
    wanted = template(timeout=3600)
    wanted["resources"]["vm"] = {
        "type": "OS::Nova::Server",
        "properties": {"flavor": "m1.nano", "image": "no such image"},
    }
    project = cloud.new_project()
    stack = await cloud.stacks.create(project, "s", wanted)
    assert stack.status is StackStatus.CREATE_FAILED
    assert "no such image" in stack.reason
    if "ready" in stack.resources:  # it had begun before the other failed
        assert "given up" in stack.resources["ready"].reason
    assert await cloud.stacks.delete(project, "s") is None


async def test_cfn_conditions_use_the_address_itself(cloud: Any) -> None:
    """`Ref` of CFN's handle is the address; its conditions have capital letters."""
    wanted: dict[str, Json] = {
        "Resources": {
            "handle": {"Type": "AWS::CloudFormation::WaitConditionHandle"},
            "ready": {
                "Type": "AWS::CloudFormation::WaitCondition",
                "Properties": {"Handle": {"Ref": "handle"}, "Timeout": "60"},
            },
        },
        "Outputs": {"url": {"Value": {"Ref": "handle"}}},
    }
    project = cloud.new_project()
    making = asyncio.create_task(cloud.stacks.create(project, "s", wanted))
    address = await address_of(cloud, project)
    await cloud.signal(address, id="a")
    stack = await making
    assert (stack.status, stack.outputs["url"]) == (StackStatus.CREATE_COMPLETE, address)
    assert await cloud.stacks.delete(project, "s") is None


async def test_a_guest_without_ipv4_finds_the_door(cloud: Any) -> None:
    """Its user data has the door's IPv6 address, encoded texts too; a container signals there for real."""
    project = cloud.new_project()
    number = int(cloud.subnet.split(".")[1])
    command = {
        "str_replace": {
            "template": "#!/bin/sh\n# größer\nCURL --data-binary '{}'\n",
            "params": {"CURL": {"get_attr": ["handle", "curl_cli"]}},
        }
    }

    def made(type_: str, /, **properties: Any) -> Json:
        return {"type": type_, "properties": properties}

    wanted = template(count=1)
    wanted["resources"] |= {
        "net": made("OS::Neutron::Net"),
        "sub": made(
            "OS::Neutron::Subnet", network={"get_resource": "net"}, ip_version=6,
            cidr=f"fd7e:9:{number:x}::/64",
        ),
        "script": made("OS::Heat::SoftwareConfig", config=command),
        "data": made("OS::Heat::MultipartMime", parts=[{"config": {"get_resource": "script"}}]),
        "vm": made(
            "OS::Nova::Server", flavor="m1.nano", image="debian", user_data_format="SOFTWARE_CONFIG",
            user_data={"get_resource": "data"}, networks=[{"subnet": {"get_resource": "sub"}}],
        ),
    }  # fmt: skip
    making = asyncio.create_task(cloud.stacks.create(project, "s", wanted))
    address = await address_of(cloud, project)
    door = over_ipv6(cloud.door)
    assert door is not None
    assert door.startswith("http://[64:ff9b:1::")

    async def running() -> str | None:
        row = await cloud.stacks._store.find(project, "s")
        found = [one for one in row.resources if one.name == "vm"]
        done = found and found[0].status is StackStatus.CREATE_COMPLETE
        return found[0].physical_id if done else None

    server = await eventually(running)
    texts: list[str] = [
        cast("bytes", part.get_payload(decode=True)).decode()
        for part in message_from_string(await cloud.user_data(server)).walk()
        if not part.is_multipart()
    ]
    there = address.replace(cloud.door, door)
    assert f"'{there}' --data-binary" in texts[0]
    assert "größer" in texts[0]
    assert f"url = {door}\\n" in texts[1]
    assert cloud.door not in "".join(texts)
    if cloud.kind == "lxc":
        post = ("wget", "-q", "-O", "-", "--post-data", '{"id": "1"}', there)
        # A new address may not be used before it was probed for.
        assert await eventually(lambda: cloud.inside(server, *post))
    else:
        await cloud.signal(address, id="1")
    stack = await making
    assert (stack.status, stack.reason) == (StackStatus.CREATE_COMPLETE, "")
    assert await cloud.stacks.delete(project, "s") is None
