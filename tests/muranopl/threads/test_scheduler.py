"""Green threads: order, waiting, locks, deadlock, cancelling."""

import asyncio
import threading
from datetime import UTC, datetime

import pytest

from vetro.muranopl.threads.effects import DirectEffects
from vetro.muranopl.threads.locks import LockTable
from vetro.muranopl.threads.scheduler import Scheduler, current_thread, wait, wait_turn
from vetro.muranopl.values.errors import Cancelled, DeadlockDetected, LimitExceeded


def test_branches_run_in_order_and_are_all_awaited():
    """join_all starts threads in list order and returns when the last has ended."""
    scheduler = Scheduler()
    trace = []

    def branch(name):
        def run():
            trace.append(name + "1")
            scheduler.threads.yield_now()
            trace.append(name + "2")
            return name

        return run

    def main():
        threads = scheduler.threads.join_all([branch("a"), branch("b"), branch("c")])
        return [thread.finished for thread in threads]

    assert scheduler.run(main) == ["a", "b", "c"]
    assert trace == ["a1", "b1", "c1", "a2", "b2", "c2"]


def test_a_limit_bounds_how_many_run_at_once():
    """With a limit of two the third branch starts when one has ended."""
    scheduler = Scheduler()
    running = 0
    most = 0

    def branch():
        nonlocal running, most
        running += 1
        most = max(most, running)
        scheduler.threads.yield_now()
        running -= 1

    scheduler.run(lambda: scheduler.threads.join_all([branch] * 7, limit=2))
    assert most == 2


def test_thread_keys_are_paths_of_child_numbers():
    """A thread's key says which child of which thread it is."""
    scheduler = Scheduler()

    def main():
        threads = scheduler.threads.join_all([current_thread, current_thread])
        return [current_thread(), *(t.finished for t in threads)]

    assert scheduler.run(main) == [(0,), (0, 0), (0, 1)]


def test_waiting_needs_no_loop_of_the_host():
    """`run` starts an event loop when a thread waits for an awaitable."""
    scheduler = Scheduler()

    async def answer():
        await asyncio.sleep(0)
        return 42

    assert scheduler.run(lambda: wait(answer())) == 42


async def test_other_threads_and_the_loop_go_on_while_one_waits():
    """A wait suspends its green thread only."""
    scheduler = Scheduler()
    gate = asyncio.Event()
    trace = []

    def waiting():
        wait(gate.wait())
        trace.append("woken")

    def opening():
        trace.append("opening")
        gate.set()

    await scheduler.run_async(lambda: scheduler.threads.join_all([waiting, opening]))
    assert trace == ["opening", "woken"]


def test_an_awaitable_that_fails_raises_in_the_thread_that_waits():
    """Exceptions keep their identity through a wait."""
    scheduler = Scheduler()

    async def fail():
        raise OSError("no route")

    with pytest.raises(OSError, match="no route"):
        scheduler.run(lambda: wait(fail()))


def test_turns_are_taken_in_ascending_order():
    """`wait_turn` resumes the lowest position first, in whatever order threads asked."""
    scheduler = Scheduler()
    trace = []

    def branch(position):
        def run():
            wait_turn(position)
            trace.append(position)

        return run

    scheduler.run(lambda: scheduler.threads.join_all([branch(p) for p in (3, 1, 2)]))
    assert trace == [1, 2, 3]


def test_virtual_sleep_takes_no_time_and_keeps_order():
    """On a virtual clock the shortest sleep ends first and the clock stands at its end."""
    effects = DirectEffects(seed=1, start=datetime(2020, 1, 1, tzinfo=UTC))
    scheduler = Scheduler()
    trace = []

    def branch(seconds):
        def run():
            effects.sleep(seconds)
            trace.append((seconds, effects.now().hour))

        return run

    scheduler.run(lambda: scheduler.threads.join_all([branch(s) for s in (7200, 3600, 10)]))
    assert trace == [(10, 0), (3600, 1), (7200, 2)]


def test_a_lock_excludes_other_threads_and_admits_its_owner_again():
    """Two threads take turns; one thread enters twice."""
    scheduler = Scheduler()
    locks = LockTable(scheduler.threads)
    trace = []

    def branch(name):
        def run():
            assert locks.acquire("k", "k")
            assert locks.acquire("k", "k")
            trace.append(name + " in")
            scheduler.threads.yield_now()
            trace.append(name + " out")
            locks.release("k")
            locks.release("k")

        return run

    scheduler.run(lambda: scheduler.threads.join_all([branch("a"), branch("b")]))
    assert trace == ["a in", "a out", "b in", "b out"]


def test_a_child_enters_what_its_waiting_ancestor_holds():
    """A descendant of the owner is not blocked by it."""
    scheduler = Scheduler()
    locks = LockTable(scheduler.threads)

    def main():
        assert locks.acquire("k", "k")
        scheduler.threads.join_all([lambda: locks.acquire("k", "k")])
        locks.release("k")
        return "done"

    assert scheduler.run(main) == "done"


def test_a_deadlock_is_raised_and_names_what_is_waited_for():
    """Two threads that hold what the other wants do not hang."""
    scheduler = Scheduler()
    locks = LockTable(scheduler.threads)

    def branch(first, second):
        def run():
            locks.acquire(first, first)
            try:
                scheduler.threads.yield_now()
                locks.acquire(second, second)
                locks.release(second)
            finally:
                locks.release(first)

        return run

    def main():
        return [t.error for t in scheduler.threads.join_all([branch("a", "b"), branch("b", "a")])]

    errors = scheduler.run(main)
    assert isinstance(errors[0], DeadlockDetected)
    assert "waits for b" in str(errors[0])
    assert errors[1] is None


async def test_cancelling_from_another_os_thread_ends_a_wait():
    """request_abort reaches threads that wait; their finally blocks run."""
    scheduler = Scheduler()
    entered = asyncio.Event()
    trace = []

    async def forever():
        entered.set()
        await asyncio.Event().wait()

    def main():
        try:
            wait(forever())
        finally:
            trace.append("finally")

    async def canceller():
        await entered.wait()
        thread = threading.Thread(
            target=scheduler.threads.request_abort, args=(Cancelled("enough"),)
        )
        thread.start()
        await asyncio.to_thread(thread.join)

    task = asyncio.ensure_future(canceller())
    with pytest.raises(Cancelled, match="enough"):
        await scheduler.run_async(main)
    await task
    assert trace == ["finally"]


async def test_a_cancelled_host_task_cancels_the_program():
    """Cancelling the task that awaits run_async ends the green threads first."""
    scheduler = Scheduler()
    entered = asyncio.Event()
    trace = []

    async def forever():
        entered.set()
        await asyncio.Event().wait()

    def main():
        try:
            wait(forever())
        finally:
            trace.append("finally")

    task = asyncio.ensure_future(scheduler.run_async(main))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert trace == ["finally"]


def test_too_many_threads_are_refused():
    """The number of live green threads is bounded."""
    scheduler = Scheduler(max_threads=3)
    with pytest.raises(LimitExceeded, match="green threads"):
        scheduler.run(lambda: scheduler.threads.join_all([lambda: None] * 5))


def test_thousands_of_sleeping_threads_are_cheap():
    """Five thousand threads sleep and end."""
    effects = DirectEffects(seed=1, start=datetime(2020, 1, 1, tzinfo=UTC))
    scheduler = Scheduler()

    def branch():
        effects.sleep(5)
        return 1

    threads = scheduler.run(lambda: scheduler.threads.join_all([branch] * 5000))
    assert sum(t.finished for t in threads) == 5000
