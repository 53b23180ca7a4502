"""Reports of nodes: heartbeats and status; the tasks a node in pull mode asks for (§5)."""

from __future__ import annotations

from vetro.compute.http.answers import AN_OBJECT
from vetro.compute.http.endpoint import Access, Call, Endpoint
from vetro.compute.values.faults import not_found
from vetro.compute.values.records import Json, mapping
from vetro.http import Reply
from vetro.http.endpoint import Answer
from vetro.http.parameters import BOOLEAN_TEXT as FLAG
from vetro.http.parameters import INTEGER, NATURAL, OBJECT, Param, as_number, body, query

LONGEST_POLL_SECONDS = 60.0


async def heartbeat(call: Call) -> Json:
    """A node is alive; it need not be known. (The usual form of this call never gets here: see lane.)"""
    call.service.heartbeats.beat(call.own_uuid)


async def status(call: Call) -> Json:
    """A node's VMs and resources."""
    await _take(call, only_vms=False)


async def vms(call: Call) -> Json:
    """A node's VMs only."""
    await _take(call, only_vms=True)


async def _take(call: Call, *, only_vms: bool) -> None:
    uuid = call.own_uuid
    service = call.service
    try:
        async with service.database.read() as tx:
            await service.servers.row(tx, uuid)
    except (OSError, TimeoutError):
        # The database does not answer: the server's message is kept until it does.
        if service.heartbeats.last(uuid) is None:
            raise
    await service.samples.take(uuid, call.body(), only_vms=only_vms)


async def image_copies(call: Call) -> Json:
    """All images of a node, and how far it is with those that come."""
    uuid = call.own_uuid
    async with call.service.database.read() as tx:
        await call.service.servers.row(tx, uuid)
    await call.service.copies.take(uuid, mapping(call.get("images")))


async def next_task(call: Call) -> Json:
    """The next task for a node that cannot be reached; 204 when none came within ``timeout`` seconds."""
    seconds = as_number(call.get("timeout"))
    seconds = 30.0 if seconds is None or seconds < 0 else min(seconds, LONGEST_POLL_SECONDS)
    taken = await call.service.until_closing(
        call.request,
        call.service.pulled.next(call.own_uuid, seconds, restarted=call.flag("restarted")),
    )
    return Answer(204) if taken is None else taken


async def pulled_result(call: Call) -> Json:
    """How a pulled task ended."""
    task = str(call.get("task_uuid"))
    if len(task) > 36 or not task.isascii() or not task.isprintable():
        raise not_found("no such task found")
    await call.service.pulled.finish(
        call.own_uuid, task, int(call.params["status"]), call.get("body")
    )


_SAMPLE = (
    *body(OBJECT, "vms", "zpoolStatus", "meminfo", "diskinfo"),
    Param("boot_time"),
    Param("timestamp"),
)
_SERVER = "/servers/{server_uuid}"

ENDPOINTS = [
    Endpoint("ServerEventHeartbeat", "POST", f"{_SERVER}/events/heartbeat", heartbeat,
             access=Access.NODE, strict=True, known=False, status=204),
    Endpoint("ServerEventStatusUpdate", "POST", f"{_SERVER}/events/status", status, _SAMPLE,
             access=Access.NODE, known=False, status=204),
    Endpoint("ServerEventVmUpdate", "POST", f"{_SERVER}/events/vm", vms, _SAMPLE,
             access=Access.NODE, known=False, status=204),
    Endpoint("ServerEventVmsUpdate", "POST", f"{_SERVER}/events/vms", vms, _SAMPLE,
             access=Access.NODE, known=False, status=204),
    Endpoint("ServerEventImagesUpdate", "POST", f"{_SERVER}/events/images", image_copies,
             body(OBJECT, "images"), access=Access.NODE, known=False, status=204),
    Endpoint("AgentNextTask", "GET", f"{_SERVER}/agent/next-task", next_task,
             (*query(NATURAL, "timeout"), *query(FLAG, "restarted")), access=Access.NODE,
             known=False, reply=Reply(AN_OBJECT, others={204: None})),
    Endpoint("AgentTaskResult", "POST", f"{_SERVER}/agent/tasks/{{task_uuid}}", pulled_result,
             (Param("status", INTEGER, required=True), Param("body", OBJECT)),
             access=Access.NODE, known=False, status=204),
]  # fmt: skip
