"""Tasks whose agent is lost on the way: it restarts, or it does not (compute-node-agent.md §4)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from sqlalchemy import update
from tests.compute.conftest import NODE, PAYLOAD, VM, World
from tests.waiting import eventually

from vetro.compute.tables import servers
from vetro.compute.work import node_tasks
from vetro.compute.work.agents import AgentLost, NodeTaskError, TaskCall

LOST = AgentLost("the agent closed the connection")
ENDED = NodeTaskError("failed: agent restarted", {"restCode": "AgentRestarted"})


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_tasks, "RETRY_SECONDS", 0.0)


async def test_a_restarted_agent_gets_its_task_again(world: World) -> None:
    """At its new address, with the same key, so that it does nothing twice."""
    vm = await world.vm()

    async def restarts_first(call: TaskCall) -> Any:
        if not world.nodes.agents[-1].url.endswith(":4711"):
            await world.server(**{"CN Agent Port": 4711})
            return LOST
        return {"vm": world.nodes.vms[vm]}

    world.nodes.answers["machine_reboot"] = restarts_first
    made = await world.ok("POST", f"/servers/{NODE}/vms/{vm}/reboot", {})
    assert (await world.ended(made["id"]))["status"] == "complete"
    keys = [call.key for call in world.nodes.calls if call.task == "machine_reboot"]
    assert keys == [made["id"], made["id"]]


async def restarted(world: World, task: str, lost: Exception = LOST) -> None:
    """Let an agent be lost at a task until it has registered at another address."""
    normal = world.nodes.answers.pop(task, None)

    async def restarts_first(_call: TaskCall) -> Any:
        if world.nodes.agents[-1].url.endswith(":4711"):
            return normal if normal is not None else {}
        await world.server(**{"CN Agent Port": 4711})
        return lost

    world.nodes.answers[task] = restarts_first


async def in_a_network(world: World) -> str:
    """A port in a network."""
    network, port = str(uuid.uuid4()), str(uuid.uuid4())
    await world.ok("POST", "/networks", {"uuid": network, "name": "blue"})
    body = {"uuid": str(uuid.uuid4()), "network_uuid": network, "cidr": "10.9.0.0/24"}
    await world.ok("POST", "/subnets", body)
    await world.ok("POST", "/ports", {"uuid": port, "network_uuid": network})
    return port


@pytest.mark.parametrize("lost", [LOST, ENDED], ids=["killed", "stopped"])
async def test_networks_are_sent_again_to_a_restarted_agent(world: World, lost: Any) -> None:
    """A VM in a network is made, also when its agent restarts while it gets the network."""
    port = await in_a_network(world)
    await restarted(world, "network_apply", lost)
    vm = await world.vm(ports=[port])
    assert vm in world.nodes.vms
    sent = [call.key for call in world.nodes.calls if call.task == "network_apply"]
    assert sent.count(sent[-1]) == 2


async def test_what_an_agent_ended_is_not_begun_anew(world: World) -> None:
    """A task that is kept has failed then, as its history says; whoever asked for it decides."""
    vm = await world.vm()
    world.nodes.answers["machine_reboot"] = ENDED
    made = await world.ok("POST", f"/servers/{NODE}/vms/{vm}/reboot", {})
    assert (await world.ended(made["id"]))["status"] == "failure"
    assert world.nodes.tasks.count("machine_reboot") == 1


async def test_questions_wait_for_a_restarted_agent(world: World) -> None:
    """Whoever asks for a VM gets it from the agent that comes back."""
    vm = await world.vm()
    world.nodes.answers["machine_load"] = {"uuid": vm, "state": "running", "alias": "told"}
    await restarted(world, "machine_load")
    shown = await world.ok("GET", f"/servers/{NODE}/vms/{vm}")
    assert shown["alias"] == "told"
    assert world.nodes.tasks.count("machine_load") == 2


@pytest.mark.parametrize(
    ("task", "path", "body"),
    [
        ("command_execute", "execute", {"script": "reboot"}),
        ("server_reboot", "reboot", {"nojob": True}),
    ],
)
async def test_what_would_do_something_else_is_not_sent_again(
    world: World, task: str, path: str, body: Any
) -> None:
    """A script and a reboot run once; what became of them nobody knows."""
    world.nodes.answers[task] = LOST
    assert (await world.refused("POST", f"/servers/{NODE}/{path}", body))[0] == 500
    assert world.nodes.tasks.count(task) == 1


async def test_a_question_has_its_own_limit(world: World) -> None:
    """An agent that stays away is not waited for longer than the answer."""
    world.nodes.answers["server_sysinfo"] = LOST
    agent = world.service.servers.agent_of
    async with world.service.database.read() as tx:
        row = await world.service.servers.row(tx, NODE)
    with pytest.raises(AgentLost):
        await world.service.work.run(agent(row), "server_sysinfo", {}, timeout_seconds=0.0)
    assert world.nodes.tasks.count("server_sysinfo") == 2


async def test_a_task_of_a_server_that_does_not_run_fails_at_once(world: World) -> None:
    """Without heartbeats nobody waits for the agent; the error says that the agent was lost."""

    async def dies(call: TaskCall) -> Any:
        async with world.service.database.transaction() as tx:
            await tx.execute(update(servers).values(status="unknown"))
        return LOST

    vm = await world.vm()
    world.nodes.answers["machine_reboot"] = dies
    made = await world.ok("POST", f"/servers/{NODE}/vms/{vm}/reboot", {})
    ended = await world.ended(made["id"])
    assert ended["status"] == "failure"
    assert "closed the connection" in str(ended["history"])
    assert world.nodes.tasks.count("machine_reboot") == 1


async def test_a_lost_agent_has_a_limit(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts from the loss, however long the task ran before; then the task fails."""
    monkeypatch.setattr(node_tasks, "RESTART_SECONDS", 0.0)
    vm = await world.vm()
    world.nodes.answers["machine_reboot"] = LOST
    made = await world.ok("POST", f"/servers/{NODE}/vms/{vm}/reboot", {})
    assert (await world.ended(made["id"]))["status"] == "failure"
    assert world.nodes.tasks.count("machine_reboot") == 2


async def test_a_withdrawn_task_is_not_sent_to_a_restarted_agent(world: World) -> None:
    """A VM that is deleted while its agent is away is not created afterwards."""
    await world.image()
    world.nodes.answers["machine_create"] = LOST
    made = await world.ok("POST", f"/servers/{NODE}/vms", PAYLOAD)

    async def tried_again() -> bool:
        return world.nodes.tasks.count("machine_create") > 1

    await eventually(tried_again)
    deleted = await world.ok("DELETE", f"/servers/{NODE}/vms/{VM}")
    world.nodes.answers["machine_create"] = None
    assert (await world.ended(deleted["id"]))["status"] == "complete"

    async def given_up() -> bool:
        return not world.service.work.runs(made["id"])

    await eventually(given_up)
    assert (await world.ended(made["id"]))["status"] == "failure"
    assert VM not in world.nodes.vms
