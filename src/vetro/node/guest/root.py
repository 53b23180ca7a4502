"""Writing into a root file system that may be hostile.

An image, or the instance itself, can hold symbolic links that point anywhere. The agent is root on
the host, so it never lets the kernel follow them: it opens every component relative to the previous
one without following links, and resolves links itself, inside the root.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import os
import shutil
import stat
from pathlib import Path

from vetro.node.errors import NodeError

#: How many ids an instance has.
ID_COUNT = 65536
_NOBODY = 65534


def inside(number: int, shift: int) -> int:
    """The id that the instance sees; what is outside of its range belongs to nobody."""
    inner = number - shift
    return inner if 0 <= inner < ID_COUNT else _NOBODY


def outside(number: int, shift: int) -> int:
    """The id on disk."""
    return shift + (number if 0 <= number < ID_COUNT else _NOBODY)


def _remove_matching(directory: int, parents: list[str], last: str) -> None:
    for name in fnmatch.filter(os.listdir(directory), parents[0] if parents else last):
        if not parents:
            mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                shutil.rmtree(name, dir_fd=directory)
            else:
                os.unlink(name, dir_fd=directory)
            continue
        try:
            inner = os.open(name, _DIRECTORY, dir_fd=directory)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                continue  # a link, or a file: nothing of ours is behind it
            raise
        try:
            _remove_matching(inner, parents[1:], last)
        finally:
            os.close(inner)


_MAX_LINKS = 40
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class GuestRoot:
    """The root file system at ``path``; ``shift`` is added to the owner of written files."""

    def __init__(self, path: Path, shift: int = 0) -> None:
        self.path = path
        self.shift = shift

    def write(self, name: str, data: bytes, mode: int = 0o644) -> None:
        """Write a file at the absolute ``name``: a link there is replaced, not followed."""
        directory, base = self.open_parent(name, create=True)
        try:
            temporary = f".{base}.vetro"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=directory)
            descriptor = os.open(
                temporary,
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
                mode,
                dir_fd=directory,
            )
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                os.fchmod(file.fileno(), mode)
                if self.shift:
                    os.fchown(file.fileno(), self.shift, self.shift)
            os.rename(temporary, base, src_dir_fd=directory, dst_dir_fd=directory)
        finally:
            os.close(directory)

    def link(self, name: str, target: str) -> None:
        """Create a symbolic link to ``target`` at ``name``."""
        directory, base = self.open_parent(name, create=True)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(base, dir_fd=directory)
            os.symlink(target, base, dir_fd=directory)
            if self.shift:
                os.chown(base, self.shift, self.shift, dir_fd=directory, follow_symlinks=False)
        finally:
            os.close(directory)

    def read(self, name: str, limit: int = 1 << 20) -> bytes | None:
        """The regular file at ``name`` (links followed inside the root); ``None`` if there is none."""
        try:
            descriptor = self._open(name)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            return file.read(limit)

    def remove_matching(self, pattern: str) -> None:
        """Remove files and directories; `*` may stand in components. Links are removed, not followed."""
        *parents, last = pattern.strip("/").split("/")
        directory = os.open(self.path, _DIRECTORY)
        try:
            _remove_matching(directory, parents, last)
        finally:
            os.close(directory)

    def exists(self, name: str) -> bool:
        """Whether there is a file at ``name``, links followed inside the root."""
        try:
            os.close(self._open(name))
        except FileNotFoundError:
            return False
        return True

    def resolve(self, name: str) -> str | None:
        """The absolute name inside the root that ``name`` resolves to; ``None`` if none."""
        try:
            directory, base = self.open_parent(name, create=False)
        except FileNotFoundError:
            return None
        try:
            target = os.readlink(base, dir_fd=directory)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.EINVAL:
                return name
            raise
        finally:
            os.close(directory)
        return os.path.normpath(os.path.join(os.path.dirname(name), target))

    def _open(self, name: str) -> int:
        for _ in range(_MAX_LINKS):
            directory, base = self.open_parent(name, create=False)
            try:
                return os.open(
                    base,
                    os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC,
                    dir_fd=directory,
                )
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                name = os.path.join(os.path.dirname(name), os.readlink(base, dir_fd=directory))
            finally:
                os.close(directory)
        raise NodeError(f"{name}: too many symbolic links in {self.path}")

    def open_parent(self, name: str, *, create: bool) -> tuple[int, str]:
        """The open directory of ``name``, and its last component. The caller closes it."""
        pending = [part for part in name.split("/") if part not in ("", ".")]
        if not pending or pending[-1] == "..":
            raise NodeError(f"'{name}' does not name a file in {self.path}")
        base = pending.pop()
        opened = [os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
        links = 0
        try:
            while pending:
                part = pending.pop(0)
                if part in ("", "."):
                    continue
                if part == "..":
                    # The parent of the root is the root, as for chroot.
                    if len(opened) > 1:
                        os.close(opened.pop())
                    continue
                try:
                    opened.append(os.open(part, _DIRECTORY, dir_fd=opened[-1]))
                    continue
                except FileNotFoundError:
                    if not create:
                        raise
                    os.mkdir(part, 0o755, dir_fd=opened[-1])
                    if self.shift:
                        os.chown(
                            part, self.shift, self.shift, dir_fd=opened[-1], follow_symlinks=False
                        )
                    pending.insert(0, part)
                    continue
                except OSError as error:
                    # A link, opened without following: ELOOP, or ENOTDIR with O_DIRECTORY.
                    if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                        raise
                    links += 1
                    if links > _MAX_LINKS:
                        raise NodeError(
                            f"{name}: too many symbolic links in {self.path}"
                        ) from error
                    try:
                        target = os.readlink(part, dir_fd=opened[-1])
                    except OSError as no_link:
                        raise FileNotFoundError(
                            errno.ENOENT, "Not a directory", f"{self.path}{name}"
                        ) from no_link
                    if target.startswith("/"):
                        while len(opened) > 1:
                            os.close(opened.pop())
                    pending[:0] = target.split("/")
            return opened.pop(), base
        finally:
            for descriptor in opened:
                os.close(descriptor)
