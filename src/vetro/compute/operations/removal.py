"""Deleting a server's record, and with it what was recorded of what it had (ours, beside CNAPI).

CNAPI's call deletes the record alone and refuses nothing. An operator who takes a machine away for good wants
the rest gone, too, and wants to be told before machines are forgotten that run, or that nobody has made
again elsewhere (decision 0801).
"""

from __future__ import annotations

import structlog
from sqlalchemy import delete, select, update

from vetro.compute.operations.parts import ServiceParts
from vetro.compute.tables import moves, spans_told, tasks, vms, volume_copies, volumes
from vetro.compute.values.faults import conflict
from vetro.compute.values.silence import is_silent
from vetro.compute.vms.given_up import forget_vm, lose_volumes
from vetro.compute.vms.volume_views import BOOT
from vetro.storage import StoredRow, Transaction

log = structlog.get_logger(__name__)
_NAMED = 5


async def remove_server(service: ServiceParts, uuid: str, *, force: bool) -> None:
    """Delete a server's record with those of its VMs, tasks and volumes' places.

    Its VMs' addresses are free, its volumes lost. Nothing is sent to the machine. If it is heard again, it
    registers anew, and VMs on it are machines without a record. Errors: 404; without ``force`` 409 for a
    server that is heard or that has VMs.
    """
    async with service.database.read() as tx:
        row = await service.servers.row(tx, uuid)
        held = await _held(tx, uuid)
    if not force:
        _refuse(row, held)
    given_up = await service.work.give_up(uuid, f"server {uuid} was deleted")
    async with service.database.transaction() as tx:
        held = await _held(tx, uuid)
        if not force:
            _refuse(await service.servers.row(tx, uuid), held)
        for vm in held:
            await forget_vm(tx, vm.uuid)
        lost = await lose_volumes(tx, uuid, f"server {uuid} was deleted")
        here = (volumes.c.server_uuid == uuid) & (volumes.c.format != BOOT)
        await tx.execute(update(volumes).where(here).values(server_uuid=None))
        copies = volume_copies.c.server_uuid == uuid
        await tx.execute(update(volume_copies).where(copies).values(server_uuid=None))
        ended = (tasks.c.server_uuid == uuid) & (tasks.c.status != "active")
        # Who waits for one that was given up just now still reads how it ended; it goes with its age.
        gone = await tx.execute(delete(tasks).where(ended & ~tasks.c.id.in_(given_up)))
        await tx.execute(delete(moves).where(moves.c.target_uuid == uuid))
        await tx.execute(delete(spans_told).where(spans_told.c.server_uuid == uuid))
    await service.servers.forget(uuid)
    log.warning(
        "server_deleted",
        server=uuid,
        hostname=row.hostname,
        vms=[vm.uuid for vm in held],
        volumes=lost,
        tasks=gone.rowcount,
    )


async def _held(tx: Transaction, server_uuid: str) -> list[StoredRow]:
    query = select(vms.c.uuid, vms.c.alias, vms.c.state).where(vms.c.server_uuid == server_uuid)
    return list(await tx.execute(query.order_by(vms.c.created, vms.c.uuid)))


def _refuse(row: StoredRow, held: list[StoredRow]) -> None:
    """Errors: 409 for a server that is heard, or that has VMs."""
    if not is_silent(row):
        raise conflict(
            f"server {row.hostname} is heard: empty it (vetro server drain {row.uuid}) and stop its"
            " agent, or delete it with force"
        )
    there = [vm for vm in held if vm.state != "allocated"]
    if there:
        named = [f"{vm.alias or 'VM'} ({vm.uuid})" for vm in there[:_NAMED]]
        if len(there) > _NAMED:
            named.append(f"{len(there) - _NAMED} more")
        raise conflict(
            f"server {row.hostname} has {len(there)} VMs that were not made again elsewhere:"
            f" {', '.join(named)}. Evacuate it (vetro server evacuate {row.uuid} --fenced), or delete it"
            " with force: their records go then",
            vms=[vm.uuid for vm in there],
        )
