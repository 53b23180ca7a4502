"""The data directory: its layout, its lock and the login file of the first start.

::

    vetro.db          the database (SQLite, unless another is named)
    notify/           sockets through which processes wake each other (SQLite only)
    packages/         archives of the catalog, by content
    images/           images of the compute service
    node/             the local node agent: containers, id-shifted images, state
    node-key          the local node's key; 0600
    engine-signing.pem  the key execution plans are signed with; 0600
    admin-openrc      how the administrator logs in; 0600
    lock              held by the running process
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shlex
from pathlib import Path
from typing import IO

import structlog

from vetro.server.errors import StartError
from vetro.server.file_modes import mend

log = structlog.get_logger(__name__)
_NAMED = 5


def prepare(directory: Path) -> None:
    """Make the directory and its parts; only this user may look inside.

    What an earlier version, a backup or somebody by hand left open to other users is closed, and
    said (``vetro.server.file_modes``).
    """
    try:
        directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        for name in ("packages", "images", "node", "notify"):
            # Containers of unprivileged users are mounted from below node/: it must be passable.
            (directory / name).mkdir(mode=0o711 if name == "node" else 0o700, exist_ok=True)
        mended = mend(directory)
    except OSError as error:
        raise StartError(
            f"The data directory {directory} cannot be used: {error.strerror}",
            "Choose another with --data-dir or VETRO_DATA_DIR.",
        ) from error
    if mended:
        names = ", ".join(str(path.relative_to(directory)) for path in mended[:_NAMED])
        more = f" and {len(mended) - _NAMED} more" if len(mended) > _NAMED else ""
        log.warning(
            "Other users of this machine could read files of the data directory; now only this user"
            " can. If there are such users, change the passwords and run 'vetro key rotate'",
            directory=str(directory),
            files=names + more,
        )


def lock(directory: Path) -> IO[str]:
    """Hold the directory for this process; another process that holds it is a ``StartError``."""
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
    """Write a file that only its owner may read, whole or not at all."""
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
        handle.write(text)
    temporary.replace(path)


def kept_secret(path: Path) -> str:
    """The secret kept in ``path``; '' when there is none."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def secret(path: Path) -> str:
    """The secret kept in ``path``; made on first use."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        value = secrets.token_urlsafe(32)
        write_private(path, value + "\n")
        return value


def write_openrc(path: Path, *, url: str, user: str, password: str, project: str) -> None:
    """The file that a shell sources to log in, here and in the stock OpenStack clients."""
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
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    write_private(path, "\n".join(lines) + "\n")
