"""The HTTP client, asynchronous and synchronous: the only module that uses the library behind it.

A response of any status is returned; only a request without a response raises ``TransportError``.
"""

from __future__ import annotations

import errno
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypedDict, Unpack

import httpx2

from vetro import tracing
from vetro.http.faults import Fault
from vetro.json_texts import decode_json


class TransportError(Exception):
    """No response: the server cannot be reached, or the connection was lost.

    ``is_untrusted``: its certificate was not signed by an authority that is trusted here.
    """

    def __init__(self, message: str, *, is_untrusted: bool = False) -> None:
        super().__init__(message)
        self.is_untrusted = is_untrusted


class SyncResponse:
    """A whole response."""

    def __init__(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.content = content

    @property
    def text(self) -> str:
        """The body as text."""
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as JSON, ``None`` when it is empty; ``ValueError`` when it is not JSON."""
        return decode_json(self.content) if self.content else None


Response = SyncResponse


class RequestOptions(TypedDict, total=False):
    """What a request has beside its headers: one body of four forms, and the query."""

    json: object
    content: bytes | AsyncIterator[bytes] | None
    files: Any
    data: Mapping[str, str] | None
    params: Mapping[str, Any] | None


class _SystemTrust(ssl.SSLContext):
    """The authorities that the machine trusts; they are read at the first TLS connection.

    Reading them takes 25 to 50 ms, which a command or a deployment over plain HTTP need not wait.
    """

    @cached_property
    def _loaded(self) -> ssl.SSLContext:
        return httpx2.create_ssl_context()

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        self._loaded.set_alpn_protocols(alpn_protocols)

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        return self._loaded.wrap_socket(*arguments, **options)

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        return self._loaded.wrap_bio(*arguments, **options)


@cache
def _system_trust() -> ssl.SSLContext:
    return _SystemTrust(ssl.PROTOCOL_TLS_CLIENT)


_ERRNO_TEXTS = {
    errno.ECONNREFUSED: "nothing listens there (connection refused)",
    errno.ECONNRESET: "it closed the connection",
    errno.EPIPE: "it closed the connection",
    errno.EHOSTUNREACH: "there is no route to it",
    errno.ENETUNREACH: "there is no route to it",
    errno.ETIMEDOUT: "it does not answer (timed out)",
}
_TLS_TEXTS = {
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "RECORD_LAYER_FAILURE": "it does not speak TLS",
}


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what it came from."""
    found: BaseException | None = error
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__


def plain(error: BaseException) -> str:
    """Why there is no response, in words for people: of an error of the library behind this module."""
    for one in _causes(error):
        if isinstance(one, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {one.verify_message}"
        if isinstance(one, ssl.SSLError):
            return _TLS_TEXTS.get(one.reason or "", f"TLS failed: {one.reason or one}")
        if isinstance(one, socket.gaierror):
            return "no address is known for its name"
        if isinstance(one, OSError) and one.errno in _ERRNO_TEXTS:
            return _ERRNO_TEXTS[one.errno]
    if isinstance(error, httpx2.ConnectTimeout):
        return "it does not answer (timed out)"
    if isinstance(error, httpx2.TimeoutException):
        return "no answer came in time (timed out)"
    if isinstance(error, httpx2.ProxyError):
        return f"the proxy refused: {error}"
    if isinstance(error, httpx2.RemoteProtocolError):
        if "disconnected" in str(error) or "closed" in str(error):
            return "it closed the connection without an answer"
        return f"it does not speak HTTP: {error}"
    return str(error) or type(error).__name__


def _explain(error: Exception, asked: str = "") -> TransportError:
    is_untrusted = any(isinstance(one, ssl.SSLCertVerificationError) for one in _causes(error))
    return TransportError(f"{asked}{plain(error)}", is_untrusted=is_untrusted)


class SyncClient:
    """Requests from a program without an event loop (the command line)."""

    def __init__(
        self,
        *,
        timeout_seconds: float = 60.0,
        follow_redirects: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """``tls``: trusted authorities and a client certificate; by default the system's trust."""
        self._timeout_seconds = timeout_seconds
        self._client = httpx2.Client(
            timeout=timeout_seconds,
            verify=tls if tls is not None else _system_trust(),
            follow_redirects=follow_redirects,
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        **options: Unpack[RequestOptions],
    ) -> SyncResponse:
        """Send a request and read its whole response. Errors: ``TransportError``."""
        more: dict[str, Any] = {**options}
        try:
            response = self._client.request(method, url, headers=headers, **more)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _explain(error) from error
        return SyncResponse(response.status_code, dict(response.headers), response.content)

    def upload(
        self, method: str, url: str, path: Path, *, headers: Mapping[str, str]
    ) -> SyncResponse:
        """Send a file as the body, streamed. Errors: ``TransportError``; ``Fault`` for 400 and more."""
        try:
            with path.open("rb") as file:
                response = self._client.request(
                    method,
                    url,
                    headers={**headers, "Content-Length": str(path.stat().st_size)},
                    content=iter(lambda: file.read(1 << 20), b""),
                    timeout=None,
                )
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _explain(error) from error
        if response.status_code >= 400:
            raise Fault(response.text[:500], status=response.status_code)
        return SyncResponse(response.status_code, dict(response.headers), response.content)

    def download(
        self,
        url: str,
        target: Path,
        *,
        headers: Mapping[str, str],
        most: int | None = None,
        ends: float | None = None,
    ) -> int:
        """Stream a body into a file; its size. Errors: ``TransportError``; ``Fault`` for another status
        than 2xx, and for a body of more than ``most`` bytes (413).

        ``ends``: a moment of ``time.monotonic`` after which it is given up (408); a server that sends
        nothing is then given up after the client's time-out. Without it, neither is.
        """
        size = 0
        silence = None if ends is None else self._timeout_seconds
        try:
            with self._client.stream(
                "GET", url, headers=dict(headers), timeout=silence
            ) as response:
                if response.status_code >= 300:
                    response.read()
                    raise Fault(response.text[:500], status=response.status_code)
                with target.open("wb") as file:
                    for chunk in response.iter_bytes(1 << 20):
                        size += len(chunk)
                        if ends is not None and time.monotonic() > ends:
                            raise Fault(f"{url} takes too long", status=408)
                        if most is not None and size > most:
                            raise Fault(f"{url} has more than {most} bytes", status=413)
                        file.write(chunk)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _explain(error) from error
        return size

    def stream_lines(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        silence_seconds: float | None = None,
    ) -> Iterator[str]:
        """The lines of an endless response. ``silence_seconds``: the longest time without any.

        Errors: ``TransportError``; ``Fault`` for 400 and more.
        """
        try:
            with self._client.stream(
                method, url, headers=dict(headers), timeout=silence_seconds
            ) as response:
                if response.status_code >= 400:
                    response.read()
                    raise Fault(response.text[:500], status=response.status_code)
                for line in response.iter_lines():
                    yield line.rstrip("\r\n")
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _explain(error) from error


class HttpClient:
    """Requests from an event loop, with one pool of connections."""

    def __init__(
        self,
        *,
        timeout_seconds: float = 30.0,
        base_url: str = "",
        headers: Mapping[str, str] | None = None,
        app: Any = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """``app``: an ASGI application to call in process instead of over the network.

        ``tls``: trusted authorities and a client certificate; by default the system's trust.
        """
        transport = httpx2.ASGITransport(app=app) if app is not None else None
        self._client = httpx2.AsyncClient(
            base_url=base_url,
            timeout=timeout_seconds,
            headers=dict(headers or {}),
            transport=transport,
            verify=tls if tls is not None else _system_trust(),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=32),
        )

    async def __aenter__(self) -> HttpClient:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
        **options: Unpack[RequestOptions],
    ) -> Response:
        """Send a request and read its whole response. Errors: ``TransportError``."""
        more: dict[str, Any] = {**options}
        if timeout_seconds is not None:
            more["timeout"] = timeout_seconds
        sent = dict(headers or {})
        with tracing.span(method, "client", only_inside=True) as span:
            tracing.inject(sent)
            try:
                response = await self._client.request(method, url, headers=sent, **more)
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                raise _explain(error, f"{method} {url}: ") from error
            span.note(
                http_request_method=method,
                http_response_status__code=response.status_code,
                server_address=response.url.host,
                url_path=response.url.path,
            )
        return SyncResponse(response.status_code, dict(response.headers), response.content)

    async def download(
        self, url: str, target: Path, *, headers: Mapping[str, str] | None = None
    ) -> int:
        """Stream a body into a file; returns its size. Errors: ``TransportError``, ``Fault``."""
        size = 0
        try:
            async with self._client.stream(
                "GET", url, headers=dict(headers or {}), timeout=None
            ) as response:
                if response.status_code >= 400:
                    await response.aread()
                    raise Fault(response.text[:500], status=response.status_code)
                with target.open("wb") as file:
                    async for chunk in response.aiter_bytes(1 << 20):
                        file.write(chunk)
                        size += len(chunk)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _explain(error, f"GET {url}: ") from error
        return size

    async def stream_lines(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[str]:
        """The lines of an endless response. Errors: ``TransportError``, ``Fault``."""
        try:
            async with self._client.stream(
                method, url, headers=dict(headers or {}), timeout=None
            ) as response:
                if response.status_code >= 400:
                    await response.aread()
                    raise Fault(response.text[:500], status=response.status_code)
                async for line in response.aiter_lines():
                    yield line.rstrip("\r\n")
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _explain(error, f"{method} {url}: ") from error
