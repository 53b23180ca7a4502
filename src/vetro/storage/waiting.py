"""Waiting for changes in the database: for one (`await_until`), or for each of them (`watch`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import structlog

from vetro.storage.database import Database
from vetro.storage.errors import StorageError
from vetro.storage.notify import Subscription

log = structlog.get_logger(__name__)

T = TypeVar("T")
SHORTEST_WAIT_SECONDS = 0.01
PAUSE_SECONDS = 1.0


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


async def watch(
    database: Database,
    channel: str,
    look: Callable[[set[str] | None], Awaitable[LookAgain | None]],
    *,
    gather_seconds: float = 0.0,
) -> None:
    """Call ``look`` at once and whenever ``channel`` is notified, until cancelled.

    ``look`` gets the payloads since its last call: none when the time of its `LookAgain` is over, and
    ``None`` when it has to look at everything (at first, after lost notifications, and after it failed).
    When it fails for the database or the network, that is logged and it is called again a second later.
    ``gather_seconds``: how long to wait for more after a notification, where they come by the hundred.
    """
    async with database.listen(channel) as subscription:
        named: set[str] | None = None
        while True:
            try:
                again = await look(named)
            except (StorageError, OSError, TimeoutError) as error:
                log.warning("watch_waits_for_database", channel=channel, error=str(error))
                await asyncio.sleep(PAUSE_SECONDS)
                subscription.drain()
                named = None
                continue
            named = await _notified(subscription, again, gather_seconds)


async def _notified(
    subscription: Subscription, again: LookAgain | None, gather_seconds: float
) -> set[str] | None:
    wait = None if again is None else max(SHORTEST_WAIT_SECONDS, again.seconds)
    first = await subscription.wait(wait)
    if first is None:
        return set()
    if gather_seconds:
        await asyncio.sleep(gather_seconds)
    payloads = {first, *subscription.drain()}
    # An empty payload: some may be lost.
    return None if "" in payloads else payloads
