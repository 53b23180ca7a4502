"""NICs of servers and nic tags (compute-node-api.md §9)."""

from __future__ import annotations

from vetro.compute.http.answers import AN_OBJECT, JOB_STARTED, NIC, TASK_STARTED
from vetro.compute.http.endpoint import Call, Endpoint
from vetro.compute.http.endpoints.servers import start_task
from vetro.compute.servers.nics import check_request
from vetro.compute.values.faults import internal_error
from vetro.compute.values.records import Json
from vetro.http import listed
from vetro.http.parameters import ANYTHING, ARRAY, BOOLEAN_TEXT, STRING, Param, body


async def update_nics(call: Call) -> Json:
    """Change the tags that a server's NICs provide, by a job."""
    check_request(call.get("action"), call.get("nics"))
    if not call.row.setup:
        raise internal_error("Server is not setup")
    params = {
        "server_uuid": call.server_uuid,
        "nic_action": call.get("action"),
        "nics": call.get("nics"),
        "force": call.flag("force"),
        "origin": call.get("origin"),
        "creator_uuid": call.get("creator_uuid"),
    }
    job = await call.service.jobs.create("server-update-nics", call.server_uuid, params)
    return {"job_uuid": job}


async def nic_task(call: Call) -> Json:
    """Send the agent its NICs' tags (the job's own step)."""
    return await start_task(call, "server_update_nics", {"nics": call.get("nics")})


async def list_nics(call: Call) -> Json:
    """The NICs of a server, with the tags they provide."""
    return await call.service.nics.of(call.server_uuid)


async def list_tags(call: Call) -> Json:
    """Every nic tag."""
    return await call.service.nics.tags()


_SERVER = "/servers/{server_uuid}"

ENDPOINTS = [
    Endpoint("NicUpdate", "PUT", f"{_SERVER}/nics", update_nics,
             (Param("action", STRING, required=True), Param("nics", ARRAY, required=True),
              *body(STRING, "origin", "creator_uuid"), *body(BOOLEAN_TEXT, "force")),
             running=True, status=202, reply=JOB_STARTED),
    Endpoint("NicList", "GET", f"{_SERVER}/nics", list_nics, reply=listed(NIC)),
    Endpoint("UpdateNicTask", "POST", f"{_SERVER}/nics/update", nic_task,
             (Param("nics", ANYTHING),), running=True, reply=TASK_STARTED),
    Endpoint("NicTagList", "GET", "/nic_tags", list_tags, reply=listed(AN_OBJECT)),
]  # fmt: skip
