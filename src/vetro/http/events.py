"""Server-sent events: a stream that ends when its source, its client or the process does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from litestar.background_tasks import BackgroundTask
from litestar.response import Stream
from litestar.response.base import ASGIResponse

from vetro.http.any_request import AnyRequest
from vetro.http.context import context_of

HEARTBEAT_SECONDS = 15.0
T = TypeVar("T")


class Streamed(Stream):
    """A stream with its own media type; Litestar would use the handler's (JSON).

    What it sends is closed with it: Litestar leaves that of a client that went away to the garbage
    collector, with the file that it has open.
    """

    def __init__(self, content: AsyncGenerator[bytes, None], **options: Any) -> None:
        super().__init__(content, background=BackgroundTask(content.aclose), **options)

    def to_asgi_response(self, *args: Any, **options: Any) -> ASGIResponse:
        """The answer with this stream's media type."""
        return super().to_asgi_response(*args, **{**options, "media_type": self.media_type})


@dataclass(frozen=True)
class ServerEvent:
    """One event; ``id`` is what a client sends back as ``Last-Event-ID``."""

    name: str
    data: Any
    id: str | None = None

    def encode(self) -> bytes:
        """The event's bytes; JSON has no raw line breaks."""
        lines = [f"event: {self.name}"]
        if self.id is not None:
            lines.append(f"id: {self.id}")
        lines.append(f"data: {msgspec.json.encode(self.data).decode()}")
        return ("\n".join(lines) + "\n\n").encode()


def event_stream(
    request: AnyRequest,
    source: AsyncIterator[ServerEvent],
    *,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
) -> Stream:
    """A response that sends the events of ``source``, and comments while there are none."""
    return Streamed(
        _bytes(source, context_of(request).closing, heartbeat_seconds),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _bytes(
    source: AsyncIterator[ServerEvent], closing: asyncio.Event, heartbeat_seconds: float
) -> AsyncGenerator[bytes, None]:
    closed = asyncio.ensure_future(closing.wait())
    upcoming: asyncio.Future[ServerEvent | None] | None = None
    try:
        yield b": connected\n\n"
        while not closing.is_set():
            if upcoming is None:
                upcoming = asyncio.ensure_future(_next(source))
            await asyncio.wait(
                {upcoming, closed},
                timeout=heartbeat_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not upcoming.done():
                if not closing.is_set():
                    yield b": still here\n\n"
                continue
            event = upcoming.result()
            upcoming = None
            if event is None:
                break
            yield event.encode()
    finally:
        for task in (upcoming, closed):
            if task is not None and not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        close = getattr(source, "aclose", None)
        if close is not None:
            await close()


async def _next(source: AsyncIterator[ServerEvent]) -> ServerEvent | None:
    return await anext(source, None)


async def unless_closing(request: AnyRequest, waiting: Coroutine[Any, Any, T]) -> T | None:
    """The result of a long poll, or ``None`` (the wait cancelled) when the process is closing."""
    work = asyncio.ensure_future(waiting)
    closed = asyncio.ensure_future(context_of(request).closing.wait())
    try:
        await asyncio.wait({work, closed}, return_when=asyncio.FIRST_COMPLETED)
        return work.result() if work.done() else None
    finally:
        for task in (work, closed):
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
