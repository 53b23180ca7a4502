"""Real containers: addresses, security groups, life cycle, and what is left of them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.node.conftest import IMAGE
from tests.waiting import eventually

from vetro.node.errors import DriverError, ImageError
from vetro.node.processes import command_line

from .lxc_guests import fetch, inside

pytestmark = pytest.mark.root

#: The image that the fixture knows (conftest.py).


async def test_a_container_serves_on_its_static_address(containers: Any) -> None:
    """Created means running, with the address, name and route that were asked for."""
    nic = await containers.plugged(5)
    vm = await containers.create(
        [nic], hostname="web-1", dns_domain="example", resolvers=["9.9.9.9"]
    )
    assert vm["state"] == "running"
    assert (await fetch(nic["ip"])) == b"HTTP/1.1 200 OK\r\n"
    assert await inside(containers, vm["uuid"], "hostname") == (0, "web-1\n")
    assert (
        f"{nic['ip']}\tweb-1.example web-1"
        in (await inside(containers, vm["uuid"], "cat", "/etc/hosts"))[1]
    )
    assert (
        "nameserver 9.9.9.9" in (await inside(containers, vm["uuid"], "cat", "/etc/resolv.conf"))[1]
    )
    assert (
        f"default via {containers.subnet}.1"
        in (await inside(containers, vm["uuid"], "ip", "route"))[1]
    )


async def test_root_in_a_container_is_nobody_on_the_host(containers: Any) -> None:
    """Containers are unprivileged: shifted ids, dropped capabilities, a seccomp filter."""
    vm = await containers.connected(5)
    status = Path(f"/proc/{vm['pid']}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert int(fields["Uid"].split()[0]) >= 100000
    assert fields["Seccomp"].strip() == "2"
    bounding = int(fields["CapBnd"], 16)
    sys_module, sys_time = 16, 25
    assert not bounding >> sys_module & 1
    assert not bounding >> sys_time & 1
    await inside(containers, vm["uuid"], "touch", "/root/mine")
    owner = (containers.store.path(vm["uuid"]) / "upper/root/mine").stat().st_uid
    assert owner >= 100000


async def test_stop_start_and_reboot(containers: Any) -> None:
    """The file system survives, `/run` does not; a stopped VM is not stopped twice."""
    nic = await containers.plugged(5)
    vm = await containers.create([nic])
    uuid = vm["uuid"]
    await inside(containers, uuid, "sh", "-c", "echo kept > /root/file; echo gone > /run/file")
    stopped = await containers.driver.stop(uuid, timeout=10)
    assert (stopped["state"], stopped["zone_state"]) == ("stopped", "installed")
    with pytest.raises(DriverError) as error:
        await containers.driver.stop(uuid)
    assert error.value.code == "ENOTRUNNING"
    started = await containers.driver.start(uuid)
    assert started["state"] == "running"
    assert await inside(containers, uuid, "cat", "/root/file") == (0, "kept\n")
    assert (await inside(containers, uuid, "cat", "/run/file"))[0] != 0
    assert (await containers.driver.reboot(uuid, timeout=10))["pid"] != started["pid"]
    assert await fetch(nic["ip"]) is not None


async def test_limits_are_set_and_changed_while_it_runs(containers: Any) -> None:
    """Memory and process limits reach the kernel at start and with an update."""
    vm = await containers.connected(5, max_physical_memory=128, max_lwps=50, cpu_cap=50)

    def limit(name_v1: str, name_v2: str) -> str:
        group = f"lxc.payload.{vm['uuid']}"
        for path in (
            Path("/sys/fs/cgroup", name_v1.split(".")[0], group, name_v1),
            Path("/sys/fs/cgroup", group, name_v2),
        ):
            if path.exists():
                return path.read_text().strip()
        raise AssertionError(f"no control group has {name_v1} or {name_v2}")

    assert limit("memory.limit_in_bytes", "memory.max") == str(128 << 20)
    assert limit("pids.max", "pids.max") == "50"
    changed = await containers.driver.update(vm["uuid"], {"max_physical_memory": 192})
    assert changed["max_physical_memory"] == 192
    assert limit("memory.limit_in_bytes", "memory.max") == str(192 << 20)
    await containers.driver.update(vm["uuid"], {"max_physical_memory": 96, "max_swap": 96})
    assert limit("memory.limit_in_bytes", "memory.max") == str(96 << 20)


async def test_adding_an_interface_restarts_with_it(containers: Any) -> None:
    """An update with `add_nics` ends in a running container that has both interfaces."""
    first, second = containers.nic(5), containers.nic(6)
    await containers.apply([first, second])
    vm = await containers.create([first])
    updated = await containers.driver.update(vm["uuid"], {"add_nics": [second]})
    assert [nic["interface"] for nic in updated["nics"]] == ["net0", "net1"]
    assert [nic["primary"] for nic in updated["nics"]] == [True, False]
    assert "eth1" in (await inside(containers, vm["uuid"], "ip", "link"))[1]


async def test_reprovision_starts_afresh(containers: Any, kit: SimpleNamespace) -> None:
    """The root file system is the image again; uuid, address and metadata stay."""
    nic = await containers.plugged(5)
    vm = await containers.create([nic], tags={"role": "web"})
    await inside(containers, vm["uuid"], "touch", "/root/file")
    again = await containers.driver.reprovision(vm["uuid"], kit.image)
    assert again["state"] == "running"
    assert again["tags"] == {"role": "web"}
    assert (await inside(containers, vm["uuid"], "ls", "/root/file"))[0] != 0
    assert await fetch(nic["ip"]) is not None


async def test_processes_are_those_of_the_container(containers: Any) -> None:
    """`machine_proc` shows the container's init as pid 1 and nothing of the host."""
    nic = await containers.plugged(5)
    vm = await containers.create([nic])
    await fetch(nic["ip"])
    processes = await containers.driver.processes(vm["uuid"])
    assert processes["1"]["host_pid"] == vm["pid"]
    assert any("httpd" in " ".join(p["command"]) for p in processes.values())
    assert not any("pytest" in " ".join(p["command"]) for p in processes.values())


