"""Volumes, the same on every driver that has them."""

from __future__ import annotations

import uuid as uuids
from typing import Any

import pytest

from vetro.node.errors import DriverError

pytestmark = pytest.mark.needs("volumes")


def new_uuid() -> str:
    """A uuid."""
    return str(uuids.uuid4())


def _xml_of(domain: Any) -> str:
    """A libvirt domain's description."""
    return str(domain.XMLDesc(0))


async def volume_for(rig: Any, vm: dict[str, Any], size: int = 1) -> str:
    """A new volume that a VM can have."""
    work = rig.driver.volumes
    return str((await work.create(new_uuid(), work.format_for(vm["brand"]), size)).uuid)


async def test_a_volume_goes_from_one_running_vm_to_another(rig: Any) -> None:
    """It is at one VM at a time; attaching again and detaching again change nothing."""
    one, other = await rig.create(), await rig.create()
    work = rig.driver.volumes
    volume = await volume_for(rig, one)
    for _ in range(2):
        await work.attach(one["uuid"], volume, "/mnt/data", read_only=False)
    with pytest.raises(DriverError) as refused:
        await work.attach(other["uuid"], volume, "/mnt/data", read_only=False)
    assert refused.value.rest_code == "VolumeInUse"
    with pytest.raises(DriverError) as refused:
        await work.delete(volume)
    assert refused.value.rest_code == "VolumeInUse"
    for _ in range(2):
        await work.detach(one["uuid"], volume)
    await work.attach(other["uuid"], volume, "/mnt/data", read_only=False)
    assert work.store.need(volume).vm == other["uuid"]
    assert [one["path"] for one in (await rig.driver.load(other["uuid"]))["volumes"]] == [
        "/mnt/data"
    ]
    await rig.driver.reboot(other["uuid"], force=True)
    await rig.driver.delete(other["uuid"])
    assert work.store.need(volume).vm == ""
    await work.delete(volume)
    await work.delete(volume)
    assert list(work.store) == []


async def test_a_volume_grows_and_never_shrinks(rig: Any) -> None:
    """At a running VM, and when it is nowhere; the record has the size."""
    vm = await rig.create()
    work = rig.driver.volumes
    volume = await volume_for(rig, vm)
    await work.grow(volume, 2)
    await work.attach(vm["uuid"], volume, "/mnt/data", read_only=False)
    await work.grow(volume, 3)
    assert work.store.need(volume).size == 3
    with pytest.raises(DriverError) as refused:
        await work.grow(volume, 2)
    assert refused.value.rest_code == "InvalidPayload"


async def test_snapshots_of_a_volume_in_use(rig: Any) -> None:
    """A volume is made of one; they go with the volume."""
    vm = await rig.create()
    work = rig.driver.volumes
    volume, name = await volume_for(rig, vm), new_uuid()
    await work.attach(vm["uuid"], volume, "/mnt/data", read_only=False)
    for _ in range(2):
        await work.snapshot(volume, name)
    record = work.store.need(volume)
    assert record.snapshots == [name]
    copy = await work.create(new_uuid(), record.format, 2, work.store.snapshot(volume, name))
    assert copy.size == 2
    await work.attach(vm["uuid"], copy.uuid, "/mnt/copy", read_only=True)
    assert (await rig.driver.load(vm["uuid"]))["state"] == "running"
    await work.drop_snapshot(volume, name)
    assert not work.store.snapshot(volume, name).exists()
    with pytest.raises(DriverError):
        await work.attach(vm["uuid"], await volume_for(rig, vm), "/mnt/copy", read_only=False)


async def test_what_is_not_there_is_refused(rig: Any) -> None:
    """A volume and a VM that the node does not have; the wrong format."""
    vm = await rig.create(autoboot=False)
    work = rig.driver.volumes
    with pytest.raises(DriverError) as refused:
        await work.attach(vm["uuid"], new_uuid(), "/mnt", read_only=False)
    assert refused.value.rest_code == "VolumeNotFound"
    volume = await volume_for(rig, vm)
    with pytest.raises(DriverError) as refused:
        await work.attach(new_uuid(), volume, "/mnt", read_only=False)
    assert refused.value.rest_code == "VmNotFound"
    other = {"ext4": "qcow2", "qcow2": "ext4"}[work.format_for(vm["brand"])]
    wrong = await work.create(new_uuid(), other, 1)
    with pytest.raises(DriverError, match="takes a"):
        await work.attach(vm["uuid"], wrong.uuid, "/mnt", read_only=False)


