"""Files in and out of a guest's root as tar streams, with the owners the guest sees."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import stat
import tarfile
from datetime import UTC, datetime
from typing import IO

from vetro.node.errors import DriverError
from vetro.node.guest.root import GuestRoot, inside, outside

# Go's os.FileMode, as Docker's clients read it.
_GO_DIRECTORY, _GO_LINK, _GO_PIPE, _GO_SOCKET = 1 << 31, 1 << 27, 1 << 25, 1 << 24
_GO_SETUID, _GO_SETGID, _GO_STICKY = 1 << 23, 1 << 22, 1 << 20


def path_stat(root: GuestRoot, path: str) -> dict[str, object]:
    """``containerPathStat`` of a path: ``{name, size, mode, mtime, linkTarget}``.

    Errors: ``DriverError`` ``FileNotFound``.
    """
    status, target = _lstat(root, path)
    mode = stat.S_IMODE(status.st_mode) & 0o777
    for bit, ours in ((stat.S_ISUID, _GO_SETUID), (stat.S_ISGID, _GO_SETGID),
                      (stat.S_ISVTX, _GO_STICKY)):  # fmt: skip
        if status.st_mode & bit:
            mode |= ours
    for check, ours in ((stat.S_ISDIR, _GO_DIRECTORY), (stat.S_ISLNK, _GO_LINK),
                        (stat.S_ISFIFO, _GO_PIPE), (stat.S_ISSOCK, _GO_SOCKET)):  # fmt: skip
        if check(status.st_mode):
            mode |= ours
    return {
        "name": posixpath.basename(path.rstrip("/")) or "/",
        "size": status.st_size,
        "mode": mode,
        "mtime": datetime.fromtimestamp(status.st_mtime, UTC).isoformat(),
        "linkTarget": target,
    }


def _lstat(root: GuestRoot, path: str) -> tuple[os.stat_result, str]:
    if not path.strip("/"):
        return os.stat(root.path), ""
    try:
        directory, base = root.open_parent(path, create=False)
        try:
            status = os.stat(base, dir_fd=directory, follow_symlinks=False)
            link = stat.S_ISLNK(status.st_mode)
            return status, os.readlink(base, dir_fd=directory) if link else ""
        finally:
            os.close(directory)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _missing(path) from error


def _missing(path: str) -> DriverError:
    return DriverError(f"The guest has no file {path}", code="ENOENT", rest_code="FileNotFound")


def send(root: GuestRoot, path: str, out: IO[bytes]) -> None:
    """Write the file or directory at ``path`` as a tar; names begin with its last component."""
    _lstat(root, path)
    top = posixpath.basename(path.rstrip("/"))
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        if not top:
            descriptor = os.open(root.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                _add_tree(tar, descriptor, ".", "", root.shift)
            finally:
                os.close(descriptor)
            return
        directory, base = root.open_parent(path, create=False)
        try:
            _add(tar, directory, base, top, root.shift)
        finally:
            os.close(directory)


def _add(tar: tarfile.TarFile, directory: int, base: str, name: str, shift: int) -> None:
    try:
        status = os.stat(base, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        # Removed by the guest while we read.
        return
    info = tarfile.TarInfo(name)
    info.mode = stat.S_IMODE(status.st_mode)
    info.mtime = int(status.st_mtime)
    info.uid, info.gid = (inside(one, shift) for one in (status.st_uid, status.st_gid))
    if stat.S_ISDIR(status.st_mode):
        _add_tree(tar, directory, base, name, shift)
    elif stat.S_ISLNK(status.st_mode):
        info.type = tarfile.SYMTYPE
        info.linkname = os.readlink(base, dir_fd=directory)
        tar.addfile(info)
    elif stat.S_ISREG(status.st_mode):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(base, flags, dir_fd=directory), "rb") as file:
            info.size = os.fstat(file.fileno()).st_size
            tar.addfile(info, _Exactly(file, info.size))
    elif stat.S_ISFIFO(status.st_mode):
        info.type = tarfile.FIFOTYPE
        tar.addfile(info)


def _add_tree(tar: tarfile.TarFile, directory: int, base: str, name: str, shift: int) -> None:
    descriptor = os.open(
        base, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory
    )
    try:
        status = os.fstat(descriptor)
        if name:
            info = tarfile.TarInfo(name)
            info.type = tarfile.DIRTYPE
            info.mode = stat.S_IMODE(status.st_mode)
            info.mtime = int(status.st_mtime)
            info.uid, info.gid = (inside(one, shift) for one in (status.st_uid, status.st_gid))
            tar.addfile(info)
        for entry in sorted(os.listdir(descriptor)):
            _add(tar, descriptor, entry, f"{name}/{entry}" if name else entry, shift)
    finally:
        os.close(descriptor)


class _Exactly:
    """A file of a fixed size: a guest that writes meanwhile cannot break the archive."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = size

    def read(self, count: int = -1) -> bytes:
        """At most ``count`` bytes; zeros where the file has shrunk."""
        wanted = self._left if count < 0 else min(count, self._left)
        data = self._file.read(wanted)
        data += b"\0" * (wanted - len(data))
        self._left -= wanted
        return data


