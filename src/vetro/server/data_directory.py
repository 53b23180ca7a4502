"""The data directory: its layout, its lock and the login file of the first start.

::

    vetro.db          the database (SQLite, unless another is configured)
    vetro.db-copying  its lock is held by who copies the journal
    vetro.db-overwritten  marks one that was overwritten under a service
    notify/           sockets for notifications between processes (SQLite only)
    node/             the local node agent: containers, id-shifted images, state
    code-cache/       compiled classes
    blob-cache/       copies of files that the database or a bucket has (``[blobs]``)
    vetro-guest.pyz   the guest agent
    admin-openrc      the administrator's login at this service
    lock              held by the running process
    broker.db         the service broker's own database

Files shared by the services on one database are in the same directory (packages, images and
backups of volumes: unless ``[blobs]`` names another place), unless ``server.shared_dir``
names a directory that all of them can access::

    packages/         archives of the catalog, by content
    images/           images of the compute service
    volume-backups/   its backups of volumes
    keys              the keys that seal secrets in the database
    node-key          the key with which nodes register
    service-key       the key of engines for the compute service
    dashboard-key     the key that seals sessions of the dashboard
    broker-key        the key of the service broker's digests
    engine-signing.pem  the key execution plans are signed with
    admin-openrc      the first login

Only this user can read any of it (``vetro.server.file_modes``).
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shlex
import stat
from pathlib import Path
from typing import IO

import structlog

from vetro.server.errors import StartError
from vetro.server.file_modes import mend

log = structlog.get_logger(__name__)

#: Of the shared directory: the directories whose files rows of the database refer to.
FILE_DIRECTORIES = ("packages", "images", "volume-backups")
OF_THE_MACHINE = {Path(name) for name in ("/tmp", "/var/tmp", "/dev/shm", "/run/lock")}  # noqa: S108
"""Directories that everybody must be able to write."""
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
SHORTEST_SECRET = 8
"""Bytes of the shortest secret that is believed; those that are made here have 43."""
_NAMED = 5
OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of the file system, not of the directory (``vetro.server.starting`` explains them)."""


def prepare(directory: Path, shared: Path | None = None) -> None:
    """Create the directory and its parts, and ``shared``, readable by this user only.

    Parts that other users could read (left by an earlier version, a backup or a manual change) are
    closed and logged (``vetro.server.file_modes``).
    """
    shared = shared or directory
    try:
        directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        _close_to_writers(directory)
        for name in ("node", "notify"):
            # Containers of unprivileged users are mounted from below node/: it must be traversable.
            (directory / name).mkdir(mode=0o711 if name == "node" else 0o700, exist_ok=True)
    except OSError as error:
        if error.errno in OF_THE_DISK:
            raise
        below = f"{error.filename}: " if error.filename != str(directory) else ""
        raise StartError(
            f"The data directory {directory} cannot be used: {below}{error.strerror}",
            "Choose another with --data-dir or VETRO_DATA_DIR.",
        ) from error
    try:
        shared.mkdir(mode=0o700, parents=True, exist_ok=True)
        _close_to_writers(shared)
        for name in FILE_DIRECTORIES:
            (shared / name).mkdir(mode=0o700, exist_ok=True)
        for place in {directory: None, shared: None}:
            _say(place, mend(place))
    except OSError as error:
        if error.errno in OF_THE_DISK:
            raise
        raise StartError(
            f"{error.filename or shared} cannot be used: {error.strerror}",
            "See server.data_dir and server.shared_dir: this user must own them.",
        ) from error


def _close_to_writers(directory: Path) -> None:
    """Let nobody else put files in place of ours. Errors: ``StartError``: it is not ours to close."""
    found = directory.stat()
    if not found.st_mode & OTHERS_WRITE:
        return
    own = found.st_uid == os.geteuid() and directory.resolve() not in OF_THE_MACHINE
    if own and found.st_mode & stat.S_ISVTX:
        own = all(one.lstat().st_uid == os.geteuid() for one in directory.iterdir())
    if not own:
        raise StartError(
            f"Other users of this machine may write into {directory}",
            "Choose a directory of its own with --data-dir or server.shared_dir"
            + ("." if found.st_mode & stat.S_ISVTX else f", or close it: chmod go-w {directory}"),
        )
    directory.chmod(stat.S_IMODE(found.st_mode) & ~OTHERS_WRITE)
    log.warning(
        "directory_closed",
        effect="other users of this machine could replace its files; now only this user can",
        directory=str(directory),
    )