@pytest.mark.needs("container", "exec")
async def test_files_in_a_volume_outlive_containers(rig: Any) -> None:
    """Root of the container owns it; a read-only one is not written; a full one is full; a pulled
    one gives errors to those that use it, and what they wrote is there in the next container."""
    work, vm = rig.driver.volumes, await rig.create()
    volume = await volume_for(rig, vm)

    async def sh(uuid: str, command: str, status: int = 0) -> str:
        done = await rig.driver.execute(uuid, ["/bin/sh", "-c", command], {"PATH": "/bin"}, 60)
        assert done.exit_code == status, (command, done)
        return str(done.stdout)

    await work.attach(vm["uuid"], volume, "/data/in here", read_only=False)
    await sh(vm["uuid"], "cd '/data/in here' && echo kept >file && chown 5:6 file && sync")
    assert (await sh(vm["uuid"], "stat -c %u:%g '/data/in here'")).strip() == "0:0"
    await sh(vm["uuid"], "dd if=/dev/zero of='/data/in here/large' bs=1M count=1100", status=1)
    before = int(
        (await sh(vm["uuid"], "df -m '/data/in here' | tail -1 | awk '{print $2}'")).strip()
    )
    await work.grow(volume, 2)
    after = int(
        (await sh(vm["uuid"], "df -m '/data/in here' | tail -1 | awk '{print $2}'")).strip()
    )
    assert before < 1024 < after
    name = new_uuid()
    await work.snapshot(volume, name)
    await sh(
        vm["uuid"], "rm '/data/in here/large'; sleep 600 <'/data/in here/file' >/dev/null 2>&1 &"
    )
    # A process still has a file of it open.
    await work.detach(vm["uuid"], volume)
    await sh(vm["uuid"], "ls '/data/in here/file'", status=1)
    await rig.driver.delete(vm["uuid"])
    other = await rig.create(autoboot=False)
    await work.attach(other["uuid"], volume, "/mnt/vdb", read_only=True)
    await rig.driver.start(other["uuid"])
    assert (
        await sh(other["uuid"], "cat /mnt/vdb/file; stat -c %u:%g /mnt/vdb/file") == "kept\n5:6\n"
    )
    await sh(other["uuid"], "touch /mnt/vdb/new", status=1)
    record = work.store.need(volume)
    copy = await work.create(new_uuid(), record.format, 2, work.store.snapshot(volume, name))
    await work.attach(other["uuid"], copy.uuid, "/mnt/vdc", read_only=False)
    assert "large" in await sh(other["uuid"], "ls /mnt/vdc")
    await rig.driver.reboot(other["uuid"], force=True)
    assert "large" in await sh(other["uuid"], "ls /mnt/vdc")
    await rig.driver.delete(other["uuid"])
    assert rig.leftovers() == []


@pytest.mark.needs("console")
async def test_a_virtual_machine_sees_its_volume_as_a_disk(rig: Any) -> None:
    """While it is attached QEMU has the file open; afterwards nothing has."""
    work, vm = rig.driver.volumes, await rig.create()
    volume = await volume_for(rig, vm)
    await work.attach(vm["uuid"], volume, "/dev/vdb", read_only=False)
    libvirt = await rig.driver._hypervisors.of(vm).connection()
    assert volume in await libvirt.with_domain(vm["uuid"], _xml_of)
    packed = rig.directory / "packed"
    await work.pack(volume, packed)
    assert packed.stat().st_size > 0
    await work.detach(vm["uuid"], volume)
    assert volume not in await libvirt.with_domain(vm["uuid"], _xml_of)
    assert (await rig.driver.load(vm["uuid"]))["state"] == "running"
