"""Every state that is told while the server that it is about is silent, given up, deleted, or back."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import insert, select, update
from tests.compute.conftest import IMAGE, NODE, OTHER, PROJECT, World

from vetro.compute.tables import image_copies, servers, tasks, vms, volume_copies, volumes
from vetro.compute.values.metrics import INSTANCES, read_stored
from vetro.compute.vms.given_up import leave_given_up
from vetro.compute.work.agents import NodeTaskError
from vetro.storage import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    """Servers stay alive after their one heartbeat."""
    return ManualClock()


class Kept:
    """A server with a VM, a volume that this has, a free one, a snapshot and a copy of an image."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def fill(self) -> Kept:
        world = self.world
        network, self.port = str(uuid4()), str(uuid4())
        await world.ok("POST", "/networks", {"uuid": network, "name": "n"})
        subnet = {"network_uuid": network, "cidr": "10.7.0.0/24"}
        await world.ok("POST", "/subnets", subnet)
        await world.ok("POST", "/ports", {"uuid": self.port, "network_uuid": network})
        self.vm = await world.vm(ports=[self.port])
        await self.report()
        self.used, self.free = [
            (await world.ok("POST", "/volumes", {"size": 1, "project_id": PROJECT}))["uuid"]
            for _ in range(2)
        ]
        self.snapshot = str(uuid4())
        now = world.database.clock.now()
        async with world.database.transaction() as tx:
            on: dict[str, Any] = {"server_uuid": NODE, "format": "ext4"}
            await tx.execute(update(volumes).values(**on))
            mine = volumes.c.uuid == self.used
            await tx.execute(update(volumes).where(mine).values(vm_uuid=self.vm, device="/mnt/x"))
            await tx.execute(insert(volume_copies).values(
                uuid=self.snapshot, kind="snapshot", owner_uuid=PROJECT, volume_uuid=self.free,
                name="s", size_gib=1, state="available", reason="", bytes=0, created=now, **on,
            ))  # fmt: skip
            await tx.execute(insert(image_copies).values(
                server_uuid=NODE, image_uuid=IMAGE, state="present", percent=100, reason="", changed=now,
            ))  # fmt: skip
        return self

    async def report(self, *more: str) -> None:
        """The node says what it has."""
        there = {one: {"uuid": one, "state": "running"} for one in (self.vm, *more)}
        await self.world.ok("POST", f"/servers/{NODE}/events/status", {"vms": there})

    async def told(self) -> dict[str, Any]:
        """The states that are told, whoever asks."""
        world = self.world
        found: dict[str, Any] = {}
        for one in await world.ok("GET", "/servers?extras=vms"):
            if one["uuid"] == NODE:
                found["server"] = one["status"]
                found["listed"] = one["vms"].get(self.vm, {}).get("state")
        got = await world.call("GET", f"/servers/{NODE}/vms")
        rows = got.json() if got.status == 200 else []
        assert found.get("listed") == next(
            (vm["state"] for vm in rows if vm["uuid"] == self.vm), None
        )
        answer = await world.call("GET", f"/servers/default/vms/{self.vm}")
        found["shown"] = answer.json()["state"] if answer.status == 200 else answer.status
        for name, uuid in (("used", self.used), ("free", self.free)):
            found[name] = (await world.ok("GET", f"/volumes/{uuid}"))["state"]
            listed = await world.ok("GET", "/volumes?all_projects=true")
            assert found[name] == next(one["state"] for one in listed if one["uuid"] == uuid)
        at = f"/volume-snapshots/{self.snapshot}"
        found["snapshot"] = (await world.ok("GET", at))["state"]
        copies = (await world.ok("GET", f"/images/{IMAGE}/copies"))["copies"]
        found["copy"] = next((one["state"] for one in copies if one["server_uuid"] == NODE), None)
        async with world.database.read() as tx:
            await read_stored(tx)
        counted = {
            sample.labels["state"]
            for metric in INSTANCES.collect()
            for sample in metric.samples
            if sample.value
        }
        found["counted"] = sorted(counted)
        return found

    async def die(self) -> None:
        """The server is not heard, long enough."""
        self.world.service.heartbeats.forget(NODE)
        async with self.world.database.transaction() as tx:
            mine = servers.c.uuid == NODE
            await tx.execute(update(servers).where(mine).values(status="unknown"))

    async def return_(self) -> None:
        """It is heard again."""
        await self.world.ok("POST", f"/servers/{NODE}/events/heartbeat", {})
        await self.world.service.heartbeats.look()


