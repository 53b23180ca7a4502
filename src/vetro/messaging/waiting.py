"""Waiting long polls: one place per guest, of a few small objects.

Ten thousand idle guests hold ten thousand requests open. So a waiting poll has not entered the HTTP
framework yet: it waits here and enters it (with `wait=0`) when there is a plan or its time is over.
One subscription serves all polls.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast
from urllib.parse import parse_qs

from litestar.types import Receive, Scope, Send

from vetro.messaging.credentials import Guest
from vetro.messaging.mailboxes import PLANS_CHANNEL, Mailboxes
from vetro.storage import watch

PATH = "/v1/plans"
Header = tuple[bytes, bytes]


class WaitingRoom:
    """The waiting polls, by queue."""

    def __init__(self, mailboxes: Mailboxes) -> None:
        self._mailboxes = mailboxes
        self._places: dict[str, _Place] = {}
        self._closing = False

    def __len__(self) -> int:
        return len(self._places)

    async def watch(self) -> None:
        """Wake the polls of queues with notifications, until cancelled."""

        async def wake(queues: set[str] | None) -> None:
            for name in list(self._places) if queues is None else queues:
                place = self._places.get(name)
                if place is not None:
                    place.wake()

        await watch(self._mailboxes.db, PLANS_CHANNEL, wake)

    def close(self) -> None:
        """End all present and future polls."""
        self._closing = True
        for place in list(self._places.values()):
            place.end()

    async def wait(
        self, guest: Guest, session: str | None, seconds: float, receive: Receive
    ) -> bool:
        """Wait for a plan, for `seconds` at most. False: the poll was ended from elsewhere.

        A mailbox has one reader: a newer poll of the same guest ends this one, so that the next
        plan is not handed to a killed agent. A client that hangs up ends its poll as well.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        place = _Place(loop)
        former = self._places.get(guest.queue)
        if former is not None:
            former.end()
        self._places[guest.queue] = place
        if self._closing:
            place.end()
        watching = asyncio.create_task(_until_hung_up(receive, place))
        try:
            while not place.ended:
                place.listen()  # before the check, so that no notification is missed in between
                soon = await self._mailboxes.ready_at(guest, session)
                left = deadline - loop.time()
                if soon == 0.0 or left <= 0:
                    return not place.ended
                await place.sleep(left if soon is None else min(left, soon))
            return False
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
            if self._places.get(guest.queue) is place:
                del self._places[guest.queue]


class PollGate:
    """The agents' face with the waiting room before its long poll; other requests go through.

    It replaces the face's application: `app` and `closing` are those of the inner one.
    """

    def __init__(
        self,
        inner: Any,
        room: WaitingRoom,
        admit: Callable[[str, Mapping[str, Any]], Awaitable[Guest | None]],
        longest: float,
        default: float,
    ) -> None:
        self._inner = inner
        self._room = room
        self._admit = admit
        self._longest = longest
        self._default = default
        self.app = inner.app
        self.closing: asyncio.Event = inner.closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        given = cast("dict[str, Any]", scope)
        if given["type"] == "http" and given["method"] == "GET" and given["path"] == PATH:
            waited = await self._wait(given, receive)
            if waited is False:
                await _send_nothing(send)
                return
            if waited:
                given = {**given, "query_string": b"wait=0"}
                receive = _empty_body
        await self._inner(cast("Scope", given), receive, send)

    async def _wait(self, scope: dict[str, Any], receive: Receive) -> bool | None:
        """The result of the wait; None for a request that the handler has to refuse."""
        headers: list[Header] = scope["headers"]
        scheme, _, token = _header(headers, b"authorization").partition(" ")
        seconds = self._seconds(scope.get("query_string", b""))
        if scheme.lower() != "bearer" or seconds is None or seconds == 0:
            return None
        guest = await self._admit(token.strip(), scope)
        if guest is None:
            return None
        session = _header(headers, b"x-agent-session")[:64] or None
        del scope, headers, token
        return await self._room.wait(guest, session, seconds, receive)

    def _seconds(self, query: bytes) -> float | None:
        values = parse_qs(query.decode("latin-1")).get("wait")
        if not values:
            return self._default
        try:
            seconds = float(values[0])
        except ValueError:
            return None
        return min(seconds, self._longest) if 0 <= seconds < math.inf else None


class _Place:
    """One waiting poll."""

    __slots__ = ("_loop", "_news", "ended")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._news: asyncio.Future[None] = loop.create_future()
        self.ended = False

    def listen(self) -> None:
        """Reset the wake-up event."""
        self._news = self._loop.create_future()

    def wake(self) -> None:
        """Wake the poll: there may be a plan."""
        if not self._news.done():
            self._news.set_result(None)

    def end(self) -> None:
        """End the poll."""
        self.ended = True
        self.wake()

    async def sleep(self, seconds: float) -> None:
        """Sleep until woken, or for `seconds`."""
        timer = self._loop.call_later(seconds, self.wake)
        try:
            if not self.ended:
                await self._news
        finally:
            timer.cancel()


async def _until_hung_up(receive: Receive, place: _Place) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            place.end()
            return


async def _empty_body() -> Any:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _send_nothing(send: Send) -> None:
    await send(cast("Any", {"type": "http.response.start", "status": 204, "headers": []}))
    await send(cast("Any", {"type": "http.response.body", "body": b"", "more_body": False}))


def _header(headers: list[Header], name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in headers if key == name), "")
