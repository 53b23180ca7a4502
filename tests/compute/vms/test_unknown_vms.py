"""Machines nobody wants: creations that a destruction has overtaken, and machines without a record."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, update
from tests.compute.conftest import IMAGE, NODE, OTHER, PROJECT, MakeWorld, World
from tests.waiting import PATIENCE_SECONDS, eventually

from vetro.compute.servers import heartbeats
from vetro.compute.tables import instances, moves, servers, tasks, vms
from vetro.compute.wire import Fence
from vetro.compute.work.agents import NodeTaskError
from vetro.node.work.fences import Fences
from vetro.node.work.history import History
from vetro.node.work.queues import TaskContext, TaskKind, TaskRunner
from vetro.storage import Clock, ManualClock, SystemClock

VM = "a4a4a4a4-0000-4000-8000-000000000001"
PAYLOAD = {"uuid": VM, "image_uuid": IMAGE, "brand": "lx", "owner_uuid": PROJECT, "quota": 5}


@pytest.fixture
def clock() -> Clock:
    """Time that passes: a service that lives looks again and again for the tasks of one that died."""
    return SystemClock()


@pytest.fixture(autouse=True)
def only_the_killed_are_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a busy machine keeps an instance from saying that it lives."""
    monkeypatch.setattr(heartbeats, "INSTANCE_LIFETIME", timedelta(days=365))


async def _kill(world: World, other: World, until: Any) -> None:
    """A service dies: it shows no life. (Here it lives, and may say so once more.)"""
    for task in list(world.service.work._running.values()):
        task.cancel()
    while not await until():
        async with other.database.transaction() as tx:
            await tx.execute(
                update(instances)
                .where(instances.c.name == world.service.instance)
                .values(seen=other.database.clock.now().replace(year=2000))
            )
        await other.service.takeover.take_over()


async def _never(_call: Any) -> None:
    await asyncio.Event().wait()


async def test_a_creation_is_not_taken_up_again_after_the_machine_was_destroyed(
    make_world: MakeWorld,
) -> None:
    """Its service was killed and another destroyed the machine: nothing makes it afterwards."""
    first = await make_world()
    await first.server()
    await first.image()
    first.nodes.answers["machine_create"] = _never
    made = await first.ok("POST", f"/servers/{NODE}/vms", PAYLOAD)
    second = await make_world()
    gone = await second.ok("DELETE", f"/servers/default/vms/{VM}")
    assert (await second.ended(gone["id"]))["status"] == "complete"

    async def settled() -> bool:
        async with second.database.read() as tx:
            return not (await tx.execute(tasks.select().where(tasks.c.status == "active"))).all()

    await _kill(first, second, settled)
    assert second.nodes.tasks == ["machine_destroy"]
    assert second.nodes.vms == {}
    withdrawn = await second.ended(made["id"])
    assert withdrawn["status"] == "failure"
    assert withdrawn["result"]["details"] == {"restCode": "Withdrawn"}
    assert f"VM {VM} was destroyed" in withdrawn["result"]["error"]
    assert (await second.call("GET", f"/servers/default/vms/{VM}")).status == 404


async def test_whoever_waits_for_a_creation_hears_that_the_machine_was_destroyed(
    any_world: World,
) -> None:
    """At once, though its node has not answered; a later creation of the same uuid is made."""
    world = any_world
    await world.image()
    world.nodes.answers["machine_create"] = _never
    made = await world.ok("POST", f"/servers/{NODE}/vms", PAYLOAD)
    waiting = asyncio.create_task(world.ok("GET", f"/tasks/{made['id']}/wait?timeout=60"))
    gone = await world.ok("DELETE", f"/servers/{NODE}/vms/{VM}")
    assert (await waiting)["status"] == "failure"
    assert (await world.ended(gone["id"]))["status"] == "complete"
    del world.nodes.answers["machine_create"]
    again = await world.ok("POST", f"/servers/{NODE}/vms", PAYLOAD)
    assert (await world.ended(again["id"]))["status"] == "complete"
    turns = [
        (call.fence or {})["number"]
        for call in world.nodes.calls
        if call.task in ("machine_create", "machine_destroy")
    ]
    assert turns == sorted(set(turns))