async def test_a_guest_that_powers_off_is_noticed(containers: Any) -> None:
    """The end of a container is an event: no one has to ask."""
    vm = await containers.connected(5)
    changed = asyncio.Event()

    def notice(_uuid: str) -> None:
        changed.set()

    containers.driver.watch(notice)
    await inside(containers, vm["uuid"], "poweroff", "-f")
    async with asyncio.timeout(240):
        await changed.wait()
    after = await containers.driver.load(vm["uuid"])
    assert after["state"] == "stopped"
    assert "exit_timestamp" in after


async def test_containers_outlive_the_agent(
    containers: Any, kit: SimpleNamespace, tmp_path: Path
) -> None:
    """Another agent on the same data finds the container running, and can stop it."""
    vm = await containers.connected(5)
    await containers.driver.close()
    second = await kit.open_containers(tmp_path, containers.prefix, containers.subnet)
    try:
        found = await second.driver.load(vm["uuid"])
        assert (found["state"], found["pid"]) == ("running", vm["pid"])
        await second.driver.stop(vm["uuid"], force=True)
        assert not Path(f"/proc/{vm['pid']}").exists()
    finally:
        await second.driver.close()


async def test_destroy_leaves_nothing(
    containers: Any, kit: SimpleNamespace, tmp_path: Path
) -> None:
    """No mount, interface, control group, lock, process or directory; again is no error."""
    vm = await containers.connected(5)
    uuid = vm["uuid"]
    await containers.driver.delete(uuid)
    await containers.driver.delete(uuid)
    await containers.network.apply({"version": 100})
    assert kit.traces(containers.prefix, tmp_path) == []
    assert list((tmp_path / "vms").iterdir()) == []
    # LXC's groups are at the top of each hierarchy. Deeper, those of others come and go while we look.
    groups = Path("/sys/fs/cgroup")
    assert [*groups.glob(f"*{uuid}*"), *groups.glob(f"*/*{uuid}*")] == []
    assert list(Path("/run/lxc").glob(f"**/.{uuid}")) == []


async def test_a_missing_network_fails_the_create_and_leaves_nothing(containers: Any) -> None:
    """The error says which network; the VM does not exist afterwards."""
    nic = containers.nic(5)
    with pytest.raises(DriverError, match="is not on this node") as error:
        await containers.create([nic])
    assert error.value.rest_code == "NetworkNotFound"
    assert await containers.driver.list() == []
    assert list((containers.directory / "vms").iterdir()) == []


async def test_an_init_that_cannot_run_is_a_failed_create(containers: Any) -> None:
    """What LXC says reaches the error."""
    nic = await containers.plugged(5)
    await containers.images.ensure("11111111-1111-4111-8111-111111111111")
    root = containers.images.root("11111111-1111-4111-8111-111111111111")
    (root / "bin/busybox").chmod(0o644)
    with pytest.raises(DriverError, match="(did not start|ended right after its start):"):
        await containers.create([nic])
    assert await containers.driver.list() == []


async def test_ten_are_created_side_by_side(containers: Any) -> None:
    """Concurrent creates do not disturb each other."""
    nics = [containers.nic(10 + index) for index in range(10)]
    await containers.apply(nics)
    vms = await asyncio.gather(*(containers.create([nic]) for nic in nics))
    assert {vm["state"] for vm in vms} == {"running"}
    pages = await asyncio.gather(*(fetch(nic["ip"]) for nic in nics))
    assert pages == [b"HTTP/1.1 200 OK\r\n"] * 10


