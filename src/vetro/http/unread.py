"""Reading the rest of a request's body after its answer is ready.

A request that is refused early (401, 404, 413 …) has an unread body. Closing the connection then
would reset it, and the client, still writing, would see a lost connection instead of the answer. So
the answer is sent at once, and the rest of the body is read and dropped before the exchange ends:
up to a limit, beyond which the connection closes (the answer says so).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from vetro.digits import is_number
from vetro.http.headers import Headers, header

if TYPE_CHECKING:
    from litestar.types import Message, Receive, Send

DRAIN_BYTES = 16 * 2**20
DRAIN_SECONDS = 30.0


class Unread:
    """Receives and sends the messages of a request; it ends only after the whole body came."""

    def __init__(self, receive: Receive, send: Send, headers: Headers) -> None:
        self._receive = receive
        self._send = send
        length = header(headers, b"content-length")
        self._announced = int(length) if is_number(length) else None
        self._left = bool(self._announced or header(headers, b"transfer-encoding"))
        # A client that expects 100 sends its body only when it is read; then nothing need be
        # drained.
        self._invited = not self._left or header(headers, b"expect").lower() != "100-continue"
        self._read = 0
        self._answering = False

    async def receive(self) -> Any:
        """The next message of the request; after the answer has begun only the client's departure.

        A handler that streams its answer waits for that. A body that comes meanwhile is dropped; after
        ``DRAIN_BYTES`` of it the client counts as gone.
        """
        if not self._answering:
            return await self._next()
        until = self._read + DRAIN_BYTES
        while self._read <= until:
            message = await self._next()
            if message["type"] != "http.request":
                return message
        return {"type": "http.disconnect"}

    async def _next(self) -> dict[str, object]:
        self._invited = True
        received: Any = await self._receive()
        message: dict[str, Any] = received
        if message["type"] == "http.request":
            self._read += len(message.get("body", b""))
            self._left = bool(message.get("more_body", False))
        else:
            self._left = False
        return message

    def send(self, message: Message) -> Awaitable[None]:
        """Pass on a message of the answer; the last one only after the body has been drained."""
        self._answering = True
        return self._send_before_rest(message) if self._left else self._send(message)

    async def _send_before_rest(self, message: Any) -> None:
        given: dict[str, Any] = message
        if given["type"] == "http.response.start" and not self._will_end:
            kept = [pair for pair in given.get("headers", []) if pair[0].lower() != b"connection"]
            given = {**given, "headers": [*kept, (b"connection", b"close")]}
        elif given["type"] == "http.response.body" and not given.get("more_body"):
            if self._invited:
                first: Any = {**given, "more_body": True}
                await self._send(first)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(DRAIN_SECONDS):
                        await self._drain()
                given = {**given, "body": b""}
            given["more_body"] = False
        message = given
        await self._send(message)

    @property
    def _will_end(self) -> bool:
        """Whether the rest of the body will be read completely."""
        if not self._invited or self._announced is None:
            return False
        return self._announced - self._read <= DRAIN_BYTES

    async def _drain(self) -> None:
        until = self._read + DRAIN_BYTES
        while self._left and self._read <= until:
            await self._next()
