"""The time during which a process works on a stack: hold, progress, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any

import structlog

from vetro.stacks.errors import OperationLost
from vetro.stacks.model import StackStatus
from vetro.stacks.operations.operation import Failure, Operation, describe
from vetro.stacks.state.records import Hold, StackStore

Json = Any
_log = structlog.get_logger(__name__)


class Work:
    """An async context manager around one operation.

    Inside, the hold is renewed and `waiting_on` is stored. The block ends the work with `settle` or
    `remove`. If it is cancelled or fails instead, the stack's status says so; if the hold is lost,
    the block is cancelled and `OperationLost` raised.
    """

    def __init__(
        self,
        store: StackStore,
        hold: Hold,
        operation: Operation,
        *,
        action: str,
        hold_seconds: float,
        waiting_seconds: float,
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._hold = hold
        self._action = action
        self._hold_seconds = hold_seconds
        self._waiting_seconds = waiting_seconds
        self._now = now
        self.operation = operation
        self._over = asyncio.Event()
        self._lost = False
        self._worker: asyncio.Task[Any] | None = None
        self._keeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Work:
        self._worker = asyncio.current_task()
        self._keeper = asyncio.create_task(self._keep(), name=f"stack {self._hold.name}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stop_keeping()
        if error is None or isinstance(error, OperationLost):
            return
        if isinstance(error, asyncio.CancelledError) and self._lost:
            if self._worker is not None:
                self._worker.uncancel()
            raise OperationLost(self._hold.name) from None
        if isinstance(error, asyncio.CancelledError | Exception):
            text = "was cancelled before it finished"
            if not isinstance(error, asyncio.CancelledError):
                text = f"was interrupted: {describe(error)}"
            await self._broke_off(f"The operation {text}")

    async def change(self, values: Mapping[str, Any]) -> None:
        """Change the stack and continue."""
        await self._store.change(self._hold, values)

    async def settle(
        self, status: StackStatus, reason: str, outputs: Mapping[str, Json] | None
    ) -> None:
        """Record the operation's result; `outputs` None leaves the former ones."""
        await self._stop_keeping()
        values: dict[str, Any] = {"status": status, "reason": reason, "updated": self._now()}
        if outputs is not None:
            values["outputs"] = dict(outputs)
        await self._store.settle(self._hold, values)

    async def remove(self) -> None:
        """Remove the stack."""
        await self._stop_keeping()
        await self._store.remove(self._hold)

    async def _stop_keeping(self) -> None:
        """Stop renewing the hold before it is released."""
        self._over.set()
        if self._keeper is not None:
            await asyncio.wait({self._keeper})

    async def _broke_off(self, reason: str) -> None:
        try:
            status = StackStatus(f"{self._action}_FAILED")
            await self.settle(status, reason, None)
        except OperationLost:
            _log.warning("operation_lost", stack=self._hold.name)

    async def _keep(self) -> None:
        try:
            await self._renew()
        except OperationLost:
            self._lost = True
            if self._worker is not None and not self._over.is_set():
                self._worker.cancel()
        except Exception as error:  # noqa: BLE001 a database that is away does not end the work
            # The hold may expire meanwhile; the next write of the work itself will notice.
            _log.warning("hold_not_renewed", stack=self._hold.name, error=describe(error))

    async def _renew(self) -> None:
        said: str | None = None
        waited = 0.0
        while True:
            try:
                async with asyncio.timeout(self._waiting_seconds):
                    await self._over.wait()
                return
            except TimeoutError:
                waited += self._waiting_seconds
            if self.operation.waiting_on != said:
                said = self.operation.waiting_on
                await self._store.change(self._hold, {"waiting_on": said})
            if waited >= self._hold_seconds / 3:
                waited = 0.0
                await self._store.renew(self._hold, self._hold_seconds)


async def within(operation: Operation, work: asyncio.Future[Any], timeout: float | None) -> Any:
    """The result of `work`, or a failure of the operation after `timeout` seconds."""
    try:
        await asyncio.wait({work}, timeout=timeout)
        if work.done():
            return work.result()
        waited = operation.waiting_on or "nothing"
    finally:
        if not work.done():
            work.cancel()
            await asyncio.wait({work})
    operation.failure = Failure(
        "",
        f"The operation did not finish within {timeout:g} s; it waited on {waited}",
        "TimeoutError",
    )
    return {}
