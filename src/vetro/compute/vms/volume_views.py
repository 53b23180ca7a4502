"""Volumes, snapshots and backups as the API shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import select

from vetro.compute.tables import servers
from vetro.compute.values.records import api_time, struct_of
from vetro.compute.values.silence import UNKNOWN, is_given_up, is_silent
from vetro.compute.wire import Volume, VolumeCopy, VolumeSource
from vetro.storage import Database, StoredRow

#: The volume is the root disk of the VM that boots from its image: it has no content of its own.
BOOT = "image"
SNAPSHOT, BACKUP = "snapshot", "backup"
#: On a server that was given up; what is not lost any more is set by the job that cleans it up.
LOST_STATE = "lost"
#: The servers of some volumes, by uuid; ``None``: all of them are heard.
Servers = Mapping[str, StoredRow] | None


def volume_view(row: StoredRow, there: Servers = None) -> Volume:
    """A volume as the API shows it."""
    source = VolumeSource(kind=row.source["kind"], uuid=row.source["uuid"]) if row.source else None
    state = _told("in-use" if row.vm_uuid else row.state, row, there)
    return struct_of(
        Volume, row, project_id=row.owner_uuid, size=row.size_gib, state=state, source=source
    )


def copy_view(row: StoredRow, there: Servers = None) -> VolumeCopy:
    """A snapshot or a backup as the API shows it."""
    created = api_time(row.created)
    state = row.state if row.kind == BACKUP else _told(row.state, row, there)
    return struct_of(
        VolumeCopy, row, project_id=row.owner_uuid, size=row.size_gib, state=state, created=created
    )


async def told_volumes(database: Database, rows: Sequence[StoredRow]) -> list[Volume]:
    """Volumes as they are told of: of those on silent servers nothing is known."""
    there = await _servers_of(database, rows)
    return [volume_view(row, there) for row in rows]


async def told_copies(database: Database, rows: Sequence[StoredRow]) -> list[VolumeCopy]:
    """Snapshots or backups, as `told_volumes`."""
    there = await _servers_of(database, rows)
    return [copy_view(row, there) for row in rows]


async def _servers_of(database: Database, rows: Sequence[StoredRow]) -> Mapping[str, StoredRow]:
    """The servers that volumes or their copies are on."""
    wanted = {row.server_uuid for row in rows if row.server_uuid}
    if not wanted:
        return {}
    query = select(servers.c.uuid, servers.c.status, servers.c.extra)
    async with database.read() as tx:
        return {row.uuid: row for row in await tx.execute(query) if row.uuid in wanted}


def _told(state: str, row: StoredRow, there: Servers) -> str:
    """Of what a silent server keeps nothing is known; what one that was given up had is lost."""
    if there is None or row.server_uuid is None or state not in ("in-use", "available"):
        return state
    server = there.get(row.server_uuid)
    if row.format == BOOT or not is_silent(server):
        return state
    return LOST_STATE if is_given_up(server) else UNKNOWN
