"""Slowing down password guessing."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from vetro.storage import Clock

FREE_ATTEMPTS = 5
WINDOW_SECONDS = 60.0
MAX_ENTRIES = 10_000


class LoginThrottle:
    """After ``FREE_ATTEMPTS`` failures of one key (user and address) within a minute: wait.

    In memory on purpose: it protects each process's own work, and a restart lifts every delay.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, list[float]] = OrderedDict()
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncGenerator[None, None]:
        """Admit one attempt of a key at a time; the others wait in order."""
        lock, waiting = self._turns.get(key, (asyncio.Lock(), 0))
        self._turns[key] = (lock, waiting + 1)
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._turns.pop(key)
            if waiting > 1:
                self._turns[key] = (lock, waiting - 1)

    def wait_seconds(self, key: str) -> float:
        """Seconds until the next attempt is allowed; 0: now."""
        now = self._clock.monotonic()
        recent = [t for t in self._failures.get(key, ()) if now - t < WINDOW_SECONDS]
        if len(recent) < FREE_ATTEMPTS:
            return 0.0
        return WINDOW_SECONDS - (now - recent[-FREE_ATTEMPTS])

    def failed(self, key: str) -> None:
        """Remember a failure."""
        now = self._clock.monotonic()
        recent = [t for t in self._failures.pop(key, []) if now - t < WINDOW_SECONDS]
        self._failures[key] = [*recent, now][-FREE_ATTEMPTS:]
        while len(self._failures) > MAX_ENTRIES:
            self._failures.popitem(last=False)

    def succeeded(self, key: str) -> None:
        """Forget the failures."""
        self._failures.pop(key, None)
