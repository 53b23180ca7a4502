"""Optional parts of a compute service beyond `ComputePort`; `ComputePort.offers` lists its own.

Templates that need a missing part are refused before anything is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from vetro.compute.wire import Image

Json = Any
BLOCK_STORAGE = "block storage"
LOAD_BALANCERS = "load balancers"
PARTS = {"volumes": BLOCK_STORAGE, "load balancers": LOAD_BALANCERS}
"""What the service calls them."""


@dataclass(slots=True, kw_only=True)
class VolumeInfo:
    """A volume. `size` in GiB; `attachments`: device by server."""

    uuid: str
    project_id: str
    name: str
    size: int
    source: tuple[str, str] | None = None
    """What it was made of: (`image`, `snapshot_id`, `backup_id` or `source_volid`; its id)."""
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    read_only: bool = False
    attachments: dict[str, str] = field(default_factory=dict[str, str])


class BlockStorage(Protocol):
    """Volumes. As in `ComputePort` everything may be repeated."""

    async def create_volume(
        self,
        uuid: str,
        *,
        project_id: str,
        name: str,
        size: int,
        source: tuple[str, str] | None,
        metadata: Mapping[str, str],
        read_only: bool,
    ) -> None: ...

    async def update_volume(
        self,
        uuid: str,
        *,
        name: str,
        size: int,
        metadata: Mapping[str, str],
        read_only: bool,
    ) -> None:
        """Change a volume; it can only grow. Raises `ResourceFailure`."""
        ...

    async def delete_volume(self, uuid: str) -> None: ...

    async def volume(self, uuid: str) -> VolumeInfo | None: ...

    async def volume_image(self, project_id: str, uuid: str) -> Image:
        """What a server that boots from the volume is. Raises `ResourceFailure`."""
        ...

    async def attach_volume(self, uuid: str, *, server: str, device: str) -> None: ...

    async def detach_volume(self, uuid: str, *, server: str) -> None: ...
