"""Signals of guests in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vetro.stacks.doors import Signal
from vetro.stacks.model import Json

DOOR = "http://198.51.100.1:8082"
ADDRESS = f"{DOOR}/agents/v1/signals"


@dataclass(frozen=True, slots=True)
class MemorySignal:
    """A report of a guest."""

    id: str
    status: str = "SUCCESS"
    reason: str = ""
    data: Json = None


@dataclass
class MemorySignals:
    """`Signals` in memory. Guests that are `obedient` report as much success as is waited for."""

    obedient: bool = True
    handles: dict[str, list[MemorySignal]] = field(default_factory=dict[str, list[MemorySignal]])
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def open(self, handle: str, project_id: str) -> str:
        """The handle's address."""
        self.handles.setdefault(handle, [])
        return f"{ADDRESS}/{handle}?signature=signature-of-{handle}"

    async def close(self, handle: str) -> None:
        """Forget a handle."""
        self.handles.pop(handle, None)

    async def received(self, handle: str) -> Sequence[MemorySignal]:
        """The signals so far."""
        return list(self.handles.get(handle, []))

    def send(self, address: str, signal: MemorySignal) -> None:
        """Report to the handle of an address, as a guest does."""
        handle = address.partition("?")[0].rpartition("/")[2]
        mine = [one for one in self.handles[handle] if one.id != signal.id]
        self.handles[handle] = [*mine, signal]
        self._news.set()

    async def wait(
        self, handle: str, enough: Callable[[Sequence[Signal]], bool], timeout: float
    ) -> Sequence[MemorySignal]:
        """The signals as soon as they are enough, or after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                while not enough(self.handles.get(handle, [])):
                    if self.obedient:
                        number = len(self.handles[handle]) + 1
                        self.send(handle, MemorySignal(str(number)))
                        continue
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pass  # what has come until now is the answer
        return await self.received(handle)

    async def forget_failures(self, handle: str) -> None:
        """Drop the failures."""
        kept = [one for one in self.handles.get(handle, []) if one.status != "FAILURE"]
        self.handles[handle] = kept
