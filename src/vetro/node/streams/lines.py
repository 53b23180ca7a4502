"""The JSON lines of commands and consoles (described in ``vetro.node.tasks.docker``)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import socket
from collections.abc import AsyncGenerator, Mapping
from typing import Any, cast

import msgspec
import structlog

from vetro.json_texts import NotJson, decode_json

log = structlog.get_logger(__name__)

CHUNK = 65536
#: How long a client may take to receive the last lines.
_FAREWELL_SECONDS = 30.0


def message(kind: str, **fields: object) -> bytes:
    """One line to the client."""
    return msgspec.json.encode({"type": kind, **fields}) + b"\n"


def output(kind: str, data: bytes) -> bytes:
    """Output of the command (``kind`` ``stdout`` or ``stderr``) as a line."""
    return message(kind, data=base64.b64encode(data).decode())


async def messages(reader: asyncio.StreamReader) -> AsyncGenerator[dict[str, Any], None]:
    """The client's messages, until it closes its side."""
    while line := await reader.readline():
        try:
            value = decode_json(line)
        except NotJson:
            log.info("line_not_json")
            continue
        if isinstance(value, dict):
            yield cast("dict[str, object]", value)


def data_of(given: Mapping[str, object]) -> bytes:
    """The ``data`` of a line: base64, or plain text."""
    try:
        return base64.b64decode(str(given.get("data") or ""), validate=True)
    except binascii.Error:
        return str(given.get("data")).encode()


@contextlib.asynccontextmanager
async def connection(
    client: socket.socket,
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter], None]:
    """The client's connection as streams; removed from the loop when the block ends in any way."""
    reader, writer = await asyncio.open_connection(sock=client, limit=1 << 20)
    try:
        yield reader, writer
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_FAREWELL_SECONDS):
                await writer.wait_closed()
    finally:
        # No effect on a closed connection; ends one whose client no longer reads.
        writer.transport.abort()
