"""The section `history` of the settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HistorySection:
    """How long deployments, their reports and results are kept."""

    days: float = 90.0
    """Days after the destruction of an environment until its deployments are removed; 0: never."""
    deployments: int = 1000
    """How many ended deployments an environment that is there keeps, the newest ones; 0: all."""
