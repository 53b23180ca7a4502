"""Serial consoles of virtual machines: any number of clients share one serial line.

QEMU serves one client of a serial line at a time and lets others wait silently. The agent therefore
is that client while any client is connected: all clients see the machine's output, and the input of
each is sent to the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

import structlog

from vetro.node.errors import DriverError
from vetro.node.files import short_name

log = structlog.get_logger(__name__)

_CHUNK = 65536
# Chunks that may wait for one client; a slower client is disconnected, the others are not delayed.
_WAITING = 1024
_CONNECT_SECONDS = 10.0


class Terminal:
    """One client of a line."""

    def __init__(self, line: _Line) -> None:
        self._line = line
        self._coming: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)
        self._ended = False

    async def read(self) -> bytes:
        """The machine's next output; empty when it has ended (or this client was too slow)."""
        if self._ended and self._coming.empty():
            return b""
        return await self._coming.get()

    def forget(self) -> None:
        """Discard output that was received and not read."""
        while not self._ended and not self._coming.empty():
            self._coming.get_nowait()

    async def write(self, data: bytes) -> None:
        """Send input. Errors: ``OSError`` when the machine has ended."""
        await self._line.write(data)

    def take(self, data: bytes) -> bool:
        """Queue output; returns whether there was room."""
        if self._coming.full():
            self._coming.get_nowait()
            self.end()
            return False
        self._coming.put_nowait(data)
        return True

    def end(self) -> None:
        """No more output will come."""
        self._ended = True
        if not self._coming.full():
            self._coming.put_nowait(b"")


class _Line:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = asyncio.Lock()
        self.people: set[Terminal] = set()
        # Clients inside ``attached``, also while they wait for the lock.
        self.users = 0
        self._writer: asyncio.StreamWriter | None = None
        self._pump: asyncio.Task[None] | None = None

    async def join(self) -> Terminal:
        if self._pump is None or self._pump.done():
            await self.hang_up()
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    with short_name(self.path) as name:
                        reader, self._writer = await asyncio.open_unix_connection(name)
            except (OSError, TimeoutError) as error:
                raise DriverError(
                    f"The serial line {self.path} does not answer: {error}",
                    rest_code="VmNotRunning",
                ) from error
            self._pump = asyncio.create_task(self._copy(reader), name=f"console {self.path}")
        terminal = Terminal(self)
        self.people.add(terminal)
        return terminal

    async def _copy(self, reader: asyncio.StreamReader) -> None:
        try:
            while data := await reader.read(_CHUNK):
                for terminal in list(self.people):
                    if not terminal.take(data):
                        log.info("console_reader_too_slow", path=str(self.path))
                        self.people.discard(terminal)
        except OSError as error:
            log.info("console_connection_lost", path=str(self.path), error=str(error))
        finally:
            for terminal in self.people:
                terminal.end()

    async def write(self, data: bytes) -> None:
        if self._writer is None or self._writer.is_closing():
            raise BrokenPipeError(f"{self.path}: the machine has ended")
        self._writer.write(data)
        await self._writer.drain()

    async def hang_up(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)
            self._pump = None
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()
            self._writer = None


class Consoles:
    """The serial lines of one agent."""

    def __init__(self) -> None:
        self._lines: dict[Path, _Line] = {}

    @contextlib.asynccontextmanager
    async def attached(self, path: Path) -> AsyncGenerator[Terminal, None]:
        """Connect to the serial line whose socket is ``path``. Errors: ``DriverError``."""
        line = self._lines.setdefault(path, _Line(path))
        line.users += 1
        terminal = None
        try:
            async with line.lock:
                terminal = await line.join()
            yield terminal
        finally:
            line.users -= 1
            if terminal is not None:
                line.people.discard(terminal)
            async with line.lock:
                if not line.users:
                    await line.hang_up()
                    self._lines.pop(path, None)
