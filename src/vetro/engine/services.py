"""What the native system classes find their back ends in: one for each session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from vetro.engine.plans import Stamps
from vetro.engine.settings import EngineSettings
from vetro.engine.signing import PlanSigner
from vetro.messaging import MessageTransport
from vetro.muranopl import CallContext
from vetro.stacks import NetworkDirectory, Stacks


class Reports(Protocol):
    """Where reports and tracked instances go."""

    async def report(
        self, entity_id: str | None, level: str, text: str, details: str | None = None
    ) -> None:
        """Add a report of the running task."""
        ...

    async def track(self, values: dict[str, Any]) -> None:
        """An application or instance exists."""
        ...

    async def untrack(self, instance_id: str) -> None:
        """It is gone."""
        ...


@dataclass
class EngineServices:
    """Back ends and settings of a session."""

    settings: EngineSettings
    project_id: str
    user_id: str
    environment_id: str
    stacks: Stacks
    directory: NetworkDirectory
    transport: MessageTransport
    reports: Reports
    signer: PlanSigner | None
    stamps: Stamps = field(default_factory=Stamps)
    progress: Callable[[str], None] = lambda text: None
    """Told what the task waits for."""
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep


def services_of(ctx: CallContext) -> EngineServices:
    """The services of the session a call belongs to."""
    return cast("EngineServices", ctx.session.services)


def library_path() -> Path:
    """The directory of the packages that ship with Vetro (``io.murano`` and the samples)."""
    inside = Path(__file__).resolve().parent.parent / "_library"
    return inside if inside.is_dir() else Path(__file__).resolve().parents[3] / "library"


def plain(value: Any) -> Any:
    """A JSON copy of ``value``, for the journal."""
    return json.loads(json.dumps(value, default=str))
