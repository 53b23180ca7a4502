"""Disks of virtual machines hold their images: what files say, and what is refused for it."""

from __future__ import annotations

import io
import struct
import subprocess
import tarfile
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import pytest
from tests.compute.conftest import NODE, PROJECT

from vetro.compute.values.records import DISK_KEYS
from vetro.compute.vms import disk_files
from vetro.compute.vms.disk_files import disk_mib

GIB = 2**30
MIB = 2**20
#: An allocation names its networks' tags, whatever it is for.
TAGS: dict[str, Any] = {"nic_tags": []}


def disk(size: int) -> bytes:
    """The beginning of a qcow2 file."""
    return struct.pack(">4sIQIIQ", b"QFI\xfb", 3, 0, 0, 16, size) + bytes(488)


def archive(mode: Literal["w", "w:gz", "w:bz2", "w:xz"], **members: bytes) -> bytes:
    """A tar; of a member's name '_' is a dot."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode=mode) as tar:
        for name, data in members.items():
            entry = tarfile.TarInfo(f"./{name.replace('_', '.')}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return whole.getvalue()


async def image(world: Any, content: bytes, type_: str = "vm", **more: Any) -> dict[str, Any]:
    """The record of an image with this file."""
    uuid = str(uuid4())
    await world.ok("POST", "/images", {"uuid": uuid, "name": "large", "type": type_, **more})
    added: dict[str, Any] = await world.ok("PUT", f"/images/{uuid}/file", content=content)
    return added


def payload(image_uuid: str, **more: Any) -> dict[str, Any]:
    """A request for a virtual machine."""
    return {
        "uuid": str(uuid4()), "image_uuid": image_uuid, "brand": "kvm", "owner_uuid": PROJECT,
        "alias": "db", "ram": 256, "quota": 10, **more,
    }  # fmt: skip


@pytest.mark.parametrize("mode", ["", "w", "w:gz", "w:bz2", "w:xz"])
async def test_the_record_of_an_image_says_how_large_its_disk_is(world: Any, mode: Any) -> None:
    """In whole MiB, however its file is packed; whoever makes the record cannot say another size."""
    content = disk(20 * GIB + 1)
    if mode:
        content = archive(mode, kernel=b"k" * 5000, initrd=b"", disk_qcow2=content)
    made = await image(world, content, image_size=1)
    assert made["image_size"] == 20 * 1024 + 1
    assert (await world.ok("GET", f"/images/{made['uuid']}"))["image_size"] == 20 * 1024 + 1
    again = await world.ok("PUT", f"/images/{made['uuid']}/file", content=disk(3 * MIB))
    assert again["image_size"] == 3
    other = await world.ok("PUT", f"/images/{made['uuid']}/file", content=b"something else")
    assert "image_size" not in other


@pytest.mark.programs
def test_the_size_is_what_the_tool_for_disks_says(tmp_path: Path) -> None:
    """Of a file that it makes."""
    made = tmp_path / "disk.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", made, "12345M"], check=True)
    assert disk_mib(made) == 12345


def sized(size: bytes) -> bytes:
    """An archive whose first member says another size, with its second right behind the header."""
    whole = archive("w", kernel=b"k", disk_qcow2=disk(GIB))
    return whole[:124] + size + whole[136:512] + whole[1024:]


UNSAID = {
    "nothing": b"",
    "only a magic": b"QFI\xfb",
    "something else": b"a root file system" * 100,
    "a disk of nothing": disk(0),
    "a disk of 32 TiB": disk(2**45),
    "an empty archive": archive("w"),
    "an archive without a disk": archive("w", kernel=b"k"),
    "a short disk": archive("w", disk_qcow2=b"short"),
    "a disk of another kind": archive("w", disk_qcow2=b"raw" * 200),
    "a member that ends early": archive("w", kernel=bytes(3000))[:2000],
    "a part of gzip": archive("w:gz", disk_qcow2=disk(GIB))[:40],
    "a part of xz": archive("w:xz", disk_qcow2=disk(GIB))[:40],
    "no gzip": b"\x1f\x8b" + b"\xff" * 100,
    "no gzip behind its header": archive("w:gz")[:12] + b"\xff" * 100,
    "no bzip2": b"BZh9" + b"\xff" * 600,
    "no xz": b"\xfd7zXZ\0" + b"\xff" * 600,
    "a size that is no number": sized(b"x" * 12),
    "a size below nothing": sized(b"-0000001000\0"),
    "a name that is no text": b"\xff" * 100 + archive("w", kernel=b"k")[100:],
}


@pytest.mark.parametrize("what", UNSAID)
async def test_a_file_that_does_not_say_it_is_taken_as_it_is(world: Any, what: str) -> None:
    """The node that unpacks it says what is wrong with it; VMs of any size are asked for there."""
    made = await image(world, UNSAID[what])
    assert made["state"] == "active"
    assert "image_size" not in made
    await world.server()
    task = await world.ok("POST", f"/servers/{NODE}/vms", payload(made["uuid"], quota=1))
    assert (await world.ended(task["id"]))["status"] == "complete"


async def test_an_image_of_containers_has_no_disk(world: Any) -> None:
    """Whatever its file looks like: its containers have any quota."""
    made = await image(world, disk(20 * GIB), "lxc-rootfs")
    assert "image_size" not in made


def test_an_archive_is_not_unpacked_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is behind more than a kernel is not looked for: who sends it pays for no more."""
    file = tmp_path / "image"
    for mode in ("w", "w:gz"):
        file.write_bytes(archive(mode, kernel=bytes(5000), disk_qcow2=disk(GIB)))
        with monkeypatch.context() as patched:
            assert disk_mib(file) == 1024
            patched.setattr(disk_files, "_BEFORE", 4096)
            assert disk_mib(file) is None


