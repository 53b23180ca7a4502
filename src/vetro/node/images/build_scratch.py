"""Directories in which images are built, and their removal.

A build mounts file systems below its directory (mmdebstrap: ``/proc``, ``/sys``, ``/dev``) and
starts programs there. As root it runs in mount and process namespaces of its own, so that both end
with it in every case; the next build removes the directory of a killed build. A build holds a lock
on its directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from pathlib import Path

from vetro.node.commands import ending_with_us, run
from vetro.node.storage.mounts import plain

PREFIX = ".build-"
#: Attempts to remove a directory to which programs that are being killed still write.
ATTEMPTS = 100
#: Between two looks whether another build of the same thing has ended.
POLL_SECONDS = 0.2


@contextlib.asynccontextmanager
async def build_directory(
    parent: Path, key: str = "", on_wait: Callable[[], None] | None = None
) -> AsyncGenerator[Path]:
    """A directory below ``parent`` for one build; removed at the end with everything mounted in it.

    The remains of earlier builds are removed first. While another build on this machine has the same ``key``,
    this waits, and calls ``on_wait`` once.
    """
    prefix = f"{PREFIX}{key}-" if key else PREFIX
    while True:
        await asyncio.to_thread(remove_leftovers, parent)
        with _locked(parent):
            if not key or not any(parent.glob(f"{prefix}*")):
                work = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
                lock = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                fcntl.flock(lock, fcntl.LOCK_EX)
                break
        if on_wait is not None:
            on_wait()
            on_wait = None
        await asyncio.sleep(POLL_SECONDS)
    try:
        yield work
    finally:
        try:
            for _ in range(ATTEMPTS):
                remove_tree(work)
                if not work.exists():
                    break
                # Its programs were killed; they end in a moment.
                await asyncio.sleep(0.05)
        finally:
            os.close(lock)


def remove_leftovers(parent: Path) -> list[Path]:
    """Remove the directories of killed builds below ``parent``; returns them."""
    if not parent.is_dir():
        return []
    removed: list[Path] = []
    with _locked(parent):
        for left in sorted(parent.glob(f"{PREFIX}*")):
            try:
                lock = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError):
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # a build uses it
            else:
                remove_tree(left)
                removed.append(left)
            finally:
                os.close(lock)
    return removed


def remove_tree(path: Path) -> None:
    """Remove a tree, but no files of file systems mounted in it: these are unmounted first.

    Entries that cannot be removed now stay.
    """
    for mounted in reversed(mounts_below(path)):
        subprocess.run(["umount", "--lazy", str(mounted)], check=False, capture_output=True)
    if not mounts_below(path):
        shutil.rmtree(path, ignore_errors=True)


def mounts_below(path: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> list[Path]:
    """The mount points at and below ``path``, in the order in which they were mounted."""
    above = path.resolve()
    found: list[Path] = []
    for line in mountinfo.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        point = Path(plain(line.split(" ")[4]))
        if point == above or above in point.parents:
            found.append(point)
    return found


async def contained(*argv: str) -> list[str]:
    """The arguments of a build command that ends with this process, with its children and mounts.

    Where namespaces cannot be created (in some containers, without root), only the command ends.
    """
    if os.geteuid() == 0:
        spaces: Sequence[str] = (
            *("unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"),
        )
        if (await run(*spaces, "true", check=False)).status == 0:
            return ending_with_us(*spaces, "--", *argv)
    return ending_with_us(*argv)


@contextlib.contextmanager
def _locked(parent: Path) -> Generator[None]:
    """Between creating and locking a directory, no other build may take it for a leftover."""
    held = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)
