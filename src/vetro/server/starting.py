"""A one-line explanation for errors of the machine or the database that stop a service.

A full disk, a directory without write permission, an unreachable database: such an error is raised
inside some room, alone or in a group with its consequences. This module converts it to a line that
says what, where, how much is free, and what to do.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from vetro.server.errors import StartError
from vetro.server.settings import Settings
from vetro.storage import (
    DatabaseBusy,
    DatabaseFull,
    DatabaseReadOnly,
    DatabaseUnavailable,
    StorageError,
)

#: The first of these in a group is the cause; the others are consequences.
_FULL = (errno.ENOSPC, errno.EDQUOT)
#: The minimum for a commit of the database, with some reserve.
PROBE_BYTES = 64 * 1024
TO_REACH = (
    "See server.database_url (of a broker: cfapi.database_url): it must be up, reachable from this"
    " machine, and take this user and password."
)
_HINTS = {
    errno.EROFS: "It is on a file system that is mounted read-only: mount it for writing, or choose"
    " another directory with --data-dir.",
    errno.EACCES: "The service's user must own it: see its owner and mode with 'ls -ld', or choose"
    " another directory with --data-dir.",
    errno.EPERM: "The service's user must own it: see its owner and mode with 'ls -ld', or choose"
    " another directory with --data-dir.",
    errno.EMFILE: "Raise the limit of open files: LimitNOFILE of the service's unit, or 'ulimit -n'.",
    errno.ENFILE: "The machine has too many open files: see fs.file-max.",
    errno.ENOMEM: "The machine has too little memory.",
}


@contextmanager
def explained_errors(settings: Settings) -> Generator[None]:
    """Turn errors of the machine and the database into a ``StartError`` of one line."""
    try:
        yield
    except (OSError, StorageError, BaseExceptionGroup) as error:
        known = next(iter(sorted(_leaves(error), key=_weight)), None)
        if known is None:
            raise
        raise explain(known, settings) from error


def _leaves(error: BaseException) -> Iterator[OSError | StorageError]:
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        for one in group.exceptions:
            yield from _leaves(one)
    elif isinstance(error, OSError | StorageError):
        yield error


def _weight(error: OSError | StorageError) -> int:
    if isinstance(error, DatabaseFull) or getattr(error, "errno", None) in _FULL:
        return 0
    return 1 if isinstance(error, OSError) and error.errno in _HINTS else 2


def explain(error: OSError | StorageError, settings: Settings) -> StartError:
    """The meaning of such an error for the operator who starts the service."""
    code = error.errno if isinstance(error, OSError) else None
    if isinstance(error, DatabaseFull) or code in _FULL:
        place = _place(error, settings)
        hint = "Make room there (docs/operating.md says what lies where), then start again."
        return StartError(f"The disk is full: {place} has {_free(place)}", hint)
    if isinstance(error, StorageError):
        kind, hint = (
            "cannot be used",
            "See server.database_url: is it this installation's database?",
        )
        if isinstance(error, DatabaseBusy):
            kind = "is locked"
            hint = "Another process holds it: stop that one, or wait until it has ended."
        elif isinstance(error, DatabaseReadOnly):
            kind, hint = (
                "takes no writes",
                "See server.database_url (of a broker: cfapi.database_url): it must be writable for this"
                " user.",
            )
        elif isinstance(error, DatabaseUnavailable):
            kind = "does not answer"
            hint = TO_REACH
        return StartError(f"The database {kind}: {error}", hint)
    where = error.filename if isinstance(error.filename, str) else str(settings.data_dir)
    why = error.strerror or str(error) or type(error).__name__
    hint = _HINTS.get(code or 0, "See server.data_dir and server.shared_dir.")
    return StartError(f"{where} cannot be used: {why}", hint)


@dataclass(frozen=True)
class Unusable:
    """Why nothing can be written into a directory, in one line."""

    text: str
    is_full: bool


def unusable(directory: Path, *, ask_for_room: bool = True) -> Unusable | None:
    """Why a directory takes no file; ``None`` while it takes one, of 64 KiB if ``ask_for_room``."""
    try:
        with tempfile.TemporaryFile(dir=directory) as probe:
            if ask_for_room:
                probe.write(bytes(PROBE_BYTES))
                probe.flush()
                os.fsync(probe.fileno())
    except OSError as error:
        if error.errno in _FULL:
            said = f"the disk is full: {directory} has {_free(directory)}"
            status = 507
        else:
            said, status = f"{directory} cannot be written: {error.strerror}", 503
        return Unusable(
            f"{said}. Reading goes on as far as possible, what writes there is refused ({status}) until it"
            " can be written again",
            is_full=status == 507,
        )
    return None


def _place(error: OSError | StorageError, settings: Settings) -> Path:
    """The full directory: the error's own, else the fullest of the installation's."""
    named = error.filename if isinstance(error, OSError) else None
    if isinstance(named, str) and os.path.isabs(named):
        return Path(named).parent
    places = [one for one in (settings.data_dir, settings.shared_dir) if one.exists()]
    return min(places, key=lambda one: shutil.disk_usage(one).free, default=settings.data_dir)


def _free(place: Path) -> str:
    """The free space of a directory's file system."""
    while not place.exists() and place != place.parent:
        place = place.parent
    found = os.statvfs(place)
    free = found.f_bavail * found.f_frsize
    text = f"{free / 2**20:.1f} MiB of {found.f_blocks * found.f_frsize / 2**20:.0f} MiB free"
    if found.f_files and not found.f_favail:
        text += f", and none of its {found.f_files} inodes"
    return text