async def _ready(world: Any) -> None:
    await world.server(NODE, **{"VM Brands": ["lx", "kvm"], "VM Capable": True})
    sample = {
        "vms": {},
        "meminfo": {"total_bytes": 8 * GIB, "availrmem_bytes": 8 * GIB},
        "diskinfo": {**dict.fromkeys(DISK_KEYS, 0), "pool_size_bytes": 1000 * GIB},
    }
    path = f"/servers/{NODE}/events/status"
    await world.ok("POST", path, sample, token="", headers=world.key_of(NODE))


def told(answer: Any) -> tuple[int, str, str, str]:
    """A refusal: status, code, the field, what is said of it."""
    body = answer.json()
    (one,) = body["errors"]
    return answer.status, body["code"], one["field"], one["message"]


async def test_a_vm_whose_disk_could_not_hold_its_image_is_not_placed(any_world: Any) -> None:
    """The refusal has both sizes and says what to do; no room is held, and no node hears of it."""
    world = any_world
    await _ready(world)
    made = await image(world, disk(20 * GIB))
    body = payload(made["uuid"])
    said = (
        f"VM db would have a disk of 10240 MiB, and the disk of image large ({made['uuid']}) has 20480"
        " MiB: give the VM a quota (--disk, a flavor's disk) of at least 20 GiB, or take a smaller image"
    )
    asked = {"vm": {**body, "vm_uuid": body["uuid"]}, "image": {"uuid": made["uuid"]}, **TAGS}
    for more in ({}, {"reserve": True}, {"reserve_seconds": 60}):
        refused = await world.call("POST", "/allocate", {**asked, **more})
        assert told(refused) == (422, "InvalidParameters", "quota", said)
    without = {name: one for name, one in asked["vm"].items() if name != "image_uuid"}
    refused = await world.call("POST", "/allocate", {**asked, "vm": without})
    assert told(refused)[3] == said
    refused = await world.call("POST", f"/servers/{NODE}/vms", body)
    assert told(refused) == (422, "InvalidParameters", "quota", said)
    assert (await world.call("GET", f"/servers/{NODE}/vms/{body['uuid']}")).status == 404
    assert "machine_create" not in world.nodes.tasks
    for more in ({"quota": 20}, {"quota": None}):
        larger = {name: one for name, one in {**body, **more}.items() if one is not None}
        await world.ok("POST", "/allocate", {**asked, "vm": {**larger, "vm_uuid": body["uuid"]}})
    task = await world.ok("POST", f"/servers/{NODE}/vms", {**body, "quota": 20})
    assert (await world.ended(task["id"]))["status"] == "complete"


