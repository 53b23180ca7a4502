"""Copies of volumes that exist in a project, for VolumeExplorer (core-library.md §5.6)."""

from __future__ import annotations

from vetro.compute.client import ComputeClient, ComputeError
from vetro.compute.client.calls import VOLUME_BACKUPS, VOLUME_SNAPSHOTS


class ComputeVolumeDirectory:
    """Snapshots and backups of volumes on the compute service; its client acts for one project."""

    def __init__(self, client: ComputeClient) -> None:
        self._client = client

    async def exists(self, project_id: str, kind: str, id_: str) -> bool:
        """Whether the project has a ``snapshot`` or ``backup`` of this id that can be used."""
        copies = VOLUME_SNAPSHOTS if kind == "snapshot" else VOLUME_BACKUPS
        try:
            found = await self._client.send(copies.one(id_))
        except ComputeError as error:
            if error.status == 404:
                return False
            raise
        return found.project_id == project_id and found.state == "available"
