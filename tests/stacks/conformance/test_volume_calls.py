"""Volumes through the compute API, with the volumes of a stack: copies, refusals, sources."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from vetro.compute.client import Call, ComputeError
from vetro.compute.client.calls import (
    VOLUME_BACKUPS,
    VOLUME_SNAPSHOTS,
    VOLUMES,
    attach_volume,
    detach_volume,
    restore_volume,
)
from vetro.compute.wire import Attachment, NewVolume, NewVolumeCopy, VolumeChange, VolumeSource
from vetro.stacks import StackStatus

#: The cloud in memory has no compute API.
NODES = [
    pytest.param("simulated", marks=pytest.mark.programs),
    pytest.param("lxc", marks=[pytest.mark.root, pytest.mark.programs]),
]
pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.parametrize("cloud", NODES, indirect=True, scope="module"),
]


def template(subnet: str, count: int) -> dict[str, Any]:
    """Servers in a network, and a volume at the first."""
    resources: dict[str, Any] = {
        "net": {"type": "OS::Neutron::Net", "properties": {"name": "net"}},
        "sub": {
            "type": "OS::Neutron::Subnet",
            "properties": {"network": {"get_resource": "net"}, "cidr": f"{subnet}.9.0/24"},
        },
        "vol": {"type": "OS::Cinder::Volume", "properties": {"size": 1, "name": "data"}},
        "att": {
            "type": "OS::Cinder::VolumeAttachment",
            "properties": {
                "instance_uuid": {"get_resource": "vm0"},
                "volume_id": {"get_resource": "vol"},
                "mountpoint": "/data",
            },
        },
    }
    for number in range(count):
        resources[f"vm{number}"] = {
            "type": "OS::Nova::Server",
            "properties": {
                "flavor": "m1.nano",
                "image": "debian",
                "networks": [{"subnet": {"get_resource": "sub"}}],
            },
        }
    return {"heat_template_version": "2013-05-23", "resources": resources}


async def refused(client: Any, call: Any) -> str:
    """The words of a refusal with a 4xx status."""
    with pytest.raises(ComputeError) as error:
        await client.send(call)
    assert 400 <= error.value.status < 500
    return error.value.message


@pytest.mark.sampled(only=["simulated"])
async def test_copies_of_a_volume_in_use(cloud: Any) -> None:
    """A snapshot and a backup of an attached volume become volumes; restoring needs a detached one; a
    volume is at one server; what is in use is not removed."""
    send, project = cloud.client.send, cloud.new_project()
    stack = await cloud.stacks.create(project, "s", template(cloud.subnet, 2))
    assert (stack.status, stack.reason) == (StackStatus.CREATE_COMPLETE, "")
    ids = {name: one.physical_id for name, one in stack.resources.items()}
    volume, first, second = ids["vol"], ids["vm0"], ids["vm1"]

    assert "attached to VM" in await refused(
        cloud.client, attach_volume(volume, Attachment(vm_uuid=second))
    )
    assert "attached to VM" in await refused(cloud.client, VOLUMES.remove(volume))
    new = NewVolumeCopy(uuid=str(uuid.uuid4()), volume_uuid=volume, name="now", project_id=project)
    snapshot = await send(VOLUME_SNAPSHOTS.create(new))
    assert (snapshot.state, snapshot.size) == ("available", 1)
    assert await send(VOLUME_SNAPSHOTS.create(new)) == snapshot
    backup = await send(
        VOLUME_BACKUPS.create(NewVolumeCopy(volume_uuid=volume, name="b", project_id=project))
    )
    assert backup.state == "available"
    assert "detach it first" in await refused(cloud.client, restore_volume(backup.uuid, volume))

    copies: list[str] = []
    for kind, source in (("snapshot", snapshot.uuid), ("backup", backup.uuid), ("volume", volume)):
        of = VolumeSource(kind=kind, uuid=source)
        copy = await send(VOLUMES.create(NewVolume(project_id=project, size=2, source=of)))
        attached = await send(attach_volume(copy.uuid, Attachment(vm_uuid=second)))
        assert (attached.vm_uuid, attached.size, attached.state) == (second, 2, "in-use")
        assert attached.device == f"/mnt/volume-{copy.uuid[:8]}"
        copies.append(copy.uuid)
    await send(VOLUMES.change(copies[0], VolumeChange(size=3)))
    assert (await send(VOLUMES.one(copies[0]))).size == 3
    assert "cannot shrink" in await refused(
        cloud.client, VOLUMES.change(copies[0], VolumeChange(size=2))
    )

    for _ in range(2):
        detached = await send(detach_volume(volume))
        assert (detached.vm_uuid, detached.state) == (None, "available")
    assert (await send(restore_volume(backup.uuid, volume))).uuid == volume
    await send(attach_volume(volume, Attachment(vm_uuid=first, device="/data")))

    assert await cloud.stacks.delete(project, "s") is not None, "the volume has a snapshot"
    await send(VOLUME_SNAPSHOTS.remove(snapshot.uuid))
    assert await cloud.stacks.delete(project, "s") is None
    assert [one.vm_uuid for one in await send(VOLUMES.all(project))] == [None] * 3
    for one in copies:
        await send(VOLUMES.remove(one))
    await send(VOLUME_BACKUPS.remove(backup.uuid))
    assert "not found" in await refused(cloud.client, VOLUMES.one(volume))


@pytest.mark.parametrize(
    "new",
    [
        {"size": 0}, {"size": True}, {"size": 10**9}, {"size": "1"}, {}, {"size": 1, "name": 3},
        {"size": 1, "metadata": {"a": 1}}, {"size": 1, "source": {"kind": "x", "uuid": "y"}},
        {"size": 1, "source": {"kind": "snapshot", "uuid": "nothing"}}, {"size": 1, "more": 1},
        {"size": 1, "source": [1]}, {"size": 1, "name": "a\0b"}, {"size": 1, "uuid": "x"},
    ],
)  # fmt: skip
async def test_hostile_bodies(cloud: Any, new: dict[str, Any]) -> None:
    """They are refused as wrong parameters, and nothing is made."""
    project = cloud.new_project()
    with pytest.raises(ComputeError) as error:
        await cloud.client.send(Call("POST", "/volumes", dict, {**new, "project_id": project}))
    assert error.value.code in ("InvalidParameters", "InvalidArgument", "ResourceNotFound")
    assert await cloud.client.send(VOLUMES.all(project)) == []
