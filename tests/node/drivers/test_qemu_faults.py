"""What goes wrong around virtual machines: agents and daemons that are killed, disks that are full."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.node.drivers.guests import Terminal, logged_in
from tests.waiting import eventually

from vetro.node.drivers.qemu.daemon import LibvirtDaemon
from vetro.node.drivers.qemu.libvirt import Libvirt
from vetro.node.errors import DriverError
from vetro.node.processes import family, processes_by_pid

pytestmark = [pytest.mark.thorough, pytest.mark.root]


Opening = Callable[[], Any]


@pytest.fixture
def agent(
    tmp_path: Path,
    vm_image: Path,
    vm_host: Path,
    vm_kit: SimpleNamespace,
    kit: SimpleNamespace,
    node_names: tuple[str, str],
) -> Iterator[Opening]:
    """Opens a driver on the test's directory, one after the other; nothing of the VMs stays."""
    prefix, subnet = node_names
    network = kit.new_uuid()
    vm_kit.know_the_host(vm_host, tmp_path)
    versions = iter(range(100, 10000, 100))

    @contextlib.asynccontextmanager
    async def opened(*, last: bool = True) -> AsyncIterator[Any]:
        """``last``: its VMs and networks go with it."""
        machines = await vm_kit.open_machines(
            tmp_path, vm_image, prefix, subnet, network, kit.image
        )
        machines.versions = next(versions)
        try:
            yield machines
        except BaseException:
            last = True
            raise
        finally:
            if last:
                for vm in machines.store:
                    await machines.driver.delete(vm["uuid"])
                await machines.network.apply({"version": 10**9})
            await machines.driver.close()

    opened.arguments = [str(tmp_path), str(vm_image), prefix, subnet, network, kit.image]
    with vm_kit.ended_at_once():
        yield opened
    assert vm_kit.traces(prefix, tmp_path) == []


# Where the agent is killed: instead of making anything; with a disk that has no place yet; with all that
# a start needs; while libvirt starts QEMU; when it runs and the record does not say so yet.
KILL = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.node.drivers import conftest as support
from vetro.node.drivers.qemu import disks as qemu_disks
from vetro.node.processes import processes_by_pid
from vetro.node.drivers.qemu.hypervisor import QemuHypervisor
from vetro.node.drivers.qemu.daemon import LibvirtDaemon
from vetro.node.drivers.qemu.libvirt import Libvirt
point, directory, image, prefix, subnet, network, uuid = sys.argv[2:9]
def die(*_a, **_k):
    os.kill(os.getpid(), signal.SIGKILL)
def after(owner, name):
    method = getattr(owner, name)
    async def wrapped(*a, **k):
        await method(*a, **k)
        die()
    setattr(owner, name, wrapped)
async def spawn(self, xml):
    work = asyncio.ensure_future(self.call(lambda connection: connection.createXML(xml, 0)))
    while not any(word.startswith("guest=") and word[6:42] in xml
                  for _pid, argv in processes_by_pid() for word in argv):
        await asyncio.sleep(0)
    die()
async def main():
    machines = await support.open_machines(
        Path(directory), Path(image), prefix, subnet, network, uuid)
    nic = await machines.nic(5)
    if point == "record":
        QemuHypervisor.make = die
    elif point == "disk":
        after(qemu_disks, "_tool")
    elif point == "spawn":
        Libvirt.start = spawn
    else:
        after(QemuHypervisor, point)
    await machines.create([nic])
