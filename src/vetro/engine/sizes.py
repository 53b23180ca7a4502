"""Bounds on what a program hands out: its model, its results, its words.

A program may build a value out of itself, so that a few kilobytes of objects are gigabytes of JSON. So
values are counted as they would be written, every occurrence, and the counting ends at the limit.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any, cast

MEBIBYTE = 2**20


def exceeds(value: Any, limit_bytes: int) -> bool:
    """Whether JSON of a value surely has more than so many bytes. Ends as soon as that is known."""
    left = limit_bytes
    pending: list[Any] = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, str):
            left -= len(one) + 2
        elif isinstance(one, dict):
            node = cast("dict[Any, Any]", one)
            left -= 2 + sum(len(str(key)) + 4 for key in node)
            pending.extend(node.values())
        elif isinstance(one, (list, tuple)):
            items = cast("list[Any]", one)
            left -= 1 + len(items)
            pending.extend(items)
        else:
            left -= 1
        if left < 0:
            return True
    return False


def limit_memory(mebibytes: int) -> None:
    """Let this process have so much memory more than it has now; 0: as much as there is.

    What is beyond it is a ``MemoryError`` here, and no other process suffers.
    """
    if not mebibytes:
        return
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + mebibytes * MEBIBYTE
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
