"""Tasks on nodes: looking and waiting (compute-node-api.md §7)."""

from __future__ import annotations

from vetro.compute.http.answers import TASK
from vetro.compute.http.endpoint import Access, Call, Endpoint
from vetro.compute.values.faults import not_found
from vetro.compute.values.records import Json
from vetro.http.parameters import Param, as_number

DEFAULT_SECONDS = 3600.0


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
        seconds = DEFAULT_SECONDS
    work = call.service.work
    id_ = str(call.get("task_id"))
    await _check_owner(call, id_)
    waiting = work.wait(id_, min(seconds, DEFAULT_SECONDS))
    return await call.service.until_closing(call.request, waiting) or await work.get(id_)


ENDPOINTS = [
    Endpoint("TaskGet", "GET", "/tasks/{task_id}", get_task, access=Access.USER, reply=TASK),
    Endpoint("TaskWait", "GET", "/tasks/{task_id}/wait", wait_task,
             (Param("timeout", where="query"),), access=Access.USER, reply=TASK),
]  # fmt: skip
