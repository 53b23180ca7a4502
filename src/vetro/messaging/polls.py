"""The long polls that hang in this process, one a guest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from vetro.storage import Subscription

if TYPE_CHECKING:
    from vetro.messaging.mailboxes import PlanMessage


class PollStop:
    """Ends one waiting poll from outside, between two looks at the database.

    Not a cancelled task: that could hit the poll in the middle of a transaction.
    """

    def __init__(self) -> None:
        self.ended = False
        self._subscription: Subscription | None = None

    def attach(self, subscription: Subscription) -> None:
        """The poll waits on this subscription."""
        self._subscription = subscription

    def end(self) -> None:
        """Make the poll return None soon."""
        self.ended = True
        if self._subscription is not None:
            self._subscription.deliver("")


class OpenPolls:
    """Ends a poll when its guest polls anew, hangs up, or the process is closing.

    A mailbox has one reader. A poll of an agent that was killed may hang here until its time is
    over; without this it would be handed the next plan, for nobody.
    """

    def __init__(self) -> None:
        self._open: dict[str, PollStop] = {}
        self._closing = False

    def __len__(self) -> int:
        return len(self._open)

    async def run(
        self,
        queue: str,
        poll: Callable[[PollStop], Awaitable[PlanMessage | None]],
        hung_up: Callable[[], Awaitable[None]],
    ) -> PlanMessage | None:
        """Await `poll(stop)` for the guest of `queue`.

        `hung_up` returns when the client closes the connection.
        """
        former = self._open.get(queue)
        if former is not None:
            former.end()
        stop = PollStop()
        self._open[queue] = stop
        if self._closing:
            stop.end()

        async def watch() -> None:
            await hung_up()
            stop.end()

        watching = asyncio.create_task(watch(), name="mailbox client")
        try:
            return await poll(stop)
        finally:
            if self._open.get(queue) is stop:
                del self._open[queue]
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    def close(self) -> None:
        """End every poll, now and from now on."""
        self._closing = True
        for stop in list(self._open.values()):
            stop.end()


class RequestBudget:
    """Limits how often one guest may ask: a bucket that refills at a steady rate."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, queue: str) -> float:
        """Count one request; 0 when it is allowed, else the seconds to wait."""
        now = self._clock()
        left, since = self._buckets.get(queue, (float(self._burst), now))
        left = min(float(self._burst), left + (now - since) * self._rate)
        if left < 1.0:
            self._buckets[queue] = (left, now)
            return (1.0 - left) / self._rate
        self._buckets[queue] = (left - 1.0, now)
        return 0.0

    def forget_idle(self) -> None:
        """Drop the buckets that are full again."""
        now = self._clock()
        seconds = self._burst / self._rate
        self._buckets = {
            queue: bucket for queue, bucket in self._buckets.items() if now - bucket[1] < seconds
        }
