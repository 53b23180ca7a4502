"""A storage pool: trees, and the roots of containers on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vetro.node.storage.idmapped import IdMapping
from vetro.node.storage.room import check_room, snapshot_path

_FORMER = "former"
"""Of a VM: the root that another one is to replace."""


@dataclass(frozen=True)
class PoolStats:
    """Bytes of a whole pool, and its facts for sysinfo (``profile``: mirror, single, …)."""

    size: int
    free: int
    profile: str = "none"
    disks: tuple[str, ...] = ()
    encrypted: bool = False


class Trees(Protocol):
    """Directories that the pool can copy, limit and measure.

    Every method takes the path at which the tree is visible; parents exist. Errors: ``NodeError``.
    """

    kind: str
    enforces_quota: bool
    atomic_clones: bool

    async def open(self) -> None:
        """Check that the pool can be used."""
        ...

    async def activate(self, path: Path) -> None:
        """Make the tree visible at its path after a restart of the machine."""
        ...

    async def create(self, path: Path) -> None:
        """Create an empty tree."""
        ...

    async def clone(self, source: Path, path: Path, *, read_only: bool = False) -> None:
        """Create a tree as a copy of ``source``; blocks are shared where the pool supports it."""
        ...

    async def move(self, path: Path, target: Path) -> None:
        """Give a tree another path in the same directory, where nothing is."""
        ...

    async def drop(self, path: Path) -> None:
        """Remove a tree; a missing one is not an error."""
        ...

    async def limit(self, path: Path, limit_bytes: int) -> None:
        """Limit what may be written from now on, besides its cloned content; 0: no limit."""
        ...

    async def used(self, path: Path) -> int:
        """Bytes of the tree itself, without shared ones."""
        ...

    async def stats(self) -> PoolStats:
        """The figures of the whole pool."""
        ...


class Pool(ABC):
    """Root file systems of containers. ``directory`` is the VM's own below the data directory.

    ``layers``: the image's tree, and below it the trees of its origins (one when not ``layered``).
    ``writable``: the tree in ``directory`` that holds what a container writes; it has the quota.
    """

    layered: bool
    writable: str

    def __init__(self, trees: Trees) -> None:
        self.trees = trees

    @abstractmethod
    async def create_root(
        self, directory: Path, layers: Sequence[Path], *, owner: int, quota_bytes: int
    ) -> None:
        """Replace the root by a fresh one over the image. ``owner``: of the root directory."""

    @abstractmethod
    async def mount_root(
        self, directory: Path, layers: Sequence[Path], target: Path, mapping: IdMapping | None
    ) -> None:
        """Show the root at ``target``; ``mapping`` from the images' ids to the container's."""

    @abstractmethod
    def seen_by_host(self, directory: Path, target: Path) -> tuple[Path, bool]:
        """The path where the host reads and writes a root that is mounted at ``target``.

        True: owners there are the container's; False: the images', because no one outside the
        mapping may create a file in a mount with translated owners.
        """

    async def resize_root(self, directory: Path, quota_bytes: int) -> None:
        """Change the quota. Errors: ``DriverError`` when more is used already."""
        check_room(await self.used(directory), quota_bytes)
        await self.trees.limit(directory / self.writable, quota_bytes)

    @abstractmethod
    async def snapshot(self, directory: Path, name: str) -> None:
        """Snapshot the root."""

    @abstractmethod
    async def show_snapshot(
        self,
        directory: Path,
        name: str,
        layers: Sequence[Path],
        target: Path,
        mapping: IdMapping | None,
    ) -> tuple[Path, bool]:
        """Where the host reads the whole tree of a snapshot, and whose owners it has there.

        As ``seen_by_host`` for a root; it may mount something at ``target``, which the caller
        unmounts.
        """

    async def put_aside(self, directory: Path) -> None:
        """Keep the root (not mounted) beside, until ``put_back`` or ``drop_former``."""
        await self.drop_former(directory)
        await self.trees.move(directory / self.writable, directory / _FORMER)

    async def put_back(self, directory: Path) -> None:
        """Replace the root (not mounted) by what was put aside, if something was."""
        if (directory / _FORMER).is_dir():
            await self.trees.drop(directory / self.writable)
            await self.trees.move(directory / _FORMER, directory / self.writable)

    async def drop_former(self, directory: Path) -> None:
        """Remove what was put aside, if something was."""
        if (directory / _FORMER).is_dir():
            await self.trees.drop(directory / _FORMER)

    async def rollback(self, directory: Path, name: str) -> None:
        """Put the root (not mounted) aside, and make one of a snapshot, which stays."""
        await self.put_aside(directory)
        await self.trees.clone(snapshot_path(directory, name), directory / self.writable)

    async def drop_snapshot(self, directory: Path, name: str) -> None:
        """Remove a snapshot; a missing one is not an error."""
        await self.trees.drop(snapshot_path(directory, name))

    @abstractmethod
    async def destroy_root(self, directory: Path) -> None:
        """Remove root and snapshots."""

    @abstractmethod
    async def used(self, directory: Path) -> int:
        """Bytes of root and snapshots."""
