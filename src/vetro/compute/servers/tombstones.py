"""What a server still has to give up, kept beyond its record (ours, beside CNAPI; decision 0821).

VMs that left a dead server are destroyed on it when it comes back. Its record has their list, and may be
deleted before that: then the list stays here, until the server registers anew and has a record again.
"""

from __future__ import annotations

from sqlalchemy import delete, insert, select

from vetro.compute.tables import tombstones
from vetro.compute.values.records import Record, mapping
from vetro.compute.values.silence import MOVED
from vetro.storage import Transaction


def under_way(extra: Record) -> Record:
    """Of the VMs that left a server, by what is kept with it: those that are still being made elsewhere."""
    moved = mapping(extra.get(MOVED))
    return {uuid: entry for uuid, entry in moved.items() if mapping(entry).get("task")}


async def bury(tx: Transaction, server_uuid: str, moved: Record) -> None:
    """Keep the VMs that left a server which has no record, beside those that are kept already."""
    if moved:
        known = await dig_up(tx, server_uuid)
        row: Record = {"server_uuid": server_uuid, "moved_vms": {**known, **moved}}
        await tx.execute(insert(tombstones).values(**row))


async def dig_up(tx: Transaction, server_uuid: str) -> Record:
    """What is kept of a server, which is not kept any more when this transaction has ended."""
    await tx.exclude(f"tombstone {server_uuid}")
    here = tombstones.c.server_uuid == server_uuid
    row = (await tx.execute(select(tombstones.c.moved_vms).where(here))).first()
    if row is None:
        return {}
    await tx.execute(delete(tombstones).where(here))
    return mapping(row.moved_vms)
