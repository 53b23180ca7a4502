"""One serial line, several people at it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from vetro.node.errors import DriverError
from vetro.node.streams.serial_consoles import Consoles
from vetro.node.tasks.consoles import serial


@dataclass
class Machine:
    """What QEMU is at the other end of a line: it serves one client."""

    path: Path
    clients: list[asyncio.StreamWriter] = field(default_factory=list)
    typed: bytes = b""
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.clients.append(writer)
        await self._tell()
        try:
            while data := await reader.read(4096):
                self.typed += data
                await self._tell()
        finally:
            self.clients.remove(writer)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            await self._tell()

    async def _tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def until(self, *, clients: int | None = None, typed: bytes | None = None) -> None:
        """Wait for this many clients, or for what was typed."""
        async with asyncio.timeout(240), self.changed:
            await self.changed.wait_for(
                lambda: clients in (None, len(self.clients)) and typed in (None, self.typed)
            )

    async def say(self, data: bytes) -> None:
        """Print."""
        for writer in self.clients:
            writer.write(data)
            await writer.drain()


@pytest.fixture
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    """A machine whose socket is too deep for an address."""
    directory = tmp_path / ("deep" * 30)
    directory.mkdir()
    made = Machine(directory / "console.sock")
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        name = f"/proc/self/fd/{descriptor}/console.sock"
        server = await asyncio.start_unix_server(made.serve, name)
    finally:
        os.close(descriptor)
    yield made
    server.close()
    await made.until(clients=0)
    await server.wait_closed()


async def test_everybody_sees_the_same_line_and_it_is_let_go(machine: Machine) -> None:
    """Two people share one connection; when both have left, the line is free for others."""
    consoles = Consoles()
    async with consoles.attached(machine.path) as one:
        async with consoles.attached(machine.path) as two:
            await machine.until(clients=1)
            await machine.say(b"login: ")
            assert await one.read() == await two.read() == b"login: "
            await one.write(b"ro")
            await two.write(b"ot")
            await machine.until(typed=b"root")
        await machine.say(b"# ")
        assert await one.read() == b"# "
        assert len(machine.clients) == 1
    await machine.until(clients=0)
    async with consoles.attached(machine.path) as again:
        await machine.until(clients=1)
        await machine.say(b"back")
        assert await again.read() == b"back"


async def test_a_machine_that_ends_ends_its_console(machine: Machine) -> None:
    """Reading ends, typing fails; who comes after a new start gets a new line."""
    consoles = Consoles()
    async with consoles.attached(machine.path) as one:
        await machine.until(clients=1)
        await machine.say(b"halted")
        machine.clients[0].close()
        assert await one.read() == b"halted"
        assert await one.read() == b""
        assert await one.read() == b""
        with pytest.raises(OSError):
            async with asyncio.timeout(240):
                while True:
                    await one.write(b"x")
        async with consoles.attached(machine.path) as two:
            await machine.until(clients=1)
            await machine.say(b"booting")
            assert await two.read() == b"booting"


async def test_one_who_is_too_slow_is_sent_away(machine: Machine) -> None:
    """He gets what waited for him and then the end; the others are not held up."""
    consoles = Consoles()
    async with consoles.attached(machine.path) as slow, consoles.attached(machine.path) as quick:
        await machine.until(clients=1)
        for number in range(1100):
            await machine.say(b"%04d" % number)
            assert await quick.read() == b"%04d" % number
        said = b""
        while data := await slow.read():
            said += data
        assert said.startswith(b"0001")
        assert len(said) < 1100 * 4


async def test_a_line_that_is_not_there_says_so(tmp_path: Path) -> None:
    """A VM that has just ended: an error with its code, and nothing is kept."""
    consoles = Consoles()
    with pytest.raises(DriverError) as refused:
        async with consoles.attached(tmp_path / "console.sock"):
            raise AssertionError("there is nobody")
    assert refused.value.rest_code == "VmNotRunning"


async def test_a_client_sees_what_was_before_and_types(machine: Machine, tmp_path: Path) -> None:
    """The stream of a console: the end of the log, then the line itself, both ways, then its end."""
    log = tmp_path / "console.log"
    log.write_bytes(b"first\n" + b"x" * 9000 + b"\nlogin: ")
    here, there = socket.socketpair()
    there.setblocking(False)
    work = asyncio.create_task(serial(there, Consoles(), machine.path, log))
    reader, writer = await asyncio.open_connection(sock=here)
    try:
        async with asyncio.timeout(240):
            assert base64.b64decode(json.loads(await reader.readline())["data"]) == b"login: "
            writer.write(b"no json\n[1]\n")
            writer.write(b'{"type": "resize"}\n')
            line = {"type": "stdin", "data": base64.b64encode(b"root\r").decode()}
            writer.write(json.dumps(line).encode() + b"\n")
            await machine.until(typed=b"root\r")
            await machine.say(b"# ")
            assert base64.b64decode(json.loads(await reader.readline())["data"]) == b"# "
            machine.clients[0].close()
            assert json.loads(await reader.readline()) == {"type": "end", "code": 0}
            assert await reader.read() == b""
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        await work


async def test_a_client_that_leaves_frees_the_line(machine: Machine, tmp_path: Path) -> None:
    """It closes its side: nothing of it stays."""
    here, there = socket.socketpair()
    there.setblocking(False)
    work = asyncio.create_task(serial(there, Consoles(), machine.path, tmp_path / "none.log"))
    await machine.until(clients=1)
    here.close()
    async with asyncio.timeout(240):
        await work
    await machine.until(clients=0)
