"""JSON messages between the engine's processes: over a socket, each with its length before it."""

from __future__ import annotations

import json
import socket
from typing import Any

LENGTH = 8


def send_message(channel: socket.socket, value: object) -> None:
    """Send one JSON value with its length before it."""
    body = json.dumps(value).encode()
    channel.sendall(len(body).to_bytes(LENGTH, "big") + body)


def receive_message(channel: socket.socket) -> Any:
    """The next JSON value; ``None`` when the other side has closed."""
    head = _exactly(channel, LENGTH)
    if head is None:
        return None
    body = _exactly(channel, int.from_bytes(head, "big"))
    return None if body is None else json.loads(body)


def _exactly(channel: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        chunk = channel.recv(min(1 << 20, size - len(parts)))
        if not chunk:
            return None
        parts += chunk
    return bytes(parts)
