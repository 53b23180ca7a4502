"""ZFS: every tree is a dataset mounted at its path, a clone is a clone of a snapshot.

The data directory is the mount point of a dataset; a tree's dataset has the same relative name as
the tree's path in the data directory.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

from vetro.digits import is_number
from vetro.node.commands import run
from vetro.node.errors import CommandFailed, ConfigurationError
from vetro.node.files import remove_tree
from vetro.node.storage.pool import PoolStats
from vetro.node.storage.room import storage_error


class ZfsTrees:
    """Datasets below ``root``, whose mount point is ``directory``."""

    kind = "zfs"
    enforces_quota = True
    atomic_clones = True

    def __init__(self, directory: Path, root: str) -> None:
        self.directory = directory
        self.root = root

    async def open(self) -> None:
        """Check that the tools work. Errors: ``ConfigurationError``."""
        try:
            await run("zfs", "list", "-H", "-o", "name", self.root)
        except CommandFailed as error:
            raise ConfigurationError(
                f"The ZFS dataset {self.root} cannot be used: {error.output.strip()}"
            ) from error

    def dataset(self, path: Path) -> str:
        """The dataset of a path. ZFS names must not begin with a dot."""
        parts = path.relative_to(self.directory).parts
        return "/".join([self.root, *(part.lstrip(".") for part in parts)])

    async def activate(self, path: Path) -> None:
        """Mount it, unless it is mounted."""
        if not os.path.ismount(path):
            await self._zfs(f"mount {path}", "mount", self.dataset(path))

    async def create(self, path: Path) -> None:
        """Create a dataset; its parents are datasets that are not mounted."""
        await self._parents(path)
        await self._zfs(f"make {path}", "create", "-o", f"mountpoint={path}", self.dataset(path))

    async def _parents(self, path: Path) -> None:
        parent = self.dataset(path).rpartition("/")[0]
        if parent != self.root:
            await self._zfs(f"make {parent}", "create", "-p", "-o", "canmount=off", parent)

    async def clone(self, source: Path, path: Path, *, read_only: bool = False) -> None:
        """Create a clone of a snapshot taken for it."""
        snapshot = self.snapshot_for(source, path)
        await self._parents(path)
        await self._zfs(f"keep {source}", "snapshot", snapshot)
        flags = ["-o", "readonly=on"] if read_only else []
        await self._zfs(
            f"clone {source} to {path}",
            "clone", "-o", f"mountpoint={path}", *flags, snapshot, self.dataset(path),
        )  # fmt: skip

    def snapshot_for(self, source: Path, path: Path) -> str:
        """The snapshot of ``source`` from which the tree at ``path`` is cloned."""
        return f"{self.dataset(source)}@{_mark(path)}"

    async def move(self, path: Path, target: Path) -> None:
        """Rename the dataset, and the snapshot it was cloned from: another tree takes its path."""
        name = self.dataset(target)
        await self._zfs(f"move {path}", "rename", self.dataset(path), name)
        await self._zfs(f"show {target}", "set", f"mountpoint={target}", name)
        found = await run("zfs", "get", "-H", "-o", "value", "origin", name, check=False)
        source, _, snapshot = found.output.strip().partition("@")
        if snapshot == _mark(path):
            origin = f"{source}@{snapshot}"
            await self._zfs(f"move {origin}", "rename", origin, f"{source}@{_mark(target)}")

    async def drop(self, path: Path) -> None:
        """Destroy the dataset and the snapshot it came from; clones of it are promoted first."""
        name = self.dataset(path)
        listed = await run("zfs", "list", "-H", "-o", "name,origin", "-r", self.root, check=False)
        rows = [line.split("\t") for line in listed.output.splitlines() if "\t" in line]
        origins = {row[0]: row[1] for row in rows}
        if name not in origins:
            await asyncio.to_thread(remove_tree, path)
            return
        for clone, origin in origins.items():
            if origin.startswith(f"{name}@"):
                await self._zfs(f"promote {clone}", "promote", clone)
        found = await run("zfs", "get", "-H", "-o", "value", "origin", name, check=False)
        origin = found.output.strip()
        await self._zfs(f"remove {path}", "destroy", "-r", name)
        if "@vetro-" in origin:
            # Still the origin of another clone: it stays until that clone is destroyed.
            await run("zfs", "destroy", origin, check=False)
        if path.is_dir():
            path.rmdir()

    async def limit(self, path: Path, limit_bytes: int) -> None:
        """Set ``quota``: the bytes that the clone and its snapshots add."""
        value = str(limit_bytes) if limit_bytes else "none"
        await self._zfs(f"limit {path}", "set", f"quota={value}", self.dataset(path))

    async def used(self, path: Path) -> int:
        """The dataset's ``used``: without the bytes it shares with its origin."""
        found = await run(
            "zfs", "get", "-H", "-p", "-o", "value", "used", self.dataset(path), check=False
        )
        text = found.output.strip()
        return int(text) if is_number(text) else 0

    async def stats(self) -> PoolStats:
        """The pool's space as its root dataset reports it."""
        found = await run(
            "zfs", "get", "-H", "-p", "-o", "value", "used,available,encryption", self.root,
            check=False,
        )  # fmt: skip
        words = [*found.output.split(), "0", "0", "off"]
        used, free = (int(word) if is_number(word) else 0 for word in words[:2])
        listed = await run("zpool", "list", "-v", "-H", "-P", self.root.split("/")[0], check=False)
        names = [line.split()[0] for line in listed.output.splitlines() if line.strip()]
        profile = next((n for n in names if n.startswith(("mirror", "raidz"))), "single")
        return PoolStats(
            used + free,
            free,
            profile.split("-")[0],
            tuple(name for name in names if name.startswith("/")),
            words[2] not in ("off", "-"),
        )

    @staticmethod
    async def _zfs(what: str, *arguments: str) -> None:
        try:
            await run("zfs", *arguments)
        except CommandFailed as error:
            raise storage_error(f"Cannot {what}", error) from error


def _mark(path: Path) -> str:
    """The name of the snapshot from which the tree at a path is cloned."""
    return f"vetro-{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"
