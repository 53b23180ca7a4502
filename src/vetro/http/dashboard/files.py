"""The built dashboard's files: compressed ahead, cached forever when their names have a digest."""

from __future__ import annotations

import hashlib
import mimetypes
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from litestar.types import Send

from vetro.http.headers import Headers, header

INDEX = "index.html"
NONCE = b"__CSP_NONCE__"
_ENCODINGS = (("br", ".br"), ("gzip", ".gz"))
_NOT_BUILT = (
    "<!doctype html><html lang=en><title>Vetro</title><h1>The dashboard is not built</h1>"
    "<p>This checkout has no built dashboard. <code>make dashboard</code> builds it; it brings its"
    " own Node and needs the npm registry. Then reload this page; nothing must be restarted.</p>"
)
_SAFE: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
]


def policy(nonce: str) -> bytes:
    """The Content-Security-Policy of a page: scripts and styles only from the dashboard's own files.

    ``nonce`` admits the style elements that the component library makes; no script has one.
    """
    return (
        "default-src 'none'; script-src 'self'; "
        f"style-src 'self' 'nonce-{nonce}'; "
        "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; manifest-src 'self'; "
        "worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ).encode()


@dataclass
class _File:
    """One file: its forms by encoding ('': as it is)."""

    media_type: str
    tag: str
    forms: dict[str, bytes] = field(default_factory=dict[str, bytes])


class Files:
    """The files below a directory. They are read again when the dashboard was built again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._built = -1
        self._files: dict[str, _File] = {}

    async def send(self, path: str, headers: Headers, send: Send) -> None:
        """Answer with the file at ``path``; a path of no file is a page of the application."""
        self._refresh()
        name = path.strip("/")
        file = self._files.get(name)
        if name.startswith("assets/") and file is None:
            await _respond(
                send, 404, b"There is no such file.\n", [(b"content-type", b"text/plain")]
            )
        elif file is not None and name != INDEX:
            await self._send_file(name, file, headers, send)
        else:
            await self._send_page(send)

    def _refresh(self) -> None:
        try:
            built = (self.directory / INDEX).stat().st_mtime_ns
        except FileNotFoundError:
            built = -1
        if built == self._built:
            return
        self._files = {} if built == -1 else _read(self.directory)
        self._built = built

    async def _send_file(self, name: str, file: _File, headers: Headers, send: Send) -> None:
        hashed = name.startswith("assets/")
        extra: Headers = [
            *_SAFE,
            (b"content-type", file.media_type.encode()),
            (b"etag", file.tag.encode()),
            (b"vary", b"Accept-Encoding"),
            (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; sandbox"),
            (
                b"cache-control",
                b"public, max-age=31536000, immutable" if hashed else b"no-cache",
            ),
        ]
        if file.tag in header(headers, b"if-none-match"):
            await _respond(send, 304, b"", extra)
            return
        accepted = header(headers, b"accept-encoding")
        for encoding, _ in _ENCODINGS:
            if encoding in accepted and encoding in file.forms:
                extra.append((b"content-encoding", encoding.encode()))
                await _respond(send, 200, file.forms[encoding], extra)
                return
        await _respond(send, 200, file.forms[""], extra)

    async def _send_page(self, send: Send) -> None:
        nonce = secrets.token_urlsafe(16)
        page = self._files.get(INDEX)
        extra: Headers = [
            *_SAFE,
            (b"content-type", b"text/html; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"content-security-policy", policy(nonce)),
        ]
        if page is None:
            await _respond(send, 503, _NOT_BUILT.encode(), extra)
        else:
            await _respond(send, 200, page.forms[""].replace(NONCE, nonce.encode()), extra)


def _read(directory: Path) -> dict[str, _File]:
    found: dict[str, _File] = {}
    for path in sorted(directory.rglob("*")):
        if not path.is_file() or path.suffix in (".br", ".gz"):
            continue
        content = path.read_bytes()
        media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        if media_type.startswith("text/") or media_type.endswith("javascript"):
            media_type += "; charset=utf-8"
        file = _File(media_type, f'"{hashlib.sha256(content).hexdigest()[:20]}"', {"": content})
        for encoding, suffix in _ENCODINGS:
            packed = path.with_name(path.name + suffix)
            if packed.is_file():
                file.forms[encoding] = packed.read_bytes()
        found[path.relative_to(directory).as_posix()] = file
    return found


async def _respond(send: Send, status: int, body: bytes, headers: Headers) -> None:
    length = [] if status == 304 else [(b"content-length", str(len(body)).encode())]
    start = {"type": "http.response.start", "status": status, "headers": [*headers, *length]}
    await send(cast("dict[str, object]", start))  # pyright: ignore[reportArgumentType]
    message = {"type": "http.response.body", "body": body, "more_body": False}
    await send(cast("dict[str, object]", message))  # pyright: ignore[reportArgumentType]
