"""The resource limits of a run (muranopl.md section 28, yaql.md section 3)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets of a session. Exceeding one raises `LimitExceeded`, which no program can catch."""

    steps: int = 1_000_000_000
    """Loop turns and method calls."""
    seconds: float | None = None
    """Wall time of one host call (load, call, destroy), waiting included."""
    depth: int = 1_000
    """Nested MuranoPL calls."""
    collection_items: int = 1_000_000
    """Elements that one lazy sequence may produce."""
    string_length: int = 64 * 1024 * 1024
    """Characters of one string."""
    green_threads: int = 20_000
    """Green threads alive at once."""
    parallel_branches: int = 1_000
    """Branches of one `pselect` that run at once; the others wait."""


@dataclass(frozen=True, slots=True)
class YamlLimits:
    """Limits of one YAML text, checked before anything is built from it."""

    bytes: int = 4 * 1024 * 1024
    depth: int = 100
    nodes: int = 500_000
    """Nodes after aliases are expanded."""
    aliases: int = 1_000
