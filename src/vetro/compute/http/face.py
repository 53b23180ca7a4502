"""HTTP of the compute service (compute-node-api.md): every call's route, its faults and its headers."""

from __future__ import annotations

from vetro.compute.http import placement
from vetro.compute.http.answers import answering, public_paths
from vetro.compute.http.endpoint import around
from vetro.compute.http.endpoints import all_endpoints
from vetro.compute.http.heartbeat_fast_path import HeartbeatLane
from vetro.compute.http.keys import NodeAware
from vetro.compute.service import ComputeService
from vetro.http import COMPUTE_CONVENTIONS, COMPUTE_FAULTS, Authenticator, Face, make_face
from vetro.http.endpoint import routes

__all__ = ["NodeAware", "compute_face"]


def compute_face(
    service: ComputeService, authenticator: Authenticator, *, prefix: str = "/compute"
) -> Face:
    """The face at ``prefix``."""
    endpoints = all_endpoints()

    open_paths = public_paths(endpoints)
    status = service.settings.compute.validation_status

    def public(_method: str, path: str) -> bool:
        return service.settings.compute.trusted_network or path in open_paths

    face = make_face(
        name="compute",
        prefix=prefix,
        title="Vetro compute node API",
        handlers=routes(answering([*endpoints, *placement.ENDPOINTS], status), around(service)),
        authenticator=authenticator,
        public=public,
        faults=COMPUTE_FAULTS,
        lifespan=[service.lifespan],
        conventions=COMPUTE_CONVENTIONS,
        www_authenticate="Bearer",
    )
    lane = HeartbeatLane(face.app, service.heartbeats)
    return Face(face.name, face.prefix, lane, face.document)
