"""Tasks whose agent is lost on the way: it restarts, or it does not (compute-node-agent.md §4)."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update
from tests.compute.conftest import NODE, PAYLOAD, VM, World
from tests.waiting import eventually

from vetro.compute.tables import servers
from vetro.compute.work import node_tasks
from vetro.compute.work.agents import AgentLost, TaskCall

LOST = AgentLost("the agent closed the connection")


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
