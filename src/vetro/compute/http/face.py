"""HTTP of the compute service (compute-node-api.md): every call's route, its faults and its headers."""

from __future__ import annotations

from typing import Any, cast

from litestar import Request

from vetro.compute.http.answers import public_paths, replies
from vetro.compute.http.endpoint import handler_of
from vetro.compute.http.endpoints import all_endpoints
from vetro.compute.http.heartbeat_fast_path import HeartbeatLane
from vetro.compute.http.keys import NodeAware
from vetro.compute.http.placement import placement_handlers
from vetro.compute.service import ComputeService
from vetro.compute.values.faults import invalid_argument
from vetro.http import (
    COMPUTE_CONVENTIONS,
    COMPUTE_FAULTS,
    Authenticator,
    Face,
    Fault,
    make_face,
    principal_of,
    read_json,
)

__all__ = ["NodeAware", "compute_face"]

AnyRequest = Request[Any, Any, Any]
Body = dict[str, Any]


async def body_of(request: AnyRequest) -> Body:
    """Query parameters overridden by the JSON body, as one map (§2)."""
    value = await read_json(request)
    if value is not None and not isinstance(value, dict):
        raise invalid_argument("the request body must be an object")
    return {**dict(request.query_params.items()), **cast("Body", value or {})}


def only_operator(request: AnyRequest) -> None:
    """Admit operators and Vetro's own services. Errors: 403."""
    if not principal_of(request).is_admin:
        raise Fault("This call is for operators", status=403, type_="NotAuthorized")


def compute_face(
    service: ComputeService, authenticator: Authenticator, *, prefix: str = "/compute"
) -> Face:
    """The face at ``prefix``."""
    endpoints = all_endpoints()

    open_paths = public_paths(endpoints)

    def public(_method: str, path: str) -> bool:
        return service.settings.trusted_network or path in open_paths

    face = make_face(
        name="compute",
        prefix=prefix,
        title="Vetro compute node API",
        handlers=[
            *(handler_of(service, endpoint) for endpoint in endpoints),
            *placement_handlers(service, body_of, only_operator),
        ],
        authenticator=authenticator,
        public=public,
        faults=COMPUTE_FAULTS,
        lifespan=[service.lifespan],
        conventions=COMPUTE_CONVENTIONS,
        www_authenticate="Bearer",
        replies=replies(endpoints, service.settings.validation_status),
    )
    lane = HeartbeatLane(face.app, service.heartbeats)
    return Face(face.name, face.prefix, lane, face.document)
