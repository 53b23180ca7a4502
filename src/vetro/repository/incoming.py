"""Archives that are uploaded: one service, or the whole definitions of a project (§8.6).

Everything is unpacked into memory within limits and checked before any of it is stored. Links,
devices, sparse members and paths that leave the archive make the whole upload unusable.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from vetro.repository.manifests import SUFFIX, Manifest, ManifestError, read_manifest
from vetro.repository.paths import (
    MANIFESTS,
    NAMING_RULE,
    Layout,
    UnsafePath,
    is_service_name,
    kind_named,
    parents,
    safe_path,
)

log = structlog.get_logger("vetro.repository")
#: What a tar adds to its members: their headers and padding, and the end.
OVERHEAD_BYTES = 4096
XZ_MEMORY = 96 * 2**20
_DAMAGE = (
    *(tarfile.TarError, zlib.error, lzma.LZMAError, OSError, EOFError),
    *(ValueError, ArithmeticError, LookupError, MemoryError),
)


class ArchiveError(ValueError):
    """An uploaded archive cannot be used; the message is for its author."""


@dataclass(frozen=True)
class ArchiveLimits:
    """Members, and bytes that they may unpack to."""

    members: int = 2000
    content_bytes: int = 64 * 2**20


@dataclass
class Incoming:
    """Checked content: by type and path; ``directories``: by type. ``ignored``: unknown entries."""

    files: dict[str, dict[str, bytes]] = field(default_factory=dict[str, dict[str, bytes]])
    directories: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    ignored: list[str] = field(default_factory=list[str])

    def add(self, kind: str, path: str, content: bytes | None) -> None:
        """Add a file, or a directory."""
        folders = self.directories.setdefault(kind, set())
        folders.update(parents(path))
        if content is None:
            folders.add(path)
        else:
            self.files.setdefault(kind, {})[path] = content

    def refuse_clashes(self) -> None:
        """Errors: ``ArchiveError`` when one name is a file and a directory."""
        for kind, folders in self.directories.items():
            both = folders & self.files.get(kind, {}).keys()
            if both:
                raise ArchiveError(f"{kind}/{min(both)} is a file and a directory")


def read_service(content: bytes, limits: ArchiveLimits) -> tuple[Manifest, Incoming]:
    """The service in an archive whose directories are named by type. Errors: ``ArchiveError``."""
    members = read_members(content, limits)
    incoming = Incoming()
    manifests: list[str] = []
    for path, body in members.items():
        first, _, rest = path.partition("/")
        kind = kind_named(first)
        if not rest and body is not None and path.endswith(SUFFIX):
            manifests.append(path)
        elif kind is not None and kind != MANIFESTS:
            if not rest and body is not None:
                raise ArchiveError(f"{path} must be a directory: the files of that type")
            if rest:
                incoming.add(kind, rest, body)
        elif rest or body is not None:
            incoming.ignored.append(path)
    if len(manifests) != 1:
        there = ", ".join(sorted(manifests)) or "none"
        raise ArchiveError(f"The archive needs one NAME{SUFFIX} at its root, and has {there}")
    (file,) = manifests
    body = members[file]
    assert body is not None
    manifest = _checked(file, body)
    incoming.add(MANIFESTS, file, body)
    incoming.refuse_clashes()
    for path in incoming.ignored:
        log.warning("archive_entry_ignored", service=manifest.name, entry=path)
    return manifest, incoming


def _checked(file: str, content: bytes) -> Manifest:
    try:
        manifest = read_manifest(file, content)
    except ManifestError as error:
        raise ArchiveError(str(error)) from error
    if not is_service_name(manifest.name):
        raise ArchiveError(f"{manifest.name!r} cannot be a service's name: {NAMING_RULE}")
    display = manifest.values.get("service_display_name")
    if not isinstance(display, str) or not display.strip():
        raise ArchiveError(f"{file}: service_display_name is missing: the name that users see")
    return manifest


def read_tree(content: bytes, limits: ArchiveLimits, layout: Layout) -> Incoming:
    """The definitions in an archive of an on-disk repository (§2). Errors: ``ArchiveError``."""
    return sort_tree(read_members(content, limits), layout)


def sort_tree(members: Mapping[str, bytes | None], layout: Layout) -> Incoming:
    """Files of an on-disk repository by type. Errors: ``ArchiveError``."""
    incoming = Incoming()
    places = {f"{directory}/": kind for kind, directory in layout.directories.items()}
    for path, body in members.items():
        for place, kind in places.items():
            if path.startswith(place):
                incoming.add(kind, path.removeprefix(place), body)
                break
        else:
            if "/" not in path and body is not None and "-manifest" in path:
                incoming.add(MANIFESTS, path, body)
            elif f"{path}/" not in places:
                incoming.ignored.append(path)
    incoming.refuse_clashes()
    return incoming


def read_members(content: bytes, limits: ArchiveLimits) -> dict[str, bytes | None]:
    """The members of a tar by path, ``None`` for directories. Errors: ``ArchiveError``."""
    most = limits.content_bytes + limits.members * OVERHEAD_BYTES
    try:
        plain = _unpacked(content, most)
        if len(plain) > most:
            raise ArchiveError(f"The archive unpacks to more than {limits.content_bytes} bytes")
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
            found = _members(archive, limits)
            # The reader stops silently at a damaged header; a whole tar ends in zeros.
            if plain[archive.offset : archive.offset + 512] != bytes(512):
                raise ArchiveError("The archive is truncated or damaged")
    except ArchiveError:
        raise
    except _DAMAGE as error:
        raise ArchiveError(f"The upload is not a readable tar archive: {error}") from error
    return found


def _unpacked(content: bytes, most: int) -> bytes:
    """The tar without its compression, at most one byte more than ``most``."""
    source = io.BytesIO(content)
    if content[:2] == b"\x1f\x8b":
        with gzip.open(source) as unpacked:
            return unpacked.read(most + 1)
    if content[:3] == b"BZh":
        with bz2.open(source) as unpacked:
            return unpacked.read(most + 1)
    if content[:6] == b"\xfd7zXZ\0" or content[:3] == b"\x5d\0\0":
        decompressor = lzma.LZMADecompressor(memlimit=XZ_MEMORY)
        plain = decompressor.decompress(content, most + 1)
        if not decompressor.eof and len(plain) <= most:
            raise ArchiveError("The archive is truncated")
        return plain
    return content


def _members(archive: tarfile.TarFile, limits: ArchiveLimits) -> dict[str, bytes | None]:
    found: dict[str, bytes | None] = {}
    size = 0
    for count, member in enumerate(archive, 1):
        if count > limits.members:
            raise ArchiveError(f"The archive has more than {limits.members} members")
        name = member.name
        while name.startswith("./"):
            name = name[2:]
        if name in ("", ".") and member.isdir():
            continue
        if not (member.isdir() or member.isreg()) or member.sparse is not None:
            raise ArchiveError(f"{name!r:.120} is a link, a device or a sparse file")
        try:
            path = safe_path(name.removesuffix("/") if member.isdir() else name)
        except UnsafePath as error:
            raise ArchiveError(f"The archive has a member that is not allowed: {error}") from error
        if member.isdir():
            found.setdefault(path, None)
            continue
        if path in found:
            raise ArchiveError(f"{path} is in the archive twice")
        size += member.size
        if size > limits.content_bytes:
            raise ArchiveError(f"The archive unpacks to more than {limits.content_bytes} bytes")
        body = archive.extractfile(member)
        found[path] = body.read() if body is not None else b""
        if len(found[path] or b"") != member.size:
            raise ArchiveError("The archive is truncated")
    return found
