"""Locks between green threads (muranopl.md section 22).

Only taken while more than one green thread is alive: a lone thread has nobody to exclude, and an
ancestor that took none is waiting for its children, who may enter what it is in (section 28).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from .scheduler import GreenThread, Scheduler


class _Lock:
    __slots__ = ("count", "owner", "waiters")

    def __init__(self) -> None:
        self.owner: GreenThread | None = None
        self.count = 0
        self.waiters: deque[GreenThread] = deque()


class LockTable:
    """Re-entrant locks by key; a key without holder takes no memory.

    A key that one thread holds once, which is nearly always so, maps to that thread alone; a
    `_Lock` stands there when it is entered again or waited for.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._held: dict[Hashable, GreenThread | _Lock] = {}

    def acquire(self, key: Hashable, what: str) -> bool:
        """Wait for the lock. False when an ancestor holds it, so that nothing is to be released."""
        me = self._scheduler.current
        assert me is not None
        held = self._held
        known = held.get(key)
        if known is None:
            held[key] = me
            return True
        if isinstance(known, GreenThread):
            lock = held[key] = _Lock()
            lock.owner = known
            lock.count = 1
        else:
            lock = known
        if lock.owner is None or lock.owner is me:
            lock.owner = me
            lock.count += 1
            return True
        if _is_ancestor(lock.owner, me):
            return False
        lock.waiters.append(me)
        try:
            self._scheduler.block(f"{what}, which thread {_path(lock.owner)} is in")
        except BaseException:
            if me in lock.waiters:
                lock.waiters.remove(me)
            elif lock.owner is me:
                self._pass_on(key, lock)
            raise
        return True

    def release(self, key: Hashable) -> None:
        """Give the lock to whoever waits longest."""
        lock = self._held[key]
        if isinstance(lock, GreenThread):
            del self._held[key]
            return
        lock.count -= 1
        if lock.count == 0:
            self._pass_on(key, lock)

    def _pass_on(self, key: Hashable, lock: _Lock) -> None:
        if lock.waiters:
            following = lock.waiters.popleft()
            lock.owner = following
            lock.count = 1
            self._scheduler.make_ready(following)
        else:
            del self._held[key]


def _is_ancestor(candidate: GreenThread, thread: GreenThread) -> bool:
    parent = thread.parent
    while parent is not None:
        if parent is candidate:
            return True
        parent = parent.parent
    return False


def _path(thread: GreenThread) -> str:
    return ".".join(map(str, thread.key))
