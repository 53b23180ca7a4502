"""Renewing a claim while its work is done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from types import TracebackType

import structlog

from vetro.storage.errors import StorageError
from vetro.storage.sqlite_driver import carried_through

log = structlog.get_logger(__name__)


@dataclass(eq=False, repr=False)
class Renewal:
    """Renews a claim, every third of its time, for the duration of a block (``async with``).

    ``renew`` extends the claim to ``seconds`` from now, and raises an error of the type of ``lost`` when
    another owner has it. Then, or when the claim cannot be renewed before it expires (for instance because
    the database is away), the block is cancelled and raises ``lost``. ``name``: of the claim, for logs.
    """

    renew: Callable[[], Awaitable[object]]
    seconds: float
    _: KW_ONLY
    lost: Exception
    name: str

    def __post_init__(self) -> None:
        self._is_lost = False

    async def __aenter__(self) -> Renewal:
        holder = asyncio.current_task()
        assert holder is not None
        self._holder = holder
        self._renewer = asyncio.create_task(self._renewing(), name=f"renewal {self.name}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if not self._is_lost:
                return
            others = self._holder.uncancel()
            # The cancellation is ours, unless the task was cancelled from elsewhere as well. A block that
            # ended between the loss and its cancellation has lost the claim all the same.
            if error is None or (isinstance(error, asyncio.CancelledError) and others == 0):
                raise self.lost from None
        finally:
            await self.end()

    async def end(self) -> None:
        """Renew no more, before the claim is released; ending twice does nothing.

        Who is cancelled meanwhile is cancelled when nothing is renewed any more.
        """
        self._renewer.cancel()
        await carried_through(asyncio.wait({self._renewer}))
        if not self._renewer.cancelled():
            self._renewer.result()

    async def _renewing(self) -> None:
        await self._until_lost()
        self._is_lost = True
        self._holder.cancel()

    async def _until_lost(self) -> None:
        renewed = time.monotonic()
        pause = self.seconds / 3
        while True:
            await asyncio.sleep(pause)
            pause = self.seconds / 3
            attempted = time.monotonic()
            try:
                await self.renew()
                renewed = attempted
            except type(self.lost):
                return
            except StorageError as error:
                left = renewed + self.seconds - time.monotonic()
                log.warning(
                    "claim_not_renewed",
                    claim=self.name,
                    seconds_left=round(left, 3),
                    error=str(error),
                )
                if left <= 0:
                    return
                pause = min(pause, left)
