"""Time, behind a protocol, so that expiry can be tested without waiting."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """A wall clock for stored times, a monotonic clock for waiting, and the machine's own time.

    Every process of a machine reads the same `since_boot`, and nobody can set it: `Database.steady_now`
    is made from it.
    """

    def now(self) -> datetime:
        """The time as an aware UTC datetime."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards, from an arbitrary start."""
        ...

    def since_boot(self) -> float:
        """Seconds since the machine was started, also those in which it was suspended."""
        ...

    def boot_id(self) -> str:
        """A name for this run of the machine."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The time as an aware UTC datetime."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never go backwards."""
        return time.monotonic()

    def since_boot(self) -> float:
        """Seconds since the machine was started."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def boot_id(self) -> str:
        """The kernel's random number for this run."""
        return _BOOT.read_text().strip()


class ManualClock:
    """A clock for tests: it moves when asked to."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 1, 1, tzinfo=UTC)
        self._monotonic = 0.0

    def now(self) -> datetime:
        """The time it was set to."""
        return self._now

    def monotonic(self) -> float:
        """The seconds by which it was advanced."""
        return self._monotonic

    def since_boot(self) -> float:
        """The seconds by which it was advanced."""
        return self._monotonic

    def boot_id(self) -> str:
        """A name of this clock's own."""
        return f"manual {id(self)}"

    def advance(self, seconds: float) -> None:
        """Advance both clocks."""
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back, as a time server or an operator does."""
        self._now += timedelta(seconds=seconds)

    def apart(self, seconds: float) -> ClockApart:
        """A clock whose wall time is ahead of this one's by so much (behind: less than 0)."""
        return ClockApart(self, timedelta(seconds=seconds))


class ClockApart:
    """A clock for tests, of a machine whose wall clock differs from another's.

    Time passes for both alike, and both agree on the steady time, as machines with one PostgreSQL do.
    """

    def __init__(self, clock: ManualClock, ahead: timedelta) -> None:
        self._clock = clock
        self._ahead = ahead

    def now(self) -> datetime:
        """The time of the other clock, and what this one is ahead."""
        return self._clock.now() + self._ahead

    def monotonic(self) -> float:
        """That of the other clock."""
        return self._clock.monotonic()

    def since_boot(self) -> float:
        """That of the other clock."""
        return self._clock.since_boot()

    def boot_id(self) -> str:
        """That of the other clock."""
        return self._clock.boot_id()
