"""Interrupting a coroutine wherever it waits: at its first wait, at its second, and so on.

A cancellation that comes at a moment of its own choice finds a defect once in a thousand runs of a loaded
machine. Here every wait is tried.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")
MOST_WAITS = 500


class _Interrupted(Awaitable[T]):
    """A coroutine whose task is cancelled at the waits (1, 2, ...) that ``cancels`` accepts."""

    def __init__(self, work: Coroutine[Any, Any, T], cancels: Callable[[int], bool]) -> None:
        self._work = work
        self._cancels = cancels

    def __await__(self) -> Generator[Any, Any, T]:
        task = asyncio.current_task()
        assert task is not None
        wait = 0
        error: BaseException | None = None
        while True:
            try:
                waiting = self._work.send(None) if error is None else self._work.throw(error)
            except StopIteration as end:
                return end.value
            wait += 1
            if self._cancels(wait):
                # The task runs now: what it waits for next is cancelled as soon as it waits.
                task.cancel()
            error = None
            try:
                yield waiting
            except BaseException as raised:  # the coroutine decides what becomes of it
                error = raised


async def interruptions(
    work: Callable[[], Coroutine[Any, Any, T]], *, again: bool = False
) -> AsyncIterator[asyncio.Task[T]]:
    """The task of ``work()``, ended, for each place where it waits: cancelled there.

    The last one was not interrupted: it had no such place left. ``again``: it is cancelled at each later
    wait as well.
    """
    for place in range(1, MOST_WAITS):
        reached = False

        def cancels(wait: int, place: int = place) -> bool:
            nonlocal reached
            reached = reached or wait == place
            return wait == place or (again and wait > place)

        async def run(cancels: Callable[[int], bool] = cancels) -> T:
            return await _Interrupted(work(), cancels)

        task = asyncio.create_task(run())
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # looked at
        yield task
        if not reached:
            return
    raise AssertionError(f"it waits more than {MOST_WAITS} times")
