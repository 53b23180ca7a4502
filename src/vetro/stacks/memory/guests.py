"""Guests that carry software deployments out, and their signals, in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
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


Answer = Callable[[str, dict[str, Json]], Awaitable[Json]]
"""Maps a server and a plan to the plan's value."""


async def obedient(server: str, plan: dict[str, Json]) -> Json:
    """A guest on which every configuration succeeds; each of its outputs is its own name."""
    deployment = json.loads(plan["Parameters"]["deployment"])
    return {
        "deploy_status_code": 0,
        "deploy_stdout": f"ran {deployment['name']}",
        "deploy_stderr": "",
        "outputs": {name: name for name in deployment["outputs"]},
    }


@dataclass
class MemoryGuests:
    """`Guests` in memory."""

    answer: Answer = obedient
    configured: set[str] = field(default_factory=set[str])
    """The servers whose agents have a mailbox."""
    ran: dict[str, Json] = field(default_factory=dict[str, Json])
    """What was carried out: configuration, inputs and the like, by the id of its plan."""
    _values: dict[str, Json] = field(default_factory=dict[str, Json])

    async def configuration(self, server: str) -> str:
        """The agent's configuration."""
        self.configured.add(server)
        return f"[mailbox]\nurl = {DOOR}\ninput_queue = s{server}\n"

    async def run(self, server: str, plan: dict[str, Json], seconds: float) -> Json:
        """Answer a plan; one that was sent before has its former answer."""
        plan_id = plan["ID"]
        if plan_id not in self._values:
            self.ran[plan_id] = json.loads(plan["Parameters"]["deployment"])
            self._values[plan_id] = await self.answer(server, plan)
        return self._values[plan_id] if seconds else None

    async def forget(self, server: str) -> None:
        """The server is gone."""
        self.configured.discard(server)
