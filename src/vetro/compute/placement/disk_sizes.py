"""A disk that could not hold its image is refused before its virtual machine is placed (decision 0851).

An image's record says how large its disk is, ``image_size`` in MiB, since its file came. Of an image whose
record does not say it, the node decides, which unpacks it.
"""

from __future__ import annotations

from typing import cast

from sqlalchemy import select

from vetro.compute.tables import images, vms
from vetro.compute.values.faults import invalid_parameters
from vetro.compute.values.records import Json, Record, mapping, text_of, whole
from vetro.compute.wire import HVM_BRANDS
from vetro.storage import Transaction

#: The member of an image's manifest: whole MiB.
IMAGE_SIZE = "image_size"
UNPROCESSABLE = 422


def has_disks(vm: Record) -> bool:
    """Whether a VM has disks of its own sizes: a container has a quota of its node's file system."""
    return vm.get("brand") in HVM_BRANDS


async def refuse_small_disks(tx: Transaction, vm: Record, image_uuid: Json = None) -> None:
    """Refuse a VM that is to be made with a disk smaller than its image's.

    ``image_uuid``: the VM's, if it does not say it. Errors: 422 InvalidParameters.
    """
    if not has_disks(vm):
        return
    quota = _mib_of_gib(vm.get("quota"))
    disks = _disks_of(vm) or [{}]
    if not any(disk.get("image_uuid") for disk in disks):
        disks[0] = {**disks[0], "image_uuid": vm.get("image_uuid") or image_uuid}
    for at, disk in enumerate(disks):
        size = whole(disk.get("size"))
        field, asked = (f"disks[{at}].size", size) if size else ("quota", quota)
        await _refuse_small(tx, vm, disk.get("image_uuid"), field, asked)


async def refuse_small_quota(tx: Transaction, uuid: str, wanted: Record) -> None:
    """Refuse an update of a VM to another quota, below its image's disk. Errors: 422 InvalidParameters."""
    row = (await tx.execute(select(vms.c.vm, vms.c.payload).where(vms.c.uuid == uuid))).first()
    if row is None:
        return
    known = {"uuid": uuid, **mapping(row.payload), **mapping(row.vm)}
    # One that stays changes nothing, also where it is of before quotas were sizes of disks.
    if wanted.get("quota") == known.get("quota"):
        return
    named = (disk.get("image_uuid") for disk in _disks_of(known))
    image = next((one for one in named if one), known.get("image_uuid"))
    asked = {**known, "quota": wanted.get("quota"), "disks": None, "image_uuid": image}
    await refuse_small_disks(tx, asked)


def _disks_of(vm: Record) -> list[Record]:
    given: Json = vm.get("disks")
    return [mapping(one) for one in cast("list[Json]", given)] if isinstance(given, list) else []


def _mib_of_gib(value: Json) -> int:
    """GiB as MiB, as the node counts them; 0 for what is no number."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return whole(value * 1024) if number else whole(value) * 1024


async def _refuse_small(tx: Transaction, vm: Record, image: Json, field: str, asked: int) -> None:
    """Refuse a disk of ``asked`` MiB; 0: its node gives it what the image needs."""
    if not isinstance(image, str) or asked <= 0:
        return
    row = (await tx.execute(select(images).where(images.c.uuid == image))).first()
    needed = whole(row.manifest.get(IMAGE_SIZE)) if row is not None else 0
    if row is None or asked >= needed:
        return
    least = f"{field} of at least {needed} MiB"
    if field == "quota":
        least = f"quota (--disk, a flavor's disk) of at least {-(-needed // 1024)} GiB"
    # Of another project's image its name is nobody's business.
    shown = row.public or row.owner_uuid == vm.get("owner_uuid")
    made_of = f"{row.name} ({image})" if shown else image
    named = next(filter(None, (text_of(vm.get(name)) for name in ("alias", "uuid", "vm_uuid"))), "")
    text = (
        f"VM {named} would have a disk of {asked} MiB, and the disk of image {made_of} has {needed} MiB:"
        f" give the VM a {least}, or take a smaller image"
    )
    raise invalid_parameters({field: text}, status=UNPROCESSABLE)
