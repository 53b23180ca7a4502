"""Downloads with conditional requests (304) and ranges (206).

RFC 9110, sections 13 and 14: ``If-None-Match``, ``If-Modified-Since``, ``Range`` (one), ``If-Range``.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path
from typing import Any, BinaryIO

from litestar import Response

from vetro.http.any_request import AnyRequest
from vetro.http.conditions import is_known
from vetro.http.events import Streamed
from vetro.http.faults import Fault, NotFound

PIECE = 256 * 1024
_RANGE = re.compile(r"bytes=(\d*)-(\d*)\Z", re.ASCII)


async def download(
    request: AnyRequest,
    path: Path,
    *,
    digest: str,
    filename: str = "",
    media_type: str = "application/octet-stream",
) -> Response[Any]:
    """A file, the requested part of it (206), or the answer that the client has it (304).

    ``digest`` is the entity tag of the content. ``filename``: the name for the browser.
    Errors: 404 when it is gone, 416 for a range outside of it.
    """
    try:
        known = await asyncio.to_thread(path.stat)
    except FileNotFoundError as error:
        if not path.parent.is_dir():
            raise  # all files are gone, perhaps with their disk: that is no answer about this one
        raise NotFound("The file no longer exists") from error
    modified = datetime.fromtimestamp(int(known.st_mtime), UTC)
    headers = {
        "ETag": f'"{digest}"',
        "Last-Modified": format_datetime(modified, usegmt=True),
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-cache",
    }
    if _is_known(request, headers["ETag"], modified):
        return Response(None, status_code=304, headers=headers)
    if filename:
        headers["Content-Disposition"] = f'attachment; filename="{_plain(filename)}"'
    first, end, status = 0, known.st_size, 200
    wanted = _range(request, known.st_size, headers["ETag"], modified)
    if wanted is not None:
        first, end = wanted
        status = 206
        headers["Content-Range"] = f"bytes {first}-{end - 1}/{known.st_size}"
    headers["Content-Length"] = str(end - first)
    return Streamed(
        _pieces(path, first, end), status_code=status, media_type=media_type, headers=headers
    )


def known_content(
    request: AnyRequest, content: bytes, media_type: str = "application/octet-stream"
) -> Response[object]:
    """Bytes in memory, or 304 when the client has them."""
    tag = f'"{hashlib.sha256(content).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if _is_known(request, tag, None):
        return Response(None, status_code=304, headers=headers)
    return Response(content, media_type=media_type, headers=headers)


def _plain(filename: str) -> str:
    return re.sub(r'[^\w .()+-]|"', "_", filename, flags=re.ASCII)


def _moment(text: str) -> datetime | None:
    try:
        given = parsedate_to_datetime(text)
    except ValueError:
        return None
    return given if given.tzinfo is not None else given.replace(tzinfo=UTC)


def _is_known(request: AnyRequest, tag: str, modified: datetime | None) -> bool:
    known = is_known(request, tag)
    if known is not None:
        return known
    since = _moment(request.headers.get("if-modified-since", ""))
    return since is not None and modified is not None and modified <= since


def _range(request: AnyRequest, size: int, tag: str, modified: datetime) -> tuple[int, int] | None:
    """The first byte and the one after the last; ``None``: all of it. Errors: 416."""
    match = _RANGE.match(request.headers.get("range", "").replace(" ", ""))
    if match is None or match.groups() == ("", ""):
        return None  # no range, or one of a kind that a server may ignore
    condition = request.headers.get("if-range")
    if condition is not None and condition != tag and _moment(condition) != modified:
        return None  # the client has a part of another version
    start, last = match.groups()
    if start:
        first = int(start)
        end = min(int(last) + 1, size) if last else size
        if last and int(last) < first:
            return None
    else:
        first, end = max(0, size - int(last)), size
    if first >= size or first >= end:
        raise Fault(
            f"The file has only {size} bytes",
            status=416,
            headers={"Content-Range": f"bytes */{size}"},
        )
    return first, end


def _opened(path: Path) -> BinaryIO:
    return path.open("rb")


async def _pieces(path: Path, first: int, end: int) -> AsyncGenerator[bytes, None]:
    # Not in a thread: a file that it opened after its caller was cancelled would never be closed.
    file = _opened(path)
    try:
        await asyncio.to_thread(file.seek, first)
        left = end - first
        while left:
            piece = await asyncio.to_thread(file.read, min(PIECE, left))
            if not piece:
                raise EOFError(f"{path} was truncated while it was sent")
            left -= len(piece)
            yield piece
    finally:
        file.close()
