"""Green threads: cooperative, deterministic, cheap.

Threads run one at a time in a fixed order: a thread runs until it waits. Ready threads run first,
in the order in which they became ready; then threads that wait for a recorded turn or a virtual
clock; then threads whose external waits complete (`scheduler`). So a run depends only on the order
of completions (muranopl.md section 22).

Scheduling state per thread: its key (path of child numbers from the root), its depth counter, and
whether it was notified of the abort.
"""

from __future__ import annotations

import contextvars
import heapq
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from types import FrameType
from typing import Any, TypeAlias, TypeVar, cast

import greenlet

from vetro.muranopl.values.errors import DeadlockDetected, LimitExceeded, RunAborted

from .external import ExternalWaits, close

T = TypeVar("T")
ThreadKey = tuple[int, ...]

_ABORT_GRACE_SECONDS = 30.0
running_here = threading.local()
"""`threads`: the green threads that run in this OS thread; `outer`: those suspended below them."""


class GreenThread:
    """One cooperative thread of a session."""

    # Defaults in the class: most threads are short and set few attributes.
    next_child: int = 0
    done: bool = False
    finished: Any = None
    error: BaseException | None = None
    join: Join | None = None
    resume_value: object = None
    resume_error: BaseException | None = None
    waiting_for: str | None = None
    abort_told: bool = False
    greenlet: greenlet.greenlet | None = None
    state: dict[str, Any] | None = None
    """State that child threads inherit (the exception being handled, mocks)."""

    def __init__(
        self, key: ThreadKey, parent: GreenThread | None, function: Callable[[], object], depth: int
    ) -> None:
        self.key = key
        self.parent = parent
        self.function = function
        self.depth = depth


class Join:
    """Threads that one thread waits for; further ones start as others end."""

    __slots__ = ("functions", "left", "owner", "stopped", "threads")

    def __init__(self, owner: GreenThread, functions: Sequence[Callable[[], object]]) -> None:
        self.owner = owner
        self.functions = functions
        self.threads: list[GreenThread] = []
        self.left = 0
        self.stopped = False
        """True when no further thread may start: the run is being aborted."""


Switched: TypeAlias = "Callable[[GreenThread | None, GreenThread | None], None]"


