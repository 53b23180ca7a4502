"""How large the disk of a virtual machine's image is, read from the image's file.

A file is a qcow2 disk, or a tar (compressed or not) with ``disk.qcow2``. Only headers are read, a block at a
time, and no more than `_BEFORE` bytes: who sends a file must not decide what its unpacking costs the service.
What else is wrong with it, the node says that unpacks it.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
import zlib
from io import BufferedIOBase
from pathlib import Path

DISK = "disk.qcow2"
#: Magic, version, place and length of a backing file's name, bits of a cluster, bytes as the guest sees them.
_HEADER = struct.Struct(">4sIQIIQ")
_MAGIC = b"QFI\xfb"
_MIB = 2**20
#: A larger disk is no image of a virtual machine, on any node.
_LARGEST = 16 * 2**40
#: What is before the disk in an archive: a kernel and its initial files.
_BEFORE = 256 * _MIB
_BLOCK = 512


def disk_mib(file: Path) -> int | None:
    """Whole MiB of the disk in an image's file; ``None``: the file does not say it."""
    with file.open("rb") as opened:
        head = opened.read(_HEADER.size)
    if head.startswith(_MAGIC):
        return _size(head)
    try:
        with _opened(file, head) as tar:
            return _in_tar(tar)
    except (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError):
        return None  # not an archive, or a part of one: that is for the node to refuse


def _opened(file: Path, head: bytes) -> BufferedIOBase:
    if head.startswith(b"\x1f\x8b"):
        return gzip.open(file)
    if head.startswith(b"BZh"):
        return bz2.open(file)
    if head.startswith(b"\xfd7zXZ\x00"):
        return lzma.open(file)
    return file.open("rb")


def _in_tar(tar: BufferedIOBase) -> int | None:
    """The size of the disk in a tar, which is found by its members' headers."""
    left = _BEFORE
    while left > 0:
        block = tar.read(_BLOCK)
        if len(block) < _BLOCK or block[257:262] != b"ustar":
            return None
        name = block[:100].rstrip(b"\0").decode("utf-8")
        if name.removeprefix("./") == DISK and block[156:157] in b"0\0":
            return _size(tar.read(_HEADER.size))
        # Octal digits; those of a file of 8 GiB and more are another way of writing, and a ValueError.
        size = -(-int(block[124:136].strip(b" \0") or b"0", 8) // _BLOCK) * _BLOCK
        if size < 0:
            return None
        left -= _BLOCK + size
        while size > 0 and left > 0:
            read = len(tar.read(min(size, _MIB)))
            if not read:
                return None
            size -= read
    return None


def _size(head: bytes) -> int | None:
    """Whole MiB that a qcow2 header says."""
    if len(head) < _HEADER.size:
        return None
    magic, _, _, _, _, size = _HEADER.unpack(head[: _HEADER.size])
    return -(-size // _MIB) if magic == _MAGIC and 0 < size <= _LARGEST else None
