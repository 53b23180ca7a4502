"""Mounts that show a tree with other owners: one unpacked image serves every project's id range.

The kernel translates owners on access (idmapped mounts, Linux 5.12; below an overlay 5.19), so
nothing is copied. The owners on disk remain those of the images' range.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

from vetro.node.errors import NodeError

_LIBC = ctypes.CDLL(None, use_errno=True)
# The same numbers on x86-64, arm64, and every architecture added to Linux since 2019.
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_AT_FDCWD, _AT_EMPTY_PATH = -100, 0x1000
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC = 1, os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH = 4
_MOUNT_ATTR_NODEV, _MOUNT_ATTR_IDMAP = 0x4, 0x100000


class _MountAttr(ctypes.Structure):
    _fields_ = [
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    ]


class IdMapping:
    """Shows ids ``on_disk … + count`` as ``shown … + count`` by a user namespace: ``close`` it."""

    def __init__(self, on_disk: int, shown: int, count: int) -> None:
        self.on_disk = on_disk
        self.shown = shown
        self.count = count
        self._namespace = _user_namespace(f"{on_disk} {shown} {count}\n")

    def mount(self, source: Path, target: Path) -> None:
        """Show ``source`` at ``target`` with translated owners. Errors: ``NodeError``."""
        tree = clone_tree(source)
        try:
            attributes = _MountAttr(
                attr_set=_MOUNT_ATTR_IDMAP | _MOUNT_ATTR_NODEV, userns_fd=self._namespace
            )
            _call(
                f"translate the owners below {source}",
                _MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH,
                ctypes.byref(attributes), ctypes.sizeof(attributes),
            )  # fmt: skip
            _call(
                f"mount {source} at {target}",
                _MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH,
            )  # fmt: skip
        finally:
            os.close(tree)

    def close(self) -> None:
        """Release the namespace; mounts made with it stay."""
        if self._namespace >= 0:
            os.close(self._namespace)
            self._namespace = -1


def clone_tree(source: Path) -> int:
    """A descriptor of a copy of the mount at ``source``, which is nowhere yet: ``os.close`` it.

    Errors: ``NodeError``.
    """
    return _call(
        f"open the tree {source}",
        _OPEN_TREE, _AT_FDCWD, os.fsencode(source), _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC,
    )  # fmt: skip


def _call(what: str, number: int, *arguments: object) -> int:
    status = _LIBC.syscall(
        ctypes.c_long(number),
        *(ctypes.c_long(one) if isinstance(one, int) else one for one in arguments),
    )
    if status < 0:
        raise NodeError(f"Cannot {what}: {os.strerror(ctypes.get_errno())}")
    return int(status)


def _user_namespace(mapping: str) -> int:
    """A descriptor of a new user namespace with this mapping of users and of groups."""
    with subprocess.Popen(
        ["unshare", "--user", "--", "sh", "-c", "echo; read _"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        if not holder.stdout.readline():
            raise NodeError("This machine makes no user namespaces (see /proc/sys/user)")
        process = Path("/proc", str(holder.pid))
        (process / "uid_map").write_text(mapping)
        (process / "gid_map").write_text(mapping)
        # Popen's exit closes the pipe, which ends the holder; the descriptor keeps the namespace.
        return os.open(process / "ns/user", os.O_RDONLY | os.O_CLOEXEC)


def works_on(directory: Path, scratch: Path) -> bool:
    """Whether ``directory`` can be shown with other owners; ``scratch`` is created and removed."""
    from vetro.node.storage.mounts import unmount

    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        mapping = IdMapping(1_000_000, 2_000_000, 65536)
    except (NodeError, OSError):
        scratch.rmdir()
        return False
    try:
        mapping.mount(directory, scratch)
    except NodeError:
        return False
    else:
        unmount(scratch)
        return True
    finally:
        mapping.close()
        scratch.rmdir()
