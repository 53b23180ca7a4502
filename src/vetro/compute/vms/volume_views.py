"""Volumes, snapshots and backups as the API shows them."""

from __future__ import annotations

from vetro.compute.values.records import api_time
from vetro.compute.wire import Volume, VolumeCopy, VolumeSource
from vetro.storage import StoredRow


def volume_view(row: StoredRow) -> Volume:
    """A volume as the API shows it."""
    source = VolumeSource(kind=row.source["kind"], uuid=row.source["uuid"]) if row.source else None
    return Volume(
        uuid=row.uuid,
        project_id=row.owner_uuid,
        name=row.name,
        size=row.size_gib,
        format=row.format,
        state="in-use" if row.vm_uuid else row.state,
        reason=row.reason,
        server_uuid=row.server_uuid,
        vm_uuid=row.vm_uuid,
        device=row.device,
        read_only=row.read_only,
        metadata=row.metadata,
        source=source,
    )


def copy_view(row: StoredRow) -> VolumeCopy:
    """A snapshot or a backup as the API shows it."""
    return VolumeCopy(
        uuid=row.uuid,
        project_id=row.owner_uuid,
        volume_uuid=row.volume_uuid,
        name=row.name,
        size=row.size_gib,
        state=row.state,
        reason=row.reason,
        bytes=row.bytes,
        created=api_time(row.created),
    )
