"""Reading request bodies: JSON within limits, uploads streamed to disk, multipart forms."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import multipart
from multipart import MultipartError, MultipartSegment, PushMultipartParser

from vetro.digits import is_number
from vetro.http.any_request import AnyRequest
from vetro.http.context import context_of
from vetro.http.conventions import MEBIBYTE
from vetro.http.faults import (
    BadRequest,
    InsufficientStorage,
    MalformedBody,
    PartTooLarge,
    PayloadTooLarge,
    UnsupportedMediaType,
)
from vetro.http.headers import header
from vetro.json_texts import NotJson, decode_json

UPLOAD_PREFIX = ".upload-"
TEXT_LIMIT = MEBIBYTE
LARGE_JSON = 2**16
SMALL_UPLOAD = 2**16
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def content_type(request: AnyRequest) -> str:
    """The media type of the body without its parameters; '' when none is given."""
    return header_of(request, b"content-type").split(";", 1)[0].strip().lower()


def header_of(request: AnyRequest, name: bytes) -> str:
    """The first header of this name, or ''; without the framework's map of all headers."""
    headers: Any = request.scope["headers"]
    return header(headers, name)


def announced_bytes(request: AnyRequest) -> int | None:
    """The ``Content-Length``; ``None`` for a body of unknown length."""
    given = header_of(request, b"content-length")
    return int(given) if is_number(given) else None


def refuse_larger(request: AnyRequest, limit_bytes: int) -> None:
    """Refuse a body that is announced as too large, before any of it is read. Errors: 413."""
    announced = announced_bytes(request)
    if announced is not None and announced > limit_bytes:
        raise too_large("request body", limit_bytes)


def too_large(what: str, limit_bytes: int) -> PayloadTooLarge:
    """The fault for something above its size limit."""
    return PayloadTooLarge(
        f"The {what} is larger than {limit_bytes} bytes ({limit_bytes / MEBIBYTE:g} MiB)"
    )


async def _piece(request: AnyRequest) -> tuple[bytes, bool]:
    """The next piece of the body, and whether there is more.

    Not by the framework's stream, which makes a map of all headers to look at one, and a generator that
    the event loop keeps a book of. Errors: ``ConnectionError``.
    """
    received: Any = await request.receive()
    message: dict[str, Any] = received
    if message["type"] == "http.disconnect":
        raise ConnectionResetError("the client left before the end of its request")
    return message.get("body", b""), message.get("more_body", False)


async def read_body(request: AnyRequest, limit_bytes: int) -> bytes:
    """The whole body, at most ``limit_bytes``. ``PayloadTooLarge`` beyond that."""
    refuse_larger(request, limit_bytes)
    body, more = bytearray(), True
    while more:
        chunk, more = await _piece(request)
        body += chunk
        if len(body) > limit_bytes:
            raise too_large("request body", limit_bytes)
    return bytes(body)


async def read_json(
    request: AnyRequest,
    types: Collection[str] = ("application/json",),
    *,
    limit_bytes: int | None = None,
) -> Any:
    """The JSON body, or ``None`` for an empty one or one without a content type (§3).

    ``limit_bytes``: by default that of the face's conventions. Errors: 415 for a body with another
    content type, 400 ``Malformed request body``, 413.
    """
    conventions = context_of(request).conventions
    if limit_bytes is None:
        limit_bytes = conventions.json_limit_bytes
    if conventions.body_limit_bytes:
        limit_bytes = conventions.body_limit_bytes
    body = await read_body(request, limit_bytes)
    if not body:
        return None
    given = content_type(request)
    if not given:
        return None
    if given not in types:
        raise UnsupportedMediaType(f"Content type {given} is not one of {', '.join(types)}")
    try:
        # A large body is decoded in a thread, so that the loop stays free.
        if len(body) < LARGE_JSON:
            value = decode_json(body)
        else:
            value = await asyncio.to_thread(decode_json, body)
    except NotJson as error:
        raise MalformedBody("Malformed request body") from error
    if rb"\u0000" in body:
        refuse_nul(value)
    return value


