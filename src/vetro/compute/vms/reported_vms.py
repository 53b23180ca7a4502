"""What servers reported of their VMs, changed before the next status arrives."""

from __future__ import annotations

from sqlalchemy import select, update

from vetro.compute.servers.store import STRAYS, change_extra
from vetro.compute.tables import servers
from vetro.compute.values.records import Record, mapping, without
from vetro.storage import Transaction

#: The fields of a VM that a status reports.
_FIELDS = (
    "brand", "cpu_cap", "last_modified", "max_physical_memory", "owner_uuid", "quota",
    "state", "uuid", "zone_state",
)  # fmt: skip


async def change_reported(
    tx: Transaction, server_uuid: str, uuid: str, made: Record | None
) -> None:
    """Update what a server's last status says of a VM; ``made`` None: the VM is gone."""
    query = (
        select(servers.c.sample, servers.c.extra)
        .where(servers.c.uuid == server_uuid)
        .with_for_update()
    )
    row = (await tx.execute(query)).first()
    if row is None:
        return
    if made is None and uuid in mapping(row.extra.get(STRAYS)):
        await change_extra(tx, server_uuid, STRAYS, lambda known: without(known, uuid))
    sample = mapping(row.sample)
    reported = mapping(sample.get("vms"))
    if made is None:
        if uuid not in reported:
            return
        reported = without(reported, uuid)
    else:
        known = mapping(reported.get(uuid))
        news = {name: made[name] for name in _FIELDS if name in made}
        reported = {**reported, uuid: {**known, **news}}
    await tx.execute(
        update(servers)
        .where(servers.c.uuid == server_uuid)
        .values(sample={**sample, "vms": reported})
    )
