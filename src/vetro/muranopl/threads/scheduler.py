"""Runs the green threads of a session for a host, and lets them wait for external events.

A host drives a `Scheduler` with `run` (no event loop is started as long as nothing waits) or
`run_async`. External events (the end of an awaitable or a real sleep) are delivered one at a time,
and only when no thread can run; so a run depends only on the order of completions (muranopl.md
section 22). The functions at the end are for code that runs in a green thread.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TypeVar, cast

from vetro.muranopl.values.errors import Cancelled

from .external import close
from .greenthreads import (
    GreenThread,
    GreenThreads,
    Switched,
    ThreadKey,
    outcome,
    running_here,
)

T = TypeVar("T")


class Scheduler:
    """Drives the green threads of one session, `threads`, and waits for their external events."""

    def __init__(self, *, max_threads: int = 20_000, switched: Switched | None = None) -> None:
        self.threads = GreenThreads(max_threads=max_threads, switched=switched)
        self._slept = 0

    def run(self, function: Callable[[], T]) -> T:
        """Run a function in a root thread until it ends. An event loop starts only if needed."""
        if self.threads.entered:
            raise RuntimeError(
                "the scheduler is running already; call the function directly from inside the program"
            )
        root = self.threads.spawn(function)
        if not self.threads.run_until_idle(root):
            import asyncio

            with asyncio.Runner() as runner:
                runner.run(self._drive(root))
        return cast(T, outcome(root))

    async def run_async(self, function: Callable[[], T]) -> T:
        """The same from a running event loop, which is not blocked while green threads wait."""
        if self.threads.entered or self.threads.external.in_loop:
            raise RuntimeError("a session runs one host call at a time")
        root = self.threads.spawn(function)
        await self._drive(root)
        return cast(T, outcome(root))

    async def complete_one(self) -> None:
        """Wait for external events until one thread can continue."""
        with self.threads.external.attached():
            while not self.threads.has_ready:
                await self._next_event()

    async def _drive(self, root: GreenThread) -> None:
        import asyncio

        threads = self.threads
        with threads.external.attached():
            try:
                while not threads.run_until_idle(root):
                    await self._next_event()
            except asyncio.CancelledError:
                threads.request_abort(Cancelled("the host's task was cancelled"))
                while not root.done:
                    threads.abort_waiting()
                    if not threads.run_until_idle(root):
                        await self._next_event()
                raise
            finally:
                await threads.external.cancel_all()

    async def _next_event(self) -> None:
        """Deliver the end of an awaitable or of a sleep, or wait for one of them."""
        import asyncio

        threads = self.threads
        threads.external.start()
        ended = threads.external.take()
        if ended is None:
            if not threads.wake_timer():
                await self._pause()
                return
            self._slept += 1
            if self._slept % 64 == 0:
                await asyncio.sleep(0)
            return
        thread, future = ended
        if future.cancelled():
            threads.make_ready(thread, error=threads.abort or asyncio.CancelledError())
        elif (failure := future.exception()) is not None:
            threads.make_ready(thread, error=failure)
        else:
            threads.make_ready(thread, future.result())

    async def _pause(self) -> None:
        threads = self.threads
        if threads.abort is not None:
            threads.abort_waiting()
            if threads.has_ready:
                return
        limit, sleeping = threads.seconds_left, threads.seconds_of_sleep
        if sleeping is not None and limit is not None and limit <= sleeping:
            sleeping = None
        happened = await threads.external.next_event(limit if sleeping is None else sleeping)
        if not happened and threads.abort is None and sleeping is None:
            threads.expire()


def current_threads() -> GreenThreads:
    """The green threads of which one runs here. RuntimeError outside one."""
    threads = getattr(running_here, "threads", None)
    if threads is None or threads.current is None:
        raise RuntimeError("this can only be done in a green thread of a session")
    return cast(GreenThreads, threads)


def in_green_thread() -> bool:
    """True when this code runs in a green thread."""
    threads = getattr(running_here, "threads", None)
    return threads is not None and threads.current is not None


def wait(awaitable: Awaitable[T]) -> T:
    """Suspend the calling green thread until the awaitable is done; its result or exception."""
    try:
        threads = current_threads()
    except RuntimeError:
        close(awaitable)
        raise
    return threads.wait(awaitable)


def wait_turn(position: int) -> None:
    """Suspend the calling green thread until `position` is next (see `effects`)."""
    current_threads().wait_turn(position)


def current_thread() -> ThreadKey:
    """The calling green thread's key: the same in every run of the same program."""
    thread = current_threads().current
    assert thread is not None
    return thread.key


def sleep(seconds: float) -> None:
    """Suspend the calling green thread for some real time."""
    current_threads().sleep_for(seconds)


def sleep_virtual(now: datetime, seconds: float) -> datetime:
    """Sleep on a virtual clock that stands at `now`; the time at which the sleep ends."""
    until = now + timedelta(seconds=max(seconds, 0))
    current_threads().sleep_until(until)
    return until
