"""Limits on what a program produces: its model, its results, its texts.

A program may nest a value in itself, so that a few kilobytes of objects become gigabytes of JSON.
Values are therefore counted as they would be written, every occurrence, up to the limit.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any, cast

MEBIBYTE = 2**20


def exceeds(value: object, limit_bytes: int) -> bool:
    """Whether the JSON of a value surely has more than so many bytes. Stops at the limit."""
    left = limit_bytes
    pending: list[object] = [value]
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
    """Let this process use so much more memory than it uses now; 0: no limit.

    Beyond it a ``MemoryError`` is raised here; other processes are not affected.
    """
    if not mebibytes:
        return
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + mebibytes * MEBIBYTE
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
