"""Overlay mounts by system call: no process is started."""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Sequence
from pathlib import Path

from vetro.node.errors import NodeError

_LIBC = ctypes.CDLL(None, use_errno=True)
_MNT_DETACH = 2
_MS_NODEV = 4
_MS_BIND = 4096


def mount_overlay(
    lower: Sequence[Path], upper: Path | None, work: Path | None, target: Path
) -> None:
    """Mount ``lower`` (topmost first) with the changes in ``upper`` at ``target``.

    Without ``upper`` it is read-only. Errors: ``NodeError``.
    """
    writable = [path for path in (upper, work) if path is not None]
    for path in (*lower, *writable):
        if set(str(path)) & set(",:\\"):
            raise NodeError(
                f"{path}: an overlay cannot be created below a path with ',', ':' or a backslash;"
                " choose another data directory"
            )
    options = f"lowerdir={':'.join(str(path) for path in lower)}"
    if upper is not None:
        options += f",upperdir={upper},workdir={work}"
    status = _LIBC.mount(
        b"vetro", os.fsencode(target), b"overlay", ctypes.c_ulong(_MS_NODEV), options.encode()
    )
    if status != 0:
        code = ctypes.get_errno()
        raise NodeError(
            f"Cannot mount an overlay of {lower[0]} at {target}: {os.strerror(code)}"
            f" (is {upper or lower[0]} on a file system that can hold one?)"
        )


def bind(source: Path, target: Path) -> None:
    """Bind-mount ``source`` at ``target``. Errors: ``NodeError``."""
    status = _LIBC.mount(
        os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(_MS_BIND), None
    )
    if status != 0:
        raise NodeError(f"Cannot mount {source} at {target}: {os.strerror(ctypes.get_errno())}")


def unmount(target: Path) -> None:
    """Remove the mount at ``target``, even while it is in use."""
    while _LIBC.umount2(os.fsencode(target), _MNT_DETACH) == 0:
        pass
    code = ctypes.get_errno()
    if code not in (errno.EINVAL, errno.ENOENT):
        raise NodeError(f"Cannot unmount {target}: {os.strerror(code)}")


def mount_points() -> set[str]:
    """Every mount point this process sees."""
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    return {plain(line.split(" ")[4]) for line in text.splitlines()}


def plain(field: str) -> str:
    """A field of mountinfo as it was before spaces and the like became three octal digits (proc(5))."""
    return re.sub(r"\\([0-7]{3})", lambda digits: chr(int(digits[1], 8)), field)
