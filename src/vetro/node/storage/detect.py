"""Choosing the pool: the operator's setting, else the data directory's file system."""

from __future__ import annotations

import shutil
from pathlib import Path

import structlog

from vetro.node.errors import ConfigurationError
from vetro.node.storage.btrfs import BtrfsTrees
from vetro.node.storage.clones import ClonePool
from vetro.node.storage.directory import DirectoryPool, DirectoryTrees
from vetro.node.storage.lvm import LvmTrees
from vetro.node.storage.mounts import plain
from vetro.node.storage.pool import Pool
from vetro.node.storage.zfs import ZfsTrees

log = structlog.get_logger(__name__)

KINDS = ("auto", "directory", "btrfs", "zfs", "lvm")
_TOOLS = {"btrfs": "btrfs", "zfs": "zfs", "lvm": "lvcreate"}


async def open_pool(kind: str, directory: Path, source: str = "") -> Pool:
    """Open and check the pool for ``directory``; logs which one, and why.

    ``kind``: one of ``KINDS``; ``source``: the volume group and thin pool of LVM, else unused.
    Errors: ``ConfigurationError``.
    """
    file_system, device = file_system_of(
        directory, Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    )
    chosen = "as set"
    if kind == "auto":
        chosen = "by the data directory's file system"
        kind = file_system if file_system in ("btrfs", "zfs") else "directory"
        if kind != "directory" and shutil.which(_TOOLS[kind]) is None:
            log.warning("pool_tools_missing", effect="plain directories are used", pool=kind)
            kind = "directory"
    if kind not in KINDS:
        raise ConfigurationError(
            f"There is no storage pool of kind '{kind}'; choose one of {', '.join(KINDS)}"
        )
    tool = _TOOLS.get(kind)
    if tool is not None and shutil.which(tool) is None:
        raise ConfigurationError(f"A {kind} pool needs {tool}, which is not installed")
    if kind in ("btrfs", "zfs") and file_system != kind:
        raise ConfigurationError(
            f"The data directory {directory} is on {file_system}, not on {kind}:"
            " choose a data directory there, or another kind of pool"
        )
    if kind == "btrfs":
        pool: Pool = ClonePool(BtrfsTrees(directory))
    elif kind == "zfs":
        pool = ClonePool(ZfsTrees(directory, device))
    elif kind == "lvm":
        pool = ClonePool(LvmTrees(directory, source))
    else:
        pool = DirectoryPool(DirectoryTrees(directory))
    await pool.trees.open()
    log.info(
        "storage_pool",
        pool=kind,
        chosen=chosen,
        directory=str(directory),
        file_system=file_system,
        source=source or device,
        quotas="enforced" if pool.trees.enforces_quota else "counted",
    )
    return pool


def file_system_of(directory: Path, mountinfo: str) -> tuple[str, str]:
    """Type and source of the mount that contains ``directory``, from ``/proc/self/mountinfo``."""
    best = (Path("/"), "unknown", "")
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, rest = left.split(" "), right.split(" ")
        if len(fields) < 5 or len(rest) < 2:
            continue
        point = Path(plain(fields[4]))
        # Later lines are mounts over earlier ones.
        if directory.is_relative_to(point) and len(point.parts) >= len(best[0].parts):
            best = (point, rest[0], rest[1])
    return best[1], best[2]
