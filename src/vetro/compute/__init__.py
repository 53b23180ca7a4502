"""The compute node service: servers, waitlist, placement, node tasks, VMs, images, networks.

``ComputeService`` on a database; ``compute_face`` serves it. ``vetro.compute.client`` is how other
processes talk to it, ``vetro.compute.allocation`` the allocator as a pure function.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vetro.compute.face import NodeAware, compute_face
    from vetro.compute.placement import PlacementSettings
    from vetro.compute.service import ComputeService, ComputeSettings
    from vetro.storage import MigrationSet

    MIGRATIONS: MigrationSet

_WHERE = {
    "ComputeService": "vetro.compute.service",
    "ComputeSettings": "vetro.compute.service",
    "NodeAware": "vetro.compute.face",
    "PlacementSettings": "vetro.compute.placement",
    "compute_face": "vetro.compute.face",
}


def __getattr__(name: str) -> Any:
    """Import the service when it is used: clients, nodes and the allocator do not need it."""
    if name == "MIGRATIONS":
        from vetro.compute.tables import metadata
        from vetro.storage import MigrationSet

        return MigrationSet("compute", Path(__file__).parent / "migrations", metadata)
    if name not in _WHERE:
        raise AttributeError(f"module 'vetro.compute' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_WHERE[name]), name)


__all__ = [
    "MIGRATIONS",
    "ComputeService",
    "ComputeSettings",
    "NodeAware",
    "PlacementSettings",
    "compute_face",
]