@pytest.fixture
async def kept(world: World) -> Kept:
    """What is on a server that runs."""
    return await Kept(world).fill()


def states(server: str | None, vm: Any, volume: str, free: str, copy: str | None) -> dict[str, Any]:
    """What is told when everything of one kind is told alike."""
    return {
        "server": server, "listed": vm, "shown": vm, "used": volume, "free": free,
        "snapshot": free, "copy": copy, "counted": [vm],
    }  # fmt: skip


ALIVE = states("running", "running", "in-use", "available", "present")
SILENT = states("unknown", "unknown", "unknown", "unknown", "unknown")
GIVEN_UP = states("unknown", "missing", "lost", "lost", "unknown")


async def test_nothing_is_told_of_what_a_silent_server_has(kept: Kept) -> None:
    """Unknown while it is silent, gone once it is given up; as before when it is back."""
    assert await kept.told() == ALIVE
    await kept.die()
    assert await kept.told() == SILENT
    await kept.return_()
    assert await kept.told() == ALIVE
    await kept.die()
    job = await kept.world.ok("POST", f"/servers/{NODE}/evacuate", {"fenced": True})
    assert (await kept.world.job(job["job_uuid"]))["execution"] == "failed"
    assert await kept.told() == GIVEN_UP
    assert (await kept.world.ok("GET", f"/servers/{NODE}"))["fenced_at"]
    await kept.return_()
    back = await kept.told()
    assert (back["server"], back["shown"], back["used"]) == ("running", "running", "in-use")
    # An old word gives nobody up.
    await kept.die()
    assert (await kept.told())["shown"] == "unknown"
    assert not await leave_given_up(kept.world.database, kept.vm)


async def test_a_call_about_a_silent_servers_things_says_what_to_do(kept: Kept) -> None:
    """409 in the document's words, and behind them whose server is silent; nothing is changed."""
    await kept.die()
    words = "Operation attempted on server which is not running"
    for method, path, body in (
        ("DELETE", f"/servers/default/vms/{kept.vm}", None),
        ("POST", f"/servers/default/vms/{kept.vm}/start", {}),
        ("POST", f"/volumes/{kept.used}/detach", {"vm_uuid": kept.vm}),
        ("DELETE", f"/volumes/{kept.free}", None),
        ("DELETE", f"/volume-snapshots/{kept.snapshot}", None),
    ):
        status, _, message = await kept.world.refused(method, path, body)
        if status == 409 and "has 1 snapshots" in message:
            continue
        assert (status, message.startswith(words)) == (409, True), (path, message)
        assert f"vetro server evacuate {NODE} --fenced" in message
    # Of a server that is named, in the document's words alone.
    for verb in ("GET", "DELETE"):
        refused = await kept.world.refused(verb, f"/servers/{NODE}/vms/{kept.vm}")
        assert refused == (409, "ServerNotRunning", words)
    await kept.return_()
    assert await kept.told() == ALIVE


async def test_what_a_server_had_that_was_given_up_can_be_removed(kept: Kept) -> None:
    """Without the server; when its machine comes back, what is on it goes there."""
    world = kept.world
    await kept.die()
    job = await world.ok("POST", f"/servers/{NODE}/evacuate", {"fenced": True})
    await world.job(job["job_uuid"])
    await world.ok("POST", f"/volumes/{kept.used}/detach", {"vm_uuid": kept.vm})
    assert (await world.ok("DELETE", f"/servers/default/vms/{kept.vm}"))["id"] is None
    for path in (
        f"/volume-snapshots/{kept.snapshot}",
        f"/volumes/{kept.used}",
        f"/ports/{kept.port}",
    ):
        assert (await world.call("DELETE", path)).status == 204, path
    row = await world.ok("GET", f"/servers/{NODE}")
    assert (row["vms"], kept.used in row["lost_volumes"]) == ({}, True)
    world.nodes.calls.clear()
    await kept.return_()
    async with world.database.listen("compute/servers") as changed:
        while {"machine_destroy", "volume_delete"} - set(world.nodes.tasks):
            await changed.wait(0.1)
    assert world.nodes.last("machine_destroy").params["uuid"] == kept.vm


