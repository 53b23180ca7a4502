"""HTTP of the compute service (compute-node-api.md): every call's route, its faults and its headers."""

from __future__ import annotations

from dataclasses import replace

from vetro.compute.http import placement
from vetro.compute.http.endpoint import Access, around
from vetro.compute.http.endpoints import all_endpoints
from vetro.compute.http.heartbeat_fast_path import HeartbeatLane
from vetro.compute.http.keys import NodeAware
from vetro.compute.service import ComputeService
from vetro.http import COMPUTE_CONVENTIONS, COMPUTE_FAULTS, Authenticator, Face, Policy, make_face
from vetro.http.endpoint import routes

#: The errors that any call of this face may return, beside that of parameters that do not validate.
ERRORS = (400, 404, 409, 413, 415)

__all__ = ["NodeAware", "compute_face"]


def compute_face(
    service: ComputeService,
    authenticator: Authenticator,
    *,
    prefix: str = "/compute",
    policy: Policy | None = None,
) -> Face:
    """The face at ``prefix``; ``policy`` says who only reads."""
    status = service.settings.compute.validation_status
    endpoints = [
        replace(one, errors=(*ERRORS, status, *one.errors))
        for one in (*all_endpoints(), *placement.ENDPOINTS)
    ]
    open_paths = {one.path for one in endpoints if one.access is Access.PUBLIC}

    def public(_method: str, path: str) -> bool:
        return service.settings.compute.trusted_network or path in open_paths

    face = make_face(
        name="compute",
        prefix=prefix,
        title="Vetro compute node API",
        handlers=routes(endpoints, around(service, policy or Policy())),
        authenticator=authenticator,
        public=public,
        faults=COMPUTE_FAULTS,
        lifespan=[service.lifespan],
        conventions=COMPUTE_CONVENTIONS,
        www_authenticate="Bearer",
    )
    lane = HeartbeatLane(face.app, service.heartbeats)
    return Face(face.name, face.prefix, lane, face.document)
