"""Waiting until the database says something."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from vetro.storage.database import Database

T = TypeVar("T")
SHORTEST_WAIT_SECONDS = 0.01


@dataclass(frozen=True)
class LookAgain:
    """Nothing yet, and without a notification nothing before these seconds are over."""

    seconds: float


async def await_until(
    database: Database,
    channel: str,
    look: Callable[[], Awaitable[T | LookAgain | None]],
    timeout: float | None = None,
) -> T | None:
    """What ``look`` finds; ``None`` when that is still nothing after ``timeout`` seconds.

    ``look`` reads the database, at once and after each notification of ``channel``, and returns
    ``None`` or `LookAgain` while it has to be asked again. No change is missed: the subscription begins
    before the first look.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    async with database.listen(channel) as subscription:
        while True:
            found = await look()
            if found is not None and not isinstance(found, LookAgain):
                return found
            waits: list[float] = []
            if deadline is not None:
                waits.append(deadline - time.monotonic())
                if waits[0] <= 0:
                    return None
            if found is not None:
                waits.append(max(SHORTEST_WAIT_SECONDS, found.seconds))
            await subscription.wait(min(waits, default=None))
