"""Relays guests' requests for their mailboxes on a node where the service does not run.

Guests are given one address, the external gateway's, which every node has (in IPv6 as well, see
`vetro.ipv6_door`). Where the service runs, it listens there itself; elsewhere this relay forwards
requests for ``/agents/`` to the service and refuses all others, so an instance never reaches more of the
service than its mailbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import structlog

from vetro.compute.wire import RELAY_HEADER
from vetro.ipv6_door import embedded
from vetro.node.files import read_json, write_json

log = structlog.get_logger(__name__)

# linux/in.h and in6.h: the socket may be bound before the address exists.
_IP_FREEBIND = (socket.IPPROTO_IP, 15)
_IPV6_FREEBIND = (socket.IPPROTO_IPV6, 78)
_HEAD_LIMIT = 32768
_HEAD_SECONDS = 30.0
_CHUNK = 65536
#: The number of guests that may wait for work at the same time.
_CONNECTIONS = 1024
_PREFIX = "/agents/"
#: What a guest says of these is not forwarded.
_HOP = (b"connection", b"keep-alive", b"proxy-connection", b"upgrade", RELAY_HEADER.encode())


def former_ports(file: Path, port: int, *, inhabited: bool) -> list[int]:
    """The ports of doors that instances of this node were given before, without ``port``, today's.

    They are kept in ``file`` as long as the node has any instance: where each of them comes is not known.
    """
    kept: object = read_json(file) if inhabited else None
    listed = cast("list[object]", kept) if isinstance(kept, list) else []
    ports = [*dict.fromkeys([port, *(one for one in listed if isinstance(one, int))])]
    if ports != kept:
        write_json(file, ports)
    return ports[1:]


class GuestDoor:
    """Relays to the service at ``service_url``. Listens on one address: ``open`` changes it."""

    def __init__(
        self,
        service_url: str,
        tls: ssl.SSLContext | None = None,
        stamp: Callable[[str], str] | None = None,
    ) -> None:
        """``stamp``: what the service is told of a guest's address (`vetro.compute.wire.relay_stamp`)."""
        parts = urlsplit(service_url)
        self._host = parts.hostname or "127.0.0.1"
        https = parts.scheme == "https"
        self._context = (tls or ssl.create_default_context()) if https else None
        self._stamp = stamp
        self.port = parts.port or (443 if https else 80)
        self.address = ""
        self.former: Sequence[int] = ()
        """Ports at which it listens as well, because instances came there when the service had them."""
        self._servers: list[asyncio.Server] = []
        self._open: set[asyncio.Task[None]] = set()

    async def open(self, address: str, port: int | None = None) -> None:
        """Listen on ``address`` (at the service's port unless another is given), and on the IPv6 address
        in which it is embedded; '' only closes."""
        if address == self.address:
            return
        await self.close()
        if not address:
            return
        wanted = self.port if port is None else port
        if await self._listen(address, wanted):
            self.address = address
            await self._listen(embedded(address), wanted and self.bound_port)
            for one in self.former:
                if await self._listen(address, one):
                    await self._listen(embedded(address), one)

    async def _listen(self, address: str, port: int) -> bool:
        ipv6 = ":" in address
        listener: socket.socket | None = None
        try:
            listener = socket.socket(
                socket.AF_INET6 if ipv6 else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
            )
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(*(_IPV6_FREEBIND if ipv6 else _IP_FREEBIND), 1)
            listener.bind((address, port))
            listener.setblocking(False)
            server = await asyncio.start_server(self._serve, sock=listener, limit=_HEAD_LIMIT)
        except OSError as error:
            if listener is not None:
                listener.close()
            # The service itself has it, or another agent of this machine, which does the same.
            log.info("mailbox_relay_unavailable", address=address, error=str(error))
            return False
        self._servers.append(server)
        log.info("mailbox_relay_listens", address=address, port=server.sockets[0].getsockname()[1])
        return True

    @property
    def bound_port(self) -> int:
        """The port on which it listens."""
        return int(self._servers[0].sockets[0].getsockname()[1]) if self._servers else 0

    async def close(self) -> None:
        """Stop listening and end all connections."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        self.address = ""
        for work in list(self._open):
            work.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        work = asyncio.current_task()
        assert work is not None
        self._open.add(work)
        work.add_done_callback(self._open.discard)
        try:
            if len(self._open) > _CONNECTIONS:
                await _refuse(writer, 503, "Service Unavailable")
                return
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            address = str(writer.get_extra_info("peername")[0])
            stamp = "" if self._stamp is None else self._stamp(address)
            forwarded = _forwarded(head, stamp)
            if forwarded is None:
                await _refuse(writer, 404, "Not Found")
                return
            await self._relay(forwarded, reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        finally:
            writer.transport.abort()

    async def _relay(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            there, back = await asyncio.open_connection(self._host, self.port, ssl=self._context)
        except OSError as error:
            log.warning("mailbox_service_unreachable", error=str(error))
            await _refuse(writer, 502, "Bad Gateway")
            return
        upload = asyncio.create_task(_copy(reader, back))
        try:
            back.write(head)
            await back.drain()
            await _copy(there, writer)
            writer.close()
            await writer.wait_closed()
        finally:
            upload.cancel()
            back.transport.abort()
            await asyncio.gather(upload, return_exceptions=True)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(_CHUNK):
        target.write(data)
        await target.drain()


def _forwarded(head: bytes, stamp: str) -> bytes | None:
    """A request's head as it is forwarded, with the relay's stamp; ``None``: not for the mailboxes.

    One request per connection: following data is never parsed as another request.
    """
    lines = head[:-4].split(b"\r\n")
    parts = lines[0].split(b" ")
    if len(parts) != 3 or not parts[1].startswith(_PREFIX.encode()):
        return None
    path = parts[1].partition(b"?")[0]
    if (
        b"/../" in path + b"/"
        or b"%2e" in path.lower()
        or parts[2] not in (b"HTTP/1.1", b"HTTP/1.0")
    ):
        return None
    kept = [line for line in lines[1:] if line.partition(b":")[0].strip().lower() not in _HOP]
    own = [f"{RELAY_HEADER}: {stamp}".encode()] if stamp else []
    return b"\r\n".join([lines[0], *kept, *own, b"Connection: close", b"", b""])


async def _refuse(writer: asyncio.StreamWriter, status: int, reason: str) -> None:
    writer.write(
        f"HTTP/1.1 {status} {reason}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
    )
    with contextlib.suppress(OSError):
        await writer.drain()
        writer.close()
        await writer.wait_closed()
