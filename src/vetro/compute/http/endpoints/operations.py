"""Operations on servers: moving VMs, draining and evacuating (ours, beside CNAPI)."""

from __future__ import annotations

from vetro.compute.http.answers import JOB_STARTED
from vetro.compute.http.endpoint import Call, Endpoint
from vetro.compute.operations.evacuation import start_evacuation
from vetro.compute.operations.migration import start_drain, start_move
from vetro.compute.values.faults import precondition_failed
from vetro.compute.values.records import Json
from vetro.http.endpoint import Answer
from vetro.http.parameters import BOOLEAN, BOOLEAN_TEXT, STRING, body, boolean_of


async def move_vm(call: Call) -> Json:
    """Move a VM to another server: ``target_server_uuid``, or where there is room. 202 with the job."""
    target = call.get("target_server_uuid")
    job = await start_move(call.service, call.vm_uuid, str(target) if target else None)
    return Answer(202, {"job_uuid": job, "vm_uuid": call.vm_uuid})


async def drain_server(call: Call) -> Json:
    """Place nothing new on a server and move its VMs away (``move`` false: only say what holds it).

    The job's error names what is left there and why. The server stays reserved until it is updated
    with ``reserved`` false.
    """
    move = boolean_of(call.get("move"))
    job = await start_drain(call.service, call.server_uuid, move=move is not False)
    return Answer(202, {"job_uuid": job})


async def evacuate_server(call: Call) -> Json:
    """Make the VMs of a dead server again on others. 202 with the job.

    ``fenced`` true says that the machine is switched off and stays off: otherwise its VMs would run
    twice. Their disks are not saved: each starts from its image, with its addresses and its uuid.
    """
    if call.get("fenced") is not True:
        raise precondition_failed(
            "Will not evacuate without fenced=true: first make sure that the machine is switched off"
            " and stays off"
        )
    return Answer(202, {"job_uuid": await start_evacuation(call.service, call.row)})


ENDPOINTS: list[Endpoint] = [
    Endpoint("VmMove", "POST", "/servers/{server_uuid}/vms/{uuid}/move", move_vm,
             body(STRING, "target_server_uuid"), running=True, status=202, reply=JOB_STARTED),
    Endpoint("ServerDrain", "POST", "/servers/{server_uuid}/drain", drain_server,
             body(BOOLEAN_TEXT, "move"), running=True, status=202, reply=JOB_STARTED),
    Endpoint("ServerEvacuate", "POST", "/servers/{server_uuid}/evacuate", evacuate_server,
             body(BOOLEAN, "fenced"), status=202, errors=(412,), reply=JOB_STARTED),
]  # fmt: skip
