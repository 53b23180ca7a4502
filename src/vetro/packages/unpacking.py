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
_LEAST_DICTIONARY = 4096
"""Bytes: a decoder of LZMA takes no smaller one."""


def unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """A member's content, at most one byte longer than its declared size. Errors: ``DAMAGE``."""
    size = info.file_size
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
