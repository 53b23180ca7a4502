"""Real virtual machines: addresses, life cycle, snapshots, screen, and what is left of them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import uuid as uuids
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.node.conftest import OTHER_IMAGE
from tests.node.drivers.guests import logged_in, page
from tests.waiting import eventually

from vetro.node.drivers.hypervisor import ExecRequest
from vetro.node.drivers.qemu import disks
from vetro.node.errors import DriverError
from vetro.node.processes import command_line

pytestmark = pytest.mark.root


async def test_a_vm_from_its_creation_to_its_end(machines: Any) -> None:
    """Address, name, page, agent's view, power button, start, and nothing left after the end."""
    nic = await machines.nic(5)
    vm = await machines.create(
        [nic],
        hostname="web-1",
        dns_domain="example",
        resolvers=["9.9.9.9"],
        vnc_password="secret",
        customer_metadata={"user-data": "#!/bin/sh\n", "root_authorized_keys": "ssh-rsa AAAA me"},
    )
    uuid = vm["uuid"]
    assert (vm["state"], vm["type"], vm["ram"], vm["max_physical_memory"]) == (
        "running", "KVM", 128, 1152,
    )  # fmt: skip
    assert vm["disks"][0]["size"] == 10240
    assert await page(nic["ip"]) == "a page\n"

    # Inside, everything of the record is in place.
    async with logged_in(machines, uuid) as terminal:
        await terminal.type(
            "cat /etc/hosts /etc/resolv.conf /root/.ssh/authorized_keys /var/lib/vetro/user-data;"
            " ip route; hostname; ls -ld /root/.ssh; df -m / | tail -n 1; echo the''end\r"
        )
        said = await terminal.until("theend")
        assert f"{nic['ip']}\tweb-1.example web-1" in said
        assert "nameserver 9.9.9.9" in said
        assert "ssh-rsa AAAA me" in said
        assert f"default via {machines.subnet}.1" in said
        assert "drwx------" in said

    # QEMU is nobody special, and has the accelerator that was found to work.
    assert "Uid:\t64055" in Path(f"/proc/{vm['pid']}/status").read_text()
    words = command_line(vm["pid"])
    assert words[words.index("-accel") + 1] == machines.hypervisor.accelerator

    stats = await machines.driver.stats(uuid)
    assert stats["cpu_stats"]["cpu_usage"]["total_usage"] > 0
    assert stats["memory_stats"]["limit"] == 1152 << 20
    assert 0 < stats["memory_stats"]["usage"] <= stats["memory_stats"]["max_usage"]
    # The page went out, and its request came in.
    assert stats["networks"]["eth0"]["tx_bytes"] > len("a page\n")
    assert stats["networks"]["eth0"]["rx_packets"] > 0
    [read, write] = stats["blkio_stats"]["io_service_bytes_recursive"]
    assert (read["device"], read["op"], write["op"]) == ("disk0", "read", "write")
    assert read["value"] > 2**20

    info = await machines.driver.info(uuid, ["all"])
    assert info["status"] == {"state": "running", "pid": vm["pid"]}
    assert info["spice"] is None
    assert info["vnc"] == {
        "host": "127.0.0.1",
        "port": 5900 + info["vnc"]["display"],
        "display": info["vnc"]["display"],
    }
    assert {"block", "blockstats", "cpus", "version", "chardev", "pci", "kvm", "serial"} <= {*info}
    reader, writer = await asyncio.open_connection("127.0.0.1", info["vnc"]["port"])
    assert (await reader.readline()).startswith(b"RFB 003.")
    # One kind of authentication is offered: VNC's own, by password.
    writer.write(b"RFB 003.008\n")
    assert await reader.readexactly(2) == b"\x01\x02"
    writer.close()

    picture = await machines.driver.screenshot(uuid)
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = (int.from_bytes(picture[at : at + 4], "big") for at in (16, 20))
    assert (width, height) >= (320, 200)

    with pytest.raises(DriverError) as refused:
        await machines.driver.processes(uuid)
    assert refused.value.rest_code == "NotImplemented"
    # Commands go through the guest's own QEMU agent, with words and variables as they are.
    done = await machines.driver.execute(
        uuid, ["sh", "-c", 'echo "$1 $NAME"; echo bad >&2; exit 3', "sh", "a  b"],
        {"NAME": "c'd", "PATH": "/bin"}, 60,
    )  # fmt: skip
    assert (done.exit_code, done.stdout, done.stderr) == (3, "a  b c'd\n", "bad\n")
    with pytest.raises(DriverError, match="did not end within 0.2 s"):
        await machines.driver.execute(uuid, ["sleep", "30"], {"PATH": "/bin"}, 0.2)
    with pytest.raises(DriverError, match="libvirt"):
        await machines.driver.execute(uuid, ["/no/such/program"], {}, 5)

    await commands_with_streams(machines, uuid)
    volume = await plugged_in(machines, uuid)

    # The power button ends it in order: the file system was unmounted, not cut off.
    began = asyncio.get_running_loop().time()
    stopped = await machines.driver.stop(uuid, timeout=60)
    assert stopped["state"] == "stopped"
    assert asyncio.get_running_loop().time() - began < 55
    assert "exit_timestamp" in stopped
    links = [path.name for path in Path("/sys/class/net").iterdir()]
    assert not [name for name in links if name.startswith(f"{machines.prefix}v")]

    again = await machines.driver.start(uuid)
    assert again["pid"] != vm["pid"]
    await eventually(lambda: serials(machines, uuid, volume))
    await machines.driver.delete(uuid)
    await machines.driver.volumes.delete(volume)
    assert not command_line(again["pid"])
    assert not machines.store.path(uuid).exists()
    leftovers = [
        path for path in (machines.store.directory.parent / "qemu").rglob("*") if uuid in path.name
    ]
    assert leftovers == []


