"""The only interface for a program's effects (DESIGN section 1).

Everything that a program can observe besides its inputs comes through an `EffectsPort`: outside
calls, clock, random numbers, fresh ids, sleeping. A port that records its answers can replay a run:
the same program with the same answers takes the same path.

Rules a port relies on:

- `perform` is called from a green thread and may suspend it by `wait` (never block the OS thread).
- Completions of waits are delivered one at a time, and only when no green thread can run. So a run
  is deterministic except for the order of completions.
- `current_thread()` returns the same key for a green thread in every run of one program.
- A replaying port returns a recorded answer after `wait_turn(position)`, with the recorded position
  of the completion.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Protocol

from vetro.json_values import Json


class EffectsPort(Protocol):
    """The effects that a host provides to a session."""

    def perform(self, kind: str, request: Json, execute: Callable[[], Awaitable[Json]]) -> Json:
        """Do an outside effect and return its result.

        `kind` is a short dotted name (`stack.push`, `agent.call`); `request` identifies the effect
        in a journal. A port awaits `execute()` at most once; a replaying port does not await it.
        """
        ...

    def sleep(self, seconds: float) -> None:
        """Suspend the calling green thread."""
        ...

    def now(self) -> datetime:
        """The time, timezone-aware, in UTC."""
        ...

    def random(self) -> float:
        """A number in [0, 1)."""
        ...

    def new_id(self) -> str:
        """A fresh object id: 32 lower-case hexadecimal digits."""
        ...


class DirectEffects:
    """Effects performed immediately and not recorded.

    With `seed`, random numbers and ids are the same in every run. With `start`, the clock begins at
    that time and only `sleep` advances it, which then takes no time.
    """

    def __init__(self, *, seed: int | None = None, start: datetime | None = None) -> None:
        # Not used for secrets; without a seed the system seeds it.
        self._random = random.Random(seed)  # noqa: S311
        self._virtual = start
        self.performed: list[tuple[str, Json]] = []
        """Kinds and requests, in the order they were asked for."""

    def perform(self, kind: str, request: Json, execute: Callable[[], Awaitable[Json]]) -> Json:
        from .scheduler import wait

        self.performed.append((kind, request))
        return wait(execute())

    def sleep(self, seconds: float) -> None:
        from . import scheduler

        if self._virtual is None:
            scheduler.sleep(seconds)
        else:
            self._virtual = scheduler.sleep_virtual(self._virtual, seconds)

    def now(self) -> datetime:
        return self._virtual if self._virtual is not None else datetime.now(UTC)

    def random(self) -> float:
        return self._random.random()

    def new_id(self) -> str:
        return f"{self._random.getrandbits(128):032x}"
