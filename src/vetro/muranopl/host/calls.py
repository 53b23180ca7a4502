"""Host calls into a session: one at a time, in green threads, with errors of the language; and what a
host runs before and after its work (muranopl.md section 23)."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from vetro.muranopl.runtime import throwing
from vetro.muranopl.runtime.budgets import raise_python_limit
from vetro.muranopl.runtime.run import Run
from vetro.muranopl.threads.greenthreads import GreenThread
from vetro.muranopl.threads.scheduler import in_green_thread
from vetro.muranopl.values.containers import Value
from vetro.muranopl.values.errors import MuranoError

if TYPE_CHECKING:
    import asyncio


Hook = Callable[[], Awaitable[None] | None]
_log = logging.getLogger(__name__)


class Hooks:
    """Functions that run at one point of a session, in the order in which they were added."""

    def __init__(self) -> None:
        self._hooks: list[Hook] = []

    def add(self, hook: Hook) -> None:
        """Run this one as well."""
        self._hooks.append(hook)

    async def run(self) -> None:
        """Run all of them; errors are logged."""
        for hook in self._hooks:
            try:
                result = hook()
                if result is not None:
                    await result
            except Exception:  # noqa: BLE001 - section 23: a hook never fails a task
                _log.exception("a session hook failed")


T = TypeVar("T")


class HostCalls:
    """Runs functions of the host in green threads of a session.

    `enter` chooses the classes that the session runs on; it is called before the first function,
    in the same green thread, unless `entered` is set.
    """

    def __init__(self, run: Run, enter: Callable[[], None]) -> None:
        self._run = run
        self._enter = enter
        self._turn: asyncio.Lock | None = None
        self.entered = False

    def run(self, function: Callable[[], T]) -> T:
        """Run a function in a green thread, without the caller's event loop."""
        threads = self._run.threads
        if in_green_thread() and threads.current is not None:
            return function()
        self._begin()
        try:
            return self._run.scheduler.run(self._in_world(function))
        except MuranoError as error:
            raise self._translated(error) from error.__cause__
        except Exception as error:
            raise self._translated(error) from error
        finally:
            threads.reset_abort()

    async def run_async(self, function: Callable[[], T]) -> T:
        """Run a function in a green thread; only green threads wait."""
        if self._turn is None:
            import asyncio

            self._turn = asyncio.Lock()
        async with self._turn:
            self._begin()
            try:
                return await self._run.scheduler.run_async(self._in_world(function))
            except MuranoError as error:
                raise self._translated(error) from error.__cause__
            except Exception as error:
                raise self._translated(error) from error
            finally:
                self._run.threads.reset_abort()

    def begin(self, function: Callable[[], object]) -> GreenThread:
        """A call that the host steps through itself (`stepping.Steps`)."""
        self._begin()
        return self._run.threads.spawn(self._in_world(function))

    def end(self, thread: GreenThread) -> Value:
        """The value of such a call once it has ended. Raises MuranoError."""
        self._run.threads.reset_abort()
        if thread.error is None:
            return thread.finished
        if isinstance(thread.error, Exception):
            raise self._translated(thread.error) from thread.error.__cause__
        raise thread.error

    def _begin(self) -> None:
        raise_python_limit()
        self._run.begin_host_call()
        seconds = self._run.session.limits.seconds
        self._run.threads.deadline = None if seconds is None else time.monotonic() + seconds

    def _translated(self, error: Exception) -> MuranoError:
        failure = throwing.to_host(error, self._run)
        if failure.position is None and failure.stack_trace:
            failure.position = failure.stack_trace[-1].position
        return failure

    def _in_world(self, function: Callable[[], T]) -> Callable[[], T]:
        """The function, preceded by the choice of the classes to run on."""
        if self.entered:
            return function

        def entering() -> T:
            self._enter()
            return function()

        return entering
