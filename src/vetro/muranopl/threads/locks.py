"""Locks between green threads (muranopl.md section 22).

Locks are taken only while more than one green thread is alive: a single thread excludes no other,
and an ancestor that took no lock waits for its children, which may enter its methods (section 28).

Generated code itself takes and releases a free lock: it stores the thread in `held` under the
lock's key and removes it again. This module handles the other cases.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from .greenthreads import GreenThread, GreenThreads


class _Contest:
    """The state of a lock that was entered again or that other threads wait for."""

    __slots__ = ("count", "waiters")

    def __init__(self) -> None:
        self.count = 1
        self.waiters: deque[GreenThread] = deque()


class LockTable:
    """Re-entrant locks by key; a free lock takes no memory."""

    def __init__(self, threads: GreenThreads) -> None:
        self._threads = threads
        self.held: dict[Hashable, GreenThread | None] = {}
        """The holder of each lock."""
        self.contested: dict[Hashable, _Contest] = {}

    def acquire(self, key: Hashable, what: str) -> bool:
        """Wait for the lock. False when an ancestor holds it; then it must not be released."""
        me = self._threads.current
        assert me is not None
        owner = self.held.get(key)
        if owner is None:
            self.held[key] = me
            return True
        if owner is not me and _is_ancestor(owner, me):
            return False
        contest = self.contested.get(key)
        if contest is None:
            contest = self.contested[key] = _Contest()
        if owner is me:
            contest.count += 1
            return True
        contest.waiters.append(me)
        try:
            self._threads.block(f"{what}, which thread {_path(owner)} is in")
        except BaseException:
            if me in contest.waiters:
                contest.waiters.remove(me)
            elif self.held.get(key) is me:
                del self.held[key]
                self.settle(key, me)
            raise
        return True

    def release(self, key: Hashable) -> None:
        """Release a lock that `acquire` took."""
        owner = self.held.pop(key)
        if key in self.contested:
            self.settle(key, owner)

    def settle(self, key: Hashable, owner: GreenThread | None) -> None:
        """After the release of a contested lock: keep it for re-entry, or pass it to a waiter."""
        contest = self.contested.get(key)
        if contest is None:
            return
        contest.count -= 1
        if contest.count:
            self.held[key] = owner
        elif contest.waiters:
            following = contest.waiters.popleft()
            contest.count = 1
            self.held[key] = following
            self._threads.make_ready(following)
        if contest.count <= 1 and not contest.waiters:
            del self.contested[key]


def _is_ancestor(candidate: GreenThread, thread: GreenThread) -> bool:
    parent = thread.parent
    while parent is not None:
        if parent is candidate:
            return True
        parent = parent.parent
    return False


def _path(thread: GreenThread) -> str:
    return ".".join(map(str, thread.key))
