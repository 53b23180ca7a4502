"""Commands that are somebody's: they end when he goes, with everything they started."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from vetro.node.drivers.followed import kill_family


@contextlib.asynccontextmanager
async def session(*argv: str, **options: Any) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """A command that leads a session of its own; when the block ends, it is killed and its pipes closed.

    ``create_subprocess_exec`` keeps its transport to itself: pipes that something beyond the command's
    own processes holds open would stay in the loop.
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
