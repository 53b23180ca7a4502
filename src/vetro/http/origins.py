"""The origin of requests: other web origins (CORS), and proxies in front of the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from litestar.types import Message, Send

from vetro.http.context import PREFIX_KEY
from vetro.http.declaration import FIELDS_HEADER
from vetro.http.headers import Headers, header

CORS_HEADERS = (
    "X-Auth-Token",
    "X-Openstack-Request-Id",
    "X-Configuration-Session",
    "X-Roles",
    "X-User-Id",
    "X-Tenant-Id",
)
CORS_ALLOWED = (
    *CORS_HEADERS,
    *("Content-Type", "Last-Event-ID", "If-Match", "If-None-Match", FIELDS_HEADER),
)
CORS_EXPOSED = (*CORS_HEADERS, "ETag", "Content-Disposition", "Retry-After")
CORS_METHODS = "GET, PUT, POST, DELETE, PATCH"
PREFLIGHT_SECONDS = 600
# In the scope of a request through a proxy: the proxy itself.
_PEER_KEY = "vetro.peer"


@dataclass(frozen=True)
class Cors:
    """Web origins that may use the service from a browser (catalog-api.md §11); ``*``: any."""

    origins: Sequence[str]

    def allowed(self, headers: Headers) -> str:
        """The request's origin when it is allowed, or ''."""
        origin = header(headers, b"origin")
        return origin if origin and ("*" in self.origins or origin in self.origins) else ""

    @staticmethod
    def is_preflight(method: str, headers: Headers) -> bool:
        """Whether a request is a browser's CORS preflight."""
        return method == "OPTIONS" and bool(header(headers, b"access-control-request-method"))

    @staticmethod
    def preflight_headers(origin: str) -> Headers:
        """The answer to a preflight; it needs no token."""
        return [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-allow-methods", CORS_METHODS.encode()),
            (b"access-control-allow-headers", ", ".join(CORS_ALLOWED).encode()),
            (b"access-control-max-age", str(PREFLIGHT_SECONDS).encode()),
            (b"vary", b"Origin"),
        ]

    @staticmethod
    def opened(send: Send, origin: str) -> Send:
        """``send``, with the headers that let a page of this origin read the answer."""

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [
                    (b"access-control-allow-origin", origin.encode("latin-1")),
                    (b"access-control-expose-headers", ", ".join(CORS_EXPOSED).encode()),
                    (b"vary", b"Origin"),
                ]
                message = cast(
                    "Message", {**message, "headers": [*message.get("headers", []), *extra]}
                )
            await send(message)

        return answer


def behind_proxy(scope: dict[str, Any]) -> dict[str, Any]:
    """The scope as the client sees it, by ``Forwarded`` or ``X-Forwarded-Proto|Host|Prefix|For``.

    Only for a service that clients reach solely through its proxy
    (``enable_proxy_headers_parsing``), because any client can send these headers. Of several
    addresses the last one, added by the proxy, is used.
    """
    headers: Headers = list(scope["headers"])
    said = _forwarded(header(headers, b"forwarded"))

    def given(name: str, fallback: bytes) -> str:
        return said.get(name) or header(headers, fallback).split(",")[-1].strip()

    proto = given("proto", b"x-forwarded-proto").lower()
    host = given("host", b"x-forwarded-host")
    address = given("for", b"x-forwarded-for")
    prefix = header(headers, b"x-forwarded-prefix").rstrip("/")
    changed = dict(scope)
    if proto in ("http", "https"):
        changed["scheme"] = proto
    if host:
        changed["headers"] = [
            *(pair for pair in headers if pair[0].lower() != b"host"),
            (b"host", host.encode("latin-1")),
        ]
    if address:
        changed[_PEER_KEY] = scope.get("client")
        changed["client"] = (address.removeprefix("[").split("]")[0], 0)
    if prefix.startswith("/"):
        changed[PREFIX_KEY] = prefix
    return changed


def peer_address(scope: Mapping[str, Any]) -> str:
    """The address at the other end of the connection, whatever a header says; '' for a local socket."""
    peer = scope.get(_PEER_KEY) or scope.get("client")
    return str(peer[0]) if peer else ""


def _forwarded(value: str) -> dict[str, str]:
    """The parameters of the last element of a ``Forwarded`` header (RFC 7239)."""
    result: dict[str, str] = {}
    for pair in value.split(",")[-1].split(";"):
        name, separator, text = pair.partition("=")
        if separator:
            result[name.strip().lower()] = text.strip().strip('"')
    return result
