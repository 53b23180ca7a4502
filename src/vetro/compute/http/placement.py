"""HTTP of placement: POST /allocate, GET and POST /capacity (allocation.md §1)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, cast

import msgspec
from litestar import Response
from litestar.response import Stream

from vetro.compute.allocation import check_types
from vetro.compute.allocation.wording import UUID_ANY
from vetro.compute.http.answers import CAPACITY, STEPS
from vetro.compute.http.endpoint import Call, Endpoint
from vetro.compute.placement.placement import Placed, Supposed, checked, no_place
from vetro.compute.values.faults import invalid_argument, invalid_parameters
from vetro.compute.values.records import Record
from vetro.compute.vms.given_up import leave_given_up
from vetro.compute.vms.volume_places import places_of
from vetro.http import read_json
from vetro.http.endpoint import AnyRequest

JSON = "application/json"
#: Smaller pieces are not worth a write of their own.
PIECE = 65536


def _answer(placed: Placed, steps: Sequence[bytes]) -> list[bytes]:
    rest: Record = {"imgapiPeers": [], "vm_uuid": placed.vm_uuid}
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


async def _body_of(request: AnyRequest) -> Record:
    """Query parameters overridden by the JSON body, as one map (§2)."""
    value = await read_json(request)
    if value is not None and not isinstance(value, dict):
        raise invalid_argument("the request body must be an object")
    return {**dict(request.query_params.items()), **cast("Record", value or {})}


def _uuids(body: Record, name: str) -> list[str] | None:
    """A parameter that is a list of uuids. Errors: 500 InvalidParameters."""
    given: object = body.get(name)
    if given is None:
        return None
    listed = cast("list[object]", given) if isinstance(given, list) else [None]
    found = [one for one in listed if isinstance(one, str) and UUID_ANY.match(one)]
    if len(found) != len(listed):
        raise invalid_parameters({name: "value was not an array of uuids"})
    return found


def _supposed(body: Record) -> Supposed | None:
    """What the parameters ``without`` and ``beside`` suppose. Errors: 500 InvalidParameters."""
    without = frozenset(one.lower() for one in _uuids(body, "without") or ())
    beside: list[tuple[str, Record]] = []
    given: object = body.get("beside")
    given = [] if given is None else given
    for one in cast("list[object]", given) if isinstance(given, list) else [None]:
        entry = cast("Record", one) if isinstance(one, dict) else {}
        server, vm = entry.get("server"), entry.get("vm")
        if not (isinstance(server, str) and UUID_ANY.match(server) and isinstance(vm, dict)):
            raise invalid_parameters({"beside": "value was not an array of {server, vm}"})
        checked({"vm": cast("Record", vm), "image": {}}, reserve=True)
        beside.append((server.lower(), cast("Record", vm)))
    return Supposed(without, tuple(beside)) if without or beside else None


async def allocate(call: Call) -> Response[Any]:
    """SelectServer: choose a server for a VM.

    Ours: ``reserve`` (or ``reserve_seconds``) holds the room under the VM's uuid; ``ports``: the
    VM's ports, whose networks' NIC tags the server must have, and with whose other servers it must be
    in a network; ``volumes``: what it will be given, for
    a server that keeps them; ``explain``
    false leaves the steps out of a good answer (with thousands of servers they are megabytes).
    A question that reserves nothing may suppose ``without``: VMs that count no more, for servers and
    quotas, and ``beside``: ``{server, vm}`` that count as if they were there.
    """
    body = await _body_of(call.request)
    errors = check_types(body)
    if errors:
        raise invalid_parameters(errors)
    ports = _uuids(body, "ports")
    if ports is not None:
        needed = await call.service.fabric.nic_tags(ports)
        body["nic_tags"] = sorted({*(body.get("nic_tags") or []), *needed})
    checked(body, reserve=False)
    supposed = _supposed(body)
    if supposed is None and (body.get("reserve") or body.get("reserve_seconds") is not None):
        # A VM that has its place keeps it; on a server that was given up it has none.
        wanted = body["vm"].get("vm_uuid") or body["vm"].get("uuid")
        await leave_given_up(call.service.database, str(wanted or "").lower())
    kept = await places_of(
        call.service.database, _uuids(body, "volumes") or [], str(body["vm"].get("owner_uuid"))
    )
    placed = await call.service.placement.allocate(
        body, near=kept.servers, only=kept.needed, ports=ports or (), supposed=supposed
    )
    if placed.outcome.chosen is None:
        raise no_place(placed, kept.why() if kept.needed else "")
    if body.get("explain") in (False, "false"):
        return Response(b"".join(_answer(placed, [b"[]"])), media_type=JSON)
    return _in_pieces(_answer(placed, placed.outcome.steps_as_bytes()))


async def capacity(call: Call) -> Record:
    """ServerCapacity: what is left on each server."""
    body = await _body_of(call.request)
    given: object = body.get("servers")
    if call.request.method == "GET" and isinstance(given, str):
        given = [one for one in given.split(",") if one]
    if given is not None and not isinstance(given, list):
        raise invalid_parameters({"servers": "value was not an array"})
    wanted = cast("list[Any] | None", given)
    if wanted is not None and not all(
        isinstance(one, str) and UUID_ANY.match(one) for one in wanted
    ):
        raise invalid_parameters({"servers": "invalid server UUID"})
    found = await call.service.placement.capacity(wanted)
    answer: Record = {"capacities": found.capacities, "errors": found.errors}
    if found.warnings:
        answer["warnings"] = found.warnings
    return answer


async def show_capacity(call: Call) -> Record:
    """The same; ``servers`` is a list with commas."""
    return await capacity(call)


#: Their bodies are read as allocation.md says, not as those of other calls.
ENDPOINTS = [
    Endpoint(
        "SelectServer", "POST", "/allocate", allocate, upload=True, reply=STEPS, errors=(422,)
    ),
    Endpoint("ServerCapacity", "POST", "/capacity", capacity, upload=True, reply=CAPACITY),
    Endpoint("ServerCapacityByGet", "GET", "/capacity", show_capacity, upload=True, reply=CAPACITY),
]