async def test_a_machine_asked_for_again_while_it_is_destroyed_is_not_forgotten(
    any_world: World,
) -> None:
    """The end of its destruction is the end of the former machine alone."""
    world = any_world
    await world.vm(uuid=VM)
    gate = asyncio.Event()

    async def slowly(call: Any) -> dict[str, Any]:
        await gate.wait()
        world.nodes.vms.pop(VM, None)
        return {}

    async def after(call: Any) -> dict[str, Any]:
        gate.set()
        await world.service.work.wait(gone["id"])
        world.nodes.vms[VM] = {**call.params, "state": "running"}
        return {"vm": world.nodes.vms[VM]}

    world.nodes.answers.update(machine_destroy=slowly, machine_create=after)
    async with world.database.transaction() as tx:
        await tx.execute(tasks.delete())
    gone = await world.ok("DELETE", f"/servers/{NODE}/vms/{VM}")
    async with world.database.transaction() as tx:
        await tx.execute(update(vms).values(state="failed"))  # so that it is made, not confirmed
    again = await world.ok("POST", f"/servers/{NODE}/vms", PAYLOAD)
    assert (await world.ended(again["id"]))["status"] == "complete"
    assert (await world.ok("GET", f"/servers/default/vms/{VM}"))["state"] == "running"


async def test_a_machine_that_could_not_be_destroyed_is_not_being_made_for_ever(
    world: World,
) -> None:
    """Its creation was withdrawn: it counts as failed, and destroying it is tried again."""
    await world.image()
    world.nodes.answers["machine_create"] = _never
    await world.ok("POST", f"/servers/{NODE}/vms", PAYLOAD)
    world.nodes.answers["machine_destroy"] = NodeTaskError("delete error: busy")
    gone = await world.ok("DELETE", f"/servers/{NODE}/vms/{VM}")
    assert (await world.ended(gone["id"]))["status"] == "failure"
    assert (await world.ok("GET", f"/servers/{NODE}/vms/{VM}"))["state"] == "failed"
    del world.nodes.answers["machine_destroy"]
    gone = await world.ok("DELETE", f"/servers/{NODE}/vms/{VM}")
    assert (await world.ended(gone["id"]))["status"] == "complete"
    assert (await world.call("GET", f"/servers/default/vms/{VM}")).status == 404


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("older", "newer", "repeated"),
    [
        ("start", "stop", False),
        ("stop", "start", False),
        ("update", "update", False),
        ("reprovision", "reprovision", False),
        ("update", "reboot", True),
    ],
)
async def test_a_task_taken_up_again_undoes_nothing_that_was_asked_since(
    make_world: MakeWorld, older: str, newer: str, repeated: bool
) -> None:
    """What a later task of the VM has decided stays; what it does not touch is still done."""
    names = {
        "start": "machine_boot", "stop": "machine_shutdown", "update": "machine_update",
        "reprovision": "machine_reprovision", "reboot": "machine_reboot",
    }  # fmt: skip
    first = await make_world()
    await first.server()
    await first.vm(uuid=VM)
    first.nodes.answers[names[older]] = _never
    body = {"image_uuid": IMAGE}
    left = await first.ok("POST", f"/servers/{NODE}/vms/{VM}/{older}", body)
    nodes = type(first.nodes)(vms=first.nodes.vms)
    second = await make_world(nodes)
    then = await second.ok("POST", f"/servers/{NODE}/vms/{VM}/{newer}", body)
    assert (await second.ended(then["id"]))["status"] == "complete"

    async def settled() -> bool:
        return (await second.ok("GET", f"/tasks/{left['id']}"))["status"] != "active"

    await _kill(first, second, settled)
    ended = await second.ended(left["id"])
    wanted = [names[newer], names[older]] if repeated else [names[newer]]
    assert nodes.tasks == wanted
    assert ended["status"] == ("complete" if repeated else "failure")
    if not repeated:
        assert names[newer] in ended["result"]["error"]


async def test_a_node_makes_nothing_that_arrives_after_its_destruction(tmp_path: Path) -> None:
    """Requests may overtake one another on the way; the number says which was asked for last."""
    done: list[str] = []

    async def run(context: TaskContext) -> dict[str, Any]:
        done.append(context.entry.task)
        return {}

    history = History(tmp_path / "tasks")
    history.open()
    runner = TaskRunner(history, fences=Fences(tmp_path / "fences.json"))
    for name in ("machine_create", "machine_destroy"):
        runner.register(TaskKind(name, "machine_tasks", run))
    life = [Fence("vm-life", VM, number) for number in range(3)]
    status, _ = await runner.submit("machine_destroy", {"uuid": VM}, key="b", fence=life[1])
    assert status == 200
    status, body = await runner.submit("machine_create", {"uuid": VM}, key="a", fence=life[0])
    assert (status, body["code"]) == (409, "FenceOvertaken")
    status, _ = await runner.submit("machine_create", {"uuid": VM}, key="c", fence=life[2])
    assert status == 200
    assert done == ["machine_destroy", "machine_create"]


