"""The disks of a VM: qcow2 files over the image's disk, in ``<vm>/disks``.

The first disk of an image is an overlay: it holds what the VM wrote; the image stays unchanged and
is shared. Snapshots are inside the files. The path of the image in an overlay is relative, so that
it is valid on the host, in the daemon's namespace and on the next node.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vetro.node.commands import run
from vetro.node.drivers.hypervisor import DiskUse
from vetro.node.drivers.qemu.daemon import QEMU_UID, LibvirtDaemon
from vetro.node.errors import CommandFailed, DriverError, not_implemented
from vetro.node.files import remove_tree
from vetro.node.vm_records import Disk, Vm, disks_of

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_MIB = 2**20
_FORMER = "former"
BEFORE = "before a rollback"
"""A snapshot in the disks; none that somebody asks for has spaces in its name."""
DEFAULT_SIZE = 10 * 1024
"""MiB of a first disk without a given size."""


def check(vm: Vm) -> list[Disk]:
    """The disks of a VM as they will be created; the image's one if it names none.

    ``path`` is a name, not a place on the host. Errors: ``DriverError``.
    """
    disks = [disk.copy() for disk in disks_of(vm)]
    if not disks:
        disks = [Disk(path="disk0", model="virtio", media="disk", boot=True)]
    if not any(disk.get("image_uuid") for disk in disks):
        disks[0]["image_uuid"] = vm.get("image_uuid")
    for disk in disks:
        if disk.get("media") == "cdrom":
            raise not_implemented("A disk with media 'cdrom'", "qemu")
        if not _NAME.fullmatch(str(disk["path"])):
            raise DriverError(
                f"Invalid VM payload: disks[].path '{disk['path']}' must be a name of letters,"
                " digits, '_', '.' and '-'",
                code="EINVAL",
                rest_code="InvalidPayload",
            )
        if size := disk.get("size"):
            disk["size"] = int(size)
        elif "image_uuid" not in disk:
            raise DriverError(
                f"Invalid VM payload: disk {disk['path']} has neither size (MiB) nor image_uuid",
                code="EINVAL",
                rest_code="InvalidPayload",
            )
    return disks


def file_of(directory: Path, disk: Mapping[str, object]) -> Path:
    """The file of a disk in a VM's ``directory``."""
    return directory / "disks" / f"{disk['path']}.qcow2"


def seen_files(directory: Path, vm: Vm, daemon: LibvirtDaemon) -> dict[str, str]:
    """The files of a VM's disks as QEMU sees them, by the disks' names."""
    return {str(disk["path"]): daemon.seen(file_of(directory, disk)) for disk in disks_of(vm)}