asyncio.run(main())
"""


@pytest.mark.parametrize("point", ["record", "disk", "prepare", "spawn", "start"])
async def test_an_agent_killed_in_the_middle_of_a_create_leaves_no_half_vm(
    point: str, agent: Any, tmp_path: Path
) -> None:
    """Wherever it was: the next agent removes what there is, and the create can be repeated."""
    root = str(Path(__file__).parents[3])
    killed = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILL, root, point, *agent.arguments, stderr=subprocess.PIPE
    )
    _, errors = await killed.communicate()
    async with agent() as second:
        assert killed.returncode == -signal.SIGKILL, errors.decode()
        assert await second.driver.list(include_dni=True) == []
        assert list((tmp_path / "vms").iterdir()) == []
        links = [path.name for path in Path("/sys/class/net").iterdir()]
        assert not [name for name in links if name.startswith(f"{second.prefix}v")]
        assert (await second.create([await second.nic(5)]))["state"] == "running"


async def test_a_vm_whose_disk_is_full_stands_still_and_goes_on(agent: Any, tmp_path: Path) -> None:
    """The VM reports the reason, also to a restarted agent; with room again it continues."""
    store = tmp_path / "vms"
    store.mkdir(mode=0o711)
    mount = ["mount", "-t", "tmpfs", "-o", "size=20m,mode=711", "vetro", str(store)]
    subprocess.run(mount, check=True)
    try:
        async with agent(last=False) as first:
            vm = await first.create([], disks=[{"image_uuid": first.image}, {"size": 64}])
            uuid = vm["uuid"]
            told: list[str] = []
            async with logged_in(first, uuid) as terminal:
                first.driver.watch(told.append)
                await terminal.type(
                    "while cat /bin/busybox; do :; done > /dev/vdb; sync; echo the''end\r"
                )
                await until_frozen(first, uuid)
            assert uuid in told
            shown = await first.driver.load(uuid)
            assert (shown["state"], shown["frozen_reason"]) == ("running", "disk-full")
            status = (await first.driver.info(uuid, ["status"]))["status"]
            assert (status["frozen"], status["frozen_reason"]) == (True, "disk-full")
            # There is still no room: it stops again at once.
            await first.driver.start(uuid)
            await until_frozen(first, uuid)
        async with agent() as second:
            await until_frozen(second, uuid)
            subprocess.run(["mount", "-o", "remount,size=128m", str(store)], check=True)
            shown = await second.driver.start(uuid)
            assert (shown["pid"], "frozen" in shown) == (vm["pid"], False)
            terminal = await Terminal.open(str(second.store.path(uuid) / "run/console.sock"))
            try:
                await terminal.until("theend")
            finally:
                terminal.close()
    finally:
        subprocess.run(["umount", "--lazy", str(store)], check=True)


async def until_frozen(machines: Any, uuid: str) -> None:
    """Wait until a VM stands still."""

    async def frozen() -> bool:
        return bool((await machines.driver.load(uuid)).get("frozen"))

    await eventually(frozen)


async def test_a_daemon_that_dies_comes_back_by_itself(agent: Any, tmp_path: Path) -> None:
    """The daemon restarts without a request, and events of VMs arrive as before."""
    async with agent() as machines:
        vm = await machines.create([])
        uuid = vm["uuid"]
        machines.hypervisor.link.worked_seconds = 0
        daemon = int((tmp_path / "qemu/daemon.pid").read_text())
        os.kill(daemon, signal.SIGKILL)
        pid_file = tmp_path / "qemu/daemon.pid"

        async def another() -> bool:
            return pid_file.exists() and pid_file.read_text().strip() not in ("", str(daemon))

        await eventually(another)
        connection = await machines.hypervisor.connection()
        assert "frozen" not in await machines.driver.load(uuid)
        # As somebody would who uses libvirt's own tools.
        await connection.with_domain(uuid, lambda domain: domain.suspend())
        await until_frozen(machines, uuid)
        assert (await machines.driver.load(uuid))["frozen_reason"] == "paused"
        assert "frozen" not in await machines.driver.start(uuid)
        # One that stands still does not hear its power button: it is not waited for.
        await connection.with_domain(uuid, lambda domain: domain.suspend())
        await until_frozen(machines, uuid)
        async with asyncio.timeout(240):
            stopped = await machines.driver.stop(uuid, timeout=600)
        assert (stopped["state"], "frozen" in stopped) == ("stopped", False)


async def test_a_daemon_that_dies_at_once_is_not_started_again_and_again(
    agent: Any, tmp_path: Path
) -> None:
    """It is started when it is needed next, not in a circle."""
    async with agent() as machines:
        await machines.hypervisor.connection()
        machines.hypervisor.link.worked_seconds = 10**6
        daemon = int((tmp_path / "qemu/daemon.pid").read_text())
        os.kill(daemon, signal.SIGKILL)

        async def noticed() -> bool:
            return not machines.hypervisor.daemon.running

        await eventually(noticed)
        assert int((tmp_path / "qemu/daemon.pid").read_text()) == daemon
        assert (await machines.create([]))["state"] == "running"
        assert int((tmp_path / "qemu/daemon.pid").read_text()) != daemon


async def test_a_daemon_killed_while_it_starts_a_vm_leaves_no_half_vm(
    agent: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The create fails and takes QEMU along, which waits for its daemon; it can be repeated."""
    async with agent() as machines:
        libvirt = await machines.hypervisor.connection()
        daemon = int((tmp_path / "qemu/daemon.pid").read_text())
        start = libvirt.start

        async def start_and_kill(xml: str) -> None:
            work = asyncio.ensure_future(start(xml))
            # On a machine that is very busy it may be over before we see it: then the VM is whole.
            while not work.done() and qemu_of(xml) is None:
                await asyncio.sleep(0)
            os.kill(daemon, signal.SIGKILL)
            await work

        monkeypatch.setattr(libvirt, "start", start_and_kill)
        nic = await machines.nic(5)
        try:
            vm = await machines.create([nic])
        except DriverError as error:
            assert "did not start" in str(error)
            assert list((tmp_path / "vms").iterdir()) == []
            links = [path.name for path in Path("/sys/class/net").iterdir()]
            assert not [name for name in links if name.startswith(f"{machines.prefix}v")]
        else:
            assert vm["state"] == "running"
            await machines.driver.delete(vm["uuid"])
        monkeypatch.undo()
        vm = await machines.create([nic])
        assert vm["state"] == "running"
        assert await machines.driver.list() == [vm]


