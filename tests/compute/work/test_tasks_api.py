"""Tasks over HTTP: waiting, taking up, agents that ask for theirs (compute-node-api.md §7)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import insert, select, update
from tests.compute.conftest import (
    IMAGE,
    NODE,
    OTHER,
    PAYLOAD,
    PROJECT,
    TIME_PASSES,
    VM,
    MakeWorld,
    World,
)
from tests.interrupting import interruptions
from tests.tracing.collector import collecting
from tests.waiting import eventually

from vetro import tracing
from vetro.compute.tables import instances, servers, tasks, vms
from vetro.compute.work.agents import NodeTaskError
from vetro.compute.work.node_tasks import PULL, PULLED
from vetro.storage import ManualClock, Transaction
from vetro.tracing import TracingSection


async def test_a_job_named_in_a_call_is_told_of_the_task(world: World) -> None:
    """jobid: start and end are appended to that job's info; an unknown job changes nothing."""
    job = (await world.ok("POST", f"/servers/{NODE}/reboot", {}))["job_uuid"]
    await world.job(job)
    made = await world.ok("POST", f"/servers/{NODE}/vms/{VM}/start", {"jobid": job})
    await world.ended(made["id"])

    async def all_told() -> Any:
        told = await world.ok("GET", f"/jobs/{job}/info")
        return told if len(told) >= 4 else None

    told = await eventually(all_told)
    mine = [one for one in told if one.get("task_id") == made["id"]]
    assert [one["name"] for one in mine] == ["start", "error"]
    made = await world.ok("POST", f"/servers/{NODE}/vms/{VM}/start", {"jobid": OTHER})
    assert (await world.ended(made["id"]))["status"] == "failure"