class GreenThreads:
    """The green threads of one session: the running one, the ready ones, the waiting ones.

    A `Scheduler` drives them, and waits for the external events that they wait for.

    `switched(old, new)` is called around every switch, so that the owner can keep per-thread
    counters in one place.
    """

    def __init__(
        self,
        *,
        max_threads: int = 20_000,
        switched: Switched | None = None,
    ) -> None:
        self.current: GreenThread | None = None
        self.alive = 0
        """Threads that have begun and not ended."""
        self._max_threads = max_threads
        self._switched = switched
        self._ready: deque[GreenThread] = deque()
        self._turns: list[tuple[int, int, GreenThread]] = []
        self._sleepers: list[tuple[datetime, int, GreenThread]] = []
        self._timers: list[tuple[float, int, GreenThread]] = []
        self.external = ExternalWaits()
        self._blocked: set[GreenThread] = set()
        self._alive: set[GreenThread] = set()
        self._sequence = 0
        self._roots = 0
        self._hub: greenlet.greenlet | None = None
        self.abort: RunAborted | None = None
        self._abort_deadline = 0.0
        self.deadline: float | None = None
        """The `time.monotonic()` deadline of the host call in progress."""

    # -- for code in a green thread ----------------------------------------------------------

    def spawn(self, function: Callable[[], T], *, parent: GreenThread | None = None) -> GreenThread:
        """Make a thread; it starts when the current one waits."""
        if self.alive >= self._max_threads:
            raise LimitExceeded(
                f"more than {self._max_threads} green threads at once", limit="green_threads"
            )
        if parent is None:
            key: ThreadKey = (self._roots,)
            self._roots += 1
        else:
            key = (*parent.key, parent.next_child)
            parent.next_child += 1
        thread = GreenThread(key, parent, function, 0 if parent is None else parent.depth)
        if parent is not None and parent.state is not None:
            thread.state = dict(parent.state)
        self.alive += 1
        self._alive.add(thread)
        self._ready.append(thread)
        return thread

    def join_all(
        self, functions: Sequence[Callable[[], object]], limit: int | None = None
    ) -> list[GreenThread]:
        """Run each function in its own thread, at most `limit` at once; wait for all of them.

        The threads hold results and errors, in the order of the functions.
        """
        me = self._must_be_inside("join_all")
        total = len(functions)
        join = Join(me, functions)
        for _ in range(total if limit is None else max(1, min(limit, total))):
            self._start_next(join)
        pending_abort: BaseException | None = None
        while join.left:
            try:
                self.block("the end of its parallel branches")
            except RunAborted as error:
                if pending_abort is not None:
                    raise
                pending_abort = error
                join.stopped = True
        if pending_abort is not None:
            raise pending_abort
        return join.threads

    def _start_next(self, join: Join) -> None:
        thread = self.spawn(join.functions[len(join.threads)], parent=join.owner)
        thread.join = join
        join.threads.append(thread)
        join.left += 1

    def block(self, reason: str) -> Any:
        """Suspend the current thread until `make_ready`."""
        me = self._must_be_inside("block")
        self._check_abort(me)
        self._blocked.add(me)
        try:
            return self._switch_out(me, reason)
        finally:
            self._blocked.discard(me)

    def make_ready(
        self, thread: GreenThread, value: object = None, error: BaseException | None = None
    ) -> None:
        """Resume a blocked thread after those that are already ready."""
        thread.resume_value = value
        thread.resume_error = error
        self._blocked.discard(thread)
        self._ready.append(thread)

    def wait(self, awaitable: Awaitable[T]) -> T:
        """Suspend the current thread until the awaitable is done; its result or exception."""
        me = self._must_be_inside("wait")
        try:
            self._check_abort(me)
        except RunAborted:
            close(awaitable)
            raise
        self.external.add(me, awaitable)
        return cast(T, self._switch_out(me, "an effect"))

    def yield_now(self) -> None:
        """Let the other ready threads run first."""
        me = self._must_be_inside("yield_now")
        self._ready.append(me)
        self._switch_out(me, "its turn")

    def wait_turn(self, position: int) -> None:
        """Suspend until no thread can run and this is the lowest position that any waits for."""
        self._wait_in(self._turns, position, f"turn {position}")

    def sleep_until(self, when: datetime) -> None:
        """Suspend until the virtual clock reaches `when`."""
        self._wait_in(self._sleepers, when, f"the time {when.isoformat()}")

    def sleep_for(self, seconds: float) -> None:
        """Suspend for real time; the end counts as a completion like any other."""
        self._wait_in(self._timers, time.monotonic() + max(seconds, 0.0), "the end of its sleep")

    def _wait_in(
        self, queue: list[tuple[Any, int, GreenThread]], when: object, reason: str
    ) -> None:
        me = self._must_be_inside("waiting")
        self._check_abort(me)
        self._sequence += 1
        heapq.heappush(queue, (when, self._sequence, me))
        self._switch_out(me, reason)

    # -- for the host ------------------------------------------------------------------------

    def step(self) -> bool:
        """Run one ready thread until it waits; False when all threads wait for external events."""
        self._enter()
        try:
            if self.abort is not None:
                self.abort_waiting()
            while not self._ready:
                if self._turns:
                    self._ready.append(heapq.heappop(self._turns)[2])
                elif self.external.pending or self._timers:
                    return False
                elif self._sleepers:
                    self._wake_sleepers()
                elif self.abort is None or not self._abort_blocked():
                    self._report_deadlock()
            self._switch_into(self._ready.popleft())
        finally:
            self._leave()
        return True

    def waiting(self) -> dict[ThreadKey, str]:
        """The reason of each wait, by the key of the thread; without the running thread."""
        return {
            thread.key: thread.waiting_for or "its turn"
            for thread in sorted(self._alive, key=lambda item: item.key)
            if thread is not self.current
        }

    def request_abort(self, error: RunAborted) -> None:
        """Make every thread end with this error. May be called from any OS thread."""
        if self.abort is None:
            self._abort_deadline = time.monotonic() + _ABORT_GRACE_SECONDS
            self.abort = error
        self.external.notify()

    def check(self) -> None:
        """Raise a requested abort, or the one of an expired deadline."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            self.expire()
        if self.abort is not None and self.current is not None:
            self._check_abort(self.current)

    def reset_abort(self) -> None:
        """Forget an abort once every thread of the run has ended."""
        self.abort = None

    def suspended_frames(self) -> list[FrameType]:
        """The innermost frames of the suspended threads."""
        return [
            thread.greenlet.gr_frame
            for thread in self._alive
            if thread is not self.current
            and thread.greenlet is not None
            and thread.greenlet.gr_frame is not None
        ]

    # -- for the scheduler ---------------------------------------------------------------------

    @property
    def entered(self) -> bool:
        """True while threads are being run."""
        return self._hub is not None

    @property
    def has_ready(self) -> bool:
        """True when a thread can continue."""
        return bool(self._ready)

    @property
    def seconds_left(self) -> float | None:
        """Time until the deadline; of an aborted run, until its threads are aborted once more."""
        if self.abort is not None:
            return max(self._abort_deadline - time.monotonic(), 0.01)
        return None if self.deadline is None else max(self.deadline - time.monotonic(), 0)

    @property
    def seconds_of_sleep(self) -> float | None:
        """Time until the first sleep ends; None when no thread sleeps."""
        return max(self._timers[0][0] - time.monotonic(), 0) if self._timers else None

    def expire(self) -> None:
        """Abort the run because its time is over."""
        if self.abort is None:
            self.request_abort(
                LimitExceeded("the run took longer than its time limit", limit="seconds")
            )

    def run_until_idle(self, root: GreenThread) -> bool:
        """Run ready threads, recorded turns and virtual sleeps until nothing more can run.

        Returns whether the root has ended.
        """
        self._enter()
        try:
            while not root.done:
                if self._ready:
                    self._switch_into(self._ready.popleft())
                elif self._turns:
                    self._ready.append(heapq.heappop(self._turns)[2])
                elif self.external.pending:
                    break
                elif self._timers:
                    # A running event loop must get its turn: then the scheduler wakes the sleeper.
                    if self.external.in_loop or not self.wake_timer():
                        break
                elif self._sleepers:
                    self._wake_sleepers()
                elif self.abort is not None and self._abort_blocked():
                    continue
                else:
                    self._report_deadlock()
        finally:
            self._leave()
        return root.done

    def wake_timer(self) -> bool:
        """Resume one thread whose sleep is over; False when there is none."""
        if not self._timers or self._timers[0][0] > time.monotonic():
            return False
        self._ready.append(heapq.heappop(self._timers)[2])
        return True

    def abort_waiting(self) -> None:
        """Cancel all external waits and sleeps of threads; they raise the abort instead."""
        late = time.monotonic() > self._abort_deadline

        def must_be_told(thread: GreenThread) -> bool:
            if thread.abort_told and not late:
                return False
            thread.abort_told = True
            return True

        self.external.cancel(must_be_told)
        for _, _, thread in (*self._sleepers, *self._timers):
            if must_be_told(thread):
                self.make_ready(thread, error=self.abort)
        waiting = set(self._ready)
        self._sleepers = [entry for entry in self._sleepers if entry[2] not in waiting]
        self._timers = [entry for entry in self._timers if entry[2] not in waiting]
        heapq.heapify(self._sleepers)
        heapq.heapify(self._timers)

    # -- inside ------------------------------------------------------------------------------

    def _check_abort(self, thread: GreenThread) -> None:
        if self.abort is None:
            return
        if not thread.abort_told or time.monotonic() > self._abort_deadline:
            thread.abort_told = True
            raise self.abort

    def _must_be_inside(self, what: str) -> GreenThread:
        if self.current is None:
            raise RuntimeError(
                f"{what} is possible only in a green thread; this code runs outside of one"
            )
        return self.current

    def _switch_out(self, me: GreenThread, reason: str) -> object:
        me.waiting_for = reason
        hub = self._hub
        assert hub is not None
        hub.switch()
        me.waiting_for = None
        error = me.resume_error
        if error is not None:
            me.resume_error = None
            raise error
        value, me.resume_value = me.resume_value, None
        return value

    def _begin(self, thread: GreenThread) -> None:
        """Run a thread in a new greenlet, then following threads that have not begun.

        When a branch ends, its greenlet continues with the next ready thread in the hub's order, so
        that short branches need no greenlet and no switch of their own.
        """
        carrier = thread.greenlet
        while True:
            try:
                if self.abort is not None:
                    self._check_abort(thread)
                thread.finished = thread.function()
            except BaseException as error:  # noqa: BLE001 - kept for the thread that joins this one
                thread.error = error
            thread.done = True
            thread.greenlet = None
            self.alive -= 1
            self._alive.discard(thread)
            join = thread.join
            if join is not None:
                join.left -= 1
                if len(join.threads) < len(join.functions) and not join.stopped:
                    self._start_next(join)
                elif not join.left and join.owner in self._blocked:
                    self.make_ready(join.owner)
            ready = self._ready
            if join is None or not ready or ready[0].greenlet is not None:
                return
            following = ready.popleft()
            if self._switched is not None:
                self._switched(thread, following)
            thread = self.current = following
            thread.greenlet = carrier
            assert carrier is not None
            carrier.gr_context = contextvars.copy_context()

    def _switch_into(self, thread: GreenThread) -> None:
        if self._switched is not None:
            self._switched(None, thread)
        self.current = thread
        if thread.greenlet is None:
            made = greenlet.greenlet(self._begin)
            made.gr_context = contextvars.copy_context()
            thread.greenlet = made
            made.switch(thread)
        else:
            thread.greenlet.switch()
        left, self.current = self.current, None
        if self._switched is not None:
            self._switched(left, None)

    def _wake_sleepers(self) -> None:
        when = self._sleepers[0][0]
        while self._sleepers and self._sleepers[0][0] == when:
            self._ready.append(heapq.heappop(self._sleepers)[2])

    def _report_deadlock(self) -> None:
        if not self._blocked:
            raise RuntimeError("the root thread waits, but nothing can resume it")
        leaves = [t for t in self._blocked if t.waiting_for != "the end of its parallel branches"]
        chosen = sorted(leaves or self._blocked, key=lambda t: t.key)
        text = "; ".join(
            f"thread {'.'.join(map(str, t.key))} waits for {t.waiting_for}" for t in chosen[:5]
        )
        self.make_ready(chosen[0], error=DeadlockDetected(f"green threads are deadlocked: {text}"))

    def _abort_blocked(self) -> bool:
        notified = False
        assert self.abort is not None
        for thread in sorted(self._blocked, key=lambda t: t.key):
            if not thread.abort_told:
                thread.abort_told = True
                self.make_ready(thread, error=self.abort)
                notified = True
        return notified

    def _enter(self) -> None:
        self._hub = greenlet.getcurrent()
        running_here.outer = [
            *getattr(running_here, "outer", []),
            getattr(running_here, "threads", None),
        ]
        running_here.threads = self

    def _leave(self) -> None:
        self._hub = None
        running_here.threads = running_here.outer.pop()


def outcome(thread: GreenThread) -> Any:
    if thread.error is not None:
        raise thread.error
    return thread.finished
