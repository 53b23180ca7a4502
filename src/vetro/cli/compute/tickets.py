"""``vetro ticket``: who waits for what on compute nodes."""

from __future__ import annotations

from typing import Any

import click

from vetro.cli.client.connection import Connection, segment
from vetro.cli.compute.servers import find_server
from vetro.cli.terminal.output import emit_object, emit_rows, json_option, say, wants_json

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


@click.group()
def ticket() -> None:
    """Tickets: turns on the waitlists of compute nodes."""


@ticket.command("list")
@click.option("-s", "--server", "name_or_uuid", help="Those of one server.")
@click.option("--all", "ended_too", is_flag=True, help="Finished and expired ones as well.")
@json_option
def ticket_list(name_or_uuid: str | None, ended_too: bool) -> None:
    """List tickets, oldest first; a queued one says whom it waits for."""
    with Connection() as connection:
        path = "/compute/tickets"
        if name_or_uuid is not None:
            uuid = find_server(connection, name_or_uuid)["uuid"]
            path = f"/compute/servers/{segment(uuid)}/tickets"
        rows: list[dict[str, Any]] = []
        while True:
            page = connection.get(path, params={"limit": _PAGE, "offset": len(rows)})
            rows += page
            if len(page) < _PAGE:
                break
    before: dict[tuple[str, ...], list[str]] = {}
    for row in sorted(rows, key=lambda one: one["fence"]):
        if row["status"] in ("queued", "active"):
            queue = before.setdefault((row["server_uuid"], row["scope"], row["id"]), [])
            if row["status"] == "queued":
                row["waiting_on"] = list(queue)
            queue.append(row["uuid"])
    if not ended_too:
        rows = [row for row in rows if row["status"] in ("queued", "active")]
    if not wants_json():
        for row in rows:
            row["waiting_on"] = _short(row.get("waiting_on"))
    emit_rows(rows, COLUMNS)


def _short(ahead: list[str] | None) -> str | None:
    """The one who is next before us, and how many others are."""
    if not ahead:
        return None
    return ahead[-1] + (f" (+{len(ahead) - 1})" if len(ahead) > 1 else "")


@ticket.command("show")
@click.argument("uuid")
@json_option
def ticket_show(uuid: str) -> None:
    """Show one ticket and whom it waits for."""
    with Connection() as connection:
        emit_object(connection.get(f"/compute/tickets/{segment(uuid)}"))


@ticket.command("release", short_help="End a ticket whose holder is gone.")
@click.argument("uuid")
@json_option
def ticket_release(uuid: str) -> None:
    """End a ticket whose holder is gone; the next in its queue has its turn."""
    with Connection() as connection:
        path = f"/compute/tickets/{segment(uuid)}"
        connection.request("PUT", f"{path}/release")
        if wants_json():
            emit_object(connection.get(path))
    say(f"Ticket {uuid} is released")
