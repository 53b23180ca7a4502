"""The section `quotas` of the settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class QuotasSection:
    """How much each project may have ([quotas.md](quotas.md)); -1: any amount.
    `vetro quota set` gives one project limits of its own.
    """

    environments: int = -1
    """Environments."""
    instances: int = -1
    """Instances: containers and virtual machines."""
    cores: int = -1
    """Processor cores of all instances."""
    memory: int = -1
    """MiB of memory of all instances."""
    addresses: int = -1
    """Floating addresses."""
    volumes: int = -1
    """Volumes."""
    disk: int = -1
    """GiB of all volumes."""
