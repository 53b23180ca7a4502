"""Jobs: chains of steps that outlive a request and a process (compute-node-api.md §12).

A job is a row and a lease. The service that holds the lease runs the steps in order and stores each
result. When it dies, the next holder repeats the interrupted step, so a step must be idempotent. A
failed step ends the job and runs the workflow's undo.
"""

from __future__ import annotations

import asyncio
import uuid as uuids
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, cast

import structlog
from sqlalchemy import insert, select, update

from vetro.compute.tables import job_info, jobs
from vetro.compute.values.faults import conflict, not_found
from vetro.compute.values.parameters import UUID
from vetro.compute.values.records import Json, Record, api_time
from vetro.http import Fault
from vetro.secrecy import is_secret
from vetro.storage import Database, Lease, LeaseQueue, StoredRow, Worker, await_until

log = structlog.get_logger(__name__)

OPEN = ("queued", "running")
LEASE_SECONDS = 15.0
JOB_SECONDS = 7200
MASKED = "(secret)"
_SECRETS_TOO = ("key", "amqp")


class JobHost(Protocol):
    """What a job runner needs of the service that it is part of."""

    @property
    def database(self) -> Database:
        """Where jobs and their leases are kept."""
        ...

    @property
    def instance(self) -> str:
        """The name of this process among those on the database."""
        ...


Host = TypeVar("Host", bound=JobHost)


class JobFailure(Exception):
    """A step failed; the message is the job's error."""


@dataclass(frozen=True)
class Step(Generic[Host]):
    """One step: its name, how long it may take, what it does (returns its result's text)."""

    name: str
    seconds: float
    run: Callable[[JobRun[Host]], Awaitable[Json]]


@dataclass(frozen=True)
class Workflow(Generic[Host]):
    """A chain of steps under a name. ``undo`` runs after a failure."""

    name: str
    steps: tuple[Step[Host], ...]
    undo: Callable[[JobRun[Host]], Awaitable[None]] | None = None
    seconds: int = JOB_SECONDS


@dataclass
class JobRun(Generic[Host]):
    """A job as its steps see it; ``state`` is kept between them, ``service`` is what they work on."""

    service: Host
    uuid: str
    params: Record
    created_at: Any
    state: Record = field(default_factory=dict[str, Any])

    @property
    def server_uuid(self) -> str:
        """The server the job is about."""
        return str(self.params.get("server_uuid") or "")


def channel(uuid: str) -> str:
    """Notifications of one job."""
    return f"compute/job/{uuid}"


def masked(value: Json) -> Json:
    """Parameters as they are shown: possible secrets are masked."""
    if isinstance(value, dict):
        return {
            name: MASKED
            if (is_secret(name) or name.lower() in _SECRETS_TOO) and one
            else masked(one)
            for name, one in cast("Record", value).items()
        }
    if isinstance(value, list):
        return [masked(one) for one in cast("list[object]", value)]
    return value


