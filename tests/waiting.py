"""Waiting for a condition that notifies nobody: a file, a process, a port, what another task wrote.

No other module of the tests pauses: a pause says nothing about what happened meanwhile. What can be awaited
(an event, a queue, a subscription, a long poll) is awaited.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

T = TypeVar("T")
PATIENCE_SECONDS = 240.0
PAUSE_SECONDS = 0.01


async def eventually(
    condition: Callable[[], T | Awaitable[T]], what: str = "the condition became true"
) -> T:
    """The first true result of ``condition``, a function or a coroutine function."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        result = condition()
        found = cast("T", await result if inspect.isawaitable(result) else result)
        if found:
            return found
        assert time.monotonic() < deadline, f"never: {what}"
        await asyncio.sleep(PAUSE_SECONDS)


def until(condition: Callable[[], T], what: str = "the condition became true") -> T:
    """As ``eventually``, where there is no event loop."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(PAUSE_SECONDS)
    return found
