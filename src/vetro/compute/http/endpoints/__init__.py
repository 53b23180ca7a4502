"""The calls of the compute API, a module for each part of the document.

Each module has a table `ENDPOINTS`: method, path, parameters, who may call, and the function that
answers. The functions read the call, ask one part of the service, and return an object of
`compute.wire` or a record; they execute no statements. `all_endpoints` is what `face` serves.
"""

from __future__ import annotations

from vetro.compute.http.endpoint import Endpoint
from vetro.compute.http.endpoints import (
    boot,
    events,
    images,
    interfaces,
    networks,
    nics,
    servers,
    service,
    storage,
    vms,
    volumes,
    waitlist,
    work,
)


def all_endpoints() -> list[Endpoint]:
    """Every call but those of allocation, which have a face of their own."""
    parts = (
        service, servers, events, boot, vms, interfaces, storage, nics, waitlist, work, images,
        networks, volumes,
    )  # fmt: skip
    return [endpoint for part in parts for endpoint in part.ENDPOINTS]
