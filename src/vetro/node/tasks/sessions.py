"""Commands that belong to a client: they end when it disconnects, with all their processes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from vetro.node.processes import kill_family


@contextlib.asynccontextmanager
async def session(*argv: str, **options: Any) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """A command that leads its own session; killed, and its pipes closed, when the block ends.

    ``create_subprocess_exec`` does not expose its transport: pipes held open by other processes
    would stay in the loop.
    """
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: asyncio.subprocess.SubprocessStreamProtocol(limit=1 << 16, loop=loop),
        *argv,
        **options,
    )
    process = asyncio.subprocess.Process(transport, protocol, loop)
    try:
        yield process
    finally:
        try:
            if process.returncode is None:
                kill_family(process.pid)
                await process.wait()
        finally:
            transport.close()