async def plugged_in(machines: Any, uuid: str) -> str:
    """A volume that was given to a running VM: the guest has the disk, and reads and writes it."""
    work = machines.driver.volumes
    volume = str((await work.create(str(uuids.uuid4()), work.format_for("kvm"), 1)).uuid)
    await work.attach(uuid, volume, "", read_only=False)
    await eventually(lambda: serials(machines, uuid, volume))
    written = await machines.driver.execute(
        uuid, ["sh", "-c", "echo kept | dd of=/dev/sda; dd if=/dev/sda bs=4 count=1"], {}, 60
    )
    assert (written.exit_code, written.stdout) == (0, "kept")
    return volume


async def serials(machines: Any, uuid: str, volume: str) -> bool:
    """Whether a disk inside the VM has the volume's uuid as its serial number."""
    try:
        said = await machines.driver.execute(
            uuid, ["sh", "-c", "cat /sys/block/sd*/device/vpd_pg80"], {}, 60
        )
    except DriverError:
        return False  # it still starts
    return volume in said.stdout


async def commands_with_streams(machines: Any, uuid: str) -> None:
    """What ``docker_exec`` starts: both outputs and the status; what cannot be is said."""
    request = ExecRequest(
        ["sh", "-c", 'pwd; echo "$1 $NAME $HOME"; echo bad >&2; exit 3', "sh", "a  b"],
        environment={"NAME": "c'd"}, user="root", directory="/var",
    )  # fmt: skip
    command = await machines.driver.exec_command(uuid, request)
    done = await asyncio.to_thread(subprocess.run, command.argv, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, "/var\na  b c'd /root\n", "bad\n")
    command = await machines.driver.exec_command(uuid, ExecRequest(["/no/such/program"]))
    done = await asyncio.to_thread(subprocess.run, command.argv, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (126, "")
    assert "/no/such/program" in done.stderr
    for refused in (ExecRequest(["sh"], tty=True), ExecRequest(["id"], user="nobody")):
        with pytest.raises(DriverError) as error:
            await machines.driver.exec_command(uuid, refused)
        assert error.value.rest_code == "NotImplemented"


@pytest.mark.thorough
async def test_snapshots_of_a_running_vm_and_the_way_back(machines: Any) -> None:
    """A snapshot is of one moment; going back restarts the VM and takes newer snapshots along."""
    nic = await machines.nic(5)
    vm = await machines.create([nic], disks=[{"image_uuid": machines.image}, {"size": 16}])
    uuid = vm["uuid"]
    assert await page(nic["ip"]) == "a page\n"
    async with logged_in(machines, uuid) as terminal:
        await terminal.type("echo one > /www/state; echo one > /dev/vdb; sync; echo the''end\r")
        await terminal.until("theend")
        await machines.driver.create_snapshot(uuid, "first")
        await terminal.type("echo two > /www/state; echo two > /dev/vdb; sync; echo the''end\r")
        await terminal.until("theend")
    shown = await machines.driver.create_snapshot(uuid, "second")
    assert [entry["name"] for entry in shown["snapshots"]] == ["first", "second"]
    assert await page(nic["ip"], "/state") == "two\n"

    back = await machines.driver.rollback_snapshot(uuid, "first")
    assert back["state"] == "running"
    assert [entry["name"] for entry in back["snapshots"]] == ["first"]
    assert await page(nic["ip"], "/state") == "one\n"
    async with logged_in(machines, uuid) as terminal:
        await terminal.type("head -n 1 /dev/vdb; echo the''end\r")
        assert "one" in await terminal.until("theend")
    directory = machines.store.path(uuid)
    for disk in back["disks"]:
        assert await disks.snapshot_names(disks.file_of(directory, disk)) == ["first"]
    # Of a running VM as well.
    assert (await machines.driver.delete_snapshot(uuid, "first"))["snapshots"] == []
    for disk in back["disks"]:
        assert await disks.snapshot_names(disks.file_of(directory, disk)) == []


@pytest.mark.thorough
async def test_vms_outlive_the_agent_and_its_daemon(
    machines: Any, vm_image: Path, vm_kit: SimpleNamespace, tmp_path: Path
) -> None:
    """The next agent follows what runs; a daemon that is killed is replaced when it is needed."""
    nic = await machines.nic(5)
    uuid = (await machines.create([nic]))["uuid"]
    before = await machines.driver.load(uuid)
    await machines.driver.close()
    assert command_line(before["pid"])
    second = await vm_kit.open_machines(
        tmp_path, vm_image, machines.prefix, machines.subnet, machines.network_uuid, machines.image
    )
    machines.driver, machines.hypervisor, machines.store = (
        second.driver, second.hypervisor, second.store,
    )  # fmt: skip
    assert (await machines.driver.load(uuid))["pid"] == before["pid"]
    assert (await machines.driver.info(uuid, ["version"]))["version"]["qemu"]["major"] >= 7

    daemon = int((tmp_path / "qemu/daemon.pid").read_text())
    os.kill(daemon, signal.SIGKILL)
    assert (await machines.driver.load(uuid))["state"] == "running"
    assert (await machines.driver.info(uuid, ["version"]))["version"]["qemu"]["major"] >= 7
    assert int((tmp_path / "qemu/daemon.pid").read_text()) != daemon

    # Killed from outside: an event, and nothing blocks the next start.
    told: list[str] = []
    machines.driver.watch(told.append)
    os.kill(before["pid"], signal.SIGKILL)

    async def stopped() -> bool:
        return bool((await machines.driver.load(uuid))["state"] == "stopped")

    await eventually(stopped)
    assert uuid in told
    assert (await machines.driver.load(uuid))["exit_timestamp"] >= before["boot_timestamp"]
    assert (await machines.driver.start(uuid))["state"] == "running"


@pytest.mark.thorough
async def test_more_memory_processors_and_disk(machines: Any) -> None:
    """An update of a running VM starts it again with what it shall have; a disk never shrinks."""
    nic = await machines.nic(5)
    uuid = (await machines.create([nic], disks=[{"image_uuid": machines.image, "size": 1024}]))[
        "uuid"
    ]
    before = await machines.driver.load(uuid)
    changes = {"ram": 160, "vcpus": 2, "update_disks": [{"path": "disk0", "size": 2048}]}
    with pytest.raises(DriverError, match="cannot shrink"):
        await machines.driver.update(uuid, {"update_disks": [{"path": "disk0", "size": 512}]})
    assert (await machines.driver.load(uuid))["pid"] == before["pid"]
    await machines.driver.stop(uuid, force=True)
    after = await machines.driver.update(uuid, {**changes, "add_disks": [{"size": 32}]})
    assert (after["ram"], after["max_physical_memory"], after["vcpus"]) == (160, 1184, 2)
    assert [disk["size"] for disk in after["disks"]] == [2048, 32]
    files = sorted((machines.store.path(uuid) / "disks").iterdir())
    sizes = [
        json.loads(
            subprocess.run(
                ["qemu-img", "info", "--output=json", str(path)],
                capture_output=True, check=True,
            ).stdout
        )["virtual-size"]
        for path in files
    ]  # fmt: skip
    assert sizes == [2048 * 2**20, 32 * 2**20]
    vm = await machines.driver.start(uuid)
    cpus = (await machines.driver.info(uuid, ["cpus"]))["cpus"]
    assert len(cpus) == 2
    words = command_line(vm["pid"])
    assert words[words.index("-m") + 1] in ("160", "size=163840k")
    use = await machines.driver.usage(uuid)
    assert use.disks_size == (2048 + 32) * 2**20
    assert 0 < use.disks_used <= use.used
    # One that goes away goes with its file.
    await machines.driver.stop(uuid, force=True)
    await machines.driver.update(uuid, {"remove_disks": [after["disks"][1]["path"]]})
    assert len(list((machines.store.path(uuid) / "disks").iterdir())) == 1


async def test_a_quota_grows_the_disk_of_a_running_vm(machines: Any) -> None:
    """The guest has it at once; a smaller quota than the disk or the image has is refused."""
    with pytest.raises(DriverError, match="cannot hold image"):
        await machines.create([], quota=0.001)
    assert await machines.driver.list(include_dni=True) == []
    vm = await machines.create([], quota=1)
    uuid, pid = vm["uuid"], vm["pid"]
    grown = await machines.driver.update(uuid, {"quota": 3})
    assert (grown["pid"], grown["quota"], grown["disks"][0]["size"]) == (pid, 3, 3072)
    file = disks.file_of(machines.store.path(uuid), grown["disks"][0])
    assert await disks.virtual_size(file) == 3 * 2**30

    async def seen() -> bool:
        try:
            said = await machines.driver.execute(uuid, ["cat", "/sys/block/vda/size"], {}, 60)
        except DriverError:
            return False  # it still starts
        return said.stdout.strip() == str(3 * 2**21)

    await eventually(seen)
    with pytest.raises(DriverError, match="3072 MiB and cannot shrink"):
        await machines.driver.update(uuid, {"quota": 2, "alias": "smaller"})
    after = await machines.driver.load(uuid)
    assert (after["pid"], after["quota"], after.get("alias")) == (pid, 3, None)
    await machines.driver.stop(uuid, force=True)
    await machines.driver.update(uuid, {"quota": 4})
    assert await disks.virtual_size(file) == 4 * 2**30


async def test_a_disk_stands_aside_until_the_new_one_runs(machines: Any) -> None:
    """With a broken image, and with a start that fails, the VM runs on from its old disk."""
    nic = await machines.nic(5)
    vm = await machines.create([nic])
    uuid = vm["uuid"]
    disk = machines.store.path(uuid) / "disks" / "disk0.qcow2"
    before, inode = await machines.driver.load(uuid), disk.stat().st_ino
    await machines.images.ensure(OTHER_IMAGE)
    broken = machines.images.directory / OTHER_IMAGE / "disk.qcow2"
    good = broken.read_bytes()
    broken.write_bytes(b"no disk")
    with pytest.raises(DriverError, match="disk"):
        await machines.driver.reprovision(uuid, OTHER_IMAGE)
    broken.write_bytes(good)
    starts = machines.hypervisor.start

    async def start(one: Any) -> None:
        if one["image_uuid"] == OTHER_IMAGE:
            raise DriverError("it does not start")
        await starts(one)

    machines.hypervisor.start = start
    with pytest.raises(DriverError, match="does not start"):
        await machines.driver.reprovision(uuid, OTHER_IMAGE)
    after = await machines.driver.load(uuid)
    assert (after["state"], after["image_uuid"], after["disks"]) == (
        "running", before["image_uuid"], before["disks"],
    )  # fmt: skip
    assert disk.stat().st_ino == inode
    assert await page(nic["ip"]) == "a page\n"
    machines.hypervisor.start = starts
    assert (await machines.driver.reprovision(uuid, OTHER_IMAGE))["image_uuid"] == OTHER_IMAGE
    assert disk.stat().st_ino != inode
    assert {one.name for one in machines.store.path(uuid).iterdir()} & {"former"} == set()
