"""Requests of a browser, passed to the faces of this process with its session's token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from litestar.types import Message, Receive, Scope, Send

from vetro.http.declaration import FIELDS_HEADER
from vetro.http.face import Face
from vetro.http.faults import Forbidden, NoSuchPath
from vetro.http.headers import Headers, header
from vetro.json_texts import decode_json

#: First segments below ``/api`` that belong to faces.
FORWARDED = ("v1", "environments", "identity", "compute", "repository")
#: Sent with every request that changes something. No form and no page of another origin can send it.
CSRF_HEADER = "X-Vetro-Dashboard"
#: Its pages show what answers have beyond the stock API.
_WHOLE = (FIELDS_HEADER.lower().encode(), b"all")
#: Only the session says who the caller is.
_NOT_PASSED = {b"cookie", b"authorization", b"x-auth-token", b"x-subject-token"}
#: What tenants upload (logos, texts) is served from the dashboard's origin: it can run nothing there.
_INERT: Headers = [
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; sandbox"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
#: A token that a call makes is none for the page that asked.
_REPLACED = {name for name, _ in _INERT} | {b"www-authenticate", b"x-subject-token"}


@dataclass(frozen=True)
class Answered:
    """The whole answer of a face."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        """The body's JSON; ``None`` when it is empty. Errors: ``NotJson``."""
        return decode_json(self.content) if self.content else None


def face_for(faces: Sequence[Face], path: str) -> Face:
    """The face with the longest prefix of a path. Errors: ``NoSuchPath``."""
    fitting = [
        one
        for one in faces
        if not one.prefix or path == one.prefix or path.startswith(one.prefix + "/")
    ]
    if not fitting:
        raise NoSuchPath(f"{path} does not exist")
    return max(fitting, key=lambda one: len(one.prefix))


def check_origin(method: str, headers: Headers, scheme: str) -> None:
    """Check that the dashboard's own pages sent a request. Errors: ``Forbidden``."""
    site = header(headers, b"sec-fetch-site")
    origin = header(headers, b"origin")
    if site and site not in ("same-origin", "none"):
        raise Forbidden("This address answers only to pages of the dashboard itself")
    if method in ("GET", "HEAD", "OPTIONS"):
        return
    if not header(headers, CSRF_HEADER.lower().encode()):
        raise Forbidden(f"A request that changes something needs the header {CSRF_HEADER}")
    if origin and origin != f"{scheme}://{header(headers, b'host')}":
        raise Forbidden(f"Pages of {origin} may not use this session")


def is_own_origin(headers: Headers, scheme: str) -> bool:
    """Whether a page of this dashboard asks for a web socket.

    A browser sends cookies with those that other pages open, without a preflight request: only the
    ``Origin``, which it always sends, distinguishes them.
    """
    web = "https" if scheme in ("wss", "https") else "http"
    return header(headers, b"origin") == f"{web}://{header(headers, b'host')}"


async def forward(
    faces: Sequence[Face], scope: Scope, receive: Receive, send: Send, path: str, token: str
) -> None:
    """Pass a request on to the face at ``path``, and its answer back as it comes."""
    face = face_for(faces, path)
    given = cast("dict[str, Any]", scope)

    async def back(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [p for p in message.get("headers", []) if p[0].lower() not in _REPLACED]
            if not header(headers, b"cache-control"):
                headers.append((b"cache-control", b"no-store"))
            message = cast("Message", {**message, "headers": [*headers, *_INERT]})
        await send(message)

    inner = path[len(face.prefix) :] or "/"
    headers: Headers = [p for p in given["headers"] if p[0].lower() not in _NOT_PASSED]
    passed = {
        **given,
        "path": inner,
        "headers": [*headers, (b"x-auth-token", token.encode()), _WHOLE],
    }
    await face.app(cast("Scope", passed), receive, back)


async def ask(
    faces: Sequence[Face],
    scope: Mapping[str, Any],
    method: str,
    path: str,
    *,
    headers: Mapping[str, str] | None = None,
    json: object = ...,
) -> Answered:
    """A request of the dashboard itself to a face, on behalf of the client of ``scope``."""
    content = b"" if json is ... else msgspec.json.encode(json)
    face = face_for(faces, path)
    pairs: Headers = [
        (b"host", header(scope["headers"], b"host").encode("latin-1")),
        *((name.lower().encode(), value.encode()) for name, value in (headers or {}).items()),
    ]
    if content:
        pairs += [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
        ]
    inner = path[len(face.prefix) :] or "/"
    asked: dict[str, object] = {
        "type": "http",
        "asgi": scope.get("asgi", {"version": "3.0"}),
        "http_version": "1.1",
        "method": method,
        "scheme": scope["scheme"],
        "path": inner,
        "raw_path": inner.encode(),
        "query_string": b"nocatalog=1" if method == "POST" else b"",
        "root_path": "",
        "headers": pairs,
        "client": scope.get("client"),
        "server": scope.get("server"),
        "state": {},
    }
    sent = _Sent(content)
    await face.app(cast("Scope", asked), cast("Receive", sent.receive), cast("Send", sent.send))
    return Answered(sent.status, sent.headers, bytes(sent.content))


class _Sent:
    """The two ends of one request in this process."""

    def __init__(self, body: bytes) -> None:
        self._body: list[bytes] = [body]
        self.status = 0
        self.headers: dict[str, str] = {}
        self.content = bytearray()

    async def receive(self) -> dict[str, Any]:
        if not self._body:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": self._body.pop(), "more_body": False}

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {n.decode().lower(): v.decode("latin-1") for n, v in message["headers"]}
        else:
            self.content += message.get("body", b"")
