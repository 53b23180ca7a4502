"""Recreating the VMs of a dead server on others (ours, beside CNAPI).

A silent server may be dead, or only cut off with its VMs running. The service cannot know which:
the operator confirms in a separate step that the machine is switched off and stays so (it is
*fenced*). Then the server's tasks are given up, and each VM that the service created is recreated
elsewhere from its original request: same uuid, addresses and size, with a fresh root file system
from its image. Data on the dead server's disks stays there; its volumes are lost (``lost_volumes``).

The server's record keeps the list of these VMs, and a tombstone when it is deleted. If its machine comes
back, they are destroyed on it before it may be used again; VMs that were not recreated still belong to it.
Until then these are missing, and deployments and destructions go on without the server
(`vetro.compute.vms.given_up`). A VM that is just being recreated is on the list with its ``task``: whoever
sees that end settles it, the evacuation or, when the server is heard and nobody waits, the clean-up.
"""

from __future__ import annotations

import asyncio
import uuid as uuids

import structlog
from sqlalchemy import delete, select, update

from vetro.compute.operations.lost_volumes import find_again, mark_lost
from vetro.compute.operations.migration import hold_room, room_of
from vetro.compute.operations.parts import Run, ServiceParts
from vetro.compute.servers.store import CHANNEL, LOST, change_extra
from vetro.compute.servers.tombstones import under_way
from vetro.compute.tables import moves, servers, tasks, vms
from vetro.compute.values.faults import conflict, not_found
from vetro.compute.values.records import Json, Record, api_time, iso_moment, mapping, without
from vetro.compute.values.silence import FENCED, MOVED, is_silent
from vetro.compute.vms.ages import made_at
from vetro.compute.vms.lifecycle import UNMADE
from vetro.compute.work.jobs import JobFailure, Step, Workflow
from vetro.compute.work.node_tasks import About, NodeTaskError
from vetro.http import Fault
from vetro.storage import LookAgain, StoredRow, Transaction, watch

log = structlog.get_logger(__name__)

EVACUATE, CLEAN = "server-evacuate", "server-clean-up"
SIDE_BY_SIDE = 4
CREATE_SECONDS = 3600
#: A VM that is still being recreated, though its server is heard, is looked at again after this long.
LOOK_SECONDS = 60.0


async def start_evacuation(service: ServiceParts, row: StoredRow) -> str:
    """Begin to recreate a fenced server's VMs elsewhere; the job's uuid. Errors: 409 if it runs."""
    if row.status == "running":
        raise conflict(
            f"server {row.uuid} is heard: drain it; or switch it off and wait until it is unknown"
        )
    return await service.jobs.create(EVACUATE, row.uuid, {"server_uuid": row.uuid})


async def fence(run: Run) -> Json:
    """Give the server up: nothing is placed there, nobody waits for it, and what it had may be left."""
    service, uuid = run.service, run.server_uuid
    async with service.database.transaction() as tx:
        said = {"reserved": True, FENCED: api_time(service.database.clock.now())}
        row = await service.servers.change_in(tx, uuid, said)
        if not is_silent(row):
            raise JobFailure(f"server {uuid} is heard again: it is not switched off")
    given_up = await service.work.give_up(uuid, f"server {uuid} was given up: it is evacuated")
    return f"{len(given_up)} tasks given up"


async def _still_silent(run: Run) -> None:
    async with run.service.database.read() as tx:
        row = await run.service.servers.row(tx, run.server_uuid)
    if row.status == "running":
        raise JobFailure(f"server {run.server_uuid} is heard again: it is not switched off")


async def make_again(run: Run) -> Json:
    """Recreate every VM; VMs that cannot be recreated are the job's error, with the reason."""
    service = run.service
    turn = asyncio.Semaphore(SIDE_BY_SIDE)

    async def one(vm_uuid: str) -> str | None:
        async with turn:
            try:
                return await _one(run, vm_uuid)
            except (JobFailure, Fault, NodeTaskError) as error:
                return str(error)

    async with service.database.read() as tx:
        query = select(vms.c.uuid).where(
            vms.c.server_uuid == run.server_uuid, vms.c.state.not_in(UNMADE)
        )
        here = [row.uuid for row in await tx.execute(query.order_by(vms.c.created, vms.c.uuid))]
        extra = (await service.servers.row(tx, run.server_uuid)).extra
    # A service may have died during this step: wait for the tasks it started.
    begun = under_way(extra)
    wanted = [*here, *(uuid for uuid in begun if uuid not in here)]
    ended = await asyncio.gather(*(one(uuid) for uuid in wanted))
    reasons = {uuid: why for uuid, why in zip(wanted, ended, strict=True) if why}
    lost = await mark_lost(service, run.server_uuid)
    for vm in await service.machines.listing(run.server_uuid):
        uuid = str(vm["uuid"])
        if (
            uuid not in wanted
            and uuid not in mapping(extra.get(MOVED))
            and vm.get("state") not in UNMADE
        ):
            reasons[uuid] = "the service did not make it and does not know how to make it again"
    if reasons:
        named = "; ".join(f"VM {uuid}: {why}" for uuid, why in sorted(reasons.items()))
        raise JobFailure(f"{len(reasons)} VMs were not created again: {named}")
    return f"{len(wanted)} made again" + (f"; {lost} volumes are lost" if lost else "")


