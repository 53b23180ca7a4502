"""How stacks hear from guests: doors, given by the program that assembles the stacks.

A resource type that needs a door which is not there is refused when its template is validated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from vetro.ipv6_door import over_ipv6
from vetro.stacks.compute_service.port import LOAD_BALANCERS, ComputePort, Offers
from vetro.stacks.model import Json

SIGNALS = "signals of guests"
SOFTWARE_DEPLOYMENTS = "software deployments"


class Signal(Protocol):
    """What a guest has reported: `SUCCESS` or `FAILURE`, and why."""

    @property
    def id(self) -> str: ...

    @property
    def status(self) -> str: ...

    @property
    def reason(self) -> str: ...

    @property
    def data(self) -> Json: ...


class Signals(Protocol):
    """Handles that guests report to over a signed address."""

    async def open(self, handle: str, project_id: str) -> str:
        """The handle's address, always the same; makes the handle if it does not exist."""
        ...

    async def close(self, handle: str) -> None:
        """Forget a handle and its signals. Idempotent."""
        ...

    async def received(self, handle: str) -> Sequence[Signal]:
        """The signals so far, oldest first; one per id."""
        ...

    async def wait(
        self, handle: str, enough: Callable[[Sequence[Signal]], bool], timeout: float
    ) -> Sequence[Signal]:
        """The signals as soon as they are `enough`, or those there are after `timeout` seconds."""
        ...

    async def forget_failures(self, handle: str) -> None:
        """Drop the failures that were reported, so that the next wait does not see them again."""
        ...


class Guests(Protocol):
    """The agents of servers that were made for software deployments."""

    async def configuration(self, server: str) -> str:
        """The configuration file of the server's agent; makes its mailbox. Always the same."""
        ...

    async def run(self, server: str, plan: dict[str, Json], seconds: float) -> Json:
        """Have the server's agent run a plan and return its value; 0 seconds: do not wait.

        A plan that was sent before is not run again. Raises `ResourceFailure` with the agent's
        error, or when it has not answered in time.
        """
        ...

    async def forget(self, server: str) -> None:
        """The server is gone, and its mailbox with it. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class Doors:
    """The doors of one back end; None: it has none of that kind."""

    signals: Signals | None = None
    guests: Guests | None = None
    deployment_seconds: float = 3600.0
    """How long a guest may take for a software deployment, its first start included."""
    url: str = ""
    """Where guests find the door."""

    def over_ipv6(self, said: str) -> str:
        """A text in which the door has its IPv6 address, for a guest without an IPv4 one."""
        other = over_ipv6(self.url)
        return said if other is None else re.sub(f"{re.escape(self.url)}(?![0-9])", other, said)

    async def offered(self, compute: ComputePort) -> Offers:
        """What the compute service and the doors offer together."""
        offers = await compute.offered()
        if self.guests is None:  # who would configure them?
            offers = Offers(offers.parts - {LOAD_BALANCERS}, offers.reasons)
        parts = {
            part
            for part, door in ((SIGNALS, self.signals), (SOFTWARE_DEPLOYMENTS, self.guests))
            if door is not None
        }
        return Offers(offers.parts | parts, offers.reasons)
