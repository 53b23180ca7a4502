"""Where the volumes of a VM that is to be placed are (decision 0385)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import select

from vetro.compute.tables import volume_copies, volumes
from vetro.compute.vms.volume_views import BOOT, LOST_STATE, SNAPSHOT
from vetro.storage import Database


@dataclass(frozen=True)
class VolumePlaces:
    """The servers that keep a VM's volumes, those with most of them first."""

    servers: list[str] = field(default_factory=list[str])
    bound: dict[str, str] = field(default_factory=dict[str, str])
    """Server by volume, of volumes that cannot move: they have snapshots there."""

    @property
    def needed(self) -> list[str]:
        """The servers that a VM with these volumes has to be on; [] when it may be on any."""
        return sorted(set(self.bound.values()))

    def why(self) -> str:
        """Why the VM has to be where its volumes are."""
        volume, server = next(iter(self.bound.items()))
        return (
            f"volume {volume} has snapshots on server {server}, so a VM with it has to be there:"
            " make room there, or remove the snapshots"
        )


async def places_of(database: Database, uuids: Sequence[str], owner: str) -> VolumePlaces:
    """Where volumes of a project are. Unknown ones, and those of other projects, are nowhere."""
    if not uuids:
        return VolumePlaces()
    mine = volumes.c.uuid.in_(uuids) & (volumes.c.owner_uuid == owner)
    kept = volumes.c.server_uuid.is_not(None) & (volumes.c.state != LOST_STATE)
    taken = volume_copies.c.volume_uuid.in_(uuids) & (volume_copies.c.kind == SNAPSHOT)
    async with database.read() as tx:
        rows = list(
            await tx.execute(
                select(volumes.c.uuid, volumes.c.server_uuid)
                .where(mine & kept & (volumes.c.format != BOOT))
                .order_by(volumes.c.uuid)
            )
        )
        copied = await tx.execute(select(volume_copies.c.volume_uuid).where(taken))
        with_snapshots = {row.volume_uuid for row in copied}
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.server_uuid] = counts.get(row.server_uuid, 0) + 1
    return VolumePlaces(
        sorted(counts, key=lambda server: (-counts[server], server)),
        {row.uuid: row.server_uuid for row in rows if row.uuid in with_snapshots},
    )
