"""The request rate of guests, and of projects."""

from __future__ import annotations

from collections.abc import Callable


class RequestBudget:
    """Limits the request rate of each guest or project: a bucket that refills at a steady rate."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, whose: str) -> float:
        """Count one request; 0 when it is allowed, else the seconds to wait."""
        now = self._clock()
        left, since = self._buckets.get(whose, (float(self._burst), now))
        left = min(float(self._burst), left + (now - since) * self._rate)
        if left < 1.0:
            self._buckets[whose] = (left, now)
            return (1.0 - left) / self._rate
        self._buckets[whose] = (left - 1.0, now)
        return 0.0

    @property
    def remembered(self) -> int:
        """How many buckets there are."""
        return len(self._buckets)

    def forget_idle(self) -> None:
        """Drop the buckets that are full."""
        now = self._clock()
        seconds = self._burst / self._rate
        self._buckets = {
            whose: bucket for whose, bucket in self._buckets.items() if now - bucket[1] < seconds
        }