class JobRunner(Generic[Host]):
    """Jobs of all service instances; each runs those whose lease it gets."""

    def __init__(self, service: Host, workflows: tuple[Workflow[Host], ...]) -> None:
        self.service = service
        self.database: Database = service.database
        self.workflows = {one.name: one for one in workflows}
        self.queue = LeaseQueue(self.database, "compute-jobs")

    async def create(self, name: str, target: str, params: Record) -> str:
        """Start a job; its uuid. Errors: 409 while another of the workflow has the same target."""
        workflow = self.workflows[name]
        uuid = str(uuids.uuid4())
        async with self.database.transaction() as tx:
            await tx.exclude(f"job {name} {target}")
            query = select(jobs.c.uuid).where(
                jobs.c.name == name, jobs.c.target == target, jobs.c.execution.in_(OPEN)
            )
            other = (await tx.execute(query)).first()
            if other is not None:
                raise conflict(
                    f"a {name} job of {target} is not finished yet: wait for job {other.uuid}",
                    job_uuid=other.uuid,
                )
            await tx.execute(
                insert(jobs).values(
                    uuid=uuid,
                    name=name,
                    target=target,
                    execution="queued",
                    params=params,
                    state={},
                    chain=[step.name for step in workflow.steps],
                    chain_results=[],
                    timeout=workflow.seconds,
                    created=self.database.clock.now(),
                )
            )
            await self.queue.enqueue(tx, uuid)
        return uuid

    # Running

    async def watch(self) -> None:
        """Run jobs whose leases this instance gets, until cancelled; then they are given back."""
        owner = self.service.instance
        worker = Worker(self.queue, None, self._attend, owner=owner, ttl_seconds=LEASE_SECONDS)
        await worker.work()

    async def _attend(self, lease: Lease) -> None:
        async with self.queue.hold(lease):
            await self._run(lease)

    async def _run(self, lease: Lease) -> None:
        async with self.database.transaction() as tx:
            row = (await tx.execute(select(jobs).where(jobs.c.uuid == lease.key))).one()
            started = row.started or self.database.clock.now()
            await tx.execute(
                update(jobs)
                .where(jobs.c.uuid == row.uuid)
                .values(execution="running", started=started)
            )
        workflow = self.workflows.get(row.name)
        run = JobRun(self.service, row.uuid, row.params, row.created, dict(row.state))
        results: list[Record] = list(row.chain_results)
        error = "" if workflow is not None else f"there is no workflow {row.name}"
        for step in workflow.steps[len(results) :] if workflow is not None else ():
            result = await self._step(step, run)
            results.append(result)
            error = result["error"]
            await self._keep(row.uuid, run, results)
            if error:
                break
        if error and workflow is not None and workflow.undo is not None:
            try:
                await workflow.undo(run)
            except (JobFailure, Fault) as failure:
                await self.note(row.uuid, {"name": "undo", "error": str(failure)})
        async with self.database.transaction() as tx:
            await tx.execute(
                update(jobs)
                .where(jobs.c.uuid == row.uuid)
                .values(
                    execution="failed" if error else "succeeded",
                    chain_results=results,
                    finished=self.database.clock.now(),
                )
            )
            await self.queue.complete(tx, lease)
            tx.notify(channel(row.uuid))

    async def _step(self, step: Step[Host], run: JobRun[Host]) -> Record:
        began = self.database.clock.now()
        result: Json = ""
        error = ""
        try:
            async with asyncio.timeout(step.seconds):
                result = await step.run(run)
        except TimeoutError:
            error = f"the step did not end within {step.seconds:g} s"
        except (JobFailure, Fault) as failure:
            error = str(failure) or type(failure).__name__
        except OSError:
            raise  # a database error: the next holder of the lease continues
        except Exception as failure:
            log.exception("job_step_broke", job=run.uuid, step=step.name)
            error = f"the step failed unexpectedly: {failure!r}"
        if error:
            log.warning("job_failed", job=run.uuid, step=step.name, error=error)
        return {
            "name": step.name,
            "result": "OK" if result is None or (result == "" and not error) else result,
            "error": error,
            "started_at": api_time(began),
            "finished_at": api_time(self.database.clock.now()),
        }

    async def _keep(self, uuid: str, run: JobRun[Host], results: list[Record]) -> None:
        async with self.database.transaction() as tx:
            await tx.execute(
                update(jobs)
                .where(jobs.c.uuid == uuid)
                .values(chain_results=results, state=run.state)
            )
            tx.notify(channel(uuid))

    # Looking at jobs

    async def _row(self, uuid: str) -> StoredRow:
        row = None
        if UUID.match(uuid):
            async with self.database.read() as tx:
                query = select(jobs).where(jobs.c.uuid == uuid.lower())
                row = (await tx.execute(query)).first()
        if row is None:
            raise not_found(f"job {uuid} not found")
        return row

    async def get(self, uuid: str) -> Record:
        """A job. Errors: 404."""
        row = await self._row(uuid)
        return self._view(row, await self.info(uuid))

    def _view(self, row: StoredRow, info: list[Record]) -> Record:
        end = row.finished or self.database.clock.now()
        view: Record = {
            "uuid": row.uuid,
            "name": row.name,
            "execution": row.execution,
            "params": masked(row.params),
            "target": row.target,
            "created_at": api_time(row.created),
            "elapsed": max(0.0, (end - (row.started or row.created)).total_seconds()),
            "timeout": row.timeout,
            "chain": row.chain,
            "chain_results": row.chain_results,
            "info": info,
        }
        if row.execution in OPEN and len(row.chain_results) < len(row.chain):
            view["waiting_on"] = row.chain[len(row.chain_results)]
        return view

    async def listing(self, *, limit: int, offset: int) -> list[Record]:
        """Jobs, newest first."""
        async with self.database.read() as tx:
            query = select(jobs).order_by(jobs.c.created.desc(), jobs.c.uuid)
            rows = list(await tx.execute(query.limit(limit).offset(offset)))
            of_page = job_info.c.job_uuid.in_([row.uuid for row in rows])
            entries = list(
                await tx.execute(select(job_info).where(of_page).order_by(job_info.c.number))
            )
        infos: dict[str, list[Record]] = {row.uuid: [] for row in rows}
        for one in entries:
            infos[one.job_uuid].append(_entry(one))
        return [self._view(row, infos[row.uuid]) for row in rows]

    async def wait(self, uuid: str, timeout_seconds: float) -> Record:
        """The job when it ended, or as it is after the time. Errors: 404."""

        async def look() -> Record | None:
            view = await self.get(uuid)
            return view if view["execution"] not in OPEN else None

        ended = await await_until(self.database, channel(uuid.lower()), look, timeout_seconds)
        return ended or await self.get(uuid)

    async def note(self, uuid: str, entry: Record) -> None:
        """Append an entry to a job's info. Errors: 404."""
        row = await self._row(uuid)
        async with self.database.transaction() as tx:
            await tx.execute(
                insert(job_info).values(
                    job_uuid=row.uuid, date=self.database.clock.now(), entry=entry
                )
            )

    async def info(self, uuid: str) -> list[Record]:
        """A job's info entries, oldest first. Errors: 404."""
        row = await self._row(uuid)
        async with self.database.read() as tx:
            found = await tx.execute(
                select(job_info).where(job_info.c.job_uuid == row.uuid).order_by(job_info.c.number)
            )
            return [_entry(one) for one in found]


def _entry(row: StoredRow) -> Record:
    return {"date": api_time(row.date), **row.entry}
