"""Plain directories: containers' roots are overlays over the unpacked image.

``<vm>/upper`` and ``<vm>/work`` are the overlay's writable layers, ``<vm>/snapshots/<name>`` copies
of ``upper`` (whiteouts included). Works on every file system that supports an overlay. Quotas are
enforced where the file system counts by project (ext4 and XFS mounted with ``prjquota``).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import structlog

from vetro.node.errors import CommandFailed
from vetro.node.files import copy_tree, remove_tree, tree_bytes
from vetro.node.storage.idmapped import IdMapping
from vetro.node.storage.mounts import mount_overlay, unmount
from vetro.node.storage.pool import Pool, PoolStats
from vetro.node.storage.project_quota import ProjectQuota
from vetro.node.storage.room import snapshot_path, storage_error

log = structlog.get_logger(__name__)


class DirectoryTrees:
    """Directories; a clone is a copy (blocks shared on XFS)."""

    kind = "directory"
    atomic_clones = False

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._quota = ProjectQuota(directory)
        self.enforces_quota = False

    async def open(self) -> None:
        """Check whether quotas can be enforced."""
        self.enforces_quota = self._quota.available()
        if not self.enforces_quota:
            log.warning(
                "quotas_not_enforced",
                effect="quotas of instances are counted only: the pool is a directory on a file"
                " system without project quotas",
                remedy="ext4 or XFS mounted with prjquota, or a pool of btrfs, ZFS or LVM",
                directory=str(self.directory),
            )

    async def activate(self, path: Path) -> None:
        """Nothing to do: directories are always visible."""

    async def create(self, path: Path) -> None:
        """Create an empty directory."""
        path.mkdir(mode=0o755)

    async def clone(self, source: Path, path: Path, *, read_only: bool = False) -> None:
        """Copy the directory."""
        try:
            await copy_tree(source, path)
        except CommandFailed as error:
            raise storage_error(f"{source} could not be copied to {path}", error) from error

    async def move(self, path: Path, target: Path) -> None:
        """Rename it."""
        path.rename(target)

    async def drop(self, path: Path) -> None:
        """Remove it."""
        await asyncio.to_thread(remove_tree, path)

    async def limit(self, path: Path, limit_bytes: int) -> None:
        """Set a project quota, where they are available."""
        if self.enforces_quota:
            await asyncio.to_thread(self._quota.limit, path, limit_bytes)

    async def used(self, path: Path) -> int:
        """Bytes in the directory."""
        return await tree_bytes(path)

    async def stats(self) -> PoolStats:
        """The figures of the file system."""
        status = os.statvfs(self.directory)
        return PoolStats(status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize)


class DirectoryPool(Pool):
    """Overlays over images."""

    layered = True
    writable = "upper"

    async def create_root(
        self, directory: Path, layers: Sequence[Path], *, owner: int, quota_bytes: int
    ) -> None:
        """Create empty writable layers."""
        for name in ("upper", "work"):
            await self.trees.drop(directory / name)
            await self.trees.create(directory / name)
        os.chown(directory / "upper", owner, owner)
        await self.trees.limit(directory / "upper", quota_bytes)

    async def mount_root(
        self, directory: Path, layers: Sequence[Path], target: Path, mapping: IdMapping | None
    ) -> None:
        """Mount the overlay; its lower layers have the container's owners."""
        await asyncio.to_thread(_mount, directory, layers, target, mapping)

    def seen_by_host(self, directory: Path, target: Path) -> tuple[Path, bool]:
        """The overlay itself: only its lower layers have translated owners."""
        return target, True

    async def snapshot(self, directory: Path, name: str) -> None:
        """Copy the writable layer."""
        kept = snapshot_path(directory, name)
        kept.parent.mkdir(mode=0o700, exist_ok=True)
        await self.trees.clone(directory / "upper", kept)

    async def show_snapshot(
        self,
        directory: Path,
        name: str,
        layers: Sequence[Path],
        target: Path,
        mapping: IdMapping | None,
    ) -> tuple[Path, bool]:
        """Mount an overlay of the copy over the image, read-only."""
        kept = snapshot_path(directory, name)
        await asyncio.to_thread(_mount, directory, layers, target, mapping, kept)
        return target, True

    async def put_aside(self, directory: Path) -> None:
        """Keep the writable layer beside; what comes in its place has an empty work directory."""
        await super().put_aside(directory)
        await self._empty_work(directory)

    async def put_back(self, directory: Path) -> None:
        """Restore the writable layer, with an empty work directory."""
        await super().put_back(directory)
        await self._empty_work(directory)

    async def _empty_work(self, directory: Path) -> None:
        await self.trees.drop(directory / "work")
        await self.trees.create(directory / "work")

    async def destroy_root(self, directory: Path) -> None:
        """Remove the layers and all copies."""
        await self.drop_former(directory)
        for name in ("upper", "work", "snapshots"):
            await self.trees.drop(directory / name)

    async def used(self, directory: Path) -> int:
        """Bytes of the writable layer and the copies."""
        return sum(
            [
                await self.trees.used(directory / "upper"),
                await self.trees.used(directory / "snapshots"),
            ]
        )


def _mount(
    directory: Path,
    layers: Sequence[Path],
    target: Path,
    mapping: IdMapping | None,
    kept: Path | None = None,
) -> None:
    """Mount the overlay of the writable layer, or of ``kept`` in its place."""
    top = [] if kept is None else [kept]
    upper, work = (directory / "upper", directory / "work") if kept is None else (None, None)
    if mapping is None:
        mount_overlay([*top, *layers], upper, work, target)
        return
    # The translated views must be mounted only until the overlay holds them.
    below = [directory / f"lower{index}" for index, _ in enumerate(layers)]
    shown: list[Path] = []
    try:
        for layer, view in zip(layers, below, strict=True):
            view.mkdir(mode=0o700, exist_ok=True)
            shown.append(view)
            mapping.mount(layer, view)
        mount_overlay([*top, *below], upper, work, target)
    finally:
        for view in shown:
            unmount(view)
            view.rmdir()
