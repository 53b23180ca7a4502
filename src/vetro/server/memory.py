"""Memory of a service that has started: what the collector may forget, and huge pages (decision 0730)."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import gc
import os
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

HUGE_PAGE = 2**21
#: Pages of 4 KiB that are in use of the 512 of a huge page: it is made when they are at least that many, so
#: that a process hardly grows. With 410 it was 4 MiB, with 505 it is 2.
_LEAST_USED = 496
#: madvise(2); Linux 6.1 and later.
_MADV_COLLAPSE = 25
#: Seconds from one time to the next: caches fill after the start.
_AGAIN_AFTER = (0.0, 60.0, 600.0)


def freeze_collector() -> None:
    """Let the collector forget what is there now: it stays, and looking at all of it takes a tenth of a
    second, while requests wait."""
    gc.collect()
    gc.freeze()


async def keep_on_huge_pages() -> None:
    """Put this process's memory on huge pages: soon, in a minute, and in ten."""
    for seconds in _AGAIN_AFTER:
        await asyncio.sleep(seconds)
        try:
            made = await asyncio.to_thread(use_huge_pages)
        except OSError as error:
            log.debug("no_huge_pages", error=str(error))
            return
        log.debug("huge_pages", mebibytes=made * HUGE_PAGE // 2**20)


def use_huge_pages() -> int:
    """Put those parts of this process's own memory on huge pages that are nearly all in use; how many.

    Those that are on one already count. Errors: ``OSError`` (no Linux, an older kernel, or its administrator
    does not want it).
    """
    libc = ctypes.CDLL(None, use_errno=True)
    resident = ctypes.create_string_buffer(HUGE_PAGE // 4096)
    made = 0
    for start, end in _own_memory():
        for at in range(-(-start // HUGE_PAGE) * HUGE_PAGE, end - HUGE_PAGE + 1, HUGE_PAGE):
            where, size = ctypes.c_void_p(at), ctypes.c_size_t(HUGE_PAGE)
            if libc.mincore(where, size, resident):
                continue  # it was returned to the kernel meanwhile
            if sum(byte & 1 for byte in resident.raw) < _LEAST_USED:
                continue
            if libc.madvise(where, size, _MADV_COLLAPSE):
                number = ctypes.get_errno()
                if number == errno.EINVAL and made == 0:
                    raise OSError(number, os.strerror(number))
                continue  # none was free, or another thread returned a part of it
            made += 1
    return made


def _own_memory() -> list[tuple[int, int]]:
    """The ranges of addresses that this process reads and writes and that no file is behind."""
    found: list[tuple[int, int]] = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, rights, _, _, inode, *name = line.split(maxsplit=5)
        if rights == "rw-p" and inode == "0" and (not name or name[0] == "[heap]"):
            start, _, end = addresses.partition("-")
            found.append((int(start, 16), int(end, 16)))
    return found