class Stray:
    """A service whose node has a machine of which there is no record."""

    def __init__(self, world: World, clock: ManualClock) -> None:
        self.world = world
        self.clock = clock
        self.known = ""

    async def report(self, *names: str) -> dict[str, Any]:
        """The node is heard and reports the machines it has; its record afterwards."""
        await self.world.server()
        stamp = self.clock.now().isoformat()
        told = {name: {"uuid": name, "state": "running", "owner_uuid": PROJECT} for name in names}
        await self.world.ok("POST", f"/servers/{NODE}/events/status",
                            {"vms": told, "timestamp": stamp})  # fmt: skip

        async def heard() -> dict[str, Any]:
            # The service may have taken it for silent, since the clock was moved.
            await self.world.ok("POST", f"/servers/{NODE}/events/heartbeat")
            record = await self.world.ok("GET", f"/servers/{NODE}")
            return dict(record) if record["status"] == "running" else {}

        return await eventually(heard, "the server is heard")


@pytest.fixture
async def stray(make_world: MakeWorld) -> Stray:
    """A machine that was reported, beside one that is known."""
    clock = ManualClock(datetime(2026, 5, 1, tzinfo=UTC))
    world = await make_world(clock=clock, unknown_vm_seconds=600.0)
    await world.server()
    one = Stray(world, clock)
    one.known = await world.vm()
    return one


async def test_a_machine_that_no_record_knows_is_reported_and_removed_after_its_time(
    stray: Stray,
) -> None:
    """The server's record names it, with since when; what is known is left alone."""
    world, clock = stray.world, stray.clock
    record = await stray.report(stray.known, VM)
    assert record["unknown_vms"] == {VM: "2026-05-01T00:00:00.000Z"}
    clock.advance(599)
    await stray.report(stray.known, VM)
    assert await world.service.strays.look() == {NODE}
    assert "machine_destroy" not in world.nodes.tasks
    clock.advance(1)
    await stray.report(stray.known, VM)
    await world.service.strays.look()
    (active,) = {call.params["uuid"] for call in await _destroyed(world)}
    assert active == VM
    record = await world.ok("GET", f"/servers/{NODE}")
    assert "unknown_vms" not in record
    assert set(record["vms"]) == {stray.known}


async def _destroyed(world: World) -> list[Any]:
    """The destructions, when every task has ended."""
    async with world.database.read() as tx:
        rows = (await tx.execute(tasks.select())).all()
    for row in rows:
        await world.ended(row.id)
    return [call for call in world.nodes.calls if call.task == "machine_destroy"]


async def test_a_machine_that_becomes_known_or_goes_by_itself_is_not_removed(stray: Stray) -> None:
    """Its grace time starts again when it is reported again."""
    world, clock = stray.world, stray.clock
    await stray.report(VM)
    clock.advance(300)
    assert "unknown_vms" not in await stray.report()
    clock.advance(300)
    await stray.report(VM)
    await world.service.strays.look()
    await world.vm(uuid=VM)
    clock.advance(86400)
    await world.service.strays.look()
    assert await _destroyed(world) == []
    assert "unknown_vms" not in await stray.report(VM)


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
async def test_the_grace_time_is_the_same_by_every_clock(
    make_world: MakeWorld, stray: Stray, seconds: float
) -> None:
    """Neither a clock that is set nor that of another service ends it early or late."""
    world, clock = stray.world, stray.clock
    await stray.report(VM)
    other = await make_world(clock=clock.apart(seconds), unknown_vm_seconds=600.0)
    clock.advance(599)
    assert await other.service.strays.look() == {NODE}
    clock.jump(seconds)
    await stray.report(VM)
    assert await world.service.strays.look() == {NODE}
    assert "machine_destroy" not in world.nodes.tasks
    clock.advance(1)
    await stray.report(VM)
    await world.service.strays.look()
    (active,) = {call.params["uuid"] for call in await _destroyed(world)}
    assert active == VM


async def test_unknown_machines_stay_when_the_setting_says_so(make_world: MakeWorld) -> None:
    """With 0 they are reported only."""
    clock = ManualClock(datetime(2026, 5, 1, tzinfo=UTC))
    world = await make_world(clock=clock, unknown_vm_seconds=0.0)
    await world.server()
    assert (await Stray(world, clock).report(VM))["unknown_vms"]
    await asyncio.wait_for(world.service.strays.watch(), 10)
    assert world.nodes.tasks == []


