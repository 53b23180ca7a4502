"""What travels between the compute service and a node's agent (compute-node-agent.md §2-5).

Towards the service (all below ``/servers/<uuid>``): ``POST /sysinfo`` (``{sysinfo}``, with the keys of
compute-node-api.md §3.3), ``POST /events/heartbeat`` (``{}``), ``POST /events/status`` and
``/events/vm`` (below), ``POST`` with ``{agents}``, of which the version of ``cn-agent`` opens the
service's version gates. Towards the agent: ``POST /tasks`` (``{task, params, fence?}``), answered with
the task's result or ``{error, details, vm?}``: ``details.restCode`` says what kind of failure it is,
``vm`` what is left. An agent that cannot be reached asks for its tasks instead (pull mode):
``GET /agent/next-task?timeout=SECONDS`` gives a `PulledTask` (204: none yet) and
``POST /agent/tasks/<id>`` takes its `PulledResult`.

The body of ``/events/status`` is ``{vms, timestamp, partial, meminfo, diskinfo, zpoolStatus,
boot_time}``; bytes everywhere, but a VM's memory in MiB, quota in GiB, cpu_cap in percent of a core. The
service ignores a sample whose ``timestamp`` (ISO, the agent's clock) is older than that of the last one
it took from this server. ``vms`` are all VMs of the node, also in ``/events/vms``; with ``partial`` they
are those that changed, and the others stay as they were.
"""

from __future__ import annotations

import hashlib
import hmac

import msgspec

from vetro.compute.wire.vms import Json

#: A server without a heartbeat for this long is ``unknown``.
HEARTBEAT_LIFETIME_SECONDS = 11.0
#: Between the end of one look at the heartbeats and the start of the next.
RECONCILE_SECONDS = 5.0

SERVER_HEADER = "x-server-uuid"
#: An operator's call that is limited to one project's objects (and shared ones).
ACTING_HEADER = "x-acting-project"
#: A node's relay says which guest asks: ``<server uuid> <address> <hex digest>`` (`relay_stamp`).
RELAY_HEADER = "x-vetro-relay"
REQUEST_ID_HEADER = "x-request-id"
#: A task sent again under the same key gets the first run's result.
IDEMPOTENCY_HEADER = "idempotency-key"

#: The key of an agent that has one of its own begins with this, then its server's uuid.
KEY_PREFIX = "vn1"


def node_key(master: str, server_uuid: str) -> str:
    """The key of one server's agent: no other server's key can be derived from it.

    ``vn1.<uuid>.<64 hex digits>``, derived from the installation's secret ``master``.
    """
    uuid = server_uuid.lower()
    digest = hmac.new(master.encode(), f"vetro node key\n{uuid}".encode(), hashlib.sha256)
    return f"{KEY_PREFIX}.{uuid}.{digest.hexdigest()}"


def server_of_key(key: str) -> str | None:
    """The server a key of this form is for (not: that it is genuine); ``None`` for other keys."""
    parts = key.split(".")
    return parts[1] if len(parts) == 3 and parts[0] == KEY_PREFIX else None


def relay_stamp(key: str, server_uuid: str, address: str) -> str:
    """What a relay says of a guest, signed with its node's key: its own one, or the installation's."""
    uuid = server_uuid.lower()
    own = key if server_of_key(key) is not None else node_key(key, uuid)
    said = f"{uuid} {address}"
    digest = hmac.new(own.encode(), f"vetro relay\n{said}".encode(), hashlib.sha256)
    return f"{said} {digest.hexdigest()}"


def genuine_relay(master: str, stamp: str) -> tuple[str, str] | None:
    """The guest's address and the server in a `relay_stamp`; ``None``: its node's key did not make it."""
    parts = stamp.split(" ")
    if len(parts) != 3 or not master:
        return None
    server, address, _ = parts
    expected = relay_stamp(node_key(master, server), server, address)
    return (address, server) if hmac.compare_digest(expected.encode(), stamp.encode()) else None


class Fence(msgspec.Struct, frozen=True, omit_defaults=True):
    """The turn a task is done in. ``number`` rises with every ticket of the service.

    A VM's creations and destructions have a turn of their own (scope ``vm-life``) when the caller names
    no ticket: none is done after one that was asked for later. An agent remembers the highest number it
    has seen for each (scope, id) and refuses a task with a lower one (409, code and restCode
    ``FenceOvertaken``): its holder's turn is over.
    """

    scope: str
    id: str
    number: int


class PulledTask(msgspec.Struct, omit_defaults=True):
    """A task for an agent in pull mode. ``id`` is its idempotency key as well; ``traceparent``: the
    trace that it belongs to, '' for none.
    """

    id: str
    task: str
    params: dict[str, Json]
    request_id: str = ""
    fence: Fence | None = None
    traceparent: str = ""


class PulledResult(msgspec.Struct):
    """How a pulled task ended: the status and body ``POST /tasks`` would have answered."""

    status: int
    body: dict[str, Json]
