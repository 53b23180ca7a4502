"""What operators do with whole servers: drain and evacuate them, move VMs (ours, beside CNAPI)."""

from __future__ import annotations

from vetro.compute import evacuation, moves
from vetro.compute.jobs import Workflow

WORKFLOWS: tuple[Workflow, ...] = (*moves.WORKFLOWS, *evacuation.WORKFLOWS)
