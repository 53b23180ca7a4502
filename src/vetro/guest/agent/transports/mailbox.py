"""The HTTP long-poll transport (guest-agent.md §2a).

Two kept-alive connections: one holds the poll open, the other carries acknowledgements and
results meanwhile.
"""

import base64
import binascii
import http.client
import ipaddress
import json
import os
import re
import socket
import time
import urllib.parse

from .. import VERSION
from ..errors import (
    CommunicationError,
    ConfigurationError,
    ResultRefused,
    Unauthorized,
)
from ..spool import Message
from . import Transport

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from typing import Any

    from ..config import Settings

_REQUEST_SECONDS = 30
_ALIVE_SECONDS = 300
_GRACE_SECONDS = 15
#: Below it, nodes with IPv6 networks have the mailboxes' IPv4 address embedded (RFC 6052, 8215).
_EMBEDDING = ipaddress.IPv6Network("64:ff9b:1::/96")


class MailboxTransport(Transport):
    """A client of `/agents/v1` of a mailbox service."""

    def __init__(self, settings: "Settings") -> None:
        parts = urllib.parse.urlsplit(settings.mailbox_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(
                "[mailbox] url is %r; write http://HOST:PORT or https://HOST:PORT"
                % settings.mailbox_url
            )
        self._scheme = parts.scheme
        self._host = parts.hostname
        self._port = parts.port
        # The URL is that of the service; one that includes the face's path is accepted too.
        path = parts.path.rstrip("/")
        if path.endswith("/agents/v1"):
            path = path[: -len("/agents/v1")]
        elif path.endswith("/agents"):
            path = path[: -len("/agents")]
        self._base = path + "/agents/v1"
        self._headers = {
            "Authorization": "Bearer " + settings.mailbox_token,
            "User-Agent": "vetro-guest/" + VERSION,
            # Lets the service hand a plan out again at once to a restarted agent.
            "X-Agent-Session": binascii.hexlify(os.urandom(8)).decode("ascii"),
        }
        self._wait = max(1.0, min(60.0, settings.mailbox_wait))
        self._tls = _tls_context(settings) if parts.scheme == "https" else None
        self._poll: "http.client.HTTPConnection | None" = None
        self._poll_deadline = 0.0
        self._polling = False
        self._command: "http.client.HTTPConnection | None" = None
        self._alive_at = 0.0

    def prepare(self) -> None:
        now = time.monotonic()
        if self._polling:
            if now < self._poll_deadline:
                return
            self._drop_poll()
        if self._poll is None:
            self._poll = self._connect_poll()
            self._start_poll(self._poll)
        else:
            try:
                self._start_poll(self._poll)
            except CommunicationError:
                # The server may have closed a kept-alive connection meanwhile: that is not a
                # failure.
                self._drop_poll()
                self.prepare()
                return
        if now >= self._alive_at:
            self._say_alive()

    def waits_on(self) -> "list[Any]":
        if self._polling and self._poll is not None and self._poll.sock is not None:
            return [self._poll.sock]
        return []

    def wakes_at(self) -> "float | None":
        return self._poll_deadline if self._polling else None

    def receive(self) -> "Message | None":
        connection = self._poll
        if connection is None:
            return None
        self._polling = False
        try:
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._drop_poll()
            raise CommunicationError("the poll failed: %s" % _text(error)) from error
        if response.getheader("Connection", "").lower() == "close":
            self._drop_poll()
        if response.status == 204:
            return None
        if response.status != 200:
            self._drop_poll()
            raise _refusal("the poll", response, body)
        signature = response.getheader("X-Signature")
        try:
            raw = base64.b64decode(signature, validate=True) if signature else None
        except (binascii.Error, ValueError):
            raw = b"?"  # no valid signature has this length, so the plan will be dropped
        return Message(
            body, raw, response.getheader("X-Message-Id"), result_limit=_result_limit(response)
        )

    def acknowledge(self, message: "Message") -> None:
        if message.message_id:
            self._request(
                "POST", "/plans/%s/ack" % urllib.parse.quote(message.message_id, safe=""), b""
            )

    def send_result(self, message_id: str, body: bytes, reply_to: "str | None") -> None:
        self._request("POST", "/results", body)

    def disconnect(self) -> None:
        self._drop_poll()
        self._drop_command()

    def _say_alive(self) -> None:
        self._alive_at = time.monotonic() + _ALIVE_SECONDS
        self._request("POST", "/alive", _alive())

    def _start_poll(self, connection: http.client.HTTPConnection) -> None:
        wait = 0 if self.hurry else self._wait
        try:
            connection.request(
                "GET", "%s/plans?wait=%d" % (self._base, wait), headers=self._headers
            )
        except (OSError, http.client.HTTPException) as error:
            self._drop_poll()
            raise CommunicationError(
                "%s:%s cannot be reached: %s" % (self._host, self._port, _text(error))
            ) from error
        self._polling = True
        self._poll_deadline = time.monotonic() + self._wait + _GRACE_SECONDS

    def _request(self, method: str, path: str, body: bytes) -> None:
        """Send one short request on the command connection; retried once on a stale one."""
        headers = dict(self._headers)
        headers["Content-Type"] = "application/json"
        fresh = self._command is None
        while True:
            if self._command is None:
                self._command = self._connect()
            try:
                self._command.request(method, self._base + path, body, headers)
                response = self._command.getresponse()
                text = response.read()
                break
            except (OSError, http.client.HTTPException) as error:
                self._drop_command()
                if fresh:
                    raise CommunicationError(
                        "%s %s failed: %s" % (method, path, _text(error))
                    ) from error
                fresh = True
        if response.getheader("Connection", "").lower() == "close":
            self._drop_command()
        if 200 <= response.status < 300:
            return
        error = _refusal("%s %s" % (method, path), response, text)
        if path == "/results" and response.status in (400, 413, 422):
            limit = _result_limit(response) if response.status == 413 else None
            raise ResultRefused(str(error), limit)
        raise error

    def _connect(self, timeout: float = _REQUEST_SECONDS) -> http.client.HTTPConnection:
        if self._tls is not None:
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=timeout, context=self._tls
            )
        return http.client.HTTPConnection(reachable(self._host), self._port, timeout=timeout)

    def _connect_poll(self) -> http.client.HTTPConnection:
        connection = self._connect(self._wait + _GRACE_SECONDS)
        if self._tls is not None:
            # TLS 1.3 sends session tickets after the handshake; reading one whole answer
            # first consumes them, so that later "readable" means "the poll is answered".
            try:
                connection.request("POST", self._base + "/alive", _alive(), self._headers)
                connection.getresponse().read()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                raise CommunicationError(
                    "%s:%s cannot be reached: %s" % (self._host, self._port, _text(error))
                ) from error
        return connection

    def _drop_poll(self) -> None:
        self._polling = False
        if self._poll is not None:
            self._poll.close()
            self._poll = None

    def _drop_command(self) -> None:
        if self._command is not None:
            self._command.close()
            self._command = None