async def bring_to(
    directory: Path,
    disks: Sequence[Disk],
    images: Mapping[str, tuple[Path, int]],
    default_size: int = 0,
) -> None:
    """Create, grow or remove the files of a stopped VM to match ``disks``.

    ``images``: uuid → its disk and its size in bytes. A missing ``size`` (MiB) is filled in:
    ``default_size``; without one ``DEFAULT_SIZE``, or what the image needs.
    Errors: ``DriverError``; nothing is made when one disk cannot hold its image.
    """
    for disk in disks:
        image = disk.get("image_uuid")
        if image and not file_of(directory, disk).exists():
            size = images[image][1]
            disk["size"] = disk.get("size") or default_size or max(_mib(size), DEFAULT_SIZE)
            check_room(disk, image, size)
    place = directory / "disks"
    place.mkdir(mode=0o711, exist_ok=True)
    wanted = {file_of(directory, disk).name for disk in disks}
    for path in place.iterdir():
        if path.name not in wanted:
            path.unlink()
    for disk in disks:
        path = file_of(directory, disk)
        if not path.exists():
            await _make(path, disk, images)
        else:
            present = await virtual_size(path)
            asked = disk.get("size") or 0
            if asked * _MIB > present:
                await _tool("resize", "-f", "qcow2", str(path), str(asked * _MIB))
            disk["size"] = max(asked, present // _MIB)
        os.chown(path, QEMU_UID, QEMU_UID)
        path.chmod(0o600)


async def _make(path: Path, disk: Disk, images: Mapping[str, tuple[Path, int]]) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    image = disk.get("image_uuid")
    size = str(disk.get("size", 0) * _MIB)
    if image:
        source = os.path.relpath(images[image][0], path.parent)
        await _tool(
            "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", source, str(temporary), size
        )
    else:
        await _tool("create", "-q", "-f", "qcow2", str(temporary), size)
    temporary.replace(path)


def check_room(disk: Disk, image_uuid: str, image_bytes: int) -> None:
    """Refuse a disk that cannot hold its image. Errors: ``DriverError``."""
    asked = disk.get("size")
    if asked and asked < _mib(image_bytes):
        raise DriverError(
            f"Invalid VM payload: disk {disk['path']} of {asked} MiB cannot hold image"
            f" {image_uuid} of {_mib(image_bytes)} MiB: give the VM a quota of at"
            f" least {_gib(_mib(image_bytes))} GiB, or the disk that size",
            code="EINVAL",
            rest_code="InvalidPayload",
        )


def _mib(size: int) -> int:
    """Whole MiB that hold ``size`` bytes."""
    return -(-size // _MIB)


def _gib(mib: int) -> int:
    """Whole GiB that hold ``mib`` MiB."""
    return -(-mib // 1024)


def put_aside(directory: Path, disk: Disk) -> None:
    """Keep the file of a disk beside, until ``put_back`` or ``forget_former``."""
    place = _make_aside(directory)
    file_of(directory, disk).rename(place / file_of(directory, disk).name)


def _make_aside(directory: Path) -> Path:
    # As deep as the disks: an overlay names its image by a relative path.
    place = directory / _FORMER
    remove_tree(place)
    place.mkdir(mode=0o711)
    return place


async def put_back(directory: Path, disks: Sequence[Disk]) -> None:
    """Give the disks of a stopped VM what ``put_aside`` or ``rollback_kept`` kept, if they did."""
    if has_former(directory):
        for path in (directory / _FORMER).iterdir():
            path.replace(directory / "disks" / path.name)
        await rollback(directory, disks, BEFORE)
        await drop_snapshot(directory, disks, BEFORE)
        forget_former(directory)


def has_former(directory: Path) -> bool:
    """Whether something was put aside. The snapshot ``BEFORE`` in the disks may belong to it."""
    return (directory / _FORMER).is_dir()


def forget_former(directory: Path) -> None:
    """Remove what was put aside, but for the snapshot ``BEFORE``."""
    remove_tree(directory / _FORMER)


def check_growth(before: Sequence[Disk], after: Sequence[Disk]) -> None:
    """Refuse changes that shrink a disk or change its image. Errors: ``DriverError``."""
    known = {disk["path"]: disk for disk in before}
    for disk in after:
        old = known.get(disk["path"])
        if old is None:
            continue
        present = old.get("size") or 0
        if (disk.get("size") or 0) < present:
            raise DriverError(
                f"Invalid VM payload: disk {disk['path']} has {present} MiB and cannot shrink",
                code="EINVAL",
                rest_code="InvalidPayload",
            )
        if disk.get("image_uuid") != old.get("image_uuid"):
            raise DriverError(
                f"Invalid VM payload: the image of disk {disk['path']} can be changed only by a reprovision",
                code="EINVAL",
                rest_code="InvalidPayload",
            )


def follow_quota(before: Vm, vm: Vm) -> Disk | None:
    """Make the image's disk as large as a quota that has changed; the disk, if it grows.

    Disks that change in the same request are as that says. Errors: ``DriverError`` for a quota below
    the disk.
    """
    quota = vm["quota"]
    sizes, known = ({one["path"]: one.get("size") for one in disks_of(of)} for of in (vm, before))
    if quota == before["quota"] or sizes != known:
        return None
    disk = next(one for one in disks_of(vm) if one.get("image_uuid"))
    present, asked = disk.get("size") or 0, int(quota * 1024)
    if asked < present:
        raise DriverError(
            f"VM {vm['uuid']}: its disk {disk['path']} has {present} MiB and cannot shrink to a quota of"
            f" {quota} GiB: ask for at least {_gib(present)} GiB, or make a new VM of that size",
            code="EINVAL",
            rest_code="InvalidPayload",
        )
    if asked == present:
        return None
    disk["size"] = asked
    return disk


async def virtual_size(path: Path) -> int:
    """The disk's size in bytes as the guest sees it."""
    return int((await _info(path))["virtual-size"])


async def snapshot_names(path: Path) -> list[str]:
    """The names of the snapshots inside a disk."""
    return [entry["name"] for entry in (await _info(path)).get("snapshots", [])]


async def _info(path: Path) -> dict[str, Any]:
    # -U: works also while the VM runs.
    info = await _tool("info", "-U", "--output=json", "-f", "qcow2", str(path))
    return json.loads(info)


async def snapshot(directory: Path, disks: Sequence[Mapping[str, object]], name: str) -> None:
    """Snapshot the disks of a stopped VM."""
    await drop_snapshot(directory, disks, name)
    for disk in disks:
        await _tool("snapshot", "-q", "-c", name, str(file_of(directory, disk)))


async def rollback_kept(directory: Path, disks: Sequence[Disk], name: str) -> None:
    """As ``rollback``; what is in the disks now is kept in ``BEFORE``, for ``put_back``."""
    _make_aside(directory)
    await snapshot(directory, disks, BEFORE)
    await rollback(directory, disks, name)


async def rollback(directory: Path, disks: Sequence[Mapping[str, object]], name: str) -> None:
    """Restore the disks of a stopped VM. A disk created after the snapshot does not change."""
    for disk in disks:
        path = file_of(directory, disk)
        if name in await snapshot_names(path):
            await _tool("snapshot", "-q", "-a", name, str(path))


async def drop_snapshot(directory: Path, disks: Sequence[Mapping[str, object]], name: str) -> None:
    """Remove a snapshot from a stopped VM's disks that have it."""
    for disk in disks:
        path = file_of(directory, disk)
        if path.exists() and name in await snapshot_names(path):
            await _tool("snapshot", "-q", "-d", name, str(path))


def usage(directory: Path, disks: Sequence[Disk]) -> DiskUse:
    """Bytes of the VM's files and of its disks."""
    files = [entry.stat() for entry in directory.rglob("*") if entry.is_file()]
    inside = [path.stat() for path in (file_of(directory, disk) for disk in disks) if path.exists()]
    return DiskUse(
        used=sum(entry.st_blocks * 512 for entry in files),
        disks_used=sum(entry.st_blocks * 512 for entry in inside),
        disks_size=sum(int(disk.get("size") or 0) * _MIB for disk in disks),
    )


def remove(directory: Path) -> None:
    """Remove all disks."""
    remove_tree(directory / _FORMER)
    remove_tree(directory / "disks")


async def _tool(*arguments: str) -> str:
    try:
        return (await run("qemu-img", *arguments, timeout=600)).output
    except CommandFailed as error:
        code = "ResourceExhausted" if "No space left" in error.output else ""
        raise DriverError(f"A disk: {error.output.strip()[-500:]}", rest_code=code) from error