def refuse_nul(value: object, where: str = "") -> None:
    """Refuse a NUL character in any text of a JSON value: databases do not store it. Errors: 400.

    The message names its place.
    """
    waiting: list[tuple[object, str]] = [(value, where)]
    while waiting:
        one, place = waiting.pop()
        if isinstance(one, str):
            if "\0" in one:
                raise BadRequest(f"There is a NUL character in {place or 'the body'}; remove it")
        elif isinstance(one, list):
            items = cast("list[object]", one)
            waiting.extend((item, f"{place}[{number}]") for number, item in enumerate(items))
        elif isinstance(one, dict):
            for key, member in cast("dict[str, object]", one).items():
                if "\0" in key:
                    raise BadRequest(f"There is a NUL character in a name in {place or 'the body'}")
                waiting.append((member, f"{place}.{key}" if place else key))


class SpooledWriter:
    """A file in ``directory`` that grows up to a limit and disappears unless it is kept.

    Disks can be slow: the writing happens in threads, a mebibyte at a time. What is small stays in memory,
    unless a file is asked for; that is written at once: the kernel takes it sooner than a thread begins.
    """

    def __init__(self, directory: Path, limit_bytes: int) -> None:
        self.directory = directory
        self.limit = limit_bytes
        self.size = 0
        self._waiting = bytearray()
        self._path: Path | None = None
        self._file: IO[bytes] | None = None

    async def write(self, chunk: bytes | bytearray) -> None:
        """Append; 413 beyond the limit, 507 when the disk is full."""
        self.size += len(chunk)
        if self.size > self.limit:
            raise too_large("upload", self.limit)
        self._waiting += chunk
        if len(self._waiting) >= MEBIBYTE:
            await self._flush()

    def _opened(self) -> IO[bytes]:
        """The file, which is made when it is first written to."""
        if self._file is None:
            path = self.directory / f"{UPLOAD_PREFIX}{secrets.token_hex(12)}"
            # An uploaded file is later renamed, not copied: create it for this user only. A directory that
            # is gone is not made again: what else was in it is gone too, or on a disk that is not mounted.
            descriptor = os.open(path, _NEW_FILE, 0o600)
            self._path, self._file = path, os.fdopen(descriptor, "wb", buffering=0)
        return self._file

    async def _flush(self) -> None:
        waiting, self._waiting = self._waiting, bytearray()

        def write() -> None:
            file, rest = self._opened(), memoryview(waiting)
            while rest:
                rest = rest[file.write(rest) :]

        try:
            if self.size <= SMALL_UPLOAD:
                write()
            else:
                await asyncio.to_thread(write)
        except OSError as error:
            raise _disk_fault(error) from error

    async def close(self, *, to_file: bool = False) -> Path | bytes:
        """End the upload: its file, or its content if it is small. ``to_file``: a file in any case."""
        if self.size <= SMALL_UPLOAD and not to_file:
            return bytes(self._waiting)
        await self._flush()
        self._opened().close()
        assert self._path is not None
        return self._path

    def discard(self) -> None:
        """Remove the file, if there is one."""
        if self._file is not None and self._path is not None:
            self._file.close()
            self._path.unlink(missing_ok=True)


def _disk_fault(error: OSError) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InsufficientStorage(
            "The service's disk is full; nothing of this upload was stored. Free space and try again"
        )
    return error


def discard_abandoned_uploads(directory: Path, older_than_seconds: float = 86_400.0) -> int:
    """Remove the uploads that a killed process left behind; returns how many files.

    Called at a start. The age limit spares uploads that another process is receiving.
    """
    removed = 0
    if not directory.is_dir():
        return removed
    before = time.time() - older_than_seconds
    for path in directory.glob(f"{UPLOAD_PREFIX}*"):
        with contextlib.suppress(FileNotFoundError):  # another process may remove it as well
            if path.stat().st_mtime < before:
                path.unlink()
                removed += 1
    return removed


async def receive_upload(request: AnyRequest, directory: Path, limit_bytes: int) -> Path:
    """Stream the body into a new file below ``directory`` and return its path.

    The caller moves or removes the file. After an error no file stays. Errors: 413, 507.
    """
    refuse_larger(request, limit_bytes)
    writer = SpooledWriter(directory, limit_bytes)
    try:
        more = True
        while more:
            chunk, more = await _piece(request)
            await writer.write(chunk)
        path = await writer.close(to_file=True)
    except BaseException:
        writer.discard()
        raise
    assert isinstance(path, Path)
    return path