def _refusal(what: str, response: http.client.HTTPResponse, body: bytes) -> CommunicationError:
    retry_after: "float | None" = None
    header = response.getheader("Retry-After")
    if header and re.fullmatch(r"\s*[0-9]{1,9}\s*", header):
        retry_after = float(header)
    message = "%s was answered with %d %s" % (
        what,
        response.status,
        body[:200].decode("utf-8", "replace"),
    )
    if response.status in (401, 403):
        return Unauthorized(message, 60.0)
    return CommunicationError(message, retry_after)


def _result_limit(response: http.client.HTTPResponse) -> "int | None":
    """The limit of a result in bytes; None if the service gives none."""
    try:
        return int(response.getheader("X-Result-Limit") or 0) or None
    except ValueError:
        return None


def _tls_context(settings: "Settings") -> "ssl.SSLContext":
    import ssl  # not needed for plain HTTP

    context = ssl.create_default_context(cafile=settings.mailbox_ca_certs or None)
    if settings.mailbox_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def reachable(host: str) -> str:
    """The host; in a guest without IPv4, the IPv6 address in which an IPv4 one is embedded."""
    try:
        other = str(_EMBEDDING[int(ipaddress.IPv4Address(host))])
    except ValueError:
        return host
    return (
        other if not has_route(socket.AF_INET, host) and has_route(socket.AF_INET6, other) else host
    )


def has_route(family: "socket.AddressFamily", address: str) -> bool:
    """Whether something leads to an address; nothing is sent to find out."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            # Looks for a route only: nothing is sent.
            probe.connect((address, 9))
    except OSError:
        return False
    return True


def _alive() -> bytes:
    return json.dumps({"version": VERSION, "uptime": _uptime()}).encode("utf-8")


def _uptime() -> float:
    try:
        with open("/proc/uptime", encoding="ascii") as stream:
            return float(stream.read().split()[0])
    except (OSError, ValueError, IndexError):
        return time.monotonic()


def _text(error: Exception) -> str:
    if isinstance(error, socket.timeout):
        return "no answer in time"
    return "%s: %s" % (type(error).__name__, error) if str(error) else type(error).__name__
