"""JSON messages between the engine's processes: over a socket, each with its length before it. The pool
sends one to end a task before it has ended."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
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


@contextmanager
def orders_to(
    cancel: Callable[[str], None], orders: socket.socket | None, seconds: float
) -> Generator[None]:
    """Call ``cancel(reason)`` when the pool says so over ``orders``, or after ``seconds`` (0: never)."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        assert orders is not None
        # The message is short and sent at once: it is complete, or the pool is gone.
        message = receive_message(orders)
        if message is None:
            loop.remove_reader(orders)
        elif "cancel" in message:
            cancel(message["cancel"])

    alarm = None
    if seconds:
        reason = f"The deployment took longer than {seconds:g} seconds and was cancelled"
        alarm = loop.call_later(seconds, cancel, reason)
    if orders is not None:
        loop.add_reader(orders, read)
    try:
        yield
    finally:
        if orders is not None:
            loop.remove_reader(orders)
        if alarm is not None:
            alarm.cancel()
