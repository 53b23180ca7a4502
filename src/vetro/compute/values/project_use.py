"""What projects have of the resources that quotas limit, counted from the rows (decision 0425)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Select, case, func, select

from vetro.compute.tables import floating_ips, quotas, vms, volumes
from vetro.compute.values.metrics import GONE
from vetro.quotas import Quotas, QuotasSection
from vetro.storage import StoredRow, Transaction

_MACHINES = ("instances", "cores", "memory")
_VOLUMES = ("volumes", "disk")
RESOURCES = (*_MACHINES, "addresses", *_VOLUMES)
#: VMs that have nothing: those that could not be made are not counted, as if they had been removed.
WITHOUT = ("failed", *GONE)
_CAP: ColumnElement[int] = case((vms.c.cpu_cap < 1, 1), else_=vms.c.cpu_cap)


def cores_of(cpu_cap: int) -> int:
    """The cores that a cap in percent of a core counts as: whole ones, at least one."""
    return (max(cpu_cap, 1) + 99) // 100


def quotas_of(section: QuotasSection) -> Quotas:
    """The quotas of this room with the limits of the settings."""
    return Quotas(quotas, {name: getattr(section, name) for name in RESOURCES}, _count)


async def admit_vm(
    quotas: Quotas, tx: Transaction, values: Mapping[str, Any], known: StoredRow | None
) -> None:
    """Admit a VM's row as it will be; ``known``: as it is, with what it holds already.

    Errors: 403 QuotaExceeded.
    """
    owner = values["owner_uuid"]
    asks = _needs(values["cpu_cap"], values["memory_mib"])
    if known is not None and known.state not in WITHOUT and known.owner_uuid == owner:
        if not known.counted:
            return
        held = _needs(known.cpu_cap, known.memory_mib)
        asks = {name: max(0, number - held[name]) for name, number in asks.items()}
    await quotas.admit(tx, owner, **asks)


def _needs(cpu_cap: int, memory_mib: int) -> dict[str, int]:
    return {"instances": 1, "cores": cores_of(cpu_cap), "memory": memory_mib}


def _held(project_id: str) -> Select[int, int, Any]:
    """What a project's VMs hold."""
    return select(
        func.count().label("instances"),
        func.coalesce(func.sum((_CAP + 99) // 100), 0).label("cores"),
        func.coalesce(func.sum(vms.c.memory_mib), 0).label("memory"),
    ).where(vms.c.owner_uuid == project_id, vms.c.counted, vms.c.state.not_in(WITHOUT))


async def held_by(tx: Transaction, project_id: str, uuids: Collection[str]) -> dict[str, int]:
    """What some VMs, as far as they are a project's, hold of its quotas."""
    found = await tx.execute(_held(project_id).where(vms.c.uuid.in_(uuids)))
    return dict(found.mappings().one())


async def _count(tx: Transaction, project_id: str, names: Collection[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    if not {*names}.isdisjoint(_MACHINES):
        found |= (await tx.execute(_held(project_id))).mappings().one()
    if "addresses" in names:
        mine = select(func.count().label("addresses")).select_from(floating_ips)
        found |= (
            (await tx.execute(mine.where(floating_ips.c.owner_uuid == project_id))).mappings().one()
        )
    if not {*names}.isdisjoint(_VOLUMES):
        query = select(
            func.count().label("volumes"),
            func.coalesce(func.sum(volumes.c.size_gib), 0).label("disk"),
        ).where(volumes.c.owner_uuid == project_id)
        found |= (await tx.execute(query)).mappings().one()
    return found
