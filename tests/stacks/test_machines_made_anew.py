"""A server that was made anew from its image: what was carried out in it is carried out once more."""

from __future__ import annotations

from typing import Any

import pytest
from tests.stacks.test_resource_types import SERVER

from vetro.stacks import StackStatus
from vetro.stacks.memory import MemoryStacks

PROJECT = "p"


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
        stacks.compute.disks[uuid] += 1
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
