"""Bytes as text."""

from __future__ import annotations

from codecs import BOM_UTF8

from vetro.documents.errors import DocumentError, DocumentTooLarge
from vetro.documents.limits import DocumentLimits


def text_of(content: bytes | str, limits: DocumentLimits | None = None) -> str:
    """Decode UTF-8 without its byte order mark. Errors: ``DocumentError`` for other bytes and for
    text that cannot be encoded (half of a surrogate pair), ``DocumentTooLarge``."""
    most = None if limits is None else limits.bytes
    try:
        # Text is encoded to count its bytes and to find half of a surrogate pair.
        raw = content.encode() if isinstance(content, str) else content
    except UnicodeEncodeError as error:
        raise DocumentError("not text: it has half of a surrogate pair") from error
    if most is not None and len(raw) > most:
        raise DocumentTooLarge(f"{len(raw)} bytes, more than {most}")
    if isinstance(content, str):
        return content
    if content.startswith(BOM_UTF8):
        content = content[len(BOM_UTF8) :]
    try:
        return content.decode()  # ten times as fast as the codec that removes the mark itself
    except UnicodeDecodeError as error:
        raise DocumentError(f"not UTF-8 text: {error.reason} at byte {error.start}") from error
