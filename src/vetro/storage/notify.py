"""Waking other tasks and other processes after a commit.

Every process has one ``Switchboard``. Subscriptions live in memory; a notification reaches the ones
of this process directly and those of other processes through a carrier: on PostgreSQL
``NOTIFY``, on SQLite datagrams to the sockets that the processes keep in one directory. A
notification is a hint, never the truth: who wakes looks at the database.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import socket
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

# A datagram must fit the smallest usual socket buffer; larger payloads are cut to the bare hint.
MAX_PAYLOAD = 4000


class Subscription:
    """The notifications of one channel since the subscription began."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque(maxlen=10_000)
        self._event = asyncio.Event()

    def deliver(self, payload: str) -> None:
        """Queue a payload and wake the waiter."""
        self._waiting.append(payload)
        self._event.set()

    async def wait(self, timeout: float | None = None) -> str | None:
        """The next payload, or ``None`` after ``timeout`` seconds (``None``: wait for ever)."""
        while not self._waiting:
            self._event.clear()
            try:
                await asyncio.wait_for(self._event.wait(), timeout)
            except TimeoutError:
                return None
        return self._waiting.popleft()


class Switchboard:
    """The subscriptions of this process, and delivery to them."""

    def __init__(self) -> None:
        self._channels: dict[str, set[Subscription]] = defaultdict(set)

    @asynccontextmanager
    async def listen(self, channel: str) -> AsyncGenerator[Subscription, None]:
        """Subscribe to ``channel`` for the duration of the block."""
        subscription = Subscription()
        self._channels[channel].add(subscription)
        try:
            yield subscription
        finally:
            self._channels[channel].discard(subscription)
            if not self._channels[channel]:
                del self._channels[channel]

    def deliver(self, channel: str, payload: str) -> None:
        """Hand a notification to every local subscription."""
        for subscription in list(self._channels.get(channel, ())):
            subscription.deliver(payload)

    def wake_all(self) -> None:
        """Wake everybody: notifications may have been lost (a connection broke)."""
        for channel in list(self._channels):
            self.deliver(channel, "")


class DatagramCarrier:
    """Notifications between processes on one machine through sockets in a directory."""

    def __init__(self, directory: Path, switchboard: Switchboard) -> None:
        self._directory = directory
        self._switchboard = switchboard
        self._socket: socket.socket | None = None
        self._path: Path | None = None

    def open(self) -> None:
        """Make this process's socket and read it from the running loop."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._path = self._directory / f"{os.getpid()}-{secrets.token_hex(4)}"
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.setblocking(False)
        # sun_path holds 107 bytes; data directories of tests are longer: bind by directory handle.
        with _directory_handle(self._directory) as base:
            receiver.bind(f"{base}/{self._path.name}")
        self._socket = receiver
        asyncio.get_running_loop().add_reader(receiver.fileno(), self._receive)

    def close(self) -> None:
        """Stop reading and remove the socket."""
        if self._socket is not None:
            with contextlib.suppress(RuntimeError):
                asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _receive(self) -> None:
        assert self._socket is not None
        while True:
            try:
                datagram = self._socket.recv(65536)
            except (BlockingIOError, InterruptedError):
                return
            channel, payload = msgspec.json.decode(datagram, type=tuple[str, str])
            self._switchboard.deliver(channel, payload)

    def send(self, notifications: list[tuple[str, str]]) -> None:
        """Tell every other process; sockets whose process is gone are removed."""
        assert self._socket is not None
        with _directory_handle(self._directory) as base:
            for name in os.listdir(self._directory):
                if self._path is not None and name == self._path.name:
                    continue
                for channel, payload in notifications:
                    if not self._send_one(f"{base}/{name}", channel, payload):
                        (self._directory / name).unlink(missing_ok=True)
                        break

    def _send_one(self, address: str, channel: str, payload: str) -> bool:
        """Whether the receiver is still there."""
        assert self._socket is not None
        datagram = msgspec.json.encode((channel, payload if len(payload) <= MAX_PAYLOAD else ""))
        try:
            self._socket.sendto(datagram, address)
        except (BlockingIOError, InterruptedError):
            # The receiver is far behind and has notifications waiting: it will look anyway.
            return True
        except OSError as error:
            if error.errno in (errno.ECONNREFUSED, errno.ENOENT, errno.ENOTSOCK):
                return False
            raise
        return True


@contextlib.contextmanager
def _directory_handle(directory: Path) -> Generator[str, None, None]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
