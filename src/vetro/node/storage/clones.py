"""Roots as clones of the image's tree, on pools that clone without copying (btrfs, ZFS, LVM).

``<vm>/root`` is the clone, ``<vm>/snapshots/<name>`` are read-only clones of it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from vetro.node.storage.idmapped import IdMapping
from vetro.node.storage.mounts import bind
from vetro.node.storage.pool import Pool
from vetro.node.storage.room import snapshot_path


class ClonePool(Pool):
    """Clones on any ``Trees``."""

    layered = False
    writable = "root"

    async def create_root(
        self, directory: Path, layers: Sequence[Path], *, owner: int, quota_bytes: int
    ) -> None:
        """Create a clone of the image. It has the image's owners until it is mounted."""
        root = directory / "root"
        await self.trees.drop(root)
        await self.trees.clone(layers[0], root)
        await self.trees.limit(root, quota_bytes)

    async def mount_root(
        self, directory: Path, layers: Sequence[Path], target: Path, mapping: IdMapping | None
    ) -> None:
        """Show the clone with the container's owners."""
        root = directory / "root"
        await self.trees.activate(root)
        if mapping is None:
            await asyncio.to_thread(bind, root, target)
        else:
            await asyncio.to_thread(mapping.mount, root, target)

    def seen_by_host(self, directory: Path, target: Path) -> tuple[Path, bool]:
        """The clone itself, not its mount with translated owners."""
        return directory / "root", False

    async def snapshot(self, directory: Path, name: str) -> None:
        """Create a read-only clone."""
        kept = snapshot_path(directory, name)
        kept.parent.mkdir(mode=0o700, exist_ok=True)
        await self.trees.drop(kept)
        await self.trees.clone(directory / "root", kept, read_only=True)

    async def show_snapshot(
        self,
        directory: Path,
        name: str,
        layers: Sequence[Path],
        target: Path,
        mapping: IdMapping | None,
    ) -> tuple[Path, bool]:
        """The snapshot's clone itself."""
        kept = snapshot_path(directory, name)
        await self.trees.activate(kept)
        return kept, False

    async def destroy_root(self, directory: Path) -> None:
        """Remove the clone and all snapshots."""
        await self.drop_former(directory)
        snapshots = directory / "snapshots"
        if snapshots.is_dir():
            for kept in sorted(snapshots.iterdir()):
                await self.trees.drop(kept)
            os.rmdir(snapshots)
        await self.trees.drop(directory / "root")

    async def used(self, directory: Path) -> int:
        """Bytes of the clone and its snapshots, without the image's."""
        root, snapshots = directory / "root", directory / "snapshots"
        total = await self.trees.used(root) if root.is_dir() else 0
        for kept in sorted(snapshots.iterdir()) if snapshots.is_dir() else []:
            total += await self.trees.used(kept)
        return total
