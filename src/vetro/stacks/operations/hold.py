"""The time during which a process works on a stack: hold, progress, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

import structlog

from vetro.stacks.errors import OperationLost
from vetro.stacks.model import Json, StackFailure, StackStatus
from vetro.stacks.operations.operation import Operation, describe
from vetro.stacks.operations.wholly import stop, wholly
from vetro.stacks.state.records import Hold, StackRow, StackStore

if TYPE_CHECKING:
    from vetro.storage import Renewal

_log = structlog.get_logger(__name__)


@dataclass(eq=False, repr=False)
class Work:
    """An async context manager around one operation.

    It begins with taking the stack (`take`) and what the operation needs to know of it (`stack_of`).
    Inside, the hold is renewed (`vetro.storage.Renewal`) and `waiting_on` is stored. The block ends the
    work with `settle` or `remove`. If it is cancelled or fails instead, as soon as the stack is taken, the
    stack's status says so; if the hold is lost, the block is cancelled and `OperationLost` raised.
    """

    store: StackStore
    take: Callable[[], Coroutine[Any, Any, Hold]]
    stack_of: Callable[[Hold], Awaitable[StackRow]]
    operation_of: Callable[[Hold, StackRow], Operation]
    _: KW_ONLY
    action: str
    hold_seconds: float
    waiting_seconds: float
    now: Callable[[], datetime]

    def __post_init__(self) -> None:
        self._hold: Hold | None = None
        self._notifier: asyncio.Task[None] | None = None
        self._renewal: Renewal | None = None
        self._is_settled = False

    async def __aenter__(self) -> Work:
        from vetro.storage import Renewal  # the programs of `vetro run` load no database

        try:
            await wholly(self._taking())
            self.stack = await self.stack_of(self.hold)
        except BaseException as error:
            if self._hold is not None:
                await wholly(self._fail(error))
            raise
        self.renew_operation()
        hold = self.hold
        self._renewal = Renewal(
            lambda: self.store.renew(hold, self.hold_seconds),
            self.hold_seconds,
            lost=OperationLost(hold.name),
            name=f"stack {hold.name}",
        )
        await self._renewal.__aenter__()
        self._notifier = asyncio.create_task(self._notify(), name=f"stack {hold.name}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Whole: who cancels it a second time does not keep the stack held.
        await wholly(self._leave(kind, error, traceback))

    @property
    def hold(self) -> Hold:
        """The right to work on the stack, inside of the block."""
        assert self._hold is not None
        return self._hold

    def renew_operation(self) -> None:
        """Begin another operation on the stack, without the failure of the former."""
        self.operation = self.operation_of(self.hold, self.stack)

    async def _taking(self) -> None:
        self._hold = await self.take()

    async def _leave(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stop_telling()
        if self._renewal is not None:
            await self._renewal.__aexit__(kind, error, traceback)
        if error is not None:
            await self._fail(error)

    async def _fail(self, error: BaseException) -> None:
        """Say on the stack why the operation did not come to its end, if it did not."""
        if self._is_settled or isinstance(error, OperationLost):
            return
        if isinstance(error, asyncio.CancelledError):
            text = "was cancelled before it finished"
        elif isinstance(error, Exception):
            text = f"was interrupted: {describe(error)}"
        else:
            return
        try:
            await self.settle(StackStatus(f"{self.action}_FAILED"), f"The operation {text}", None)
        except OperationLost:
            _log.warning("operation_lost", stack=self.hold.name)

    async def change(self, values: Mapping[str, object]) -> None:
        """Change the stack and continue."""
        await self.store.change(self.hold, values)

    async def settle(
        self, status: StackStatus, reason: str, outputs: Mapping[str, Json] | None
    ) -> None:
        """Record the operation's result; `outputs` None leaves the former ones."""
        values: dict[str, object] = {"status": status, "reason": reason, "updated": self.now()}
        if outputs is not None:
            values["outputs"] = dict(outputs)
        await wholly(self._end(self.store.settle, values))

    async def remove(self) -> None:
        """Remove the stack."""
        await wholly(self._end(self.store.remove))

    async def _end(self, write: Callable[..., Awaitable[None]], *values: object) -> None:
        # Nothing is written beside the block any more when the hold is released.
        await self._stop_telling()
        if self._renewal is not None:
            await self._renewal.end()
        await write(self.hold, *values)
        self._is_settled = True

    async def _stop_telling(self) -> None:
        if self._notifier is not None:
            self._notifier.cancel()
            await asyncio.wait({self._notifier})

    async def _notify(self) -> None:
        """Store what the operation waits on, whenever that has changed."""
        said: str | None = None
        while True:
            await asyncio.sleep(self.waiting_seconds)
            if self.operation.waiting_on == said:
                continue
            said = self.operation.waiting_on
            try:
                await self.store.change(self.hold, {"waiting_on": said})
            except Exception as error:  # noqa: BLE001 what cannot be reported does not end the work
                # The renewal ends the work when the hold is lost, or the database away for long.
                _log.warning("waiting_not_stored", stack=self.hold.name, error=describe(error))


async def within(operation: Operation, work: asyncio.Future[Any], timeout: float | None) -> Any:
    """The result of `work`, or a failure of the operation after `timeout` seconds."""
    try:
        await asyncio.wait({work}, timeout=timeout)
        if work.done():
            return work.result()
        waited = operation.waiting_on or "nothing"
    finally:
        if not work.done():
            # Nothing of it runs beside what says how it ended.
            await stop(work)
    said = f"The operation did not finish within {timeout:g} s; it waited on {waited}"
    operation.failure = StackFailure("", "TimeoutError", said)
    return {}
