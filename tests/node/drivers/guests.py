"""Looking into virtual machines from outside: their web page and their serial console."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

from tests.waiting import eventually


async def page(address: str, path: str = "/", seconds: float = 60) -> str:
    """What an HTTP server answers, as soon as there is one; '' for 404."""

    async def answer() -> tuple[bytes, bytes] | None:
        try:
            reader, writer = await asyncio.open_connection(address, 80)
            writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            writer.close()
        except OSError:
            return None
        return (head, body) if head else None

    head, body = await eventually(answer)
    return body.decode() if b" 200 " in head.split(b"\r\n")[0] else ""


class Terminal:
    """A VM's serial console, as a person would use it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, path: str) -> Terminal:
        """Connect; a path that is too long for a socket's name goes by its directory."""
        directory = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            short = f"/proc/self/fd/{directory}/{os.path.basename(path)}"
            return cls(*await asyncio.open_unix_connection(short))
        finally:
            os.close(directory)

    async def until(self, words: str, seconds: float = 60) -> str:
        """Read until these words came."""
        said = ""
        async with asyncio.timeout(seconds):
            while words not in said:
                chunk = await self._reader.read(4096)
                assert chunk, f"the console ended after: {said}"
                said += chunk.decode("utf-8", "replace")
        return said

    async def type(self, text: str) -> None:
        """Send text."""
        self._writer.write(text.encode())
        await self._writer.drain()

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


@contextlib.asynccontextmanager
async def logged_in(machines: Any, uuid: str) -> AsyncIterator[Terminal]:
    """A root shell on the serial console."""
    info = await machines.driver.info(uuid, ["serial"])
    terminal = await Terminal.open(info["serial"]["path"])
    # It may be waiting for a name since before we came, or just be starting.
    try:
        await terminal.type("\r")
        await terminal.until("login:")
        await terminal.type("root\r")
        await terminal.until("#")
        yield terminal
    finally:
        terminal.close()
