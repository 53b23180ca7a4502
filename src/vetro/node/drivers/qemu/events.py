"""libvirt's events: one thread of this process handles them for all connections.

The library supports one event loop for the life of a process, so it cannot be asyncio's: a process
may run several of those in turn. The thread sleeps in ``poll`` while nothing happens.
"""

from __future__ import annotations

import threading
from typing import Any

import structlog

log = structlog.get_logger(__name__)

_lock = threading.Lock()
_carrier: list[threading.Thread] = []


def carry(library: Any) -> None:
    """Start to handle events, once; call it before the first connection is opened."""
    with _lock:
        if _carrier:
            return
        library.virEventRegisterDefaultImpl()
        # A daemon thread: it never ends, and must not delay the end of the process.
        thread = threading.Thread(target=_run, args=(library,), name="libvirt events", daemon=True)
        _carrier.append(thread)
        thread.start()


def _run(library: Any) -> None:
    while True:
        try:
            library.virEventRunDefaultImpl()
        except library.libvirtError as error:
            log.error("libvirt_events_ended", error=str(error))
            return
