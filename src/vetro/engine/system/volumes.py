"""``VolumeExplorer``: whether snapshots and backups of volumes exist (core-library.md §5.6)."""

from __future__ import annotations

from vetro.engine.errors import NoBlockStorage
from vetro.engine.services import block_storage, services_of
from vetro.muranopl import CallContext


class VolumeExplorer:
    """Looks at a project's block storage in a region. Errors: ``NoBlockStorage`` where there is none."""

    def __init__(self, region_name: str | None = None) -> None:
        self.region_name = region_name

    def has_snapshot(self, ctx: CallContext, snapshot_id: str) -> bool:
        """Whether the project has the snapshot."""
        return self._has(ctx, "snapshot", snapshot_id)

    def has_backup(self, ctx: CallContext, backup_id: str) -> bool:
        """Whether the project has the backup."""
        return self._has(ctx, "backup", backup_id)

    def _has(self, ctx: CallContext, kind: str, id_: str) -> bool:
        services = services_of(ctx)
        volumes = block_storage(services, self.region_name)
        if volumes is None:
            raise NoBlockStorage
        return ctx.effect(
            "volume.exists",
            {"kind": kind, "id": id_},
            lambda: volumes.exists(services.project_id, kind, id_),
        )
