"""The calls of the compute API, a module for each part of the document."""

from __future__ import annotations

from vetro.compute.http.endpoint import Endpoint
from vetro.compute.http.endpoints import (
    boot,
    events,
    images,
    jobs,
    networks,
    nics,
    operations,
    servers,
    service,
    storage,
    tasks,
    vms,
    volumes,
    waitlist,
)


def all_endpoints() -> list[Endpoint]:
    """Every call but those of allocation, which have a face of their own."""
    parts = (
        service, servers, events, boot, tasks, vms, storage, nics, waitlist, jobs, images,
        operations, networks, volumes,
    )  # fmt: skip
    return [endpoint for part in parts for endpoint in part.ENDPOINTS]
