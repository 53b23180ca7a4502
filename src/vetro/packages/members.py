"""The files of a package, from a directory or a zip archive, within limits.

Dangerous archives are refused when they are opened, before any content is read: members outside the
archive (``..``, absolute names, drive letters, backslashes), links and devices, repeated names,
encrypted members, too many members, and more unpacked bytes than the limit. The sizes in an
archive's directory may be false, so reading counts again.
"""

from __future__ import annotations

import io
import re
import stat
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Protocol

from vetro.packages.errors import PackageFormatError, PackageLimitError, PackageLoadError
from vetro.packages.unpacking import DAMAGE, unpacked

MEBIBYTE = 2**20


@dataclass(frozen=True)
class ArchiveLimits:
    """Limits of a package: bytes of the archive, its unpacked content and one member; members."""

    archive_bytes: int = 64 * MEBIBYTE
    content_bytes: int = 256 * MEBIBYTE
    member_bytes: int = 64 * MEBIBYTE
    members: int = 10_000


KEPT_BYTES = 8 * 1024
KEPT_MEMBERS = 16
"""Members that stay unpacked in memory, so many and not larger: an upload reads a class file three times
and a form twice, 14 µs each time."""


class Members(Protocol):
    """Read access to a package's files by their path, with ``/`` between the parts."""

    def names(self) -> list[str]:
        """All files, sorted."""
        ...

    def has(self, name: str) -> bool:
        """Whether there is this file."""
        ...

    def read(self, name: str) -> bytes:
        """A file's content. Errors: ``PackageLoadError``."""
        ...

    def checksum(self, name: str) -> str:
        """Another text for another content of a file; the same in an archive and in a directory."""
        ...


#: Names that are as they should be: most of them. A file's path is asked for many times.
_PLAIN = re.compile(r"[\w-][\w.-]*(?:/[\w-][\w.-]*)*", re.ASCII)

BUILT = "dist"
"""The directory of archives in a package directory, which is no part of the package."""


def safe_name(name: str) -> str:
    """``name`` as a normal relative path. Errors: ``PackageFormatError`` when it leaves the package."""
    if _PLAIN.fullmatch(name):
        return name
    path = PurePosixPath(name)
    bad = (
        not name
        or "\\" in name
        or "\0" in name
        or path.is_absolute()
        or ".." in path.parts
        or (len(name) > 1 and name[1] == ":")
    )
    if bad:
        raise PackageFormatError(f"the path {name!r} leaves the package")
    return str(path)


class DirectoryMembers:
    """A package directory read in place. Links are followed only inside the package."""

    def __init__(self, root: Path, limits: ArchiveLimits) -> None:
        self.root = root.resolve()
        self.limits = limits
        if not self.root.is_dir():
            raise PackageLoadError(f"Unable to find package file {root}")

    def names(self) -> list[str]:
        """All regular files, without those of version control and editors, and without ``dist``.

        That is where ``vetro package build .`` writes: an archive may not have its predecessor in it.
        """
        found: list[str] = []
        for path in sorted(self.root.rglob("*")):
            relative = path.relative_to(self.root)
            if any(part.startswith(".") or part == "__pycache__" for part in relative.parts):
                continue
            if relative.parts[0] == BUILT:
                continue
            if path.is_file():
                found.append(relative.as_posix())
            if len(found) > self.limits.members:
                raise PackageLimitError(f"more than {self.limits.members} files")
        return found

    def _path(self, name: str) -> Path:
        path = (self.root / safe_name(name)).resolve()
        if not path.is_relative_to(self.root):
            raise PackageFormatError(f"the path {name!r} leaves the package")
        return path

    def has(self, name: str) -> bool:
        """Whether there is this file."""
        return self._path(name).is_file()

    def read(self, name: str) -> bytes:
        """A file's content."""
        path = self._path(name)
        try:
            if path.stat().st_size > self.limits.member_bytes:
                raise PackageLimitError(
                    f"{name} is larger than {self.limits.member_bytes} bytes", file=name
                )
            return path.read_bytes()
        except OSError as error:
            raise PackageLoadError(f"Unable to read {name}: {error.strerror}") from error

    def checksum(self, name: str) -> str:
        """A text for the content of a file."""
        content = self.read(name)
        return f"{zlib.crc32(content):08x} {len(content)}"


class ArchiveMembers:
    """A zip archive, from a file or from bytes."""

    def __init__(self, source: Path | bytes, limits: ArchiveLimits) -> None:
        self.limits = limits
        size = len(source) if isinstance(source, bytes) else source.stat().st_size
        if size > limits.archive_bytes:
            raise PackageLimitError(f"the archive is larger than {limits.archive_bytes} bytes")
        content = source if isinstance(source, bytes) else source.read_bytes()
        self._lock = Lock()  # packages are read by several threads
        self._unpacked: dict[str, bytes] = {}
        try:
            # In memory, so nothing need be closed; opening it reads its directory each time.
            self._archive = zipfile.ZipFile(io.BytesIO(content))
            self._members = self._check(self._archive.infolist())
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            said = str(error)
            # The most frequent reason says nothing more.
            why = "" if said == "File is not a zip file" else f" ({said})"
            raise PackageFormatError(f"the file is not a zip archive{why}") from error

    def _check(self, infos: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
        limits = self.limits
        if len(infos) > limits.members:
            raise PackageLimitError(f"{len(infos)} members; at most {limits.members} are allowed")
        total = 0
        members: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            # Check the stored name: `zipfile` would hide a null byte or a backslash.
            name = safe_name(info.orig_filename.rstrip("/") or "/")
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise PackageFormatError(f"{name} is a link or a device", file=name)
            if info.is_dir():
                continue
            if info.flag_bits & 0x1:
                raise PackageFormatError(f"{name} is encrypted", file=name)
            if name in members:
                raise PackageFormatError(f"{name} appears twice in the archive", file=name)
            if info.file_size > limits.member_bytes:
                raise PackageLimitError(
                    f"{name} unpacks to {info.file_size} bytes;"
                    f" at most {limits.member_bytes} are allowed",
                    file=name,
                )
            total += info.file_size
            if total > limits.content_bytes:
                raise PackageLimitError(
                    f"the content unpacks to more than {limits.content_bytes} bytes"
                )
            members[name] = info
        return members

    def names(self) -> list[str]:
        """All files."""
        return sorted(self._members)

    def has(self, name: str) -> bool:
        """Whether there is this file."""
        # The names of members are as `safe_name` makes them.
        return name in self._members or safe_name(name) in self._members

    def read(self, name: str) -> bytes:
        """A file's content; a member longer than its declared size is refused."""
        content = self._unpacked.get(name)
        if content is not None:
            return content
        info = self._members.get(name) or self._members.get(safe_name(name))
        if info is None:
            raise PackageLoadError(f"Unable to read {name}: there is no such file")
        try:
            with self._lock:
                content = unpacked(self._archive, info)
        except DAMAGE as error:
            raise PackageFormatError(f"{name} is damaged: {error}", file=name) from error
        if len(content) > info.file_size:
            raise PackageLimitError(
                f"{name} is longer than the archive's directory says", file=name
            )
        if len(content) <= KEPT_BYTES and len(self._unpacked) < KEPT_MEMBERS:
            self._unpacked[name] = content
        return content

    def checksum(self, name: str) -> str:
        """A text for the content of a file, from the archive's directory."""
        info = self._members[safe_name(name)]
        return f"{info.CRC:08x} {info.file_size}"