def qemu_of(xml: str) -> int | None:
    """The QEMU of a domain."""
    for pid, words in processes_by_pid():
        if any(word.startswith("guest=") and word[6:42] in xml for word in words):
            return pid
    return None


TAKEN = "-vnc 127.0.0.1:0: Failed to find an available port: Address already in use"


@pytest.mark.parametrize(
    ("vm", "errors", "tries", "ends_well"),
    [
        ({}, [TAKEN, TAKEN], 3, True),
        ({"vnc_port": 0}, [TAKEN], 2, True),
        # For a limited time, at the requested port only, and for this machine only.
        ({}, [TAKEN] * 9, 5, False),
        ({"vnc_port": 5950}, [TAKEN], 1, False),
        ({}, ["no memory"], 1, False),
    ],
)
async def test_a_screen_whose_port_was_taken_meanwhile_gets_another(
    vm: dict[str, Any], errors: list[str], tries: int, ends_well: bool
) -> None:
    """Several daemons look for free ports on one machine: who comes second looks again."""
    left, made = list(errors), 0

    async def attempt() -> None:
        nonlocal made
        made += 1
        if left:
            raise DriverError(left.pop(0))

    libvirt = Libvirt()
    try:
        expected = contextlib.nullcontext() if ends_well else pytest.raises(DriverError)
        with expected:
            await libvirt.again_with_another_port({"uuid": "u", **vm}, attempt)
    finally:
        libvirt.shut()
    assert made == tries


class Killed(BaseException):
    """What ends an agent in the middle of anything."""


async def test_a_daemon_that_was_only_being_started_is_ended(
    tmp_path: Path, vm_host: Path, vm_kit: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its agent was killed before it wrote a pid file: the next agent's daemon does not meet it."""
    vm_kit.know_the_host(vm_host, tmp_path)
    first, second = (LibvirtDaemon(tmp_path / "qemu", {}) for _ in range(2))

    async def killed(_daemon: LibvirtDaemon) -> bool:
        raise Killed

    with vm_kit.ended_at_once():
        with monkeypatch.context() as patch:
            patch.setattr(LibvirtDaemon, "_listens", killed)
            with pytest.raises(Killed):
                await first.start("tcg")
        await second.start("tcg")
        try:
            mine = (str(tmp_path / "qemu"), str(tmp_path / "qemu/daemon.pid"))
            found = {
                pid: argv[0] for pid, argv in processes_by_pid() if any(one in argv for one in mine)
            }
            # A daemon that is about to run another program has a child with its own arguments.
            children = {child for pid in found for child in family(pid) - {pid}}
            assert [name for pid, name in found.items() if pid not in children] == ["libvirtd"]
        finally:
            await second.stop()
