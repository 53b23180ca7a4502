"""The compute node service: servers, waitlist, placement, node tasks, VMs, images, networks.

``ComputeService`` on a database; ``compute_face`` serves it. ``vetro.compute.client`` is how other
processes talk to it, ``vetro.compute.allocation`` the allocator as a pure function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vetro.lazy_names import import_when_used

if TYPE_CHECKING:
    from vetro.compute.http.face import NodeAware, compute_face
    from vetro.compute.service import ComputeService
    from vetro.compute.settings import (
        ComputeSection,
        ComputeSettings,
        DapiSection,
        ExternalNetwork,
    )
    from vetro.compute.tables import MIGRATIONS

__getattr__ = import_when_used(__name__)
