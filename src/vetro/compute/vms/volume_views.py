"""Volumes, snapshots and backups as the API shows them."""

from __future__ import annotations

from vetro.compute.values.records import api_time, struct_of
from vetro.compute.wire import Volume, VolumeCopy, VolumeSource
from vetro.storage import StoredRow


def volume_view(row: StoredRow) -> Volume:
    """A volume as the API shows it."""
    source = VolumeSource(kind=row.source["kind"], uuid=row.source["uuid"]) if row.source else None
    state = "in-use" if row.vm_uuid else row.state
    return struct_of(
        Volume, row, project_id=row.owner_uuid, size=row.size_gib, state=state, source=source
    )


def copy_view(row: StoredRow) -> VolumeCopy:
    """A snapshot or a backup as the API shows it."""
    created = api_time(row.created)
    return struct_of(VolumeCopy, row, project_id=row.owner_uuid, size=row.size_gib, created=created)
