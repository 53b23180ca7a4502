"""The awaitables that green threads wait for, and the event loop in which they run.

Awaitables are collected while threads run and started when none can; an event loop is needed only
then. Those that have ended are taken one at a time, in the order of their ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Imported by the functions that need a loop: most programs never wait.
    import asyncio

    from .greenthreads import GreenThread


class ExternalWaits:
    """The external waits of one session's threads."""

    def __init__(self) -> None:
        self._added: list[tuple[GreenThread, Awaitable[object]]] = []
        self._started: dict[asyncio.Future[object], GreenThread] = {}
        self._ended: deque[asyncio.Future[object]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wakeup: asyncio.Event | None = None

    @property
    def pending(self) -> bool:
        """True when a thread waits for an awaitable."""
        return bool(self._ended or self._added or self._started)

    @property
    def in_loop(self) -> bool:
        """True while the awaitables run in an event loop."""
        return self._loop is not None

    def add(self, thread: GreenThread, awaitable: Awaitable[object]) -> None:
        """Let a thread wait for an awaitable, which is started later."""
        self._added.append((thread, awaitable))

    @contextmanager
    def attached(self) -> Generator[None]:
        """While inside, awaitables run in the running event loop."""
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._wakeup = asyncio.Event()
        try:
            yield
        finally:
            self._loop = None
            self._wakeup = None

    def start(self) -> None:
        """Start the awaitables that were added."""
        import asyncio

        added, self._added = self._added, []
        for thread, awaitable in added:
            future = asyncio.ensure_future(awaitable)
            self._started[future] = thread
            future.add_done_callback(self._note_end)

    def take(self) -> tuple[GreenThread, asyncio.Future[Any]] | None:
        """The next awaitable that has ended, and the thread that waits for it."""
        if not self._ended:
            return None
        future = self._ended.popleft()
        return self._started.pop(future), future

    async def next_event(self, seconds: float | None) -> bool:
        """Wait until an awaitable ends or `notify` is called; False when the time is over."""
        import asyncio

        wakeup = self._wakeup
        assert wakeup is not None
        happened = True
        try:
            async with asyncio.timeout(seconds):
                await wakeup.wait()
        except TimeoutError:
            happened = False
        wakeup.clear()
        return happened

    def notify(self) -> None:
        """End a `next_event` in progress. May be called from any OS thread."""
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._wake)

    def cancel(self, chosen: Callable[[GreenThread], bool]) -> None:
        """Cancel what the chosen threads wait for."""
        for future, thread in list(self._started.items()):
            if chosen(thread):
                future.cancel()

    async def cancel_all(self) -> None:
        """Cancel every awaitable and wait for their ends."""
        import asyncio

        for future in self._started:
            future.cancel()
        if self._started:
            await asyncio.gather(*self._started, return_exceptions=True)
            self._started.clear()

    def _note_end(self, future: asyncio.Future[object]) -> None:
        if future in self._started:
            self._ended.append(future)
            self._wake()

    def _wake(self) -> None:
        if self._wakeup is not None:
            self._wakeup.set()


def close(awaitable: Awaitable[object]) -> None:
    """Close an awaitable that nobody will await, so that Python does not warn of it."""
    close_coroutine = getattr(awaitable, "close", None)
    if close_coroutine is not None:
        close_coroutine()
