"""The bounds of a run: the steps that it may take, and what calls check when they begin.

Every call and every loop turn of generated code uses a few plain slots of the `Run`:

- `room` counts down with each nested call; below `floor` a call takes the slow path `begin_call`.
  `floor` is 1, or above any depth while several green threads are alive (calls then take locks).
- `fuel` counts down with each call, loop turn and element; below 0 `refuel` asks the `StepBudget`.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import TYPE_CHECKING

from vetro.muranopl.values.errors import LimitExceeded

if TYPE_CHECKING:
    from vetro.muranopl.classes.types import Method

    from .run import Run

CHUNK = 10_000
"""Steps granted at once."""
GRACE_STEPS = 100_000
"""Steps that `Finally` blocks may take after a budget is used up."""
PYTHON_FRAMES = 6_500
"""Python's recursion limit while programs run: it fits an 8 MiB stack with room to spare."""


class StepBudget:
    """The steps that a host call may still take."""

    __slots__ = ("in_grace", "left", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self.renew()

    def renew(self) -> None:
        """A full budget, for a new call from the host."""
        self.left = self.total
        self.in_grace = False
        """True once a budget was used up: the `Finally` blocks of the program run."""

    def begin_grace(self) -> None:
        """Allow the steps of all `Finally` blocks together, once."""
        if not self.in_grace:
            self.in_grace = True
            self.left = GRACE_STEPS

    def grant(self, taken: int) -> int | None:
        """Steps that may be taken now, including those `taken` beyond the last grant.

        None when the budget is used up: the run must end, within its grace. Raises LimitExceeded
        when that is used up too.
        """
        if taken > self.left:
            if self.in_grace:
                raise LimitExceeded(
                    f"the program's Finally blocks took more than {GRACE_STEPS} steps",
                    limit="steps",
                )
            self.begin_grace()
            return None
        granted = min(CHUNK + taken, self.left)
        self.left -= granted
        return granted


def begin_call(run: Run, this: object, method: Method, what: str) -> Hashable:
    """The slow path of a call: check budget and depth, lock. Returns the key for `end_call`."""
    if run.fuel < 0:
        run.refuel()
    if run.room >= run.floor:
        return None
    key = (this, method)
    if run.room < 1:
        return enter_call(run, key, what)
    held = run.held
    known = len(held)
    held.setdefault(key, run.thread)
    # `held` has grown if the lock was free.
    return key if len(held) > known else enter_call(run, key, what)


def end_call(run: Run, key: Hashable) -> None:
    """Release the lock that a call took, and hand a contested one on."""
    owner = run.held.pop(key)
    if run.contested and key in run.contested:
        run.locks.settle(key, owner)


def enter_call(run: Run, key: Hashable, what: str) -> Hashable:
    """Check the depth of a call, and lock `key` unless it is None. Returns the key to release."""
    if run.room < 1:
        # Each `Finally` of the unwinding may call as deep again: they share one budget.
        if not run.steps.in_grace:
            run.fuel = 0
            run.steps.begin_grace()
        raise LimitExceeded(
            f"calls are nested more than {run.max_room} levels deep, in {what}", limit="depth"
        )
    if run.floor == 1 or key is None:
        return None
    return key if run.locks.acquire(key, what) else None


def enter_unlocked(run: Run, what: str) -> None:
    """The slow path of a call that takes no lock."""
    if run.fuel < 0:
        run.refuel()
    if run.room < 1:
        enter_call(run, None, what)


def raise_python_limit() -> None:
    """Let programs nest as deep as `Limits.depth` allows before Python stops them."""
    if sys.getrecursionlimit() < PYTHON_FRAMES:
        sys.setrecursionlimit(PYTHON_FRAMES)
