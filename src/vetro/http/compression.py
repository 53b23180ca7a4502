"""Answers compressed for clients that take it (``Accept-Encoding: gzip``; RFC 9110, section 12.5.3).

Only whole answers of kinds that become smaller, from a size on; event streams, downloads and parts of
files are sent as they are. A face says itself whether it compresses: one that answers with tokens
does not, because the length of a compressed answer reveals something about a secret in it to an attacker who
can place text beside that secret and see the length (BREACH). For the same reason a browser's request
that another site caused is answered uncompressed.

A compressed form is another representation, so its strong entity tag is another one: ``"x"`` becomes
``"x-gzip"``. Tags that come back are read without that mark.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Mapping
from typing import Any

from litestar.types import Send

from vetro.digits import is_number
from vetro.http.headers import Headers, header

LEAST_BYTES = 1024
"""Smaller answers fit into a packet anyway."""
THREADED_BYTES = 2**16
"""Larger answers are compressed beside the event loop."""
LEVEL = 1
"""A list of 1,000 environments (233 kB): level 1 leaves 13 % of it in 1.8 ms, level 6 leaves 12 % in 2.9."""

_KINDS = (
    *(b"text/", b"application/json", b"application/javascript", b"application/xml"),
    b"image/svg+xml",
)
_MARK = "-gzip"
_CONDITIONS = frozenset({b"if-none-match", b"if-match", b"if-range"})
_MARKED = re.compile(_MARK.encode() + rb'"')


def accepts_gzip(headers: Headers) -> bool:
    """Whether the client takes gzip: named (or ``*``) and not with ``q=0``."""
    best = 0.0
    named = False
    for part in header(headers, b"accept-encoding").lower().split(","):
        name, _, parameters = part.strip().partition(";")
        if name.strip() not in ("gzip", "x-gzip", "*"):
            continue
        weight = re.search(r"q\s*=\s*([^;\s]*)", parameters)
        try:
            value = float(weight[1]) if weight else 1.0
        except ValueError:
            value = 0.0
        if name.strip() != "*":
            best, named = value, True
        elif not named:
            best = value
    return best > 0


def without_marks(headers: Headers) -> Headers:
    """The headers, with the entity tags of compressed forms as those of the content."""
    return [
        (name, _MARKED.sub(b'"', value)) if name in _CONDITIONS else (name, value)
        for name, value in headers
    ]


def compressed(send: Send, headers: Headers, method: str) -> Send:
    """``send``, with the answer to a request with these headers compressed where that is good."""
    start: dict[str, Any] | None = None
    send_any: Any = send

    async def answer(message: Any) -> None:
        nonlocal start
        given: dict[str, Any] = message
        if given["type"] == "http.response.start":
            own: Headers = list(given.get("headers", []))
            said = dict(own)
            if _compressible(said):
                given = {**given, "headers": [*own, (b"vary", b"Accept-Encoding")]}
                if (
                    method != "HEAD"
                    and given["status"] not in (204, 206, 304)
                    and not _is_small(said)
                    and _takes_gzip(headers)
                ):
                    start = given  # until its body shows how large it is
                    return
        elif start is not None and given["type"] == "http.response.body":
            body: bytes = given.get("body", b"")
            first, start = start, None
            if not given.get("more_body", False) and len(body) >= LEAST_BYTES:
                body = await _gzip(body)
                first = {**first, "headers": _of_compressed(first["headers"], len(body))}
                given = {**given, "body": body}
            await send_any(first)
        await send_any(given)

    return answer


def _is_small(said: Mapping[bytes, bytes]) -> bool:
    """Whether an answer with these headers says that it is too small to be compressed."""
    length = said.get(b"content-length", b"").decode("latin-1")
    return is_number(length) and int(length) < LEAST_BYTES


def _takes_gzip(headers: Headers) -> bool:
    """Whether a request with these headers may be answered compressed."""
    return header(headers, b"sec-fetch-site") != "cross-site" and accepts_gzip(headers)


def _compressible(said: Mapping[bytes, bytes]) -> bool:
    kind = said.get(b"content-type", b"").lower()
    return (
        kind.startswith(_KINDS)
        and not kind.startswith(b"text/event-stream")
        and not said.get(b"content-encoding")
        and b"no-transform" not in said.get(b"cache-control", b"")
    )


def _of_compressed(headers: Headers, size: int) -> Headers:
    changed: Headers = [(b"content-encoding", b"gzip")]
    for name, value in headers:
        if name == b"content-length":
            changed.append((name, str(size).encode()))
        elif name == b"etag" and value.startswith(b'"'):
            changed.append((name, value[:-1] + _MARK.encode() + b'"'))
        else:
            changed.append((name, value))
    return changed


async def _gzip(body: bytes) -> bytes:
    def work() -> bytes:
        # 31: the format of gzip. There is no time in it, so equal answers stay equal.
        made = zlib.compressobj(LEVEL, zlib.DEFLATED, 31)
        return made.compress(body) + made.flush()

    return work() if len(body) < THREADED_BYTES else await asyncio.to_thread(work)