async def test_a_server_is_deleted_with_what_it_had(kept: Kept) -> None:
    """Refused while it is heard and while it has VMs; then nothing is left that names it."""
    world, path = kept.world, f"/servers/{NODE}"
    for body, words in (("false", "is heard"), ("nonsense", "")):
        assert words in (await world.refused("DELETE", f"{path}?force={body}"))[2]
    await kept.die()
    status, code, message = await world.refused("DELETE", f"{path}?force=false")
    assert (status, code) == (409, "Conflict")
    assert kept.vm in message
    assert f"vetro server evacuate {NODE} --fenced" in message
    assert (await kept.told()) == SILENT
    assert (await world.refused("DELETE", f"{path}?force=true", token="user"))[0] == 403
    assert (await world.call("DELETE", f"{path}?force=true")).status == 204
    assert (await world.refused("DELETE", f"{path}?force=true"))[0] == 404
    told = await kept.told()
    assert told == {
        "shown": 404, "used": "lost", "free": "lost", "snapshot": "lost", "copy": None, "counted": [],
    }  # fmt: skip
    async with world.database.read() as tx:
        for table in (vms, volumes, volume_copies, image_copies, tasks):
            mine = select(table).where(table.c.server_uuid == NODE)
            assert list(await tx.execute(mine)) == [], table.name
    # Its addresses are free, its volumes can be removed, and it may come again as a new one.
    for one in (
        f"/ports/{kept.port}",
        f"/volume-snapshots/{kept.snapshot}",
        f"/volumes/{kept.used}",
    ):
        assert (await world.call("DELETE", one)).status == 204, one
    await world.server()
    assert (await world.ok("GET", path))["vms"] == {}


async def test_a_deleted_server_ends_what_waits_for_it(world: World) -> None:
    """Who waits for a task of it is told; one that is only reserved is no VM that is lost."""
    await world.server(OTHER)
    async with world.database.transaction() as tx:
        await tx.execute(insert(tasks).values(
            id=str(uuid4()), server_uuid=OTHER, task="nop", status="active", history=[],
            created=world.database.clock.now(), params={}, instance="another",
        ))  # fmt: skip
        await tx.execute(update(servers).where(servers.c.uuid == OTHER).values(status="unknown"))
        [task] = [row.id for row in await tx.execute(select(tasks.c.id))]
    assert (await world.call("DELETE", f"/servers/{OTHER}?force=false")).status == 204
    ended = await world.ended(task)
    assert (ended["status"], "was deleted" in str(ended["result"])) == ("failure", True)


async def test_a_volume_that_its_server_does_not_have_any_more_is_lost(kept: Kept) -> None:
    """By the server's own word, at the next task that needs it; detaching it goes on."""
    world = kept.world
    gone = NodeTaskError("Volume is not on this node", {"restCode": "VolumeNotFound"})
    for task in ("volume_attach", "volume_detach", "volume_grow"):
        world.nodes.answers[task] = gone
    await world.ok("POST", f"/volumes/{kept.used}/detach", {"vm_uuid": kept.vm})
    body = {"vm_uuid": kept.vm}
    status, _, message = await world.refused("POST", f"/volumes/{kept.used}/attach", body)
    assert (status, "does not have it any more" in message) == (409, True)
    assert (await world.ok("GET", f"/volumes/{kept.used}"))["state"] == "lost"
    assert (await world.refused("PUT", f"/volumes/{kept.free}", {"size": 2}))[0] == 409
    assert (await world.ok("GET", f"/volume-snapshots/{kept.snapshot}"))["state"] == "lost"