def receive(root: GuestRoot, path: str, source: IO[bytes], *, no_overwrite: bool = False) -> int:
    """Unpack a tar into the directory at ``path``; the number of its entries.

    ``no_overwrite``: a directory is not replaced by a file nor vice versa. Names cannot leave the
    directory, and links in the guest are resolved inside its root. Errors: ``DriverError``
    ``FileNotFound``, ``PathNotDirectory``, ``InvalidPayload``.
    """
    check_directory(root, path)
    count = 0
    try:
        with tarfile.open(fileobj=source, mode="r|*") as tar:
            for member in tar:
                parts = [part for part in member.name.split("/") if part not in ("", ".")]
                if ".." in parts:
                    raise _invalid(f"'{member.name}' leads out of the directory")
                if parts:
                    _store(root, "/".join([path.rstrip("/"), *parts]), tar, member, no_overwrite)
                    count += 1
    except tarfile.TarError as error:
        raise _invalid(f"not a tar: {error}") from error
    return count


def check_directory(root: GuestRoot, path: str) -> None:
    """Errors: ``DriverError`` ``FileNotFound`` or ``PathNotDirectory``."""
    for _ in range(40):
        status, target = _lstat(root, path)
        if stat.S_ISDIR(status.st_mode):
            return
        if not stat.S_ISLNK(status.st_mode):
            raise DriverError(
                f"{path} is not a directory", code="ENOTDIR", rest_code="PathNotDirectory"
            )
        path = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    raise _missing(path)


def _invalid(message: str) -> DriverError:
    return DriverError(message, code="EINVAL", rest_code="InvalidPayload")


def _store(
    root: GuestRoot, name: str, tar: tarfile.TarFile, member: tarfile.TarInfo, no_overwrite: bool
) -> None:
    directory, base = root.open_parent(name, create=True)
    try:
        kind = _kind(directory, base)
        if no_overwrite and kind is not None and (kind == "directory") != member.isdir():
            raise _invalid(f"{name} is {'' if kind == 'directory' else 'not '}a directory")
        if member.isdir():
            if kind != "directory":
                if kind is not None:
                    os.unlink(base, dir_fd=directory)
                os.mkdir(base, dir_fd=directory)
        else:
            if kind == "directory":
                raise _invalid(f"{name} is a directory")
            _make(root, directory, base, tar, member)
        owner = (outside(member.uid, root.shift), outside(member.gid, root.shift))
        os.chown(base, *owner, dir_fd=directory, follow_symlinks=False)
        if not member.issym():
            # After the owner: changing the owner clears set-user-id bits.
            os.chmod(base, member.mode & 0o7777, dir_fd=directory)
            os.utime(base, (member.mtime, member.mtime), dir_fd=directory)
    finally:
        os.close(directory)


def _make(
    root: GuestRoot, directory: int, base: str, tar: tarfile.TarFile, member: tarfile.TarInfo
) -> None:
    temporary = f".{base}.vetro"[:255]
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=directory)
    if member.issym():
        os.symlink(member.linkname, temporary, dir_fd=directory)
    elif member.islnk():
        source, name = root.open_parent(member.linkname, create=False)
        try:
            os.link(name, temporary, src_dir_fd=source, dst_dir_fd=directory, follow_symlinks=False)
        finally:
            os.close(source)
    elif member.isfile():
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        data = tar.extractfile(member)
        with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=directory), "wb") as file:
            while data is not None and (chunk := data.read(1 << 20)):
                file.write(chunk)
    elif member.isfifo():
        os.mkfifo(temporary, dir_fd=directory)
    else:
        raise _invalid(f"'{member.name}' is a device: devices are not copied into guests")
    os.rename(temporary, base, src_dir_fd=directory, dst_dir_fd=directory)


def _kind(directory: int, base: str) -> str | None:
    try:
        mode = os.stat(base, dir_fd=directory, follow_symlinks=False).st_mode
    except OSError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    return "directory" if stat.S_ISDIR(mode) else "other"