def _say(directory: Path, mended: list[Path]) -> None:
    if not mended:
        return
    names = ", ".join(str(path.relative_to(directory)) for path in mended[:_NAMED])
    more = f" and {len(mended) - _NAMED} more" if len(mended) > _NAMED else ""
    log.warning(
        "file_modes_tightened",
        effect="other users of this machine could read the files; now only this user can",
        remedy="if there are such users, change the passwords and run 'vetro key rotate'",
        directory=str(directory),
        files=names + more,
    )


def lock(directory: Path) -> IO[str]:
    """Lock the directory for this process. ``StartError`` when another process holds it."""
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    handle = os.fdopen(descriptor, "r+", encoding="utf-8")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.seek(0)
        owner = handle.read().strip() or "unknown"
        handle.close()
        raise StartError(
            f"The data directory {directory} is in use by process {owner}",
            "One process works on a data directory: stop the other, or choose another directory.",
        ) from None
    handle.seek(0)
    handle.truncate()
    handle.write(str(os.getpid()))
    handle.flush()
    return handle


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, completely or not at all."""
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
        handle.write(text)
    temporary.replace(path)


def kept_secret(path: Path) -> str:
    """The secret stored in ``path``; '' when there is none. Errors: ``StartError``: it is damaged."""
    try:
        return _read_secret(path)
    except FileNotFoundError:
        return ""


def _read_secret(path: Path) -> str:
    found = path.read_bytes().strip()
    # A key that everybody can guess is worse than none: whatever it seals is open.
    if len(found) < SHORTEST_SECRET or not found.isascii():
        raise StartError(
            f"{path} has no usable secret: it was cut off or overwritten",
            f"Restore it from a backup, or remove it: a new one is made. It has at least"
            f" {SHORTEST_SECRET} letters; nodes and services with a copy need the new one.",
        )
    return found.decode()


def secret(path: Path) -> str:
    """The secret stored in ``path``; created once, also when several processes start at once.

    Errors: ``StartError``: the file is damaged.
    """
    while True:
        try:
            return _read_secret(path)
        except FileNotFoundError:
            temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
            write_private(temporary, secrets.token_urlsafe(32) + "\n")
            try:
                os.link(temporary, path)
            except FileExistsError:
                if path.is_symlink() and not path.exists():
                    raise StartError(
                        f"{path} is a link to {path.readlink()}, which is gone",
                        "Restore that file, or remove the link: a new one is made.",
                    ) from None
                continue  # another process was first
            finally:
                temporary.unlink()


def write_openrc(path: Path, *, url: str, user: str, password: str, project: str) -> None:
    """Write the file that a shell sources to log in, for Vetro's and OpenStack's clients."""
    variables = {
        "OS_AUTH_URL": f"{url}/identity/v3",
        "OS_IDENTITY_API_VERSION": "3",
        "OS_USERNAME": user,
        "OS_PASSWORD": password,
        "OS_PROJECT_NAME": project,
        "OS_USER_DOMAIN_NAME": "Default",
        "OS_PROJECT_DOMAIN_NAME": "Default",
        "VETRO_URL": url,
    }
    _write_variables(path, variables)


def _write_variables(path: Path, variables: dict[str, str]) -> None:
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    write_private(path, "\n".join(lines) + "\n")


def read_openrc(path: Path) -> dict[str, str]:
    """The variables of such a file; empty when it does not exist."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    words = (word for line in text.splitlines() for word in shlex.split(line, comments=True))
    return dict(word.split("=", 1) for word in words if "=" in word)


def keep_openrc(path: Path, url: str, *, like: Path | None = None) -> bool:
    """Write the service's current address into the file; whether the file exists.

    ``like``: the file of another service on the same database, which has the login when ``path``
    does not exist yet. Variables added by hand are kept.
    """
    known = read_openrc(path) or (read_openrc(like) if like is not None else {})
    if not known:
        return False
    fresh = {**known, "OS_AUTH_URL": f"{url}/identity/v3", "VETRO_URL": url}
    if fresh != read_openrc(path):
        _write_variables(path, fresh)
    return True
