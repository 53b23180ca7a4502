"""Moving virtual machines between two nodes: two agents' drivers with everything of their own."""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.node.drivers.guests import Terminal, logged_in, page
from tests.ports import free_port

from vetro.node.drivers.qemu import disks

pytestmark = [pytest.mark.thorough, pytest.mark.root]


@pytest.fixture
async def other(
    machines: Any, vm_image: Path, vm_host: Path, vm_kit: SimpleNamespace, tmp_path: Path
) -> AsyncIterator[Any]:
    """A second node with another prefix and the same network, below a name too long for a socket."""
    directory = tmp_path / f"other #1 & {'long' * 25}"
    directory.mkdir(mode=0o711)
    vm_kit.know_the_host(vm_host, directory)
    prefix = f"r{machines.prefix[1:]}"
    opened = await vm_kit.open_machines(
        directory, vm_image, prefix, machines.subnet, machines.network_uuid, machines.image
    )
    await opened.apply()
    yield opened
    for vm in opened.store:
        await opened.driver.delete(vm["uuid"])
    await opened.network.apply({"version": 10**9})
    await opened.driver.close()
    assert vm_kit.traces(prefix, directory) == []


@pytest.fixture
async def nodes(
    machines: Any, other: Any, kit: SimpleNamespace, tmp_path: Path
) -> AsyncIterator[tuple[Any, Any]]:
    """The tasks of both nodes."""
    async with contextlib.AsyncExitStack() as stack:
        made: list[Any] = []
        for opened, name in ((machines, "here"), (other, "there")):
            directory = tmp_path / f"tasks-{name}"
            directory.mkdir()
            made.append(
                await stack.enter_async_context(
                    kit.node_over(opened.driver, opened.images, directory)
                )
            )
        yield made[0], made[1]


async def step(node: Any, uuid: str, action: str, **more: Any) -> dict[str, Any]:
    """One action of ``machine_migrate`` that must succeed."""
    done: dict[str, Any] = await node.good("machine_migrate", vm_uuid=uuid, action=action, **more)
    return done


async def refused(node: Any, uuid: str, action: str, **more: Any) -> tuple[str, str]:
    """The message and the code of an action that must fail."""
    status, body = await node.task("machine_migrate", vm_uuid=uuid, action=action, **more)
    assert status == 500, body
    return body["error"], body["details"]["restCode"]


async def test_a_running_vm_moves_with_its_memory_and_disks(
    machines: Any, other: Any, nodes: tuple[Any, Any]
) -> None:
    """What the guest had in memory and on its disks is there on the other node, still running."""
    here, there = nodes
    nic = await machines.nic(5)
    vm = await machines.create([nic], disks=[{"image_uuid": machines.image}, {"size": 16}])
    uuid = vm["uuid"]
    async with logged_in(machines, uuid) as terminal:
        await terminal.type("mark=in-memory; echo on-disk > /dev/vdb; echo moved > /www/state\r")
        await terminal.type("sync; echo the''end\r")
        await terminal.until("theend")
    shown = await machines.driver.load(uuid)
    await step(there, uuid, "setup-filesystem", vm=shown)

    await machines.driver.create_snapshot(uuid, "one")
    where = await step(there, uuid, "receive")
    message, code = await refused(here, uuid, "sync", **where)
    assert (code, "snapshots" in message) == ("VmHasSnapshots", True)
    await machines.driver.delete_snapshot(uuid, "one")
    message, code = await refused(here, uuid, "sync", **{**where, "token": "guessed"})
    assert (code, "wrong token" in message) == ("MigrationFailed", True)
    assert (await machines.driver.load(uuid))["state"] == "running"

    moved = await step(here, uuid, "sync", wait=True, **where)
    history = (await here.client.request("GET", "/history")).json()
    assert where["token"] not in str(history)
    assert moved["transferred"] > 2**20
    left, come = await machines.driver.load(uuid), await other.driver.load(uuid)
    assert (left["state"], come["state"]) == ("stopped", "running")
    for name in ("ram", "max_physical_memory", "vnc_password", "hostname", "disks", "nics"):
        assert come[name] == shown[name]
    # It cannot come up twice.
    assert (left["autoboot"], left["do_not_inventory"]) == (False, True)
    assert await machines.driver.autoboot() == []
    links = [path.name for path in Path("/sys/class/net").iterdir()]
    assert [name for name in links if name.startswith(f"{other.prefix}v")]
    assert not [name for name in links if name.startswith(f"{machines.prefix}v")]

    # The same shell goes on: nobody logged in again.
    info = await other.driver.info(uuid, ["serial", "vnc"])
    assert info["vnc"]["port"] >= 5900
    terminal = await Terminal.open(info["serial"]["path"])
    try:
        await terminal.type("echo $mark; head -n 1 /dev/vdb; cat /www/state; echo the''end\r")
        said = await terminal.until("theend")
    finally:
        terminal.close()
    assert "in-memory" in said
    assert "on-disk" in said
    assert "moved" in said

    # Deleting what is left here does not touch it there; there it is a VM like any other.
    await step(there, uuid, "set-autoboot", value=True)
    await step(there, uuid, "set-do-not-inventory", value=False)
    await here.good("machine_destroy", uuid=uuid, include_dni=True)
    assert [vm["state"] for vm in await other.driver.list()] == ["running"]
    await machines.network.apply({"version": 10**8})
    other.nics.append(nic)
    await other.apply()
    assert await page(nic["ip"], "/state") == "moved\n"


