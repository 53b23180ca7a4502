"""LVM: every tree is an ext4 file system on a thin volume, a clone is a thin snapshot.

A volume is named after its path (``vetro-<16 hex of its SHA-256>``). Its size is the tree's limit.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

from vetro.digits import is_number
from vetro.node.commands import Finished, run
from vetro.node.errors import CommandFailed, ConfigurationError
from vetro.node.files import remove_tree
from vetro.node.storage.mounts import unmount
from vetro.node.storage.pool import PoolStats
from vetro.node.storage.room import storage_error

# Thin: an unpacked image occupies only the part it needs.
_TREE_BYTES = 10 * 2**30


class LvmTrees:
    """Thin volumes of ``source``: ``<volume group>/<thin pool>``."""

    kind = "lvm"
    enforces_quota = True
    atomic_clones = True

    def __init__(self, directory: Path, source: str) -> None:
        self.directory = directory
        self.group, separator, self.pool = source.partition("/")
        if not separator or not self.group or not self.pool:
            raise ConfigurationError(
                f"The LVM pool '{source}' must be named <volume group>/<thin pool>"
            )

    async def open(self) -> None:
        """Check that the thin pool exists. Errors: ``ConfigurationError``."""
        try:
            found = await run("lvs", "--noheadings", "-o", "segtype", f"{self.group}/{self.pool}")
        except CommandFailed as error:
            raise ConfigurationError(
                f"The LVM pool {self.group}/{self.pool} cannot be used: {error.output.strip()}"
            ) from error
        if found.output.strip() != "thin-pool":
            raise ConfigurationError(f"{self.group}/{self.pool} is not an LVM thin pool")

    def volume(self, path: Path) -> str:
        """The name of the volume for a path."""
        return f"vetro-{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}"

    def device(self, path: Path) -> str:
        """The block device of a path's volume."""
        return f"/dev/{self.group}/{self.volume(path)}"

    async def activate(self, path: Path) -> None:
        """Mount the volume, unless it is mounted."""
        if not os.path.ismount(path):
            name = f"{self.group}/{self.volume(path)}"
            await self._do(f"activate {path}", "lvchange", "--activate", "y", "-K", name)
            await self._mount(path)

    async def create(self, path: Path) -> None:
        """Create a volume with an empty file system."""
        await self._do(
            f"make {path}",
            "lvcreate", "--yes", "--virtualsize", f"{_TREE_BYTES}b", "--thin",
            f"{self.group}/{self.pool}", "--name", self.volume(path),
        )  # fmt: skip
        await self._do(f"format {path}", "mkfs.ext4", "-q", "-m", "0", self.device(path))
        await self._mount(path)
        with_lost = path / "lost+found"
        if with_lost.is_dir():
            with_lost.rmdir()

    async def _mount(self, path: Path, *, read_only: bool = False) -> None:
        path.mkdir(mode=0o755, exist_ok=True)
        options = "nodev,ro" if read_only else "nodev"
        await self._do(f"mount {path}", "mount", "-o", options, self.device(path), str(path))

    async def clone(self, source: Path, path: Path, *, read_only: bool = False) -> None:
        """Create a thin snapshot."""
        await self._do(
            f"clone {source} to {path}",
            "lvcreate", "--yes", "--snapshot", "--setactivationskip", "n",
            "--name", self.volume(path), f"{self.group}/{self.volume(source)}",
        )  # fmt: skip
        await self._do(
            f"activate {path}",
            "lvchange",
            "--activate",
            "y",
            "-K",
            f"{self.group}/{self.volume(path)}",
        )
        await self._mount(path, read_only=read_only)

    async def move(self, path: Path, target: Path) -> None:
        """Rename the volume, and mount it at the other path."""
        await asyncio.to_thread(unmount, path)
        await self._do(
            f"move {path}", "lvrename", self.group, self.volume(path), self.volume(target)
        )
        path.rmdir()
        await self._mount(target)

    async def drop(self, path: Path) -> None:
        """Unmount and remove the volume."""
        if path.is_dir():
            await asyncio.to_thread(unmount, path)
        found = await run("lvs", f"{self.group}/{self.volume(path)}", check=False)
        if found.status == 0:
            await self._do(
                f"remove {path}", "lvremove", "--yes", f"{self.group}/{self.volume(path)}"
            )
        await asyncio.to_thread(remove_tree, path)

    async def limit(self, path: Path, limit_bytes: int) -> None:
        """Grow the volume to the limit. It never shrinks: ext4 cannot shrink while mounted."""
        found = await self._lvs(path, "lv_size")
        if limit_bytes > found:
            name = f"{self.group}/{self.volume(path)}"
            await self._do(
                f"grow {path}", "lvextend", "--resizefs", "--size", f"{limit_bytes}b", name
            )

    async def used(self, path: Path) -> int:
        """Blocks of the volume that are in use, shared ones included."""
        size = await self._lvs(path, "lv_size")
        found = await run(
            "lvs", "--noheadings", "-o", "data_percent", f"{self.group}/{self.volume(path)}",
            check=False,
        )  # fmt: skip
        text = found.output.strip()
        return int(size * float(text) / 100) if text else 0

    async def _lvs(self, path: Path, column: str) -> int:
        found = await run(
            "lvs", "--noheadings", "--units", "b", "--nosuffix", "-o", column,
            f"{self.group}/{self.volume(path)}", check=False,
        )  # fmt: skip
        text = found.output.strip()
        return int(text) if is_number(text) else 0

    async def stats(self) -> PoolStats:
        """The figures of the thin pool."""
        found = await run(
            "lvs", "--noheadings", "--units", "b", "--nosuffix", "-o", "lv_size,data_percent",
            f"{self.group}/{self.pool}", check=False,
        )  # fmt: skip
        words = [*found.output.split(), "0", "0"]
        size = int(words[0])
        used = int(size * float(words[1]) / 100)
        listed = await run("vgs", "--noheadings", "-o", "pv_name", self.group, check=False)
        return PoolStats(size, size - used, "single", tuple(listed.output.split()))

    @staticmethod
    async def _do(what: str, *argv: str) -> Finished:
        try:
            return await run(*argv)
        except CommandFailed as error:
            raise storage_error(f"Cannot {what}", error) from error
