"""The bounds of a run: steps, depth of calls, and the locks that calls take.

Every call and every loop turn of generated code uses a few plain slots:

- `room` counts down with each nested call; below `floor` a call takes the slow path `begin_call`.
  `floor` is 1, or above any depth while several green threads are alive (calls then take locks).
- `fuel` counts down with each call, loop turn and element; below 0 `refuel` checks the budgets.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from vetro.muranopl.classes.types import Method
from vetro.muranopl.threads.greenthreads import GreenThread
from vetro.muranopl.threads.locks import LockTable
from vetro.muranopl.threads.scheduler import Scheduler
from vetro.muranopl.values.errors import LimitExceeded
from vetro.yaql.evaluation import Evaluation
from vetro.yaql.evaluation import Limits as YaqlLimits
from vetro.yaql.values import FINAL_TYPES, finalize

if TYPE_CHECKING:
    from vetro.muranopl.host.session import Session

CHUNK = 10_000
"""Steps granted by one `refuel`."""
_FAR = 1 << 60
GRACE_STEPS = 100_000
"""Steps that `Finally` blocks may take after a budget is used up."""


class BoundedEvaluation(Evaluation):
    """An evaluation whose steps, depth and threads are those of a session."""

    __slots__ = (
        "_grace",
        "_steps_left",
        "contested",
        "floor",
        "held",
        "locks",
        "max_room",
        "room",
        "scheduler",
        "session",
        "thread",
        "threads",
    )

    def __init__(self, session: Session) -> None:
        limits = session.limits
        super().__init__(
            session.runtime.library("current"),
            YaqlLimits(
                collection_items=limits.collection_items,
                string_length=limits.string_length,
                steps=limits.steps,
                seconds=None,
            ),
        )
        self.final_types = session.runtime.final_types
        self.session = session
        self.max_room = limits.depth
        self.room = limits.depth
        self.floor = 1
        self.fuel = 0
        self._steps_left = limits.steps
        self._grace = False
        self.scheduler = Scheduler(max_threads=limits.green_threads, switched=self._switched)
        self.threads = self.scheduler.threads
        self.locks = LockTable(self.threads)
        self.held = self.locks.held
        self.contested = self.locks.contested
        self.thread: GreenThread | None = None
        """The running thread."""

    def refuel(self) -> None:
        """Check the budgets; called every few thousand steps."""
        self.threads.check()
        debt = max(-self.fuel, 0)
        if debt > self._steps_left:
            if self._grace:
                raise LimitExceeded("the program's clean-up took too long", limit="steps")
            self._grace = True
            self._steps_left = GRACE_STEPS
            self.fuel = 0
            self.threads.request_abort(
                LimitExceeded(
                    f"the program took more than {self.session.limits.steps} steps", limit="steps"
                )
            )
            self.threads.check()
            return
        grant = min(CHUNK + debt, self._steps_left)
        self._steps_left -= grant
        self.fuel += grant

    def begin_host_call(self) -> None:
        """Fresh budgets for a call from the host."""
        self._steps_left = self.session.limits.steps
        self._grace = False
        self.fuel = 0
        self.room = self.max_room

    def enter_call(self, key: Hashable, what: str) -> Hashable:
        """The slow path of a call: check the depth, lock. Returns the key for `leave_call`."""
        if self.room < 1:
            if not self._grace:
                # Each `Finally` of the unwinding may call as deep again: they share one budget.
                self._grace = True
                self._steps_left = GRACE_STEPS
                self.fuel = 0
            raise LimitExceeded(
                f"calls are nested more than {self.max_room} levels deep, in {what}", limit="depth"
            )
        if self.floor == 1 or key is None:
            return None
        return key if self.locks.acquire(key, what) else None

    def begin_call(self, this: Any, method: Method, what: str) -> Hashable:
        """The slow path of a call: check budget and depth, lock. Returns the key for `end_call`."""
        if self.fuel < 0:
            self.refuel()
        if self.room >= self.floor:
            return None
        key = (this, method)
        if self.room < 1:
            return self.enter_call(key, what)
        held = self.held
        known = len(held)
        held.setdefault(key, self.thread)
        # `held` has grown if the lock was free.
        return key if len(held) > known else self.enter_call(key, what)

    def end_call(self, key: Hashable) -> None:
        """Release the lock that a call took."""
        owner = self.held.pop(key)
        if self.contested and key in self.contested:
            self.leave_call(key, owner)

    def enter_unlocked(self, what: str) -> None:
        """The slow path of a call that takes no lock."""
        if self.fuel < 0:
            self.refuel()
        if self.room < 1:
            self.enter_call(None, what)

    def leave_call(self, key: Hashable, owner: GreenThread | None) -> None:
        """Hand a contested lock on; `owner` held it and is no longer in `held`."""
        self.locks.settle(key, owner)

    def _switched(self, old: GreenThread | None, new: GreenThread | None) -> None:
        if old is not None:
            old.depth = self.max_room - self.room
        if new is not None:
            self.room = self.max_room - new.depth
            self.thread = new
        self.floor = _FAR if self.threads.alive > 1 else 1

    def parallel_map(self, function: Callable[[Any], Any], items: Sequence[Any]) -> tuple[Any, ...]:
        """Call a function for each item, each call in a green thread; results in order.

        The first error in this order is raised after all threads have ended.
        """

        def run_one(item: Any) -> Any:
            value = function(item)
            return value if value.__class__ in FINAL_TYPES else finalize(value, self)

        if not items:
            return ()
        limit = self.session.limits.parallel_branches
        threads = self.threads.join_all([partial(run_one, item) for item in items], limit)
        for thread in threads:
            if thread.error is not None:
                raise thread.error
        return tuple([thread.finished for thread in threads])
