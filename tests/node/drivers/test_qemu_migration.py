"""Moving virtual machines between two nodes: two agents' drivers with everything of their own."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vetro.node.drivers import qemu_disks
from vetro.node.errors import DriverError

pytestmark = pytest.mark.root


def guest() -> Any:
    """How the other tests look into a guest: test modules cannot import each other by name."""
    name = "qemu_guest_access"
    if name not in sys.modules:
        path = Path(__file__).with_name("test_qemu_machines.py")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture
async def other(
    machines: Any, vm_image: Path, vm_host: Path, vm_kit: SimpleNamespace, tmp_path: Path
) -> AsyncIterator[Any]:
    """A second node with another prefix and the same network."""
    directory = tmp_path / "other"
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


async def set_up(other: Any, vm: dict[str, Any]) -> None:
    """What the task ``setup-filesystem`` does on the target."""
    keys = ("uuid", "brand", "image_uuid", "ram", "nics", "disks", "vnc_password", "hostname")
    payload = {key: vm[key] for key in keys}
    await other.driver.create(
        {**payload, "autoboot": False, "do_not_inventory": True}, lambda _step, _percent: None
    )


async def test_a_running_vm_moves_with_its_memory_and_disks(machines: Any, other: Any) -> None:
    """What the guest had in memory and on its disks is there on the other node, still running."""
    nic = await machines.nic(5)
    vm = await machines.create([nic], disks=[{"image_uuid": machines.image}, {"size": 16}])
    uuid = vm["uuid"]
    async with guest().logged_in(machines, uuid) as terminal:
        await terminal.type("mark=in-memory; echo on-disk > /dev/vdb; echo moved > /www/state\r")
        await terminal.type("sync; echo the''end\r")
        await terminal.until("theend")
    await set_up(other, vm)

    await machines.driver.create_snapshot(uuid, "one")
    where = await other.driver.migrate_live(uuid, "receive", {})
    with pytest.raises(DriverError, match="snapshots") as refused:
        await machines.driver.migrate_live(uuid, "sync", where)
    assert refused.value.rest_code == "VmHasSnapshots"
    await machines.driver.delete_snapshot(uuid, "one")
    with pytest.raises(DriverError, match="wrong token"):
        await machines.driver.migrate_live(uuid, "sync", {**where, "token": "guessed"})
    assert (await machines.driver.load(uuid))["state"] == "running"

    moved = await machines.driver.migrate_live(uuid, "sync", where)
    assert moved["transferred"] > 2**20
    here, there = await machines.driver.load(uuid), await other.driver.load(uuid)
    assert (here["state"], there["state"]) == ("stopped", "running")
    # It cannot come up twice.
    assert (here["autoboot"], here["do_not_inventory"]) == (False, True)
    assert await machines.driver.autoboot() == []
    links = [path.name for path in Path("/sys/class/net").iterdir()]
    assert [name for name in links if name.startswith(f"{other.prefix}v")]
    assert not [name for name in links if name.startswith(f"{machines.prefix}v")]

    # The same shell goes on: nobody logged in again.
    info = await other.driver.info(uuid, ["serial", "vnc"])
    assert info["vnc"]["port"] >= 5900
    terminal = await guest().Terminal.open(info["serial"]["path"])
    try:
        await terminal.type("echo $mark; head -n 1 /dev/vdb; cat /www/state; echo the''end\r")
        said = await terminal.until("theend")
    finally:
        terminal.close()
    assert "in-memory" in said
    assert "on-disk" in said
    assert "moved" in said

    # Deleting what is left here does not touch it there; there it is a VM like any other.
    await machines.driver.delete(uuid)
    assert (await other.driver.load(uuid))["state"] == "running"
    await machines.network.apply({"version": 10**8})
    other.nics.append(nic)
    await other.apply()
    assert await guest().page(nic["ip"], "/state") == "moved\n"


async def test_a_stopped_vm_moves_with_its_snapshots(machines: Any, other: Any) -> None:
    """Its disks travel as they are; a second transfer replaces the first."""
    vm = await machines.create(
        [], autoboot=False, disks=[{"image_uuid": machines.image, "size": 1024}]
    )
    uuid = vm["uuid"]
    await machines.driver.create_snapshot(uuid, "kept")
    await set_up(other, await machines.driver.load(uuid))
    where = await other.driver.migrate_live(uuid, "receive", {})
    assert (await machines.driver.migrate_live(uuid, "sync", where))["transferred"] > 0
    again = await other.driver.migrate_live(uuid, "receive", {})
    assert again["token"] != where["token"]
    with pytest.raises(DriverError):
        await machines.driver.migrate_live(uuid, "sync", where)
    await machines.driver.migrate_live(uuid, "sync", again)
    there = await other.driver.load(uuid)
    assert [entry["name"] for entry in there["snapshots"]] == ["kept"]
    file = qemu_disks.file_of(other.store.path(uuid), there["disks"][0])
    assert await qemu_disks.snapshot_names(file) == ["kept"]
    source = qemu_disks.file_of(machines.store.path(uuid), there["disks"][0])
    assert file.read_bytes() == source.read_bytes()
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert (await other.driver.rollback_snapshot(uuid, "kept"))["state"] == "stopped"
