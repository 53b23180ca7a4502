"""What a VM's row holds of its server and of its project's quotas: memory, cap, disk.

A VM that is to grow in place holds its new size from the request on, so that the allocator and the quotas
count it while the node works; what the node refused is given back when the task ends.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select, update

from vetro.compute.allocation import Demand
from vetro.compute.placement.placement import Placement
from vetro.compute.tables import tasks, vms
from vetro.compute.values.project_use import admit_vm
from vetro.compute.values.records import mapping, whole
from vetro.compute.wire import HVM_BRANDS
from vetro.quotas import Quotas
from vetro.storage import Transaction

_LARGEST = 2**31 - 1


def as_column(number: int) -> int:
    """A number in the range of the database's column."""
    return max(0, min(number, _LARGEST))


def size_of(said: Mapping[str, object]) -> dict[str, int]:
    """The columns of a VM's size that a payload names: MiB, GiB, percent of a core."""
    given = {
        "memory_mib": whole(said.get("max_physical_memory")) or whole(said.get("ram")),
        "quota_gib": whole(said.get("quota")),
        "cpu_cap": whole(said.get("cpu_cap")),
    }
    return {name: as_column(number) for name, number in given.items() if number}


async def hold_growth(
    quotas: Quotas,
    placement: Placement,
    tx: Transaction,
    server_uuid: str,
    uuid: str,
    wanted: Mapping[str, object],
) -> None:
    """Let a VM hold what it is to grow to (`wanted`: the parameters of its update).

    ``tx`` is of `Placement.alone`, unless `wanted` names no size. Errors: 403 QuotaExceeded, 409 for a
    server without room; nothing is held.
    """
    size = size_of(wanted)
    if not size:
        return
    query = select(vms).where(vms.c.uuid == uuid, vms.c.server_uuid == server_uuid)
    known = (await tx.execute(query.with_for_update())).first()
    if known is None:
        return
    now = {"memory_mib": known.memory_mib, "quota_gib": known.quota_gib, "cpu_cap": known.cpu_cap}
    said = mapping(known.vm)
    if said.get("brand") in HVM_BRANDS and "ram" in said and "memory_mib" in size:
        # What is asked for is the guest's; what is held has what its hypervisor needs.
        size["memory_mib"] += max(0, known.memory_mib - whole(said["ram"]))
    grown = {name: number for name, number in size.items() if number > now[name]}
    if grown:
        whole_row = {"owner_uuid": known.owner_uuid, **now, **grown}
        await admit_vm(quotas, tx, whole_row, known)
        more = {name: whole_row[name] - number for name, number in now.items()}
        brand = str(said.get("brand") or "lx")
        # A first cap takes something from a VM that had all processors.
        cap = more["cpu_cap"] if known.cpu_cap else 0
        await placement.check_growth(
            tx, server_uuid, uuid, brand, Demand(more["memory_mib"], more["quota_gib"] * 1024, cap)
        )
        await tx.execute(update(vms).where(vms.c.uuid == uuid).values(**grown))


async def size_held(
    tx: Transaction, uuid: str, vm: Mapping[str, object], ended: str
) -> dict[str, int]:
    """The size of a VM that is as `vm` says after the task `ended`; other updates may still let it grow."""
    size = size_of(vm)
    query = select(tasks.c.params).where(
        tasks.c.vm_uuid == uuid,
        tasks.c.task == "machine_update",
        tasks.c.status == "active",
        tasks.c.id != ended,
    )
    for row in await tx.execute(query):
        for name, number in size_of(mapping(row.params)).items():
            size[name] = max(number, size.get(name, 0))
    return size
