"""Notifying other tasks and other processes after a commit.

Every process has one ``Switchboard``. Subscriptions live in memory; a notification reaches the ones
of this process directly and those of other processes through a carrier: on PostgreSQL
``NOTIFY``, on SQLite datagrams to the sockets that the processes keep in one directory. A
notification is only a hint: a woken reader re-reads the database. But no hint is lost while its
receiver lives: a socket's queue holds few datagrams (10 on many machines), and a sender that finds
it full leaves a mark, upon which the receiver wakes all its subscriptions.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import socket
import time
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import structlog

log = structlog.get_logger(__name__)

# PostgreSQL carries at most 7999 bytes; of longer messages only the channel is sent.
MAX_MESSAGE = 7_900
MAX_WAITING = 10_000
OVERFLOW_SUFFIX = ".overflow"
SETTLED_NANOSECONDS = 2 * 10**9
"""How long a directory must have been as it is before its list of names is kept."""


def encode(channel: str, payload: str) -> bytes:
    """A notification as it is sent; a payload that is too long is left out."""
    message = msgspec.json.encode((channel, payload))
    return message if len(message) <= MAX_MESSAGE else msgspec.json.encode((channel, ""))


def decode(message: bytes | str) -> tuple[str, str] | None:
    """Channel and payload; ``None`` (and a log line) for a message that is not ours."""
    try:
        return msgspec.json.decode(message, type=tuple[str, str])
    except msgspec.DecodeError as error:
        log.warning("foreign_notification_ignored", error=str(error))
        return None


class Subscription:
    """The notifications of one channel since the subscription began."""

    def __init__(self, switchboard: Switchboard, channel: str) -> None:
        self.channel = channel
        self._switchboard = switchboard
        self._waiting: deque[str] = deque()
        self._event = asyncio.Event()

    def deliver(self, payload: str) -> None:
        """Queue a payload and wake the waiter. Of more than 10,000 only an empty one is left: re-read
        everything."""
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.clear()
            payload = ""
        self._waiting.append(payload)
        self._event.set()

    async def wait(self, timeout: float | None = None) -> str | None:
        """The next payload, or ``None`` after ``timeout`` seconds (``None``: wait without limit).

        An empty payload may also mean that notifications were lost: re-read everything.
        """
        while not self._waiting:
            self._event.clear()
            try:
                # Not wait_for: before Python 3.12 it swallows a cancellation that comes together
                # with the event.
                async with asyncio.timeout(timeout):
                    await self._event.wait()
            except TimeoutError:
                return None
        return self._waiting.popleft()

    def drain(self) -> list[str]:
        """The payloads that came since the last call, without waiting."""
        found = list(self._waiting)
        self._waiting.clear()
        return found

    def close(self) -> None:
        """End the subscription; ending it again does nothing."""
        self._switchboard.forget(self)


class Switchboard:
    """The subscriptions of this process, and delivery to them."""

    def __init__(self) -> None:
        self._channels: dict[str, set[Subscription]] = defaultdict(set)

    def subscribe(self, channel: str) -> Subscription:
        """A subscription that lasts until it is closed."""
        subscription = Subscription(self, channel)
        self._channels[channel].add(subscription)
        return subscription

    def forget(self, subscription: Subscription) -> None:
        """Deliver nothing more to a subscription."""
        subscriptions = self._channels.get(subscription.channel)
        if subscriptions is not None:
            subscriptions.discard(subscription)
            if not subscriptions:
                del self._channels[subscription.channel]

    @asynccontextmanager
    async def listen(self, channel: str) -> AsyncGenerator[Subscription, None]:
        """Subscribe to ``channel`` for the duration of the block."""
        subscription = self.subscribe(channel)
        try:
            yield subscription
        finally:
            subscription.close()

    def deliver(self, channel: str, payload: str) -> None:
        """Hand a notification to every local subscription."""
        for subscription in list(self._channels.get(channel, ())):
            subscription.deliver(payload)

    def wake_all(self) -> None:
        """Wake all subscriptions: notifications may be lost (connection lost, queue full)."""
        for channel in list(self._channels):
            self.deliver(channel, "")


class DatagramCarrier:
    """Notifications between processes on one machine through sockets in a directory."""

    def __init__(self, directory: Path, switchboard: Switchboard) -> None:
        self._directory = directory
        self._switchboard = switchboard
        self._socket: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}"
        #: The other sockets, and when the directory had been changed before they were listed.
        self._known: list[str] = []
        self._listed = 0

    def open(self) -> None:
        """Create this process's socket and read it from the running loop."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            receiver.setblocking(False)
            os.fchmod(receiver.fileno(), 0o600)  # the mode that bind gives the file on Linux
            # sun_path holds 107 bytes; data directories may be longer: bind by directory handle.
            with _directory_handle(self._directory) as base:
                receiver.bind(f"{base}/{self._name}")
        except BaseException:
            receiver.close()
            raise
        self._socket = receiver
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(receiver.fileno(), self._receive)

    def close(self) -> None:
        """Stop reading and remove the socket."""
        if self._socket is None:
            return
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._socket = None
        (self._directory / self._name).unlink(missing_ok=True)
        (self._directory / (self._name + OVERFLOW_SUFFIX)).unlink(missing_ok=True)

    def _receive(self) -> None:
        assert self._socket is not None
        while True:
            try:
                datagram = self._socket.recv(65536)
            except (BlockingIOError, InterruptedError):
                break
            message = decode(datagram)
            if message is not None:
                self._switchboard.deliver(*message)
        # After the queue is empty: a sender first marks, then sends; see _send_to.
        try:
            (self._directory / (self._name + OVERFLOW_SUFFIX)).unlink()
        except FileNotFoundError:
            return
        self._switchboard.wake_all()

    def send(self, notifications: Sequence[tuple[str, str]]) -> None:
        """Notify every other process; remove sockets whose process is gone.

        The commit stands, so errors here are logged, not raised.
        """
        try:
            others = self._others()
            if not others:
                return
            datagrams = [encode(channel, payload) for channel, payload in notifications]
            with _directory_handle(self._directory) as base:
                for name in others:
                    self._send_to(base, name, datagrams)
        except OSError as error:
            log.error(
                "notification_not_sent",
                directory=str(self._directory),
                error=str(error),
            )

    def _others(self) -> list[str]:
        """The sockets of other processes."""
        changed = os.stat(self._directory).st_mtime_ns
        if changed != self._listed:
            names = os.listdir(self._directory)
            self._known = [
                name for name in names if name != self._name and not name.endswith(OVERFLOW_SUFFIX)
            ]
            # Two changes within a tick of the file system's clock have the same time.
            settled = time.time_ns() - changed > SETTLED_NANOSECONDS
            self._listed = changed if settled else 0
        return self._known

    def _send_to(self, base: str, name: str, datagrams: Sequence[bytes]) -> None:
        for datagram in datagrams:
            outcome = self._send_one(f"{base}/{name}", datagram)
            if outcome is None:
                for stale in (name, name + OVERFLOW_SUFFIX):
                    (self._directory / stale).unlink(missing_ok=True)
                return
            if not outcome:
                # Mark, then send. If the queue is full again, the receiver has not emptied it yet
                # and looks for the mark after that; if not, this datagram wakes it.
                (self._directory / (name + OVERFLOW_SUFFIX)).touch(0o600)
                self._send_one(f"{base}/{name}", encode("", ""))
                return

    def _send_one(self, address: str, datagram: bytes) -> bool | None:
        """``True``: queued; ``False``: the queue is full; ``None``: the receiver is gone."""
        assert self._socket is not None
        try:
            self._socket.sendto(datagram, address)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            if error.errno in (errno.ECONNREFUSED, errno.ENOENT, errno.ENOTSOCK):
                return None
            if error.errno == errno.ENOBUFS:
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
