"""Unpacking tar archives from other sources: agents, build contexts.

The standard library's `filter="data"` does this from Python 3.11.4 on; Debian 12 ships 3.11.2. The
rules here apply on every Python; where the library has its filter, that is applied as well.
"""

from __future__ import annotations

import os
import posixpath
import tarfile
from pathlib import Path

#: What a file's mode may be: no set-user-id, nothing writable by group and others.
_MODE = 0o755
_OWN = 0o600


def unpack_tar(tar: tarfile.TarFile, directory: Path) -> None:
    """Write every member of `tar` below the existing `directory`; streams are read once.

    Members belong to the caller, who may read and write them; directories get the mode 0755, files
    lose set-id bits and the write bits of group and others.

    Raises:
        tarfile.ExtractError: A member is a device or a pipe, its name or its link leads out of
            `directory`, or its path goes through a symbolic link. What came before it is kept.
        tarfile.TarError: The archive is damaged.
    """
    # Pythons without filters ignore it; on others, setting no filter gives a DeprecationWarning.
    tar.extraction_filter = getattr(tarfile, "data_filter", None)
    for member in tar:
        member.name = member.name.lstrip("/") or "."
        _check(member, directory)
        member.mode = _MODE if member.isdir() else member.mode & _MODE | _OWN
        member.uid, member.gid = os.geteuid(), os.getegid()
        member.uname = member.gname = ""
        tar.extract(member, directory, numeric_owner=True)


def _check(member: tarfile.TarInfo, directory: Path) -> None:
    _stays_inside(member, member.name, directory)
    if member.issym():
        if member.linkname.startswith("/"):
            raise tarfile.ExtractError(f"{member.name}: its link {member.linkname} is absolute")
        _stays_inside(member, f"{posixpath.dirname(member.name)}/{member.linkname}", directory)
    elif member.islnk():
        member.linkname = member.linkname.lstrip("/")
        _stays_inside(member, member.linkname, directory)
    elif not member.isreg() and not member.isdir():
        raise tarfile.ExtractError(f"{member.name}: only files, directories and links are taken")


def _stays_inside(member: tarfile.TarInfo, name: str, directory: Path) -> None:
    """Refuse a name that leads outside, by dots or through a link of an earlier member."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    way: list[str] = []
    for number, part in enumerate(parts, 1):
        if part != "..":
            way.append(part)
        elif way:
            way.pop()
        else:
            raise tarfile.ExtractError(f"{member.name}: {name} leads out of the archive")
        if number < len(parts) and directory.joinpath(*way).is_symlink():
            raise tarfile.ExtractError(
                f"{member.name}: {'/'.join(way)} on the way to {name} is a link"
            )
