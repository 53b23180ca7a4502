"""From a VM's record and its images to the plan of its domain, with paths as QEMU sees them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from vetro.node.drivers.qemu import accel, domain
from vetro.node.drivers.qemu import disks as qemu_disks
from vetro.node.drivers.qemu.daemon import LibvirtDaemon
from vetro.node.images import vm_images
from vetro.node.images.store import ImageStore
from vetro.node.vm_records import Vm, disks_of


async def bring_disks(vm: Vm, directory: Path, images: ImageStore) -> None:
    """Create the disks of a stopped VM as recorded; missing images are fetched."""
    known: dict[str, tuple[Path, int]] = {}
    for disk in disks_of(vm):
        uuid = disk.get("image_uuid")
        if uuid and uuid not in known:
            await images.ensure(uuid)
            image = vm_images.load(images.directory / uuid, uuid)
            known[uuid] = (image.disk, image.virtual_size)
    # A request without sizes of disks has the size of the whole VM, in GiB.
    await qemu_disks.bring_to(directory, disks_of(vm), known, int(vm["quota"] * 1024))


def plan_of(
    vm: Vm,
    directory: Path,
    images: ImageStore,
    daemon: LibvirtDaemon,
    *,
    accelerator: str,
    prefix: str,
    vnc_host: str,
    volumes: Sequence[domain.DomainVolume] = (),
) -> domain.DomainPlan:
    """The plan of a VM in ``directory`` whose disks exist."""
    seen = daemon.seen

    def image_of(uuid: object) -> vm_images.VmImage:
        return vm_images.load(images.directory / str(uuid), str(uuid))

    disks = [
        domain.DomainDisk(
            seen(qemu_disks.file_of(directory, disk)),
            seen(image_of(disk.get("image_uuid")).disk) if disk.get("image_uuid") else None,
            domain.disk_model(vm, disk),
            bool(disk.get("boot")),
        )
        for disk in disks_of(vm)
    ]
    image = image_of(
        next(disk.get("image_uuid") for disk in disks_of(vm) if disk.get("image_uuid"))
    )
    return domain.DomainPlan(
        accelerator=accelerator,
        prefix=prefix,
        disks=disks,
        seed=seen(directory / "seed.iso"),
        run=seen(directory / "run"),
        console_log=seen(directory / "console.log"),
        vnc_host=vnc_host,
        emulator=shutil.which(accel.EMULATOR) or domain.DEFAULT_EMULATOR,
        kernel=seen(image.kernel) if image.kernel is not None else None,
        initrd=seen(image.initrd) if image.initrd is not None else None,
        arguments=image.arguments,
        volumes=tuple(volumes),
    )
