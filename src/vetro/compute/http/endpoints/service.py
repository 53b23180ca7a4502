"""Ping, info, diagnostics, log level, service metadata (compute-node-api.md §1, §4)."""

from __future__ import annotations

import logging
import resource

import structlog

from vetro import __version__
from vetro.compute.http.answers import AN_OBJECT, INFO, LOG_LEVEL, PING, SERVICE
from vetro.compute.http.endpoint import Access, Call, Endpoint
from vetro.compute.values.faults import invalid_argument, invalid_parameters, not_found
from vetro.compute.values.records import Json, Record, api_time, mapping
from vetro.http import listed
from vetro.http.endpoint import EMPTY
from vetro.http.parameters import OBJECT, STRING, FieldError, Param, query
from vetro.storage import StorageError

log = structlog.get_logger(__name__)

#: bunyan's levels as the API spells them, and Python's.
LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
}


async def ping(call: Call) -> Json:
    """Whether the service and what it needs answer."""
    moray = "online"
    try:
        async with call.service.database.read() as tx:
            await call.service.metadata.read(tx)
    except (StorageError, OSError, TimeoutError):
        moray = "offline"
    services = {"workflow": moray, "moray": moray, "amqp": "online"}
    return {"ready": moray == "online", "services": services, "instance": call.service.instance}


async def info(_call: Call) -> Json:
    """The version of the service."""
    return {"version": __version__}


async def diagnostics(call: Call) -> Json:
    """What this process is waiting for."""
    service = call.service
    usage = resource.getrusage(resource.RUSAGE_SELF)
    pending: dict[str, list[Record]] = {}
    for server, scope, id_ in sorted(service.tickets.pending):
        pending.setdefault(server, []).append({"scope": scope, "id": id_})
    return {
        "start_timestamp": api_time(service.started),
        "memory": {"rss": usage.ru_maxrss * 1024},
        "instance": service.instance,
        "heartbeating_servers": len(service.heartbeats),
        "waiting_status_samples": len(service.samples),
        "taskCallbacks": service.work.waiting(),
        "pendingActivationsByServer": pending,
    }


async def show_level(call: Call) -> Json:
    """The log level."""
    return {"level": call.service.log_level}


async def set_level(call: Call) -> Json:
    """Change the log level of this process."""
    level = str(call.get("level", ""))
    if level not in LEVELS:
        raise invalid_parameters([FieldError("level", "Invalid value for param 'level'")])
    logging.getLogger().setLevel(LEVELS[level])
    call.service.log_level = level
    return EMPTY


async def list_services(call: Call) -> Json:
    """The service's own object, with its metadata."""
    name = call.get("name")
    if name not in (None, "cnapi"):
        return []
    return [await call.service.metadata.view()]


async def change_service(call: Call) -> Json:
    """Merge metadata keys; ``null`` deletes one. It takes effect with the next request."""
    if call.get("uuid") != call.service.metadata.uuid:
        raise not_found(f"service {call.get('uuid')} not found")
    given = mapping(call.get("metadata"))
    problem = call.service.metadata.problem(given)
    if problem:
        raise invalid_argument(problem)
    return await call.service.metadata.change(given)


ENDPOINTS = [
    Endpoint("Ping", "GET", "/ping", ping, access=Access.PUBLIC, reply=PING),
    Endpoint("Info", "GET", "/info", info, access=Access.PUBLIC, reply=INFO),
    Endpoint("Diagnostics", "GET", "/diagnostics", diagnostics, reply=AN_OBJECT),
    Endpoint("GetLoglevel", "GET", "/loglevel", show_level, reply=LOG_LEVEL),
    Endpoint("SetLoglevel", "POST", "/loglevel", set_level, query(STRING, "level")),
    Endpoint("ServiceList", "GET", "/services", list_services, query(STRING, "name"),
             reply=listed(SERVICE)),
    Endpoint(
        "ServiceUpdate", "PUT", "/services/{uuid}", change_service,
        (Param("metadata", OBJECT, required=True),),
        reply=SERVICE,
    ),
]  # fmt: skip
