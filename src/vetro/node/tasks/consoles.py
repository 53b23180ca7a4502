"""A machine's console output, and input for virtual machines (``docker_exec``'s ``Logs`` and
``AttachConsole``)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path

from vetro.node.streams.lines import CHUNK, connection, data_of, message, messages, output
from vetro.node.streams.serial_consoles import Consoles, Terminal

# The earlier output that a new client sees first: about two screens.
_BEFORE = 8192
_POLL_SECONDS = 0.2


async def printed(client: socket.socket, file: Path, *, follow: bool) -> None:
    """Send the console output in ``file``; with ``follow`` also the output from now on."""
    loop = asyncio.get_running_loop()
    gone = asyncio.create_task(_closed(loop, client))
    position = 0
    try:
        while True:
            if file.exists():
                with file.open("rb") as stream:
                    stream.seek(position)
                    while data := stream.read(CHUNK):
                        position += len(data)
                        await loop.sock_sendall(client, output("stdout", data))
            if not follow:
                await loop.sock_sendall(client, message("end", code=0))
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS):
                    await asyncio.shield(gone)
                    return
    finally:
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)


async def _closed(loop: asyncio.AbstractEventLoop, client: socket.socket) -> None:
    while await loop.sock_recv(client, CHUNK):
        continue


async def serial(client: socket.socket, consoles: Consoles, line: Path, file: Path) -> None:
    """Relay the serial line ``line`` both ways, after the end of its earlier output in ``file``."""
    async with connection(client) as (reader, writer), consoles.attached(line) as terminal:
        before = _tail(file)
        # This output has just been read from the file.
        terminal.forget()
        if before:
            writer.write(output("stdout", before))

        async def show() -> None:
            while data := await terminal.read():
                writer.write(output("stdout", data))
                await writer.drain()
            writer.write(message("end", code=0))

        work = [
            asyncio.create_task(show(), name="console output"),
            asyncio.create_task(_typed(reader, terminal), name="console input"),
        ]
        try:
            done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                # Either side may have closed.
                with contextlib.suppress(OSError):
                    task.result()
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)


async def _typed(reader: asyncio.StreamReader, terminal: Terminal) -> None:
    async for given in messages(reader):
        # A client that only watches sends 'stdin_end' and keeps its side open.
        if given.get("type") == "stdin":
            await terminal.write(data_of(given))


def _tail(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - _BEFORE))
            data = stream.read()
    except FileNotFoundError:
        return b""
    # Start at the beginning of a line.
    return data if size <= _BEFORE else data.partition(b"\n")[2]