@TIME_PASSES
async def test_a_list_of_jobs_shows_each_as_it_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newest first, each as it is shown alone; however many there are, two statements read them."""
    made: list[str] = []
    for _ in range(3):
        made.append((await world.ok("POST", f"/servers/{NODE}/reboot", {}))["job_uuid"])
        await world.job(made[-1])
    single = [await world.ok("GET", f"/jobs/{uuid}") for uuid in reversed(made)]
    assert all(one["info"] for one in single)
    execute, statements = Transaction.execute, list[object]()

    async def noted(self: Transaction, statement: Any, *given: Any) -> Any:
        statements.append(statement)
        return await execute(self, statement, *given)

    monkeypatch.setattr(Transaction, "execute", noted)
    assert await world.service.jobs.listing(limit=3, offset=0) == single
    assert len(statements) == 2
    monkeypatch.undo()
    assert await world.ok("GET", "/jobs") == single
    assert [one["uuid"] for one in await world.ok("GET", "/jobs?limit=1&offset=1")] == [made[1]]


async def test_waiting_for_tasks(any_world: World) -> None:
    """Any number of waiters; the time-out gives the task as it is; unknown ones are 404."""
    world = any_world
    gate = asyncio.Event()

    async def slowly(_call: Any) -> dict[str, Any]:
        await gate.wait()
        return {"slow": True}

    world.nodes.answers["nop"] = slowly
    made = await world.ok("POST", f"/servers/{NODE}/nop", {"sleep": 1})
    path = f"/tasks/{made['id']}"
    active = await world.ok("GET", f"{path}/wait?timeout=0.05")
    assert active["status"] == "active"
    assert NODE in active["waiting_on"]
    waiting = [
        asyncio.create_task(world.ok("GET", f"{path}/wait?timeout={given}"))
        for given in ("x", "0", "-1", "30", "")
    ]
    await asyncio.sleep(0)
    gate.set()
    for one in waiting:
        assert (await one)["history"][0]["event"] == {"slow": True}
    assert (await world.ok("GET", path))["status"] == "complete"
    for unknown in (OTHER, "nonsense", "x" * 100):
        for suffix in ("", "/wait"):
            refused = await world.refused("GET", f"/tasks/{unknown}{suffix}")
            assert refused == (404, "ResourceNotFound", "no such task found")


async def test_a_task_without_an_agents_address_fails_at_once(world: World) -> None:
    """The task is stored as failed, and its waiter gets the end."""
    await world.server(**{"Admin IP": "dhcp", "Network Interfaces": {}})
    made = await world.ok("POST", f"/servers/{NODE}/nop", {})
    ended = await world.ended(made["id"])
    assert ended["status"] == "complete"  # the stand-in needs no address
    world.nodes.answers["nop"] = NodeTaskError("the address of the agent is not known")
    made = await world.ok("POST", f"/servers/{NODE}/nop", {})
    assert (await world.ended(made["id"]))["status"] == "failure"


@pytest.mark.parametrize("jump", [86_400, -86_400], ids=["forward", "back"])
async def test_a_clock_that_is_set_makes_no_service_dead(
    make_world: MakeWorld, jump: float
) -> None:
    """Another service takes up the tasks of one only when it was silent for long."""
    clock = ManualClock()
    first, second = await make_world(clock=clock), await make_world(clock=clock)
    await first.service.takeover.show_alive()
    async with first.database.transaction() as tx:
        await tx.execute(
            insert(tasks).values(
                id="t", server_uuid=NODE, task="nop", status="active", history=[],
                created=clock.now(), params=None, instance=first.service.instance,
            )
        )  # fmt: skip
    clock.jump(jump)
    assert await second.service.takeover.take_over() == []
    async with first.database.transaction() as tx:
        await tx.execute(
            update(instances)
            .where(instances.c.name == first.service.instance)
            .values(seen=first.database.steady_now().replace(year=2000))
        )
    assert await second.service.takeover.take_over() == ["t"]


async def test_another_service_takes_up_a_dead_ones_tasks(make_world: MakeWorld) -> None:
    """The task is sent again under its own key; waiters at either service see its end."""
    first = await make_world()
    await first.server()
    await first.image()
    gate = asyncio.Event()

    async def never(_call: Any) -> None:
        await gate.wait()

    first.nodes.answers["machine_create"] = never
    made = await first.ok("POST", f"/servers/{NODE}/vms", PAYLOAD)
    waiting = asyncio.create_task(first.ok("GET", f"/tasks/{made['id']}/wait?timeout=30"))
    second = await make_world()
    assert await second.service.takeover.take_over() == []
    mine = select(tasks.c.instance).where(tasks.c.id == made["id"])
    owner = first.service.instance
    while owner == first.service.instance:
        async with second.database.transaction() as tx:
            # The first service died: it shows no life. (Here it lives, and may say so once more.)
            await tx.execute(
                update(instances)
                .where(instances.c.name == first.service.instance)
                .values(seen=second.database.clock.now().replace(year=2000))
            )
        # The second's own watch may be faster than this.
        await second.service.takeover.take_over()
        async with second.database.read() as tx:
            owner = (await tx.execute(mine)).one().instance
    assert owner == second.service.instance
    assert (await waiting)["status"] == "complete"
    assert second.nodes.last("machine_create").key == made["id"]
    async with second.database.read() as tx:
        row = (await tx.execute(select(tasks).where(tasks.c.id == made["id"]))).one()
        state = (await tx.execute(select(vms.c.state).where(vms.c.uuid == VM))).one().state
    assert row.params is None  # secrets are kept only while they are needed
    assert state == "running"
    gate.set()


async def test_a_restarted_service_takes_up_its_own_tasks(make_world: MakeWorld) -> None:
    """With a name of its own an instance need not wait until it is dead."""
    first = await make_world(instance="me")
    await first.server()
    async with first.database.transaction() as tx:
        row = (await tx.execute(select(servers).where(servers.c.uuid == NODE))).one()
        agent = first.service.servers.agent_of(row)
        await first.service.work.store(tx, OTHER, agent, "nop", {})
    assert (await (await make_world(instance="me")).ended(OTHER))["status"] == "complete"


async def test_old_tasks_are_forgotten(world: World) -> None:
    """After 30 days."""
    made = await world.ok("POST", f"/servers/{NODE}/nop", {})
    await world.ended(made["id"])
    assert await world.service.takeover.forget_old() == 0
    async with world.database.transaction() as tx:
        old = world.database.clock.now().replace(year=2000)
        await tx.execute(update(tasks).values(created=old))
    assert await world.service.takeover.forget_old() > 0
    assert (await world.refused("GET", f"/tasks/{made['id']}"))[0] == 404


async def _pull(
    world: World, path: str, query: str = "timeout=20", **own: Any
) -> dict[str, Any] | None:
    """The next task that is not about networks, or none; those come when they like, and are answered."""
    while True:
        answer = await world.call("GET", f"{path}/next-task?{query}", **own)
        if answer.status == 204:
            return None
        taken: dict[str, Any] = answer.json()
        if taken["task"] != "network_apply":
            return taken
        result: dict[str, Any] = {"status": 200, "body": {}}
        await world.ok("POST", f"{path}/tasks/{taken['id']}", result, **own)


async def test_an_agent_in_pull_mode_asks_for_its_tasks(any_world: World) -> None:
    """It gets each task once, again after its restart, and its answer ends the task."""
    world = any_world
    await world.server(**{"CN Agent Pull": True, "Admin IP": "dhcp", "Network Interfaces": {}})
    path = f"/servers/{NODE}/agent"
    own = {"token": "", "headers": world.key_of(NODE)}
    asking = asyncio.create_task(_pull(world, path, **own))
    made = await world.ok("POST", f"/servers/{NODE}/nop", {"sleep": 2})
    taken = await asking
    assert taken is not None
    assert "traceparent" not in taken
    assert (taken["id"], taken["task"], taken["params"]["sleep"]) == (made["id"], "nop", 2)
    assert await _pull(world, path, "timeout=0", **own) is None
    again = await _pull(world, path, "timeout=0&restarted=true", **own)
    assert again is not None
    assert again["id"] == made["id"]
    result = {"status": 200, "body": {"done": True}}
    await world.ok("POST", f"{path}/tasks/{made['id']}", result, **own)
    assert (await world.ended(made["id"]))["history"][0]["event"] == {"done": True}
    await world.ok("POST", f"{path}/tasks/{made['id']}", result, **own)
    assert (await world.refused("POST", f"{path}/tasks/{OTHER}", result, **own))[0] == 404
    stranger = {"token": "", "headers": world.key_of(OTHER)}
    assert (await world.call("GET", f"{path}/next-task", **stranger)).status == 403


@pytest.mark.parametrize("again", [False, True], ids=["once", "again"])
async def test_a_task_is_not_lost_with_the_request_that_took_it(
    any_world: World, again: bool
) -> None:
    """Wherever the service ends the wait of an agent in pull mode, the task stays or was answered."""
    world = any_world
    await world.server(**{"CN Agent Pull": True})
    await world.ok("POST", f"/servers/{NODE}/nop", {})
    held = (tasks.c.server_uuid == NODE) & (tasks.c.status == "active")

    async def those(instance: str) -> set[str]:
        async with world.database.read() as tx:
            rows = await tx.execute(select(tasks.c.id).where(held, tasks.c.instance == instance))
            return {row.id for row in rows}

    await eventually(lambda: those(PULL))
    cancelled: list[bool] = []
    async for ended in interruptions(
        lambda: world.service.pulled.next(NODE, 0.0, restarted=False), again=again
    ):
        cancelled.append(ended.cancelled())
        taken = None if ended.cancelled() else ended.result()
        assert await those(PULLED) == ({taken["id"]} if taken is not None else set())
        async with world.database.transaction() as tx:
            await tx.execute(update(tasks).where(held).values(instance=PULL))
    assert not cancelled[-1]
    assert world.database.is_sqlite or len(cancelled) > 3


async def test_an_agent_in_pull_mode_is_told_the_trace(any_world: World) -> None:
    """While traces are sent, a task that is fetched names the span of the request that made it."""
    world = any_world
    await world.server(**{"CN Agent Pull": True})
    path = f"/servers/{NODE}/agent"
    own = {"token": "", "headers": world.key_of(NODE)}
    trace = "0af7651916cd43dd8448eb211c80319c"
    with collecting() as collector:
        tracing.configure(TracingSection(endpoint=collector.url), "compute")
        try:
            await world.ok(
                "POST",
                f"/servers/{NODE}/nop",
                {"sleep": 2},
                headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01"},
            )
            taken = await _pull(world, path, **own)
            tracing.flush(60)
        finally:
            tracing.configure(TracingSection(), "")
    assert taken is not None
    [request] = [one for one in collector.spans if one.name.endswith("/nop")]
    assert taken["traceparent"] == f"00-{trace}-{request.id}-01"


async def test_a_query_of_an_agent_in_pull_mode(world: World) -> None:
    """Synchronous calls wait for what the agent answers; its failures keep their status."""
    await world.server(**{"CN Agent Pull": True})
    path = f"/servers/{NODE}/agent"
    asking = asyncio.create_task(world.call("GET", f"/servers/{NODE}/vms/{VM}/proc"))
    taken = await _pull(world, path)
    assert taken is not None
    assert taken["task"] == "machine_proc"
    body = {"error": "VM.load error", "details": {"restCode": "VmNotFound"}}
    await world.ok("POST", f"{path}/tasks/{taken['id']}", {"status": 500, "body": body})
    assert (await asking).status == 404


async def test_a_ticket_named_in_a_call_is_its_fence(world: World) -> None:
    """Only its holder may act, and the node gets the number to compare."""
    vm = await world.vm()
    body = {"scope": "vm", "id": vm, "expires_at": "3000"}
    first = await world.ok("POST", f"/servers/{NODE}/tickets", body)
    second = await world.ok("POST", f"/servers/{NODE}/tickets", body)
    path = f"/servers/{NODE}/vms/{vm}/stop"
    refused = await world.refused("POST", path, {"ticket": second["uuid"]})
    assert refused[:2] == (409, "TicketNotActive")
    await world.ok("POST", path, {"ticket": first["uuid"]})
    await world.ok("PUT", f"/tickets/{first['uuid']}/release")
    made = await world.ok("POST", path, {"ticket": second["uuid"]})
    await world.ended(made["id"])
    fences = [call.fence for call in world.nodes.calls if call.task == "machine_shutdown"]
    assert [one["id"] for one in fences] == [vm, vm]
    assert fences[0]["number"] < fences[1]["number"]
    assert "ticket" not in world.nodes.last("machine_shutdown").params


async def test_a_task_is_its_vms_owners_business(world: World) -> None:
    """Its result holds what the VM was made from: other projects' users find no such task."""
    vm = await world.vm(owner_uuid=PROJECT)
    mine = await world.ok("POST", f"/servers/{NODE}/vms/{vm}/stop", {})
    await world.ended(mine["id"])
    assert (await world.ok("GET", f"/tasks/{mine['id']}", token="user"))["id"] == mine["id"]
    theirs = await world.vm(owner_uuid="somebody-else")
    other = await world.ok("POST", f"/servers/{NODE}/vms/{theirs}/stop", {})
    nop = await world.ok("POST", f"/servers/{NODE}/nop", {})
    for task in (other["id"], nop["id"], OTHER):
        for suffix in ("", "/wait?timeout=1"):
            refused = await world.refused("GET", f"/tasks/{task}{suffix}", token="user")
            assert refused == (404, "ResourceNotFound", "no such task found")


