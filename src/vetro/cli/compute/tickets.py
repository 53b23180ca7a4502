"""``vetro ticket``: who waits for what on compute nodes."""

from __future__ import annotations

from collections import defaultdict

import click

from vetro.cli.client.connection import Connection, Decoded
from vetro.cli.compute.servers import find_server
from vetro.cli.terminal.output import PrintingGroup, Row, emit_object, emit_rows, say, wants_json
from vetro.compute.client import servers, vm_calls
from vetro.compute.wire import Ticket

COLUMNS = [
    ("UUID", "uuid"),
    ("SERVER", "server_uuid"),
    ("SCOPE", "scope"),
    ("ID", "id"),
    ("ACTION", "action"),
    ("STATUS", "status"),
    ("EXPIRES", "expires_at"),
    ("WAITING ON", "waiting_on"),
]
_PAGE = 1000


@click.group(cls=PrintingGroup)
def ticket() -> None:
    """Tickets: turns on the waitlists of compute nodes."""


@ticket.command("list")
@click.option("-s", "--server", "name_or_uuid", help="Those of one server.")
@click.option("--all", "ended_too", is_flag=True, help="Finished and expired ones as well.")
def ticket_list(name_or_uuid: str | None, ended_too: bool) -> None:
    """List tickets, oldest first; a queued one says whom it waits for."""
    with Connection() as connection:
        server = find_server(connection, name_or_uuid).uuid if name_or_uuid is not None else None
        found: list[Decoded[Ticket]] = []
        while True:
            page = connection.all_decoded(servers.tickets(server, limit=_PAGE, offset=len(found)))
            found += page
            if len(page) < _PAGE:
                break
    ahead: dict[str, list[str]] = {}
    queues: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for one in sorted((entry.known for entry in found), key=lambda known: known.fence or 0):
        if one.is_open:
            queue = queues[one.queue]
            if one.status == "queued":
                ahead[one.uuid] = list(queue)
            queue.append(one.uuid)
    rows: list[Row] = []
    for entry in found:
        if entry.known.is_open or ended_too:
            rows.append(entry.row)
            if not wants_json():
                entry.row["waiting_on"] = _short(ahead.get(entry.known.uuid))
            elif entry.known.uuid in ahead:
                entry.row["waiting_on"] = ahead[entry.known.uuid]
    emit_rows(rows, COLUMNS)


def _short(ahead: list[str] | None) -> str | None:
    """The ticket directly before this one, and how many there are before that."""
    if not ahead:
        return None
    return ahead[-1] + (f" (+{len(ahead) - 1})" if len(ahead) > 1 else "")


@ticket.command("show")
@click.argument("uuid")
def ticket_show(uuid: str) -> None:
    """Show one ticket and whom it waits for."""
    with Connection() as connection:
        emit_object(connection.decoded(servers.ticket(uuid)).row)


@ticket.command("release", short_help="End a ticket whose holder is gone.")
@click.argument("uuid")
def ticket_release(uuid: str) -> None:
    """End a ticket whose holder is gone; the next in its queue has its turn."""
    with Connection() as connection:
        connection.send(vm_calls.release_ticket(uuid))
        if wants_json():
            emit_object(connection.decoded(servers.ticket(uuid)).row)
    say(f"Ticket {uuid} is released")
