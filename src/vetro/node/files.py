"""Small state files: JSON, written whole or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import shutil
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec

from vetro.node.commands import run

# How long a command of a killed agent may still be writing.
_LAST_WRITES_SECONDS = 10.0


def write_json(path: Path, value: object) -> None:
    """Replace ``path`` with ``value`` in one step: a reader sees the old text or the new one."""
    write_bytes(path, msgspec.json.encode(value))


def write_bytes(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace ``path`` with ``data`` in one step."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> Any:
    """The value in ``path``; ``None`` when the file is missing or truncated by a power failure."""
    try:
        return msgspec.json.decode(path.read_bytes())
    except (FileNotFoundError, msgspec.DecodeError):
        return None


@contextlib.contextmanager
def short_name(path: Path) -> Generator[str, None, None]:
    """A name for ``path`` that fits into a socket's address (107 bytes), however long the path is.

    Errors: ``OSError`` when its directory does not exist.
    """
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def remove_tree(path: Path) -> None:
    """Remove a directory with its contents; a missing one is not an error.

    Processes of a killed agent may still write there for a moment: then removal is repeated.
    """
    deadline = time.monotonic() + _LAST_WRITES_SECONDS
    while True:
        try:
            shutil.rmtree(path)
            return
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not path.exists():
                return
            moving = error.errno in (errno.ENOTEMPTY, errno.ENOENT)
            if not moving or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


async def copy_tree(source: Path, target: Path) -> None:
    """Make ``target`` a copy of ``source`` with owners, times, links, devices and attributes.

    The copy is made beside it and then renamed; blocks are shared where the file system supports it
    (btrfs, XFS). Errors: ``CommandFailed`` (also when the disk is full); ``target`` is then
    unchanged.
    """
    fresh = target.with_name(f".{target.name}.copy")
    await asyncio.to_thread(remove_tree, fresh)
    try:
        await run(
            "cp", "--archive", "--reflink=auto", "--no-target-directory", str(source), str(fresh),
            timeout=3600, ends_with_us=True,
        )  # fmt: skip
    except BaseException:
        await asyncio.to_thread(remove_tree, fresh)
        raise
    old = target.with_name(f".{target.name}.old")
    await asyncio.to_thread(remove_tree, old)
    with contextlib.suppress(FileNotFoundError):
        os.rename(target, old)
    os.rename(fresh, target)
    await asyncio.to_thread(remove_tree, old)


async def digest_of(path: Path) -> str:
    """The SHA-256 of a file, in hex."""

    def read() -> str:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    return await asyncio.to_thread(read)


async def tree_bytes(path: Path) -> int:
    """Bytes a directory occupies on its file system; 0 when it does not exist."""
    if not path.is_dir():
        return 0
    finished = await run("du", "-sx", "--block-size=1", str(path), check=False)
    words = finished.output.split()
    return int(words[0]) if words else 0
