"""Fence numbers: a ticket's holder whose turn is over can no longer change anything.

The service gives each ticket a higher number than the last; a task done under a ticket carries it.
The node stores the highest number of each queue (scope and id), also across restarts.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from vetro.compute.wire import Fence
from vetro.node.files import read_json, write_json

# Queues are made for VMs that come and go: beyond this many, the oldest numbers are dropped.
_KEPT = 10_000


class Fences:
    """The highest numbers this node has received, kept in ``file``."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._highest: dict[str, int] | None = None

    def overtaken_by(self, fence: Fence) -> int | None:
        """Record a number; returns a higher one that was received before, or ``None``."""
        if self._highest is None:
            self._highest = cast("dict[str, int]", read_json(self._file) or {})
        key = f"{fence.scope}/{fence.id}"
        known = self._highest.get(key, -1)
        if known > fence.number:
            return known
        if known < fence.number:
            # The newest comes last, so that the oldest are dropped first.
            self._highest.pop(key, None)
            self._highest[key] = fence.number
            while len(self._highest) > _KEPT:
                del self._highest[next(iter(self._highest))]
            write_json(self._file, self._highest)
        return None
