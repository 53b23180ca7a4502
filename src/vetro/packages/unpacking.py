"""The content of an archive's member, never more than it is said to have (packages-and-forms.md A1).

`zipfile` unpacks a deflated member in bounded pieces. Of the other methods it unpacks whatever one piece
of the archive gives: five MiB of bzip2 can be more than the machine's memory. Those are unpacked here.
"""

from __future__ import annotations

import bz2
import copy
import lzma
import struct
import zipfile
import zlib

#: The errors of reading a damaged member: a ValueError for a name that is not UTF-8, a RuntimeError
#: for a local header with the flag "encrypted".
DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(OSError, EOFError, ValueError, RuntimeError),
)
_HEADER = struct.Struct("<4s2xH18xHH")
"""Of a member, before its name: signature, flags, length of the name, length of the extra field."""
_PLAIN_FLAGS = 0x080E
"""Flags of a member without meaning for its content: how well it is packed, that its sizes stand behind it
too, that its name is UTF-8."""
_SMALL = 2**16
"""Bytes, packed and unpacked."""
_LEAST_DICTIONARY = 4096
"""Bytes: a decoder of LZMA takes no smaller one."""


def unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """A member's content, at most one byte longer than its declared size. Errors: ``DAMAGE``."""
    size = info.file_size
    content = _of_plain_member(archive, info)
    if content is not None:
        return content
    if info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with archive.open(info) as member:
            return member.read(size + 1)
    if info.compress_type == zipfile.ZIP_BZIP2:
        content = bz2.BZ2Decompressor().decompress(_packed(archive, info), size + 1)
    elif info.compress_type == zipfile.ZIP_LZMA:
        content = _unpacked_lzma(_packed(archive, info), size)
    else:
        raise zipfile.BadZipFile(
            f"it is compressed by a method ({info.compress_type}) that is not known here: use deflate"
        )
    if len(content) < size:
        raise EOFError(f"it has {len(content)} bytes instead of {size}")
    if len(content) == size and zlib.crc32(content) != info.CRC:
        raise zipfile.BadZipFile("its checksum is another one")
    return content


def _of_plain_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes | None:
    """The content of a small member that is as it should be; of any other ``None``: `zipfile` says what is
    wrong with it.

    In 4 µs instead of 20: `zipfile` goes through three readers, one inside the other.
    """
    size, packed = info.file_size, info.compress_size
    if max(size, packed) > _SMALL or archive.fp is None or info.flag_bits & ~_PLAIN_FLAGS:
        return None
    archive.fp.seek(info.header_offset)
    head = archive.fp.read(_HEADER.size)
    if len(head) != _HEADER.size:
        return None
    signature, flags, names, extra = _HEADER.unpack(head)
    name = archive.fp.read(names)
    if (
        signature != b"PK\x03\x04"
        or flags & ~_PLAIN_FLAGS
        or not name.isascii()
        or name.decode("ascii") != info.orig_filename
    ):
        return None
    start = info.header_offset + _HEADER.size + names + extra
    # Set by interpreters that refuse members which overlap the next one: a zip bomb.
    end: int | None = getattr(info, "_end_offset", None)
    if end is not None and start + packed > end:
        return None
    archive.fp.seek(start)
    content = archive.fp.read(packed)
    if info.compress_type == zipfile.ZIP_DEFLATED:
        try:
            unpacking = zlib.decompressobj(-15)
            content = unpacking.decompress(content, size + 1)
        except zlib.error:
            return None
    elif info.compress_type != zipfile.ZIP_STORED:
        return None
    return content if len(content) == size and zlib.crc32(content) == info.CRC else None


def _packed(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """A member as it stands in the archive."""
    stored = copy.copy(info)
    stored.compress_type = zipfile.ZIP_STORED
    stored.file_size = stored.compress_size
    del stored.CRC  # that of the content
    with archive.open(stored) as member:
        return member.read()


def _unpacked_lzma(packed: bytes, size: int) -> bytes:
    """The content of a stream with the header that LZMA has in zip archives."""
    _version, length, mode, dictionary = struct.unpack_from("<HHBI", packed)
    position, low = divmod(mode, 9)
    position, literal = divmod(position, 5)
    properties = {
        "id": lzma.FILTER_LZMA1,
        # Nothing is farther away than the content is long, whatever the archive asks for.
        "dict_size": max(_LEAST_DICTIONARY, min(dictionary, size)),
        "lc": low,
        "lp": literal,
        "pb": position,
    }
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[properties])
    return decompressor.decompress(packed[4 + length :], size + 1)
