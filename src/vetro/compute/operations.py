"""What operators do with whole servers: drain them, move VMs between them (ours, beside CNAPI)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vetro.compute import moves
from vetro.compute.jobs import Workflow

if TYPE_CHECKING:
    from vetro.compute.service import ComputeService

MIGRATE: tuple[Workflow, ...] = moves.WORKFLOWS


class Operations:
    """Drain, evacuate, move."""

    def __init__(self, service: ComputeService) -> None:
        self.service = service

    async def returned(self, server_uuid: str) -> None:
        """A server registered."""
