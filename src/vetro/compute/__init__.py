"""The compute node service: servers, waitlist, placement, node tasks, VMs, images, networks.

``ComputeService`` on a database; ``compute_face`` serves it. ``vetro.compute.client`` is how other
processes talk to it, ``vetro.compute.allocation`` the allocator as a pure function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vetro.lazy_names import import_when_used

if TYPE_CHECKING:
    from vetro.compute.http.face import NodeAware, compute_face
    from vetro.compute.placement.placement import PlacementSettings
    from vetro.compute.service import ComputeService, ComputeSettings
    from vetro.compute.tables import MIGRATIONS

__getattr__ = import_when_used(
    __name__,
    {
        "vetro.compute.http.face": "NodeAware compute_face",
        "vetro.compute.placement.placement": "PlacementSettings",
        "vetro.compute.service": "ComputeService ComputeSettings",
        "vetro.compute.tables": "MIGRATIONS",
    },
)


__all__ = [
    "MIGRATIONS",
    "ComputeService",
    "ComputeSettings",
    "NodeAware",
    "PlacementSettings",
    "compute_face",
]