async def test_unknown_machines_are_removed_without_being_asked(make_world: MakeWorld) -> None:
    """The service watches for them by itself, also for those an earlier process has seen."""
    first = await make_world(unknown_vm_seconds=0.0)
    await first.server()
    told = {VM: {"uuid": VM, "state": "running"}}
    await first.ok("POST", f"/servers/{NODE}/events/status", {"vms": told})
    gone = asyncio.Event()

    def destroyed(_call: Any) -> dict[str, Any]:
        gone.set()
        return {}

    nodes = type(first.nodes)(answers={"machine_destroy": destroyed})
    await make_world(nodes, unknown_vm_seconds=0.05)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await gone.wait()


async def test_a_destruction_ends_though_its_server_is_not_heard_any_more(world: World) -> None:
    """The machine is gone; networks that cannot be changed on its node do not delay the end."""
    vm = await world.vm()

    async def last_words(_call: Any) -> dict[str, Any]:
        async with world.database.transaction() as tx:
            await tx.execute(update(servers).values(status="unknown"))
        return {}

    world.nodes.answers["machine_destroy"] = last_words
    gone = await world.ok("DELETE", f"/servers/{NODE}/vms/{vm}")
    assert (await world.ended(gone["id"]))["status"] == "complete"


async def test_a_machine_whose_record_is_on_another_server_is_not_wanted_here(world: World) -> None:
    """It was made again there while this server's record was deleted; one on the move is left alone."""
    await world.server(OTHER)
    vm = await world.vm(OTHER)
    status = {"vms": {vm: {"uuid": vm, "state": "running"}}}
    await world.ok("POST", f"/servers/{NODE}/events/status", status)
    assert [*(await world.ok("GET", f"/servers/{NODE}"))["unknown_vms"]] == [vm]
    await world.ok("POST", f"/servers/{OTHER}/events/status", status)
    assert "unknown_vms" not in await world.ok("GET", f"/servers/{OTHER}")
    async with world.database.transaction() as tx:
        await tx.execute(insert(moves).values(vm_uuid=vm, target_uuid=NODE, job_uuid=vm))
    await world.ok("POST", f"/servers/{NODE}/events/status", status)
    assert "unknown_vms" not in await world.ok("GET", f"/servers/{NODE}")


EARLY, LATE = "2026-05-01T00:00:00.000Z", "2026-05-02T00:00:00.000Z"
SILENT = "5f0f3a7e-5a1b-4d8a-9a55-93a0b5c0a003"
#: When the node's machine was made, when the recorded one; its state and server; whether the former is ended.
TWO = [
    (EARLY, LATE, "running", OTHER, True),
    (EARLY, LATE, "stopped", OTHER, True),
    (EARLY, EARLY, "running", OTHER, False),  # moved; the database is of a backup
    (LATE, EARLY, "running", OTHER, False),  # made again; likewise
    (None, LATE, "running", OTHER, False),
    (EARLY, None, "running", OTHER, False),
    (EARLY, LATE, "missing", OTHER, False),
    (EARLY, LATE, "creating", OTHER, False),
    (EARLY, LATE, "running", SILENT, False),
]


async def test_of_two_machines_with_one_uuid_the_older_one_is_ended_at_once(world: World) -> None:
    """If the newer one is there by its record, on a server that is heard; else it has its grace time."""
    for server in (OTHER, SILENT):
        await world.server(server)
    rows = {await world.vm(server): row for row in TWO for server in [row[3]]}
    async with world.database.transaction() as tx:
        for vm, (_, made, state, _, _) in rows.items():
            known = {"vm": {"create_timestamp": made}, "state": state}
            await tx.execute(update(vms).where(vms.c.uuid == vm).values(**known))
        silent = update(servers).where(servers.c.uuid == SILENT)
        await tx.execute(silent.values(status="unknown"))
    world.nodes.answers["machine_load"] = lambda call: {
        "create_timestamp": rows[call.params["uuid"]][0]
    }
    told = {"vms": {vm: {"uuid": vm, "state": "running"} for vm in rows}}
    await world.ok("POST", f"/servers/{NODE}/events/status", told)
    await world.service.strays.look()
    gone = {call.params["uuid"] for call in await _destroyed(world)}
    assert gone == {vm for vm, row in rows.items() if row[4]}
    assert {agent.server_uuid for agent in world.nodes.agents[-len(gone) :]} == {NODE}
    assert all([await world.service.machines.find(vm, row[3]) for vm, row in rows.items()])