async def _one(run: Run, vm_uuid: str) -> str | None:
    """Recreate one VM, or wait for what has begun; returns the reason if that failed."""
    service, source = run.service, run.server_uuid
    async with service.database.read() as tx:
        row = (await tx.execute(select(vms).where(vms.c.uuid == vm_uuid))).first()
        query = select(moves.c.job_uuid).where(moves.c.vm_uuid == vm_uuid)
        moving = (await tx.execute(query)).first()
        moved = mapping((await service.servers.row(tx, source)).extra.get(MOVED))
    if row is None:
        return None  # destroyed meanwhile
    if row.server_uuid == source:
        await _still_silent(run)
        if moving is not None:
            return f"it is being moved: wait for job {moving.job_uuid}, then evacuate again"
        if not row.payload:
            return "what it was made from is not known"
        target = await hold_room(service, row, mapping(row.payload).get("image_uuid"))
        try:
            task = await _begin(service, vm_uuid, source, target)
        except Fault:
            async with service.database.transaction() as tx:
                await tx.execute(delete(vms).where(vms.c.uuid == room_of(vm_uuid)))
            raise
    else:
        task = str(mapping(moved.get(vm_uuid)).get("task"))
    ended = await service.work.wait(task, CREATE_SECONDS)
    await _settle(service, source, vm_uuid)
    if ended.status == "active":
        return "it is still being made"
    return None if ended.status == "complete" else ended.error or "the node gave no reason"


async def _settle(service: ServiceParts, source: str, uuid: str) -> bool:
    """Settle the entry of a VM that was begun to be recreated; false while it is made or destroyed.

    One that could not be recreated is assigned to its server again. Otherwise it has left for good: it
    is elsewhere, or its record is gone.
    """
    async with service.database.transaction() as tx:
        await tx.exclude(f"vm {uuid}")
        going_on = select(tasks.c.id).where(
            tasks.c.vm_uuid == uuid,
            tasks.c.task.in_(("machine_create", "machine_destroy")),
            tasks.c.status == "active",
        )
        if (await tx.execute(going_on)).first() is not None:
            return False
        unmade = (
            (vms.c.uuid == uuid)
            & (vms.c.server_uuid != source)
            & vms.c.state.in_(("creating", "failed"))
        )
        failed = (await tx.execute(select(vms.c.uuid).where(unmade))).first() is not None
        was: list[str] = []

        def settled(moved: Json) -> Json:
            entry = mapping(mapping(moved).get(uuid))
            if not entry.get("task"):
                return moved  # somebody else did
            if failed:
                was.append(str(entry.get("state")))
                return without(moved, uuid)
            return {**mapping(moved), uuid: without(without(entry, "task"), "state")}

        await change_extra(tx, source, MOVED, settled)
        for state in was:
            await tx.execute(update(vms).where(unmade).values(server_uuid=source, state=state))
        tx.notify(CHANNEL, source)
    return True


async def _begin(service: ServiceParts, uuid: str, source: str, target: str) -> str:
    """Start to recreate a VM where room is held for it; the task's id. Errors: 404, 409.

    Uses its original request with its current size; a stopped VM is not started.
    """
    async with service.database.transaction() as tx:
        await tx.exclude(f"vm {uuid}")
        query = select(vms).where(vms.c.uuid == uuid, vms.c.server_uuid == source)
        row = (await tx.execute(query)).first()
        if row is None:
            raise not_found(f"VM {uuid} is not on server {source} any more")
        agent = await service.servers.agent(tx, target)
        size = {"max_physical_memory": row.memory_mib, "quota": row.quota_gib}
        made_from = mapping(row.payload)
        payload = {**made_from, **{name: n for name, n in size.items() if name in made_from}}
        if row.state == "stopped":
            payload["autoboot"] = False
        id_ = str(uuids.uuid4())
        await tx.execute(delete(vms).where(vms.c.uuid == room_of(uuid)))
        await tx.execute(
            update(vms).where(vms.c.uuid == uuid).values(server_uuid=target, state="creating")
        )
        since = api_time(service.database.clock.now())
        await _remember(tx, source, uuid, {"task": id_, "state": row.state, "since": since})
        await service.work.store(tx, id_, agent, "machine_create", payload, About(uuid))
        for one in (source, target):
            tx.notify(CHANNEL, one)
    await service.work.launch(id_)
    return id_


