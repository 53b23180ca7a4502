"""Runs the green threads of a session for a host, and lets them wait for external events.

A host drives a `Scheduler` with `run` (no event loop is started as long as nothing waits) or
`run_async`. External events (the end of an awaitable or a real sleep) are delivered one at a time,
and only when no thread can run; so a run depends only on the order of completions (muranopl.md
section 22). The functions at the end are for code that runs in a green thread.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

from vetro.muranopl.values.errors import Cancelled, RunAborted

from .greenthreads import GreenThread, GreenThreads, ThreadKey, outcome, running_here

if TYPE_CHECKING:
    # Imported by the functions that need a loop: most programs never wait.
    import asyncio

T = TypeVar("T")


class Scheduler(GreenThreads):
    """Runs the green threads of one session and waits for their external events."""

    def run(self, function: Callable[[], T]) -> T:
        """Run a function in a root thread until it ends. An event loop starts only if needed."""
        if self._hub is not None:
            raise RuntimeError(
                "the scheduler is running already; call the function directly from inside the program"
            )
        root = self.spawn(function)
        self._enter()
        try:
            self._step_until_idle(root)
        finally:
            self._leave()
        if not root.done:
            import asyncio

            with asyncio.Runner() as runner:
                runner.run(self._drive(root))
        return cast(T, outcome(root))

    async def run_async(self, function: Callable[[], T]) -> T:
        """The same from a running event loop, which is not blocked while green threads wait."""
        if self._hub is not None or self._loop is not None:
            raise RuntimeError("a session runs one host call at a time")
        root = self.spawn(function)
        await self._drive(root)
        return cast(T, outcome(root))

    async def complete_one(self) -> None:
        """Wait for external events until one thread can continue."""
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._wakeup = asyncio.Event()
        try:
            while True:
                self._start_awaiting()
                if self._completed:
                    self._deliver(self._completed.popleft())
                    return
                if self._wake_timer():
                    return
                await self._pause()
                if self._ready:
                    return
        finally:
            self._loop = None
            self._wakeup = None

    # -- for code in a green thread ----------------------------------------------------------

    def wait(self, awaitable: Awaitable[T]) -> T:
        """Suspend the current thread until the awaitable is done; its result or exception."""
        me = self._must_be_inside("wait")
        try:
            self._check_abort(me)
        except RunAborted:
            _close(awaitable)
            raise
        self._to_await.append((me, awaitable))
        return cast(T, self._switch_out(me, "an effect"))

    # -- inside ------------------------------------------------------------------------------

    async def _drive(self, root: GreenThread) -> None:
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._wakeup = asyncio.Event()
        try:
            while True:
                self._enter()
                try:
                    self._step_until_idle(root)
                finally:
                    self._leave()
                if root.done:
                    return
                self._start_awaiting()
                if self._completed:
                    self._deliver(self._completed.popleft())
                    continue
                if self._wake_timer():
                    self._slept += 1
                    if self._slept % 64 == 0:
                        await asyncio.sleep(0)
                    continue
                await self._pause()
        except asyncio.CancelledError:
            self.request_abort(Cancelled("the host's task was cancelled"))
            await self._wind_down(root)
            raise
        finally:
            for future in self._tasks:
                future.cancel()
            if self._tasks:
                await asyncio.gather(*self._tasks, return_exceptions=True)
                self._tasks.clear()
            self._loop = None
            self._wakeup = None

    async def _wind_down(self, root: GreenThread) -> None:
        while not root.done:
            self._abort_waiting()
            self._enter()
            try:
                self._step_until_idle(root)
            finally:
                self._leave()
            if root.done:
                return
            self._start_awaiting()
            if self._completed:
                self._deliver(self._completed.popleft())
            elif not self._wake_timer():
                await self._pause()

    async def _pause(self) -> None:
        wakeup = self._wakeup
        assert wakeup is not None
        if self.abort is not None:
            self._abort_waiting()
            if self._ready:
                return
        import asyncio

        limit: float | None = None
        if self.abort is not None:
            limit = max(self._abort_deadline - time.monotonic(), 0.01)
        elif self.deadline is not None:
            limit = max(self.deadline - time.monotonic(), 0)
        sleeping: float | None = None
        if self._timers:
            sleeping = max(self._timers[0][0] - time.monotonic(), 0)
            if limit is not None and limit <= sleeping:
                sleeping = None
        try:
            async with asyncio.timeout(limit if sleeping is None else sleeping):
                await wakeup.wait()
        except TimeoutError:
            if self.abort is None and sleeping is None:
                self._expire()
        wakeup.clear()

    def _start_awaiting(self) -> None:
        import asyncio

        starting, self._to_await = self._to_await, []
        for thread, awaitable in starting:
            future = asyncio.ensure_future(awaitable)
            self._tasks[future] = thread
            future.add_done_callback(self._future_done)

    def _future_done(self, future: asyncio.Future[Any]) -> None:
        if future in self._tasks:
            self._completed.append(future)
            self._wake()

    def _deliver(self, future: asyncio.Future[Any]) -> None:
        import asyncio

        thread = self._tasks.pop(future)
        if future.cancelled():
            error: BaseException = self.abort or asyncio.CancelledError()
            self.make_ready(thread, error=error)
        elif (failure := future.exception()) is not None:
            self.make_ready(thread, error=failure)
        else:
            self.make_ready(thread, future.result())


def current_scheduler() -> Scheduler:
    """The scheduler whose green thread runs here. RuntimeError outside one."""
    scheduler = getattr(running_here, "scheduler", None)
    if scheduler is None or scheduler.current is None:
        raise RuntimeError("this can only be done in a green thread of a session")
    return cast(Scheduler, scheduler)


def in_green_thread() -> bool:
    """True when this code runs in a green thread."""
    scheduler = getattr(running_here, "scheduler", None)
    return scheduler is not None and scheduler.current is not None


def wait(awaitable: Awaitable[T]) -> T:
    """Suspend the calling green thread until the awaitable is done; its result or exception."""
    try:
        scheduler = current_scheduler()
    except RuntimeError:
        _close(awaitable)
        raise
    return scheduler.wait(awaitable)


def wait_turn(position: int) -> None:
    """Suspend the calling green thread until `position` is next (see `effects`)."""
    current_scheduler().wait_turn(position)


def current_thread() -> ThreadKey:
    """The calling green thread's key: the same in every run of the same program."""
    thread = current_scheduler().current
    assert thread is not None
    return thread.key


def sleep(seconds: float) -> None:
    """Suspend the calling green thread for some real time."""
    current_scheduler().sleep_for(seconds)


def sleep_virtual(now: datetime, seconds: float) -> datetime:
    """Sleep on a virtual clock that stands at `now`; the time at which the sleep ends."""
    until = now + timedelta(seconds=max(seconds, 0))
    current_scheduler().sleep_until(until)
    return until


def _close(awaitable: Awaitable[Any]) -> None:
    close = getattr(awaitable, "close", None)
    if close is not None:
        close()
