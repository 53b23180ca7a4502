"""Who may read what is in the data directory: this user only, except what containers need.

An installation keeps password hashes, models, signing keys and archives on disk. Everything of it is
0600 (files) and 0700 (directories). The exception is the local node: containers run under other user
ids and are mounted from below ``node/``, so the way to them can be passed (0711), and their trees
belong to those ids and are left alone.

Only names that Vetro itself makes are looked at: a data directory may be a directory in which
somebody keeps other things too.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

PRIVATE = (
    "packages",
    "images",
    "notify",
    "logs",
    "code-cache",
    "image-cache",
    "keys",
    "node-key",
    "service-key",
    "engine-signing.pem",
    "admin-openrc",
    "lock",
    "vetro.toml",
    "vetro-guest.pyz",
    "vetro.db",
    "vetro.db-wal",
    "vetro.db-shm",
    "vetro.db-journal",
)
"""What is in a data directory, each with all below it."""

PRIVATE_OF_NODE = ("tasks", "scratch", "recovery", "lock", "vetro-guest.pyz")
"""What is in ``node/``, each with all below it."""

FILES_OF_NODE = ("*.json", *(f"vms/*/{name}" for name in ("vm.json", "console.log", "monitor.pid")))
"""Files in ``node/`` that lie among those of containers and virtual machines."""


def mend(directory: Path) -> list[Path]:
    """Take from other users what they may not read below ``directory``; what was mended.

    ``directory`` is a data directory, or one that several share.

    What belongs to another user id is left alone, and so are symbolic links: their targets are
    somebody else's decision. A file that disappears meanwhile is none to mend.
    """
    found: list[Path] = []
    for name in PRIVATE:
        found += _closed(directory / name)
    node = directory / "node"
    for name in PRIVATE_OF_NODE:
        found += _closed(node / name)
    for pattern in FILES_OF_NODE:
        for path in node.glob(pattern):
            if _kind(path) == stat.S_IFREG and _close(path, 0o600):
                found.append(path)
    return found


def _closed(path: Path) -> Iterator[Path]:
    kind = _kind(path)
    if kind == stat.S_IFDIR:
        # The directory first: once it is closed, nobody comes to what is in it.
        if _close(path, 0o700):
            yield path
        for parent, directories, files in os.walk(path):
            for name in directories:
                if _close(Path(parent, name), 0o700):
                    yield Path(parent, name)
            for name in files:
                if _close(Path(parent, name), 0o600):
                    yield Path(parent, name)
    elif kind is not None and _close(path, 0o600):
        yield path


def _kind(path: Path) -> int | None:
    try:
        return stat.S_IFMT(path.lstat().st_mode)
    except OSError:
        return None


def _close(path: Path, mode: int) -> bool:
    """Give ``path`` at most ``mode``; whether others could do anything with it before."""
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode) or status.st_uid != os.geteuid():
            return False
        if not status.st_mode & 0o077:
            return False
        # A file that is run (none of ours must be) keeps its owner's right to.
        path.chmod(status.st_mode & 0o700 | mode)
    except FileNotFoundError:
        return False
    return True