@pytest.mark.parametrize(
    ("disks", "field"),
    [
        ([{"size": 20479}], "disks[0].size"),
        ([{"size": 20480}], ""),
        ([{"size": 100}, {"image_uuid": "its", "size": 20479}], "disks[1].size"),
        ([{"image_uuid": "its"}], "quota"),
        ([{"image_uuid": "its", "size": 20480}, {"size": 100}], ""),
    ],
)
async def test_disks_that_are_asked_for_by_size_hold_their_images(
    world: Any, disks: list[dict[str, Any]], field: str
) -> None:
    """Each that is made of an image; the others have any size."""
    await _ready(world)
    made = await image(world, disk(20 * GIB))
    named = [{**one, "image_uuid": made["uuid"]} if "image_uuid" in one else one for one in disks]
    body = payload(made["uuid"], disks=named)
    vm = {**body, "vm_uuid": body["uuid"]}
    answer = await world.call(
        "POST", "/allocate", {"vm": vm, "image": {"uuid": made["uuid"]}, **TAGS}
    )
    assert answer.status == (422 if field else 200), answer.json()
    if field:
        assert told(answer)[2] == field


async def test_a_quota_below_the_image_is_refused_to_a_vm_that_is_there(any_world: Any) -> None:
    """A quota that stays is not one; others of its sizes change as before."""
    world = any_world
    await _ready(world)
    made = await image(world, b"not known yet")
    vm = await world.vm(brand="kvm", image_uuid=made["uuid"], quota=5, alias="db")
    await world.ok("PUT", f"/images/{made['uuid']}/file", content=disk(20 * GIB))
    path = f"/servers/{NODE}/vms/{vm}/update"
    for quota in (4, 6, 19.5):
        refused = await world.call("POST", path, {"quota": quota, "max_physical_memory": 512})
        status, code, field, text = told(refused)
        assert (status, code, field) == (422, "InvalidParameters", "quota")
        assert f"VM db would have a disk of {int(quota * 1024)} MiB" in text
        assert "20480 MiB: give the VM a quota" in text
    assert "machine_update" not in world.nodes.tasks
    for size in ({"quota": 5}, {"quota": 20}, {"max_physical_memory": 300}):
        assert (await world.call("POST", path, size)).status == 200
    unknown = f"/servers/{NODE}/vms/{uuid4()}/update"
    assert (await world.call("POST", unknown, {"quota": 1})).status == 200


async def test_the_name_of_another_projects_image_stays_its_own(world: Any) -> None:
    """Its uuid, which the caller has, is said, and its size."""
    await _ready(world)
    made = await image(world, disk(20 * GIB), public=False)
    body = payload(made["uuid"], owner_uuid=str(uuid4()))
    vm = {**body, "vm_uuid": body["uuid"]}
    answer = await world.call(
        "POST", "/allocate", {"vm": vm, "image": {"uuid": made["uuid"]}, **TAGS}
    )
    assert f"the disk of image {made['uuid']} has 20480 MiB" in told(answer)[3]


async def test_an_image_made_of_a_vm_says_it_too(world: Any) -> None:
    """The node sends its file as everybody does."""
    asked = {"uuid": str(uuid4()), "owner": PROJECT, "name": "golden", "version": "1"}
    node = {"headers": world.key_of(NODE), "token": ""}

    async def publish(_call: Any) -> dict[str, Any]:
        await world.ok("POST", "/images", {**asked, "type": "vm"}, **node)
        await world.ok("PUT", f"/images/{asked['uuid']}/file", content=disk(7 * GIB), **node)
        return {}

    world.nodes.answers["machine_create_image"] = publish
    await _ready(world)
    vm = await world.vm()
    task = await world.ok("POST", f"/servers/{NODE}/vms/{vm}/images", {"manifest": asked})
    assert (await world.ended(task["id"]))["status"] == "complete"
    assert (await world.ok("GET", f"/images/{asked['uuid']}"))["image_size"] == 7 * 1024
