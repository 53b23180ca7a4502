"""Directories of definitions as archives, and back."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path, PurePosixPath

from vetro.cli.terminal.output import fail


def pack_tree(directory: Path) -> tuple[bytes, int]:
    """A tar.gz of the files in a directory, and how many they are. Hidden files and links stay out."""
    buffer = io.BytesIO()
    count = 0
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path in sorted(directory.rglob("*")):
            relative = path.relative_to(directory)
            hidden = any(part.startswith(".") for part in relative.parts)
            if hidden or path.is_symlink() or not path.is_file():
                continue
            entry = tarfile.TarInfo(relative.as_posix())
            content = path.read_bytes()
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
            count += 1
    return buffer.getvalue(), count


def unpack_tree(content: bytes, directory: Path) -> int:
    """Write the files of an archive into a directory; how many they are."""
    count = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                if path.is_absolute() or ".." in path.parts:
                    fail(f"The service sent a file that leaves the directory: {member.name!r}")
                target = directory / path
                if member.isdir():
                    target.mkdir(parents=True, exist_ok=True)
                elif member.isreg():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    body = archive.extractfile(member)
                    target.write_bytes(body.read() if body is not None else b"")
                    count += 1
    except tarfile.TarError as error:
        fail(f"The service sent an archive that cannot be read: {error}")
    directory.mkdir(parents=True, exist_ok=True)
    return count


def write_file(target: Path, content: bytes) -> None:
    """Write a file, in whole or not at all."""
    part = target.with_name(target.name + ".part")
    part.write_bytes(content)
    part.replace(target)
