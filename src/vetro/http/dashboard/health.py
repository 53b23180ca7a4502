"""How the parts of the service are: ``/dashboard/api/health``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ServicePart:
    """A part of the service. ``made_of``: in a word; ``problem``: what is wrong, empty when it works."""

    name: str
    made_of: str
    problem: str = ""


Parts = Callable[[], Awaitable[Sequence[ServicePart]]]


async def no_parts() -> Sequence[ServicePart]:
    """Of a service that does not report it."""
    return ()