async def test_an_image_that_is_no_tar_is_refused(
    containers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged image fails with its reason and leaves no directory behind."""

    async def broken(_uuid: str, path: Path) -> None:
        path.write_bytes(b"\x28\xb5\x2f\xfdnot really")

    monkeypatch.setattr(containers.images, "_fetch", broken)
    with pytest.raises(ImageError, match="is not a root file system"):
        await containers.images.ensure("11111111-1111-4111-8111-111111111111")
    assert list((containers.directory / "images").iterdir()) == []


async def test_image_owners_are_shifted(containers: Any) -> None:
    """Root's files in the image belong to the containers' root, which is nobody on the host."""
    await containers.images.ensure("11111111-1111-4111-8111-111111111111")
    root = containers.images.root("11111111-1111-4111-8111-111111111111")
    assert (root / "bin/busybox").stat().st_uid >= 100000
    assert (root / "tmp").stat().st_mode & 0o7777 == 0o1777


async def test_a_killed_monitor_is_a_stopped_vm_that_starts_again(containers: Any) -> None:
    """LXC's own process may die; the container goes with it and nothing blocks the next start."""
    nic = await containers.plugged(5)
    vm = await containers.create([nic])
    monitor = int((containers.store.path(vm["uuid"]) / "monitor.pid").read_text())
    os.kill(monitor, signal.SIGKILL)

    async def stopped() -> bool:
        return bool((await containers.driver.load(vm["uuid"]))["state"] == "stopped")

    await eventually(stopped)
    assert (await containers.driver.start(vm["uuid"]))["state"] == "running"
    assert await fetch(nic["ip"]) is not None


async def test_containers_of_a_removed_data_directory_are_ended(
    kit: SimpleNamespace, tmp_path: Path, node_names: tuple[str, str]
) -> None:
    """When the directory is deleted under running containers, the next start cleans the machine."""
    prefix, subnet = node_names
    first = await kit.open_containers(tmp_path, prefix, subnet)
    nic = first.nic(5)
    await first.apply([nic])
    vm = await first.create([nic])
    await first.driver.close()
    shutil.rmtree(tmp_path / "vms")
    second = await kit.open_containers(tmp_path, prefix, subnet)
    assert not any(command_line(vm["pid"]))
    await second.network.apply({"version": 1})
    await second.driver.close()
    assert kit.traces(prefix, tmp_path) == []


async def test_a_restart_of_the_machine_brings_containers_back(
    containers: Any, kit: SimpleNamespace, tmp_path: Path
) -> None:
    """Mounts, configuration and networks are made again from what is on disk."""
    nic = await containers.plugged(5)
    vm = await containers.create([nic])
    uuid = vm["uuid"]
    await inside(containers, uuid, "touch", "/root/kept")
    await containers.driver.kill(uuid, signal.SIGKILL)

    async def ended() -> bool:
        return bool((await containers.driver.load(uuid))["state"] == "stopped")

    await eventually(ended)
    await containers.driver.close()
    # What a restart takes away.
    [runtime] = Path("/run/vetro").glob(f"{containers.prefix}-*")
    subprocess.run(["umount", str(runtime / uuid / "rootfs")], check=True)
    shutil.rmtree(runtime)
    subprocess.run(
        ["ip", "link", "delete", f"{containers.prefix}b{containers.network_uuid[:8]}"], check=True
    )
    second = await kit.open_containers(tmp_path, containers.prefix, containers.subnet)
    try:
        await second.network.restore()
        assert await second.driver.autoboot() == []
        assert (await second.driver.load(uuid))["state"] == "running"
        assert await inside(second, uuid, "ls", "/root") == (0, "kept\n")
        assert await fetch(nic["ip"]) is not None
        await second.driver.stop(uuid, force=True)
    finally:
        await second.driver.close()


async def test_a_create_cancelled_by_its_time_limit_leaves_nothing(containers: Any) -> None:
    """The task's end takes everything with it, also in the middle of the start."""
    nic = await containers.plugged(5)
    changed = asyncio.Event()
    hypervisor = containers.driver._hypervisors.of({"brand": "lx"})
    start = hypervisor.start

    async def slow(vm: dict[str, Any]) -> None:
        await start(vm)
        changed.set()
        await asyncio.Event().wait()

    hypervisor.start = slow
    work = asyncio.create_task(containers.create([nic]))
    await changed.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    hypervisor.start = start
    assert await containers.driver.list() == []
    assert list((containers.directory / "vms").iterdir()) == []


async def test_an_image_is_unpacked_before_a_container_needs_it(containers: Any) -> None:
    """A creation that comes meanwhile joins it; the store says how far it is, then that it is here."""
    seen: list[tuple[str, int]] = []

    def changed() -> None:
        seen.extend((one["state"], one["percent"]) for one in containers.images.copies().values())

    containers.images.watch(changed)
    nic = await containers.plugged(5)
    early = asyncio.create_task(containers.images.ensure(IMAGE))
    vm = await containers.create([nic])
    await early
    assert vm["state"] == "running"
    assert seen[0] == ("fetching", 0)
    assert ("unpacking", 40) in seen
    assert seen[-1] == ("present", 100)
    assert [percent for _, percent in seen] == sorted(percent for _, percent in seen)
