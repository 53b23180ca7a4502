"""Notifications to a supervisor that waits for them: this process is ready, or stops.

The protocol of systemd (`Type=notify`, sd_notify(3)): one datagram to the socket that `NOTIFY_SOCKET`
names. Without the variable nothing is sent.
"""

from __future__ import annotations

import os
import socket

import structlog

log = structlog.get_logger("vetro.server")

READY = "READY=1"
STOPPING = "STOPPING=1"


def notify_supervisor(*lines: str) -> None:
    """Send assignments such as `READY`; a supervisor that cannot be reached is logged, not an error."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as door:
            # A name that begins with @ is in the abstract namespace.
            door.connect("\0" + address[1:] if address.startswith("@") else address)
            door.sendall("\n".join(lines).encode())
    except OSError as error:
        log.warning("supervisor_not_told", socket=address, error=str(error))
