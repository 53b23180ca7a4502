"""The waitlist (compute-node-api.md §11)."""

from __future__ import annotations

import uuid as uuids

from vetro.compute.http.answers import TICKET
from vetro.compute.http.endpoint import Call, Endpoint
from vetro.compute.values.faults import (
    invalid_argument,
    invalid_parameters,
    precondition_failed,
    unavailable,
)
from vetro.compute.values.parameters import UUID
from vetro.compute.values.records import Json
from vetro.compute.waitlist.tickets import LIST_LIMIT, sort_of
from vetro.http import listed
from vetro.http.endpoint import Answer
from vetro.http.parameters import OBJECT, STRING, FieldError, Param, body, pattern, query


async def create_ticket(call: Call) -> Json:
    """Queue up for something on a server; ``queue`` lists the tickets before it."""
    given = call.get("uuid")
    if given and not (isinstance(given, str) and UUID.match(given)):
        raise invalid_parameters([FieldError("uuid", "value was not a uuid")])
    ticket = str(given or uuids.uuid4()).lower()
    return await call.service.tickets.create(
        ticket, call.server_uuid, call.params, request_id=call.request_id
    )


async def list_tickets(call: Call) -> Json:
    """The tickets of a server, the finished and expired ones too."""
    return await _listed(call, call.server_uuid)


async def all_tickets(call: Call) -> Json:
    """The tickets of every server."""
    return await _listed(call, None)


async def _listed(call: Call, server: str | None) -> Json:
    limit = int(call.get("limit") or LIST_LIMIT)
    if limit > LIST_LIMIT:
        raise invalid_argument("limit must be less than 1000")
    attribute, descending = sort_of(call.get("attribute"), call.get("order"))
    return await call.service.tickets.listing(
        server, limit=limit, offset=int(call.get("offset") or 0), attribute=attribute,
        descending=descending,
    )  # fmt: skip


async def get_ticket(call: Call) -> Json:
    """A ticket, and whom it waits for."""
    return await call.service.tickets.get(str(call.get("ticket_uuid")))


async def delete_ticket(call: Call) -> Json:
    """Leave the queue; calls that wait for the ticket are answered that it is gone."""
    await call.service.tickets.remove(str(call.get("ticket_uuid")))


async def delete_all(call: Call) -> Json:
    """Delete all tickets of a server."""
    if str(call.get("force")).lower() != "true":
        raise precondition_failed("Will not delete all tickets without ?force=true")
    await call.service.tickets.remove_all(call.server_uuid)


async def wait_ticket(call: Call) -> Json:
    """Returns when it is the ticket's turn, or at once when it is over."""
    view = await call.service.until_closing(
        call.request, call.service.tickets.wait(str(call.get("ticket_uuid")))
    )
    if view is None:
        raise unavailable("The service is closing: ask again")
    return Answer(204)


async def release_ticket(call: Call) -> Json:
    """Give a turn back; the next of the queue has it when this returns."""
    await call.service.tickets.release(str(call.get("ticket_uuid")))


_PAGE = (
    Param("limit", pattern(r"[1-9][0-9]{0,8}", schema={"type": "integer"}), where="query"),
    Param("offset", pattern(r"0|[1-9][0-9]{0,8}", schema={"type": "integer"}), where="query"),
    Param("attribute", STRING, where="query", aliases=("attribhute",)),
    Param("order", STRING, where="query"),
)
_TICKET = "/tickets/{ticket_uuid}"
_TICKETS = "/servers/{server_uuid}/tickets"

ENDPOINTS = [
    Endpoint("ServerWaitlistTicketCreate", "POST", _TICKETS, create_ticket,
             (Param("scope", STRING, required=True), Param("id", STRING, required=True),
              Param("expires_at", STRING, required=True), *body(STRING, "action", "uuid"),
              *body(OBJECT, "extra")), status=202, reply=TICKET),
    Endpoint("ServerWaitlistList", "GET", _TICKETS, list_tickets, _PAGE, strict=True,
             reply=listed(TICKET)),
    Endpoint("WaitlistList", "GET", "/tickets", all_tickets, _PAGE, strict=True,
             reply=listed(TICKET)),
    Endpoint("ServerWaitlistTicketsDeleteAll", "DELETE", _TICKETS, delete_all,
             query(STRING, "force"), status=204, errors=(412,)),
    Endpoint("ServerWaitlistGetTicket", "GET POST", _TICKET, get_ticket, reply=TICKET),
    Endpoint("ServerWaitlistDeleteTicket", "DELETE", _TICKET, delete_ticket, status=204),
    Endpoint("ServerWaitlistTicketsWait", "GET", f"{_TICKET}/wait", wait_ticket, status=204),
    Endpoint("ServerWaitlistTicketRelease", "PUT GET POST", f"{_TICKET}/release", release_ticket,
             status=204),
]  # fmt: skip
