"""Asking containers that run: over the network and from inside."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.waiting import PATIENCE_SECONDS

PATH = {"PATH": "/bin:/sbin"}


async def fetch(address: str, port: int = 80, timeout: float = PATIENCE_SECONDS) -> bytes | None:
    """The first line an HTTP server answers; ``None`` when it cannot be reached."""
    deadline = asyncio.get_running_loop().time() + timeout
    while asyncio.get_running_loop().time() < deadline:
        try:
            async with asyncio.timeout_at(deadline):
                reader, writer = await asyncio.open_connection(address, port)
                try:
                    writer.write(b"GET / HTTP/1.0\r\n\r\n")
                    return await reader.readline()
                finally:
                    writer.transport.abort()
        except ConnectionRefusedError:
            # The server of a container that has just started is not there yet.
            await asyncio.sleep(0.02)
        except (OSError, TimeoutError):
            return None
    return None


async def inside(containers: Any, uuid: str, *command: str) -> tuple[int, str]:
    """Run a command in a container."""
    result = await containers.driver.execute(uuid, list(command), PATH, 20)
    return result.exit_code, result.stdout + result.stderr
