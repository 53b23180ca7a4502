"""Guests that carry software deployments out, in memory."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from vetro.stacks.memory.signals import DOOR
from vetro.stacks.model import Json

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
