"""Records of what a server had that was given up (`vetro.compute.values.silence`): they go without it.

Its VMs were made again elsewhere, or are wanted no more; its volumes are lost (decision 0235). The server's
record keeps the list of both, and a tombstone that of its VMs where it has no record: when the machine
comes back, what is on it is destroyed there before it is used again (`vetro.compute.operations.evacuation`).
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, select, update

from vetro.compute.servers.store import CHANNEL, LOST, change_extra
from vetro.compute.tables import ports, servers, vms, volume_copies, volumes
from vetro.compute.values.faults import conflict
from vetro.compute.values.records import Record, api_time, mapping
from vetro.compute.values.silence import MOVED, is_given_up
from vetro.compute.vms.volume_views import BOOT, LOST_STATE, SNAPSHOT
from vetro.storage import Database, StoredRow, Transaction


async def lose_volumes(tx: Transaction, server: str, reason: str, which: Any = None) -> list[str]:
    """Mark volumes of a server as lost with their snapshots; returns which. ``which``: only those."""
    mine = (volumes.c.server_uuid == server) & (volumes.c.format != BOOT)
    if which is not None:
        mine &= which
    found = [row.uuid for row in await tx.execute(select(volumes.c.uuid).where(mine))]
    if not found:
        return []
    lost: Record = {"state": LOST_STATE, "reason": reason}
    await tx.execute(
        update(volumes).where(volumes.c.uuid.in_(found)).values(vm_uuid=None, device="", **lost)
    )
    await tx.execute(update(volume_copies).where(snapshots_of(found, server)).values(**lost))
    await change_extra(tx, server, LOST, lambda known: sorted({*(known or ()), *found}))
    return found


def snapshots_of(of: list[str], server: str) -> Any:
    """The snapshots of these volumes that a server has."""
    return (
        volume_copies.c.volume_uuid.in_(of)
        & (volume_copies.c.kind == SNAPSHOT)
        & (volume_copies.c.server_uuid == server)
        & volume_copies.c.state.in_(("available", LOST_STATE))
    )


async def forget_vm(tx: Transaction, uuid: str) -> None:
    """Delete a VM's record; its ports and volumes are free."""
    await tx.execute(
        update(ports).where(ports.c.device_uuid == uuid).values(device_uuid=None, device_owner="")
    )
    await forget_volumes(tx, uuid)
    await tx.execute(delete(vms).where(vms.c.uuid == uuid))


async def forget_volumes(tx: Transaction, uuid: str) -> None:
    """Take the volumes of a VM from it, in the records."""
    mine = volumes.c.vm_uuid == uuid
    await tx.execute(update(volumes).where(mine).values(vm_uuid=None, device=""))


async def leave_given_up(database: Database, uuid: str) -> bool:
    """Delete the record of a VM that is on a server that was given up; whether it was."""
    async with database.transaction() as tx:
        await tx.exclude(f"vm {uuid}")
        query = select(vms.c.server_uuid).where(vms.c.uuid == uuid)
        vm = (await tx.execute(query)).first()
        if vm is None:
            return False
        server = await _locked(tx, vm.server_uuid)
        if not is_given_up(server):
            return False
        reason = f"server {vm.server_uuid} was given up"
        await lose_volumes(tx, vm.server_uuid, reason, volumes.c.vm_uuid == uuid)
        await forget_vm(tx, uuid)
        left: Record = {uuid: {"since": api_time(database.clock.now())}}
        await change_extra(tx, vm.server_uuid, MOVED, lambda moved: {**mapping(moved), **left})
        tx.notify(CHANNEL, vm.server_uuid)
        return True


async def lose_if_given_up(database: Database, row: StoredRow) -> bool:
    """Mark a volume, or that of a snapshot, as lost if its server was given up; whether it is lost now."""
    if row.state == LOST_STATE:
        return True
    if row.server_uuid is None or row.format == BOOT:
        return False
    async with database.transaction() as tx:
        if not is_given_up(await _locked(tx, row.server_uuid)):
            return False
        volume = getattr(row, "volume_uuid", row.uuid)
        reason = f"server {row.server_uuid} was given up"
        await lose_volumes(tx, row.server_uuid, reason, volumes.c.uuid == volume)
        return True


async def lose_gone(database: Database, server: str, uuid: str) -> None:
    """Mark a volume as lost that its server does not have any more. Errors: 409, which says so."""
    async with database.transaction() as tx:
        query = select(volumes).where(volumes.c.uuid == uuid)
        row = (await tx.execute(query)).first()
        if row is None or row.server_uuid != server:
            return  # one that is just being made there, or is removed meanwhile
        reason = f"server {server} does not have it any more"
        lost: Record = {"state": LOST_STATE, "reason": reason, "vm_uuid": None, "device": ""}
        await tx.execute(update(volumes).where(volumes.c.uuid == uuid).values(**lost))
        await tx.execute(
            update(volume_copies)
            .where(snapshots_of([uuid], server))
            .values(state=LOST_STATE, reason=reason)
        )
        row = (await tx.execute(query)).one()
    refuse_lost(row)


def refuse_lost(row: StoredRow) -> None:
    """Errors: 409 for a volume that is lost."""
    if row.state == LOST_STATE:
        raise conflict(
            f"volume {row.uuid} is lost ({row.reason}): restore a backup of it, or remove it"
        )


async def _locked(tx: Transaction, uuid: str) -> StoredRow | None:
    """A server's row, which does not return to life before this transaction has ended."""
    query = select(servers).where(servers.c.uuid == uuid).with_for_update()
    return (await tx.execute(query)).first()
