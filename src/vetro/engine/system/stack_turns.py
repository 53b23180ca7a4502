"""Stacks that others work on too: read when no operation goes on, changed when none is in the way."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from vetro.engine.services import EngineServices, logger
from vetro.stacks import Stack, StackBusy

T = TypeVar("T")
BUSY_SECONDS = 3.0
SETTLING_SECONDS = 2.0
RETRY_SECONDS = (2.0, 4.0, 8.0)


async def settled(
    services: EngineServices, name: str, read: Callable[[str, str], Awaitable[Stack | None]]
) -> Stack | None:
    """The stack, settled. A back end that is not reached is asked again a few times.

    Raises: StackBusy when an operation of somebody else does not end in time.
    """
    deadline = time.monotonic() + services.settings.heat.stack_busy_timeout
    delays = iter(RETRY_SECONDS)
    while True:
        try:
            stack = await read(services.project_id, name)
        except ConnectionError as error:
            delay = next(delays, None)
            if delay is None:
                raise
            logger(__name__).warning("stack_not_read", stack=name, error=str(error))
            await services.pause(delay)
            continue
        if stack is None or not stack.status.in_progress:
            services.waiting.say(name, "")
            return stack
        if time.monotonic() > deadline:
            raise StackBusy(name, stack.status.value)
        delays = iter(RETRY_SECONDS)
        services.waiting.say(name, f"the current operation on stack {name}")
        await services.pause(SETTLING_SECONDS)


async def when_free(services: EngineServices, name: str, work: Callable[[], Awaitable[T]]) -> T:
    """Do work on the stack, after whatever others do with it."""
    deadline = time.monotonic() + services.settings.heat.stack_busy_timeout
    try:
        while True:
            try:
                return await work()
            except StackBusy:
                if time.monotonic() > deadline:
                    raise
                services.waiting.say(name, f"another operation on stack {name}")
                await services.pause(BUSY_SECONDS)
    finally:
        services.waiting.say(name, "")
