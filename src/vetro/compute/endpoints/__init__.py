"""The calls of the compute API, a module for each part of the document."""

from __future__ import annotations

from vetro.compute.calls import Endpoint
from vetro.compute.endpoints import (
    boot,
    events,
    images,
    jobs,
    nics,
    operations,
    servers,
    service,
    storage,
    tasks,
    vms,
    waitlist,
)


def all_endpoints() -> list[Endpoint]:
    """Every call but those of the networks and of allocation, which have faces of their own."""
    parts = (
        service, servers, events, boot, tasks, vms, storage, nics, waitlist, jobs, images, operations,
    )  # fmt: skip
    return [endpoint for part in parts for endpoint in part.ENDPOINTS]
