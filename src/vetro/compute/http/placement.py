"""HTTP of placement: POST /allocate, GET and POST /capacity (allocation.md §1)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, cast

import msgspec
from litestar import Request, Response, get, post
from litestar.response import Stream

from vetro.compute.allocation import check_types
from vetro.compute.allocation.wording import UUID_ANY
from vetro.compute.networks.fabric import Fabric
from vetro.compute.placement.placement import Placed, Placement, checked, no_place
from vetro.compute.values.faults import invalid_parameters

AnyRequest = Request[Any, Any, Any]
Body = dict[str, Any]
JSON = "application/json"
#: Smaller pieces are not worth a write of their own.
PIECE = 65536
ReadBody = Callable[[AnyRequest], Awaitable[Body]]


class HasPlacement(Protocol):
    """What these handlers need from the service."""

    placement: Placement
    fabric: Fabric


def _answer(placed: Placed, steps: Sequence[bytes]) -> list[bytes]:
    rest: Body = {"imgapiPeers": [], "vm_uuid": placed.vm_uuid}
    return [
        b'{"server":' + msgspec.json.encode(placed.server) + b',"steps":',
        *steps,
        b"," + msgspec.json.encode(rest)[1:],
    ]


def _in_pieces(parts: Iterable[bytes]) -> Response[Any]:
    """An answer of megabytes in pieces: as one text it would be copied several times."""
    pieces: list[bytes] = []
    small: list[bytes] = []
    for part in parts:
        if len(part) < PIECE:
            small.append(part)
        else:
            pieces += (b"".join(small), part)
            small = []
    pieces.append(b"".join(small))

    async def flow() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    length = str(sum(len(piece) for piece in pieces))
    return Stream(flow(), media_type=JSON, headers={"content-length": length})


def placement_handlers(
    service: HasPlacement, body_of: ReadBody, only_operator: Callable[[AnyRequest], None]
) -> list[Any]:
    """The route handlers; ``body_of`` merges a request's parameters."""

    @post("/allocate", status_code=200)
    async def allocate(request: AnyRequest) -> Response[Any]:
        """SelectServer: choose a server for a VM.

        Ours: ``reserve`` (or ``reserve_seconds``) holds the room under the VM's uuid; ``ports``: the
        VM's ports, whose networks' NIC tags the server must have; ``explain``
        false leaves the steps out of a good answer (with thousands of servers they are megabytes).
        """
        only_operator(request)
        body = await body_of(request)
        errors = check_types(body)
        if errors:
            raise invalid_parameters(errors)
        ports = body.get("ports")
        if ports is not None:
            known = cast("list[Any]", ports) if isinstance(ports, list) else [None]
            if not all(isinstance(one, str) and UUID_ANY.match(one) for one in known):
                raise invalid_parameters({"ports": "value was not an array of uuids"})
            needed = await service.fabric.nic_tags([str(one) for one in known])
            body["nic_tags"] = sorted({*(body.get("nic_tags") or []), *needed})
        checked(body, reserve=False)
        placed = await service.placement.allocate(body)
        if placed.outcome.chosen is None:
            raise no_place(placed)
        if body.get("explain") in (False, "false"):
            return Response(b"".join(_answer(placed, [b"[]"])), media_type=JSON)
        return _in_pieces(_answer(placed, placed.outcome.steps_as_bytes()))

    async def capacities(request: AnyRequest) -> Body:
        only_operator(request)
        body = await body_of(request)
        given: Any = body.get("servers")
        if request.method == "GET" and isinstance(given, str):
            given = [one for one in given.split(",") if one]
        if given is not None and not isinstance(given, list):
            raise invalid_parameters({"servers": "value was not an array"})
        wanted = cast("list[Any] | None", given)
        if wanted is not None and not all(
            isinstance(one, str) and UUID_ANY.match(one) for one in wanted
        ):
            raise invalid_parameters({"servers": "invalid server UUID"})
        found = await service.placement.capacity(wanted)
        answer: Body = {"capacities": found.capacities, "errors": found.errors}
        if found.warnings:
            answer["warnings"] = found.warnings
        return answer

    @post("/capacity", status_code=200)
    async def capacity(request: AnyRequest) -> Body:
        """ServerCapacity: what is left on each server."""
        return await capacities(request)

    @get("/capacity")
    async def show_capacity(request: AnyRequest) -> Body:
        """The same; ``servers`` is a list with commas."""
        return await capacities(request)

    return [allocate, capacity, show_capacity]