@dataclass
class Part:
    """One part of a multipart form: a text ``value``, or a file with ``filename``.

    ``stored``: where the file is; a small one's content. ``None`` for a text.
    """

    name: str
    filename: str | None = None
    content_type: str = ""
    value: str = ""
    stored: Path | bytes | None = None
    size: int = 0
    text: bytearray = field(default_factory=bytearray, repr=False)


async def receive_multipart(
    request: AnyRequest,
    directory: Path,
    limit_bytes: int,
    *,
    max_parts: int = 16,
    total_bytes: int | None = None,
) -> list[Part]:
    """Stream a multipart form: files below ``directory``; small ones (64 KiB) and texts (1 MiB) in memory.

    ``limit_bytes``: of one file; ``total_bytes``: of the whole body, by default all parts at their
    limit. The caller moves or removes the files; after an error no file stays. Errors: 400 for a
    malformed form or too many parts, 413 (``PartTooLarge`` for one part), 415 for another content
    type,
    """
    parsed: object = cast("Any", multipart).parse_options_header(
        header_of(request, b"content-type")
    )
    kind, options = cast("tuple[str, dict[str, str]]", parsed)
    if kind != "multipart/form-data":
        raise UnsupportedMediaType("This call requires multipart/form-data")
    boundary = options.get("boundary", "")
    if not boundary:
        raise BadRequest("The multipart form has no boundary")
    # The boundaries and headers of parts add to the size of the files.
    total = total_bytes or limit_bytes * max_parts + TEXT_LIMIT
    total = context_of(request).conventions.body_limit_bytes or total
    refuse_larger(request, total)
    form = _Form(directory, limit_bytes, max_parts)
    try:
        with PushMultipartParser(boundary, max_segment_count=max_parts + 1) as parser:
            await form.feed(parser, request, total)
    except MultipartError as error:
        form.discard()
        raise BadRequest(f"Malformed multipart form: {error}") from error
    except BaseException:
        form.discard()
        raise
    return form.parts


class _Form:
    def __init__(self, directory: Path, limit_bytes: int, max_parts: int) -> None:
        self.directory = directory
        self.limit = limit_bytes
        self.max_parts = max_parts
        self.parts: list[Part] = []
        self.writers: list[SpooledWriter] = []
        self._writer: SpooledWriter | None = None

    async def feed(
        self, parser: PushMultipartParser, request: AnyRequest, limit_bytes: int
    ) -> None:
        """Take the parts of a body. Errors: 413 for more than ``limit_bytes`` of it."""
        size, more = 0, True
        while more:
            chunk, more = await _piece(request)
            size += len(chunk)
            if size > limit_bytes:
                raise too_large("request body", limit_bytes)
            if not chunk:
                continue  # to the parser an empty piece is the end of the body, wherever it comes
            await self._take(parser.parse(chunk))
        await self._take(parser.parse(b""))

    async def _take(self, events: Iterable[object]) -> None:
        event: Any
        for event in events:
            if isinstance(event, MultipartSegment):
                self._begin(event)
            elif event:
                await self._write(event)
            else:
                await self._end()

    def _begin(self, segment: MultipartSegment) -> None:
        if len(self.parts) >= self.max_parts:
            raise BadRequest(f"The form has more than {self.max_parts} parts")
        part = Part(
            str(segment.name or ""), segment.filename or None, str(segment.content_type or "")
        )
        self.parts.append(part)
        self._writer = None
        if segment.filename is not None:
            self._writer = SpooledWriter(self.directory, self.limit)
            self.writers.append(self._writer)

    async def _write(self, chunk: bytes | bytearray) -> None:
        part = self.parts[-1]
        part.size += len(chunk)
        if self._writer is not None:
            try:
                await self._writer.write(chunk)
            except PayloadTooLarge as error:
                raise PartTooLarge(error.message) from error
            return
        part.text.extend(chunk)
        if len(part.text) > TEXT_LIMIT:
            fault = too_large(f"form field {part.name!r}", TEXT_LIMIT)
            raise PartTooLarge(fault.message)

    async def _end(self) -> None:
        if self._writer is not None:
            self.parts[-1].stored = await self._writer.close()
            return
        part = self.parts[-1]
        try:
            part.value = part.text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadRequest(f"The form field {part.name!r} is not UTF-8 text") from error
        refuse_nul(part.value, f"the form field {part.name!r}")

    def discard(self) -> None:
        for writer in self.writers:
            writer.discard()
