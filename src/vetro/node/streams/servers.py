"""Temporary servers on the node's admin address: each accepts one connection for one stream.

A task answers ``{host, port, address, token}``. The client connects once within a minute and first
sends the token and a line feed: without the token, the port gives no access.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import socket
from collections.abc import Awaitable, Callable

import structlog

log = structlog.get_logger(__name__)

CONNECT_SECONDS = 60.0
_TOKEN_LIMIT = 128

Handler = Callable[[socket.socket], Awaitable[None]]


class Streams:
    """The temporary servers of one agent at ``host``."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._open: set[asyncio.Task[None]] = set()

    async def serve(self, handler: Handler) -> dict[str, object]:
        """Wait for one client in the background; returns address and token.

        ``handler`` gets the (non-blocking) connection after the token was right; it is closed
        afterwards.
        """
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.bind((self.host, 0))
            listener.listen(4)
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
        port = int(listener.getsockname()[1])
        token = secrets.token_urlsafe(24)
        accepting = self._accept(listener, token, handler)
        work = asyncio.create_task(accepting, name=f"stream {port}")
        self._open.add(work)
        work.add_done_callback(self._open.discard)
        shown = f"[{self.host}]" if family == socket.AF_INET6 else self.host
        return {"host": self.host, "port": port, "address": f"{shown}:{port}", "token": token}

    async def close(self) -> None:
        """Close all of them."""
        for work in list(self._open):
            work.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _accept(self, listener: socket.socket, token: str, handler: Handler) -> None:
        loop = asyncio.get_running_loop()
        with listener:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    connection = await self._authenticated(loop, listener, token)
            except TimeoutError:
                log.info("stream_not_claimed", port=listener.getsockname()[1])
                return
        with connection:
            try:
                await handler(connection)
            except (OSError, asyncio.IncompleteReadError) as error:
                log.info("stream_connection_lost", error=str(error))
            except Exception:
                log.exception("stream_failed")

    @staticmethod
    async def _authenticated(
        loop: asyncio.AbstractEventLoop, listener: socket.socket, token: str
    ) -> socket.socket:
        while True:
            connection, peer = await loop.sock_accept(listener)
            connection.setblocking(False)
            given = bytearray()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(10):
                    # One byte at a time: data after the line belongs to the handler.
                    while len(given) < _TOKEN_LIMIT and not given.endswith(b"\n"):
                        byte = await loop.sock_recv(connection, 1)
                        if not byte:
                            break
                        given += byte
            if hmac.compare_digest(bytes(given).strip(), token.encode()):
                return connection
            log.warning("stream_token_wrong", client=str(peer))
            connection.close()
