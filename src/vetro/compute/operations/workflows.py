"""Operators' actions on whole servers: drain and evacuate them, move VMs (ours, beside CNAPI)."""

from __future__ import annotations

from vetro.compute.operations import evacuation, migration
from vetro.compute.operations.parts import ServiceParts
from vetro.compute.work.jobs import Workflow

WORKFLOWS: tuple[Workflow[ServiceParts], ...] = (*migration.WORKFLOWS, *evacuation.WORKFLOWS)