async def test_every_task_says_of_which_server_it_is(world: World) -> None:
    """The parameters of its path are among a task's, as the document has it (§7)."""
    vm = await world.vm()
    server, machine = f"/servers/{NODE}", f"/servers/{NODE}/vms/{vm}"
    world.nodes.answers.update(
        zfs_list_pools={"result": []},
        command_execute={"exitCode": 0, "stdout": ""},
        machine_info={},
        machine_proc={},
    )
    for method, path, body in (
        ("POST", f"{server}/nop", {}),
        ("POST", f"{server}/ensure-image", {"image_uuid": IMAGE}),
        ("POST", f"{server}/install-agent", {"image_uuid": IMAGE}),
        ("POST", f"{server}/uninstall-agents", {"agents": ["x"]}),
        ("POST", f"{server}/execute", {"script": "#!/bin/true"}),
        ("POST", server, {"overprovision_ratios": {"ram": 2}}),
        ("GET", f"{server}/zpools", None),
        ("GET", machine, None),
        ("GET", f"{machine}/proc", None),
        ("GET", f"{machine}/info", None),
        ("POST", f"{machine}/stop", {}),
        ("POST", f"{machine}/update", {"alias": "x"}),
        ("PUT", f"{machine}/snapshots", {}),
        ("DELETE", machine, None),
    ):
        answer = await world.call(method, path, body)
        assert answer.status < 300, (path, answer.text)
        told = answer.json() if answer.content else None
        if isinstance(told, dict) and "id" in told:
            await world.ended(told["id"])
    without = [call.task for call in world.nodes.calls if call.params.get("server_uuid") != NODE]
    assert without == []
    assert len({call.task for call in world.nodes.calls}) >= 12
