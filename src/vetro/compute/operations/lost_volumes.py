"""Volumes of a dead server whose VMs were recreated elsewhere: they are lost until it comes back.

A volume is a file on its server's disk (decision 0235). Once its VM runs on another server, the volume
is *lost*: its owner sees that and may restore a backup. If the machine comes back, what is
still wanted of it is available again, and what was replaced or removed meanwhile is deleted there.
"""

from __future__ import annotations

from sqlalchemy import or_, select, update

from vetro.compute.operations.parts import Run, ServiceParts
from vetro.compute.servers.store import LOST, change_extra
from vetro.compute.tables import servers, vms, volume_copies, volumes
from vetro.compute.values.records import Json, Record
from vetro.compute.vms.given_up import lose_volumes, snapshots_of
from vetro.compute.vms.volume_views import LOST_STATE
from vetro.compute.work.jobs import JobFailure
from vetro.compute.work.node_tasks import About
from vetro.storage import Transaction


async def mark_lost(service: ServiceParts, server: str) -> int:
    """Mark the volumes of a dead server, but not those of VMs that are still assigned to it."""
    reason = f"server {server} was evacuated"
    async with service.database.transaction() as tx:
        here = select(vms.c.uuid).where(vms.c.server_uuid == server)
        left = or_(volumes.c.vm_uuid.is_(None), volumes.c.vm_uuid.not_in(here))
        return len(await lose_volumes(tx, server, reason, left))


async def find_again(run: Run) -> str:
    """Make the lost volumes of a returned server available; delete there what is not wanted any more."""
    service, server = run.service, run.server_uuid
    async with service.database.read() as tx:
        kept = await _kept(tx, server)
        mine = volumes.c.uuid.in_(kept) & (volumes.c.server_uuid == server)
        wanted = [row.uuid for row in await tx.execute(select(volumes.c.uuid).where(mine))]
        agent = service.servers.agent_of(await service.servers.row(tx, server))
    for uuid in kept:
        if uuid in wanted:
            continue
        id_ = await service.work.start(
            agent, "volume_delete", {"volume_uuid": uuid}, About(job_uuid=run.uuid)
        )
        ended = await service.work.wait(id_)
        if ended.status != "complete":
            raise JobFailure(f"volume {uuid} is still on server {server}: {ended.error}")
    async with service.database.transaction() as tx:
        found: Record = {"state": "available", "reason": ""}
        lost = volumes.c.uuid.in_(wanted) & (volumes.c.state == LOST_STATE)
        await tx.execute(update(volumes).where(lost).values(**found))
        await tx.execute(update(volume_copies).where(snapshots_of(wanted, server)).values(**found))
        await change_extra(tx, server, LOST, lambda _known: None)
    return f"{len(wanted)} volumes found, {len(kept) - len(wanted)} deleted"


async def _kept(tx: Transaction, server: str) -> list[str]:
    query = select(servers.c.extra).where(servers.c.uuid == server)
    row = (await tx.execute(query)).first()
    found: Json = (row.extra.get(LOST) if row is not None else None) or []
    return [str(one) for one in found]
