"""Calls about compute nodes, the jobs of the service, and tickets (compute-node-api.md §4 to §7)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from vetro.compute.client.calls import Call
from vetro.compute.wire import Job, JobStarted, NicTags, Server, Ticket

_WAIT_SECONDS = 30


def servers(extras: str = "") -> Call[list[Server]]:
    """All compute nodes. ``extras``: further properties, separated by commas (``vms,memory``)."""
    params = {"extras": extras} if extras else {}
    return Call("GET", "/servers", list[Server], params=params)


def chosen(by: str, value: str) -> Call[list[Server]]:
    """The compute nodes of a host name (``by``: ``hostname``), which several may have, or of ``uuids``."""
    return Call("GET", "/servers", list[Server], params={by: value})


def server(uuid: str) -> Call[Server]:
    """A compute node with all that is known of it. Errors: 404."""
    return Call("GET", path_of(uuid), Server)


def take_vms_again(uuid: str) -> Call[None]:
    """Let a node that was drained have VMs placed on it."""
    return Call("POST", path_of(uuid), type(None), {"reserved": False})


def drain(uuid: str, *, move: bool) -> Call[JobStarted]:
    """Place nothing new on a node; with ``move`` its VMs go to others."""
    return Call("POST", f"{path_of(uuid)}/drain", JobStarted, {"move": move})


def evacuate(uuid: str) -> Call[JobStarted]:
    """Create the VMs of a node that is switched off again on others. Errors: 409 for one that runs."""
    return Call("POST", f"{path_of(uuid)}/evacuate", JobStarted, {"fenced": True})


def remove(uuid: str, *, force: bool) -> Call[None]:
    """Delete the record of a node with those of what it had.

    Errors: 409 for one that is heard or has VMs, unless ``force``.
    """
    return Call("DELETE", path_of(uuid), type(None), params={"force": str(force).lower()})


def reboot(uuid: str, *, drain: bool) -> Call[JobStarted]:
    """Reboot a node. ``drain``: its agent ends its tasks first."""
    return Call("POST", f"{path_of(uuid)}/reboot", JobStarted, {"drain": drain})


def set_up(uuid: str, settings: dict[str, str]) -> Call[JobStarted | None]:
    """Set a node up; nothing for one that is."""
    answer: Any = JobStarted | None
    return Call("PUT", f"{path_of(uuid)}/setup", answer, settings)


def factory_reset(uuid: str) -> Call[JobStarted]:
    """Erase a node. Errors: 409 when it has VMs."""
    return Call("PUT", f"{path_of(uuid)}/factory-reset", JobStarted, {})


def change_nic_tags(uuid: str, action: str, nics: list[NicTags]) -> Call[JobStarted]:
    """``action``: ``update`` (adds tags), ``replace`` or ``delete``."""
    body = {"action": action, "nics": nics}
    return Call("PUT", f"{path_of(uuid)}/nics", JobStarted, body)


def wait_job(uuid: str) -> Call[Job]:
    """A job when it has ended, or as it is after a while. Errors: 404."""
    path = f"/jobs/{quote(uuid, safe='')}/wait"
    return Call("GET", path, Job, params={"timeout": _WAIT_SECONDS})


def tickets(server: str | None, *, limit: int, offset: int) -> Call[list[Ticket]]:
    """A page of the tickets of a server, or of all; oldest first."""
    path = "/tickets" if server is None else f"{path_of(server)}/tickets"
    return Call("GET", path, list[Ticket], params={"limit": limit, "offset": offset})


def ticket(uuid: str) -> Call[Ticket]:
    """A ticket; a queued one names the ticket it waits for. Errors: 404."""
    return Call("GET", f"/tickets/{quote(uuid, safe='')}", Ticket)


def path_of(uuid: str) -> str:
    """The path of a compute node."""
    return f"/servers/{quote(uuid, safe='')}"
