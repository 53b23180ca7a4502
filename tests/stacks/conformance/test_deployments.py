"""Software deployments on every cloud: the plan is run here for real, as the server's agent would."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from vetro.guest.agent.body import execute
from vetro.messaging import Guest
from vetro.stacks import StackStatus
from vetro.stacks.memory import MemoryStacks

pytestmark = pytest.mark.asyncio(loop_scope="module")
Json = Any
HOOK = """#!/usr/bin/env python3
import json, sys
given = json.load(sys.stdin)
print(json.dumps({"deploy_stdout": "hook " + given["config"]["x"], "port": 8080}))
"""


def ref(name: str) -> Json:
    """``get_resource``."""
    return {"get_resource": name}


def template(subnet: str, script: str, structured: str = "odd") -> dict[str, Json]:
    """A server with a script and a map, each carried out by a deployment."""
    return {
        "heat_template_version": "2016-10-14",
        "resources": {
            "net": {"type": "OS::Neutron::Net"},
            "sub": {
                "type": "OS::Neutron::Subnet",
                "properties": {"network": ref("net"), "cidr": f"{subnet}.9.0/24"},
            },
            "vm": {
                "type": "OS::Nova::Server",
                "properties": {
                    "flavor": "m1.nano",
                    "image": "debian",
                    "user_data_format": "SOFTWARE_CONFIG",
                    "networks": [{"subnet": ref("sub")}],
                },
            },
            "script": {
                "type": "OS::Heat::SoftwareConfig",
                "properties": {
                    "group": "script",
                    "config": script,
                    "inputs": [{"name": "greeting"}, {"name": "who", "default": "world"}],
                    "outputs": [{"name": "said"}, {"name": "wrong", "error_output": True}],
                },
            },
            "map": {
                "type": "OS::Heat::StructuredConfig",
                "properties": {"group": structured, "config": {"x": {"get_input": "y"}},
                               "outputs": [{"name": "port"}]},
            },
            "one": {
                "type": "OS::Heat::SoftwareDeployment",
                "properties": {"config": ref("script"), "server": ref("vm"),
                               "input_values": {"greeting": "hello"}},
            },
            "two": {
                "type": "OS::Heat::StructuredDeployment",
                "properties": {"config": ref("map"), "server": ref("vm"),
                               "input_values": {"y": "seven"}},
            },
        },
        "outputs": {
            "said": {"value": {"get_attr": ["one", "said"]}},
            "stdout": {"value": {"get_attr": ["one", "deploy_stdout"]}},
            "code": {"value": {"get_attr": ["one", "deploy_status_code"]}},
            "hook": {"value": {"get_attr": ["two", "deploy_stdout"]}},
            "port": {"value": {"get_attr": ["two", "port"]}},
        },
    }  # fmt: skip


def value_of(plan: dict[str, Json]) -> Json:
    """What the agent's interpreter makes of a plan."""
    return execute(plan["Body"], plan["Parameters"], {})


@contextlib.asynccontextmanager
async def agents(cloud: Any) -> AsyncGenerator[None, None]:
    """Agents of all servers that have a mailbox for deployments: they run plans one by one."""
    # Python 3.11 cannot make syntax trees in two threads at once.
    turn = asyncio.Lock()
    if isinstance(cloud.stacks, MemoryStacks):

        async def answer(_server: str, plan: dict[str, Json]) -> Json:
            async with turn:
                return await asyncio.to_thread(value_of, plan)

        former, cloud.stacks.guests.answer = cloud.stacks.guests.answer, answer
        yield
        cloud.stacks.guests.answer = former
        return
    mailboxes = cloud.mailboxes
    send = mailboxes.send

    async def deliver(queue: str, message_id: str, body: bytes, *more: Any, **options: Any) -> None:
        async with turn:
            await send(queue, message_id, body, *more, **options)
            plan = await mailboxes.next_plan(Guest(queue), "agent", 0)
            if plan is None:
                return  # it was sent before
            await mailboxes.acknowledge(Guest(queue), plan.message_id)
            value = await asyncio.to_thread(value_of, json.loads(plan.body))
        result = {"FormatVersion": "2.0.0", "SourceID": plan.message_id, "Body": value}
        await mailboxes.accept_result(Guest(queue), json.dumps(result).encode())

    mailboxes.send = deliver
    yield
    del mailboxes.send


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The guests' root: not the machine's."""
    monkeypatch.setenv("VETRO_GUEST_ROOT", str(tmp_path))
    hooks = tmp_path / "var/lib/heat-config/hooks"
    hooks.mkdir(parents=True)
    (hooks / "odd").write_text(HOOK)
    (hooks / "odd").chmod(0o755)
    return tmp_path


SAYING = (
    '#!/bin/sh\necho "$greeting $who $deploy_action"\nprintf said > "$heat_outputs_path.said"\n'
)


async def test_configurations_are_carried_out(cloud: Any, root: Path) -> None:
    """Inputs are variables and `get_input`; outputs, hooks and changes in place; nothing twice."""
    project, subnet = cloud.new_project(), cloud.subnet
    async with agents(cloud):
        stack = await cloud.stacks.create(project, "s", template(subnet, SAYING))
        assert (stack.status, stack.reason) == (StackStatus.CREATE_COMPLETE, "")
        assert stack.outputs == {
            "said": "said", "stdout": "hello world CREATE\n", "code": 0, "hook": "hook seven", "port": 8080,
        }  # fmt: skip
        before = {name: one.physical_id for name, one in stack.resources.items()}
        assert (await cloud.stacks.plan(project, "s", template(subnet, SAYING))).empty
        changed = template(subnet, SAYING.replace("$who", "all"))
        stack = await cloud.stacks.update(project, "s", changed)
        assert stack.outputs["stdout"] == "hello all UPDATE\n"
        after = {name: one.physical_id for name, one in stack.resources.items()}
        assert {name for name in after if after[name] != before[name]} == {"script"}
    assert await cloud.stacks.delete(project, "s") is None


@pytest.mark.parametrize(
    ("script", "structured", "words"),
    [
        ("#!/bin/sh\necho no such disk >&2\nexit 3\n", "odd", "exited with status 3: no such disk"),
        (
            '#!/bin/sh\nprintf bad > "$heat_outputs_path.wrong"\n',
            "odd",
            "output wrong reports: bad",
        ),
        ("#!/bin/true\n", "unknown", "no hook for the group unknown in this image"),
    ],
)
async def test_failures_of_configurations(
    cloud: Any, root: Path, script: str, structured: str, words: str
) -> None:
    """What the guest says is the stack's reason."""
    project = cloud.new_project()
    async with agents(cloud):
        stack = await cloud.stacks.create(project, "s", template(cloud.subnet, script, structured))
    assert stack.status is StackStatus.CREATE_FAILED
    assert words in stack.reason
    assert await cloud.stacks.delete(project, "s") is None
