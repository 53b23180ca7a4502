"""What is done to its end, whoever is cancelled meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def wholly(work: Coroutine[Any, Any, object]) -> None:
    """Do it to its end even when the caller is cancelled meanwhile, which it is afterwards."""
    from vetro.storage import carried_through  # the programs of `vetro run` load no database

    await carried_through(work)


async def stop(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks and wait until nothing of them runs; what they end with is of no interest."""
    for one in tasks:
        one.cancel()
    await wholly(asyncio.wait(tasks))
    for one in tasks:
        if not one.cancelled():
            one.exception()
