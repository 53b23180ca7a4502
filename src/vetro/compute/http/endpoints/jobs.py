"""Jobs (compute-node-api.md §12)."""

from __future__ import annotations

from vetro.compute.http.answers import AN_OBJECT, JOB
from vetro.compute.http.endpoint import Call, Endpoint
from vetro.compute.values.records import Json, without
from vetro.http import listed
from vetro.http.parameters import INTEGER, NATURAL, as_number, query

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


ENDPOINTS = [
    Endpoint(
        "JobList", "GET", "/jobs", list_jobs, query(INTEGER, "limit", "offset"), reply=listed(JOB)
    ),
    Endpoint("JobGet", "GET", "/jobs/{job_uuid}", get_job, reply=JOB),
    Endpoint(
        "JobWait", "GET", "/jobs/{job_uuid}/wait", wait_job, query(NATURAL, "timeout"), reply=JOB
    ),
    Endpoint("JobInfo", "GET", "/jobs/{job_uuid}/info", show_info, reply=listed(AN_OBJECT)),
    Endpoint("JobInfoAdd", "POST", "/jobs/{job_uuid}/info", add_info, reply=AN_OBJECT),
]
