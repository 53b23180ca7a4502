"""The two protocols of a storage pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vetro.node.idmapped import IdMapping


@dataclass(frozen=True)
class PoolStats:
    """Bytes of a whole pool, and what sysinfo says of it (``profile``: mirror, single, …)."""

    size: int
    free: int
    profile: str = "none"
    disks: tuple[str, ...] = ()
    encrypted: bool = False


class Trees(Protocol):
    """Directories with the pool's own means of copying, limiting and counting.

    Every method takes the path at which the tree is seen; parents exist. Errors: ``NodeError``.
    """

    kind: str
    enforces_quota: bool
    atomic_clones: bool

    async def open(self) -> None:
        """Check that the pool can be used."""
        ...

    async def activate(self, path: Path) -> None:
        """Make the tree visible at its path again, after a restart of the machine."""
        ...

    async def create(self, path: Path) -> None:
        """An empty tree."""
        ...

    async def clone(self, source: Path, path: Path, *, read_only: bool = False) -> None:
        """A tree that begins as a copy of ``source``; sharing blocks where the pool can."""
        ...

    async def drop(self, path: Path) -> None:
        """Remove a tree; one that is not there is removed already."""
        ...

    async def limit(self, path: Path, limit_bytes: int) -> None:
        """What may be written to the tree from now on, beside what it was cloned with; 0: no limit."""
        ...

    async def used(self, path: Path) -> int:
        """Bytes the tree itself takes, without what it shares."""
        ...

    async def stats(self) -> PoolStats:
        """The whole pool."""
        ...


class Pool(Protocol):
    """Root file systems of containers. ``directory`` is the VM's own in the data directory.

    ``layers``: the image's tree, and below it the trees of its origins (one when not ``layered``).
    """

    trees: Trees
    layered: bool

    async def create_root(
        self, directory: Path, layers: Sequence[Path], *, owner: int, quota_bytes: int
    ) -> None:
        """A fresh root over the image; what was there goes. ``owner``: of the root directory."""
        ...

    async def mount_root(
        self, directory: Path, layers: Sequence[Path], target: Path, mapping: IdMapping | None
    ) -> None:
        """Show the root at ``target``; ``mapping`` from the images' ids to the container's."""
        ...

    def seen_by_host(self, directory: Path, target: Path) -> tuple[Path, bool]:
        """Where the host reads and writes a root that is mounted at ``target``.

        True: owners there are the container's; False: the images', because nobody outside of the
        mapping may create a file in a mount with translated owners.
        """
        ...

    async def resize_root(self, directory: Path, quota_bytes: int) -> None:
        """Change the quota. Errors: ``DriverError`` when more is used already."""
        ...

    async def snapshot(self, directory: Path, name: str) -> None:
        """Keep the root as it is now."""
        ...

    async def show_snapshot(
        self,
        directory: Path,
        name: str,
        layers: Sequence[Path],
        target: Path,
        mapping: IdMapping | None,
    ) -> tuple[Path, bool]:
        """Where the host reads the whole tree of a snapshot, and whose owners it has there.

        As ``seen_by_host`` of a root; something may be mounted at ``target``, which the caller
        takes away.
        """
        ...

    async def rollback(self, directory: Path, name: str) -> None:
        """Take the root (not mounted) back; the snapshot stays."""
        ...

    async def drop_snapshot(self, directory: Path, name: str) -> None:
        """Remove a snapshot; one that is not there is removed already."""
        ...

    async def destroy_root(self, directory: Path) -> None:
        """Remove root and snapshots."""
        ...

    async def used(self, directory: Path) -> int:
        """Bytes of root and snapshots."""
        ...
