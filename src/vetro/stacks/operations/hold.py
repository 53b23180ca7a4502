"""The time during which a process works on a stack: hold, progress, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any

import structlog

from vetro.stacks.errors import OperationLost
from vetro.stacks.model import Json, StackStatus
from vetro.stacks.operations.operation import Failure, Operation, describe
from vetro.stacks.state.records import Hold, StackStore

_log = structlog.get_logger(__name__)


class Work:
    """An async context manager around one operation.

    Inside, the hold is renewed (`vetro.storage.Renewal`) and `waiting_on` is stored. The block ends the
    work with `settle` or `remove`. If it is cancelled or fails instead, the stack's status says so; if
    the hold is lost, the block is cancelled and `OperationLost` raised.
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
        self._waiting_seconds = waiting_seconds
        self._now = now
        self.operation = operation
        from vetro.storage import Renewal  # the programs of `vetro run` load no database

        self._renewal = Renewal(
            lambda: store.renew(hold, hold_seconds),
            hold_seconds,
            lost=OperationLost(hold.name),
            name=f"stack {hold.name}",
        )

    async def __aenter__(self) -> Work:
        await self._renewal.__aenter__()
        self._notifier = asyncio.create_task(self._notify(), name=f"stack {self._hold.name}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stop_telling()
        await self._renewal.__aexit__(kind, error, traceback)
        if isinstance(error, OperationLost) or not isinstance(
            error, asyncio.CancelledError | Exception
        ):
            return
        text = "was cancelled before it finished"
        if not isinstance(error, asyncio.CancelledError):
            text = f"was interrupted: {describe(error)}"
        try:
            await self.settle(StackStatus(f"{self._action}_FAILED"), f"The operation {text}", None)
        except OperationLost:
            _log.warning("operation_lost", stack=self._hold.name)

    async def change(self, values: Mapping[str, object]) -> None:
        """Change the stack and continue."""
        await self._store.change(self._hold, values)

    async def settle(
        self, status: StackStatus, reason: str, outputs: Mapping[str, Json] | None
    ) -> None:
        """Record the operation's result; `outputs` None leaves the former ones."""
        await self._end()
        values: dict[str, object] = {"status": status, "reason": reason, "updated": self._now()}
        if outputs is not None:
            values["outputs"] = dict(outputs)
        await self._store.settle(self._hold, values)

    async def remove(self) -> None:
        """Remove the stack."""
        await self._end()
        await self._store.remove(self._hold)

    async def _end(self) -> None:
        """Write nothing more beside the block, before the hold is released."""
        await self._stop_telling()
        await self._renewal.end()

    async def _stop_telling(self) -> None:
        self._notifier.cancel()
        await asyncio.wait({self._notifier})

    async def _notify(self) -> None:
        """Store what the operation waits on, whenever that has changed."""
        said: str | None = None
        while True:
            await asyncio.sleep(self._waiting_seconds)
            if self.operation.waiting_on == said:
                continue
            said = self.operation.waiting_on
            try:
                await self._store.change(self._hold, {"waiting_on": said})
            except Exception as error:  # noqa: BLE001 what cannot be reported does not end the work
                # The renewal ends the work when the hold is lost, or the database away for long.
                _log.warning("waiting_not_stored", stack=self._hold.name, error=describe(error))


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
