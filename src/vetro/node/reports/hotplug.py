"""Noticing changes of the machine: its interfaces, by the kernel's own messages, and files."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

# linux/rtnetlink.h: groups of messages about links and IPv4 addresses.
_RTMGRP_LINK = 1
_RTMGRP_IPV4_IFADDR = 0x10
# Interfaces come and go in bursts when instances start: report once after each burst.
_QUIET_SECONDS = 2.0
_FILE_SECONDS = 5.0


async def link_changes(changed: Callable[[], None]) -> None:
    """Call ``changed`` after every burst of changes to links or addresses, until cancelled."""
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as messages:
        messages.setblocking(False)
        messages.bind((0, _RTMGRP_LINK | _RTMGRP_IPV4_IFADDR))
        while True:
            await _receive(loop, messages)
            await asyncio.sleep(_QUIET_SECONDS)
            # Messages that arrived meanwhile belong to the same burst.
            while True:
                try:
                    os.read(messages.fileno(), 65536)
                except BlockingIOError:
                    break
                except OSError:
                    # ENOBUFS: more arrived than the socket can hold; that is a change as well.
                    continue
            changed()


async def _receive(loop: asyncio.AbstractEventLoop, messages: socket.socket) -> None:
    try:
        await loop.sock_recv(messages, 65536)
    except OSError:
        # ENOBUFS, as above.
        return


async def file_changes(files: Sequence[Path], changed: Callable[[], None]) -> None:
    """Call ``changed`` once, and after every change of one of ``files``, until cancelled.

    A file may be missing, disappear, and come back.
    """
    before: list[tuple[int, int] | None] | None = None
    while True:
        now = [_mark(file) for file in files]
        if now != before:
            before = now
            changed()
        await asyncio.sleep(_FILE_SECONDS)


def _mark(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino
