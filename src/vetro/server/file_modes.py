"""Permissions in the data directory: for this user only, except what containers need.

An installation keeps password hashes, models, signing keys and archives on disk. All files are 0600
and all directories 0700. The exception is the local node: containers run under other user ids and
are mounted from below ``node/``, so the directories above them are traversable (0711), and their
trees, which belong to those ids, are not changed.

Only names that Vetro itself creates are checked: the data directory may also have other files of
the user.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

PRIVATE = (
    "packages",
    "images",
    "volume-backups",
    "notify",
    "logs",
    "code-cache",
    "blob-cache",
    "image-cache",
    "keys",
    "node-key",
    "service-key",
    "dashboard-key",
    "engine-signing.pem",
    "admin-openrc",
    "lock",
    "vetro.toml",
    "vetro-guest.pyz",
    "vetro.db",
    "vetro.db-wal",
    "vetro.db-shm",
    "vetro.db-journal",
    "broker-key",
    "broker.db",
    "broker.db-wal",
    "broker.db-shm",
    "broker.db-journal",
)
"""Names in a data directory, each with everything below it."""

PRIVATE_OF_NODE = ("tasks", "scratch", "recovery", "lock", "vetro-guest.pyz")
"""Names in ``node/``, each with everything below it."""

FILES_OF_NODE = ("*.json", *(f"vms/*/{name}" for name in ("vm.json", "console.log", "monitor.pid")))
"""Files in ``node/`` that are among those of containers and virtual machines."""


def mend(directory: Path) -> list[Path]:
    """Remove forbidden permissions of other users below ``directory``; the changed paths.

    ``directory`` is a data directory, or one that several share.

    Files of another user id are not changed, nor are symbolic links, whose targets do not belong to
    the installation. A file that disappears meanwhile is ignored.
    """
    return [path for path, mode in _private(directory) if _close(path, mode)]


def open_to_others(directory: Path) -> list[Path]:
    """What `mend` would change; nothing is changed."""
    return [path for path, _mode in _private(directory) if _is_open(path)]


def _private(directory: Path) -> Iterator[tuple[Path, int]]:
    """Every path that is for the owner only, with the mode it may have."""
    for name in PRIVATE:
        yield from _below(directory / name)
    node = directory / "node"
    for name in PRIVATE_OF_NODE:
        yield from _below(node / name)
    for pattern in FILES_OF_NODE:
        for path in node.glob(pattern):
            if _kind(path) == stat.S_IFREG:
                yield path, 0o600


def _below(path: Path) -> Iterator[tuple[Path, int]]:
    kind = _kind(path)
    if kind == stat.S_IFDIR:
        # The directory first: once it is closed, other users cannot reach its content.
        yield path, 0o700
        for parent, directories, files in os.walk(path):
            yield from ((Path(parent, name), 0o700) for name in directories)
            yield from ((Path(parent, name), 0o600) for name in files)
    elif kind is not None:
        yield path, 0o600


def _kind(path: Path) -> int | None:
    try:
        return stat.S_IFMT(path.lstat().st_mode)
    except OSError:
        return None


def _is_open(path: Path) -> bool:
    """Whether others have any permission on a file of this user."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    own = not stat.S_ISLNK(status.st_mode) and status.st_uid == os.geteuid()
    return own and bool(status.st_mode & 0o077)


def _close(path: Path, mode: int) -> bool:
    """Give ``path`` at most ``mode``; whether others had any permission before."""
    if not _is_open(path):
        return False
    try:
        # The owner keeps the permission to execute a file.
        path.chmod(path.lstat().st_mode & 0o700 | mode)
    except FileNotFoundError:
        return False
    return True
