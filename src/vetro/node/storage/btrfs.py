"""btrfs: every tree is a subvolume, a clone is a snapshot, limits are quota groups."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from vetro.node.commands import Finished, run
from vetro.node.errors import CommandFailed, ConfigurationError
from vetro.node.files import remove_tree
from vetro.node.storage.pool import PoolStats
from vetro.node.storage.room import storage_error

# The inode of every subvolume's top directory.
_SUBVOLUME_INODE = 256


class BtrfsTrees:
    """Subvolumes below ``directory``."""

    kind = "btrfs"
    enforces_quota = True
    atomic_clones = True

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    async def open(self) -> None:
        """Enable quotas. Errors: ``ConfigurationError``."""
        try:
            await self._btrfs("quota", "enable", str(self.directory))
        except CommandFailed as error:
            raise ConfigurationError(
                f"Quotas cannot be switched on for the btrfs at {self.directory}: {error.output.strip()}"
            ) from error

    async def activate(self, path: Path) -> None:
        """Nothing to do: subvolumes are always visible."""

    async def create(self, path: Path) -> None:
        """Create an empty subvolume."""
        try:
            await self._btrfs("subvolume", "create", str(path))
        except CommandFailed as error:
            raise storage_error(f"The subvolume {path} could not be created", error) from error

    async def clone(self, source: Path, path: Path, *, read_only: bool = False) -> None:
        """Create a snapshot."""
        flags = ["-r"] if read_only else []
        try:
            await self._btrfs("subvolume", "snapshot", *flags, str(source), str(path))
        except CommandFailed as error:
            raise storage_error(f"{source} could not be cloned to {path}", error) from error

    async def move(self, path: Path, target: Path) -> None:
        """Rename it: a subvolume is a directory there."""
        path.rename(target)

    async def drop(self, path: Path) -> None:
        """Delete a subvolume with its quota group; anything else is removed as a directory."""
        try:
            is_subvolume = path.stat().st_ino == _SUBVOLUME_INODE
        except FileNotFoundError:
            return
        if not is_subvolume:
            await asyncio.to_thread(remove_tree, path)
            return
        number = await self._number(path)
        try:
            await self._btrfs("subvolume", "delete", str(path))
        except CommandFailed as error:
            raise storage_error(f"The subvolume {path} could not be deleted", error) from error
        # Fails while the kernel still cleans up the subvolume: an empty group remains then.
        await run("btrfs", "qgroup", "destroy", f"0/{number}", str(self.directory), check=False)

    async def limit(self, path: Path, limit_bytes: int) -> None:
        """Limit what the subvolume refers to: its original content, and ``limit_bytes`` more."""
        referenced, exclusive = await self._counted(path)
        shared = max(0, referenced - exclusive)
        value = str(shared + limit_bytes) if limit_bytes else "none"
        try:
            await self._btrfs("qgroup", "limit", value, str(path))
        except CommandFailed as error:
            raise storage_error(f"{path} could not be limited", error) from error

    async def used(self, path: Path) -> int:
        """Bytes no other subvolume refers to."""
        return (await self._counted(path))[1] if path.is_dir() else 0

    async def stats(self) -> PoolStats:
        """The figures of the file system, with its devices and profile."""
        status = os.statvfs(self.directory)
        shown = await run("btrfs", "filesystem", "show", str(self.directory), check=False)
        disks = tuple(
            line.split(" path ", 1)[1].strip()
            for line in shown.output.splitlines()
            if " path " in line
        )
        usage = await run("btrfs", "filesystem", "df", str(self.directory), check=False)
        profile = next(
            (line.split(",")[1].split(":")[0].strip() for line in usage.output.splitlines()
             if line.startswith("Data,")), "single",
        )  # fmt: skip
        return PoolStats(
            status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize, profile, disks
        )

    async def _counted(self, path: Path) -> tuple[int, int]:
        """Bytes referenced and exclusive, after a sync: the kernel counts only then."""
        try:
            shown = await self._btrfs("qgroup", "show", "--raw", "--sync", "-f", str(path))
        except CommandFailed as error:
            raise storage_error(f"{path} could not be counted", error) from error
        number = f"0/{await self._number(path)}"
        return parse_group(shown.output, number)

    async def _number(self, path: Path) -> int:
        finished = await self._btrfs("inspect-internal", "rootid", str(path))
        return int(finished.output.strip())

    @staticmethod
    async def _btrfs(*arguments: str) -> Finished:
        return await run("btrfs", *arguments)


def parse_group(text: str, number: str) -> tuple[int, int]:
    """Referenced and exclusive bytes of quota group ``number`` from ``btrfs qgroup show --raw``."""
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 3 and words[0] == number:
            return int(words[1]), int(words[2])
    return 0, 0
