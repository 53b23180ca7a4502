"""What is said of what a server has while the server is silent (ours, beside CNAPI).

A silent server may have lost everything, or have all of it running: what it reported last is no state of
now. So VMs, volumes and copies of images are ``unknown`` with it. Only an operator ends that without the
server: who has switched the machine off says so (it is *fenced*), or deletes its record. Then it is
*given up* as long as it is silent, and what it had is gone. Time alone gives nothing up (decision 0801).
"""

from __future__ import annotations

from vetro.compute.values.faults import not_running
from vetro.http import Fault
from vetro.storage import StoredRow

#: In a server's ``extra``: when an operator said that its machine is off and stays off. It goes as soon
#: as the server is heard again.
FENCED = "fenced_at"
#: In ``extra``: VMs that left the server while it was dead; what is there of them goes when it is back.
MOVED = "moved_vms"
UNKNOWN = "unknown"
#: The state of a VM that its server had and no longer has.
MISSING = "missing"
#: States that the service itself has set: they say nothing of what runs on the server.
OWN_STATES = ("allocated", "creating", "failed", MISSING)


def is_silent(server: StoredRow | None) -> bool:
    """Whether a server is not heard now; ``None``: it has no record."""
    return server is None or server.status != "running"


def is_given_up(server: StoredRow | None) -> bool:
    """Whether nothing more is expected of a server; ``None``: its record was deleted."""
    return server is None or (server.status != "running" and bool(server.extra.get(FENCED)))


def told_state(state: str, server: StoredRow | None) -> str:
    """The state of a VM as it is told: of what a silent server had nothing is known."""
    if state in OWN_STATES or not is_silent(server):
        return state
    return MISSING if is_given_up(server) else UNKNOWN


def nothing_known(what: str, server: StoredRow) -> Fault:
    """409 for something that a silent server has: whom to ask, and what to do."""
    return not_running(
        f"{what} is on server {server.hostname} ({server.uuid}), which is silent. Wait until it is back."
        " If it is gone, an operator makes sure that it is off, and runs"
        f" 'vetro server evacuate {server.uuid} --fenced'"
    )
