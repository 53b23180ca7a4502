"""An event loop whose clock jumps to the next thing that happens."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

START = datetime(2026, 1, 1, tzinfo=UTC)


class Deadlock(Exception):
    """Everybody waits and nothing is planned: somebody was not woken."""


class _Nothing(selectors.BaseSelector):
    """A selector without files: waiting for them moves the clock on."""

    def __init__(self) -> None:
        self.loop: VirtualLoop | None = None
        self._keys: dict[int, selectors.SelectorKey] = {}

    def select(self, timeout: float | None = None) -> list[Any]:
        assert self.loop is not None
        if timeout is None:
            raise Deadlock("nothing is planned and somebody waits")
        if timeout > 0:
            self.loop.now += timeout
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys[number] = selectors.SelectorKey(fileobj, number, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self.register(fileobj, events, data)

    def get_map(self) -> Any:
        return self._keys


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time passes only when nobody has anything to do."""

    def __init__(self) -> None:
        self.now = 0.0
        selector = _Nothing()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now


class VirtualClock:
    """The wall clock of a virtual loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> datetime:
        return START + timedelta(seconds=self._loop.now)

    def monotonic(self) -> float:
        return self._loop.now


def run(main: Coroutine[Any, Any, Any], loop: VirtualLoop) -> Any:
    """Run ``main`` to its end; whoever is left is cancelled."""
    try:
        return loop.run_until_complete(main)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()