async def test_a_vm_that_cannot_come_up_there_stays_here(
    machines: Any, other: Any, nodes: tuple[Any, Any]
) -> None:
    """If the other node's QEMU does not start, the VM runs on here and can be tried again."""
    here, there = nodes
    # Both nodes are this machine: a screen with a port of its own can be there only once.
    vm = await machines.create([], vnc_port=free_screen())
    uuid = vm["uuid"]
    await step(there, uuid, "setup-filesystem", vm=vm)
    for _ in range(2):
        where = await step(there, uuid, "receive")
        message, code = await refused(here, uuid, "sync", **where)
        assert code == "MigrationFailed"
        assert f"VM {uuid} stays where it is" in message
        stays = await machines.driver.load(uuid)
        assert (stays["state"], stays["pid"]) == ("running", vm["pid"])
        assert (await other.driver.load(uuid))["state"] == "stopped"
        assert not stays["do_not_inventory"]
    message, code = await refused(here, uuid, "sync", **{**where, "port": free_port()})
    assert (code, "does not answer" in message) == ("MigrationFailed", True)


def free_screen() -> int:
    """A port for a screen."""
    while True:
        with contextlib.suppress(OSError), socket.socket() as probe:
            port = 5900 + secrets.randbelow(10000)
            probe.bind(("127.0.0.1", port))
            return port


async def test_a_stopped_vm_moves_with_its_snapshots(
    machines: Any, other: Any, nodes: tuple[Any, Any]
) -> None:
    """Its disks travel as they are; a second transfer replaces the first."""
    here, there = nodes
    vm = await machines.create(
        [], autoboot=False, disks=[{"image_uuid": machines.image, "size": 1024}]
    )
    uuid = vm["uuid"]
    await machines.driver.create_snapshot(uuid, "kept")
    await step(there, uuid, "setup-filesystem", vm=await machines.driver.load(uuid))
    where = await step(there, uuid, "receive")
    assert (await step(here, uuid, "sync", **where))["transferred"] > 0
    again = await step(there, uuid, "receive")
    assert again["token"] != where["token"]
    # Who waited before waits no more.
    assert (await refused(here, uuid, "sync", **where))[1] == "MigrationFailed"
    await step(here, uuid, "sync", **again)
    come = await other.driver.load(uuid)
    assert [entry["name"] for entry in come["snapshots"]] == ["kept"]
    file = disks.file_of(other.store.path(uuid), come["disks"][0])
    assert await disks.snapshot_names(file) == ["kept"]
    source = disks.file_of(machines.store.path(uuid), come["disks"][0])
    assert file.read_bytes() == source.read_bytes()
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert (await other.driver.rollback_snapshot(uuid, "kept"))["state"] == "stopped"
