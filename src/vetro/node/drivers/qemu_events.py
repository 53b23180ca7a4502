"""libvirt's events: one thread of this process carries them for all connections.

The library knows one event loop for the life of a process, so it cannot be asyncio's, of which there may be
one after the other. The thread sleeps in ``poll`` as long as nothing happens.
"""

from __future__ import annotations

import threading
from typing import Any

import structlog

log = structlog.get_logger(__name__)

_lock = threading.Lock()
_carrier: list[threading.Thread] = []


def carry(library: Any) -> None:
    """Begin to carry events, once; before the first connection is opened."""
    with _lock:
        if _carrier:
            return
        library.virEventRegisterDefaultImpl()
        # A daemon: it has no end of its own, and nothing of it must be kept at the process's.
        thread = threading.Thread(target=_run, args=(library,), name="libvirt events", daemon=True)
        _carrier.append(thread)
        thread.start()


def _run(library: Any) -> None:
    while True:
        try:
            library.virEventRunDefaultImpl()
        except library.libvirtError as error:
            log.error("libvirt's events are not carried any more", error=str(error))
            return