async def _remember(tx: Transaction, server_uuid: str, uuid: str, entry: Record | None) -> None:
    """Store with a server the entry of a VM that left it; ``None`` removes the entry."""
    given = {uuid: entry} if entry is not None else {}
    await change_extra(tx, server_uuid, MOVED, lambda moved: without(moved, uuid) | given)


# The machine comes back


async def destroy_moved(run: Run) -> Json:
    """Destroy on a returned server the VMs that were recreated elsewhere.

    Not one that is newer than its leaving: it came back since, and the database, which is of a backup,
    does not know. Nor one that is just being recreated: if that fails, this is the only one.
    """
    service, server_uuid = run.service, run.server_uuid
    async with service.database.read() as tx:
        row = await service.servers.row(tx, server_uuid)
        left = gone_from(row.extra)
        query = select(vms.c.uuid).where(
            vms.c.uuid.in_(list(left)), vms.c.server_uuid == server_uuid
        )
        own = {one.uuid for one in await tx.execute(query)}
    agent = service.servers.agent_of(row)
    spared = set(own)
    for vm_uuid in sorted(left):
        since = iso_moment(mapping(left[vm_uuid]).get("since"))
        if vm_uuid not in own and since is not None:
            try:
                made = await made_at(service.work, agent, vm_uuid)
            except (NodeTaskError, TimeoutError) as error:
                raise JobFailure(
                    f"VM {vm_uuid} is still on server {server_uuid}: {error}"
                ) from error
            if made is not None and made > since:
                log.warning("moved_vm_is_newer", server=server_uuid, vm=vm_uuid)
                spared.add(vm_uuid)
        if vm_uuid not in spared:
            id_ = await service.work.start(
                agent, "machine_destroy", {"uuid": vm_uuid, "include_dni": True},
                About(vm_uuid, job_uuid=run.uuid),
            )  # fmt: skip
            result = await service.work.wait(id_)
            details = mapping(mapping(result.result).get("details"))
            gone = details.get("restCode") == "VmNotFound"
            if result.status != "complete" and not gone:
                raise JobFailure(f"VM {vm_uuid} is still on server {server_uuid}: {result.error}")
        async with service.database.transaction() as tx:
            await _remember(tx, server_uuid, vm_uuid, None)
    return f"{len(left) - len(spared)} destroyed; {await find_again(run)}"


def gone_from(extra: Record) -> Record:
    """The VMs that left a server for good, by what is kept with it."""
    made = under_way(extra)
    return {uuid: one for uuid, one in mapping(extra.get(MOVED)).items() if uuid not in made}


async def clean_up(service: ServiceParts, server_uuids: set[str] | None = None) -> set[str]:
    """Begin to clean up servers (those named, or all) that run again after an evacuation.

    Returns those of which a VM is still being recreated elsewhere.
    """
    async with service.database.read() as tx:
        query = select(servers.c.uuid, servers.c.extra).where(servers.c.status == "running")
        if server_uuids is not None:
            query = query.where(servers.c.uuid.in_(server_uuids))
        rows = list(await tx.execute(query))
    waits: set[str] = set()
    for row in rows:
        for vm_uuid in under_way(row.extra):
            # What is settled is notified: the server is looked at again.
            if not await _settle(service, row.uuid, vm_uuid):
                waits.add(row.uuid)
    returned = [row.uuid for row in rows if gone_from(row.extra) or row.extra.get(LOST)]
    for uuid in returned:
        try:
            job = await service.jobs.create(CLEAN, uuid, {"server_uuid": uuid})
        except Fault:
            continue  # another service process has started it
        log.warning("evacuated_server_returned", server=uuid, job=job)
    return waits


async def watch_returning(service: ServiceParts) -> None:
    """Clean up returning servers, until cancelled."""
    waits: set[str] = set()

    async def look(named: set[str] | None) -> LookAgain | None:
        nonlocal waits
        waits = await clean_up(service, None if named is None else {*waits, *named})
        return LookAgain(LOOK_SECONDS) if waits else None

    await watch(service.database, CHANNEL, look)


WORKFLOWS: tuple[Workflow[ServiceParts], ...] = (
    Workflow(
        EVACUATE,
        (Step("fence", 120, fence), Step("make again", 4 * CREATE_SECONDS, make_again)),
        seconds=4 * CREATE_SECONDS,
    ),
    Workflow(CLEAN, (Step("destroy", 2 * CREATE_SECONDS, destroy_moved),)),
)
