"""Work: tasks on nodes (compute-node-api.md §7), jobs (§12), and operations on servers, which are jobs.

Moving VMs, draining and evacuating are ours, beside CNAPI.
"""

from __future__ import annotations

from vetro.compute.http.answers import AN_OBJECT, JOB, JOB_STARTED, TASK
from vetro.compute.http.endpoint import Access, Call, Endpoint
from vetro.compute.operations.evacuation import start_evacuation
from vetro.compute.operations.migration import start_drain, start_move
from vetro.compute.values.faults import not_found, precondition_failed
from vetro.compute.values.records import Json, without
from vetro.http import listed
from vetro.http.endpoint import Answer
from vetro.http.parameters import (
    BOOLEAN,
    BOOLEAN_TEXT,
    INTEGER,
    NATURAL,
    STRING,
    Param,
    as_number,
    body,
    boolean_of,
    query,
)

LONGEST_SECONDS = 3600.0


async def list_jobs(call: Call) -> Json:
    """Jobs, newest first."""
    limit = max(1, min(1000, int(call.get("limit") or 100)))
    offset = max(0, int(call.get("offset") or 0))
    return await call.service.jobs.listing(limit=limit, offset=offset)


async def get_job(call: Call) -> Json:
    """A job: how far its chain is, and what went wrong."""
    return await call.service.jobs.get(str(call.get("job_uuid")))


async def wait_job(call: Call) -> Json:
    """A job when it ended, or as it is after ``timeout`` seconds."""
    seconds = as_number(call.get("timeout"))
    seconds = LONGEST_SECONDS if seconds is None else min(seconds, LONGEST_SECONDS)
    uuid = str(call.get("job_uuid"))
    jobs = call.service.jobs
    waiting = jobs.wait(uuid, seconds)
    return await call.service.until_closing(call.request, waiting) or await jobs.get(uuid)


async def show_info(call: Call) -> Json:
    """The entries of a job's log."""
    return await call.service.jobs.info(str(call.get("job_uuid")))


async def add_info(call: Call) -> Json:
    """Append an entry to a job's log."""
    entry = without(call.body(), "date")
    await call.service.jobs.note(str(call.get("job_uuid")), entry)
    return {}


async def get_task(call: Call) -> Json:
    """A task. Others than operators see those of their project's VMs."""
    id_ = str(call.get("task_id"))
    await _check_owner(call, id_)
    return await call.service.work.get(id_)


async def _check_owner(call: Call, id_: str) -> None:
    """Results hold what a VM was made from: they are its owner's. Errors: 404, as for no task."""
    if call.is_operator:
        return
    owner = await call.service.work.owner_of(id_)
    if owner is None or owner != call.project:
        raise not_found("no such task found")


async def wait_task(call: Call) -> Json:
    """A task when it ended, or as it is after ``timeout`` seconds."""
    seconds = as_number(call.get("timeout"))
    if seconds is None or seconds <= 0:
        seconds = LONGEST_SECONDS
    work = call.service.work
    id_ = str(call.get("task_id"))
    await _check_owner(call, id_)
    waiting = work.wait(id_, min(seconds, LONGEST_SECONDS))
    return await call.service.until_closing(call.request, waiting) or await work.get(id_)


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
    Endpoint("TaskGet", "GET", "/tasks/{task_id}", get_task, access=Access.USER, reply=TASK),
    Endpoint("TaskWait", "GET", "/tasks/{task_id}/wait", wait_task,
             (Param("timeout", where="query"),), access=Access.USER, reply=TASK),
    Endpoint("JobList", "GET", "/jobs", list_jobs, query(INTEGER, "limit", "offset"),
             reply=listed(JOB)),
    Endpoint("JobGet", "GET", "/jobs/{job_uuid}", get_job, reply=JOB),
    Endpoint("JobWait", "GET", "/jobs/{job_uuid}/wait", wait_job, query(NATURAL, "timeout"),
             reply=JOB),
    Endpoint("JobInfo", "GET", "/jobs/{job_uuid}/info", show_info, reply=listed(AN_OBJECT)),
    Endpoint("JobInfoAdd", "POST", "/jobs/{job_uuid}/info", add_info, reply=AN_OBJECT),
    Endpoint("VmMove", "POST", "/servers/{server_uuid}/vms/{uuid}/move", move_vm,
             body(STRING, "target_server_uuid"), running=True, status=202, reply=JOB_STARTED),
    Endpoint("ServerDrain", "POST", "/servers/{server_uuid}/drain", drain_server,
             body(BOOLEAN_TEXT, "move"), running=True, status=202, reply=JOB_STARTED),
    Endpoint("ServerEvacuate", "POST", "/servers/{server_uuid}/evacuate", evacuate_server,
             body(BOOLEAN, "fenced"), status=202, errors=(412,), reply=JOB_STARTED),
]  # fmt: skip
