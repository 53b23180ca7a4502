"""Ending a task before it has ended: the pool's order to cancel it, and the time limit."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager

from vetro.engine.worker.messages import receive_message


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
