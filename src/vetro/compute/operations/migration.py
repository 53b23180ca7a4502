"""Moving VMs to other servers, and emptying servers that way (ours, beside CNAPI).

A move is a job, so another service process continues it when one dies. Room on the target is held
and its networks are created first. A container's files are copied while it runs, after those of its
snapshots, and again after it was stopped, so its downtime is the time of the second copy. A running
virtual machine moves with its memory. The database is updated in one step when the target has
everything: a failure before that leaves the VM on the source, running if it ran; afterwards it
belongs to the target.
"""

from __future__ import annotations

import asyncio
import uuid as uuids
from typing import cast

from sqlalchemy import delete, insert, select, update

from vetro.compute.operations.parts import Run, ServiceParts
from vetro.compute.placement.placement import no_place
from vetro.compute.servers.store import CHANNEL
from vetro.compute.tables import moves, ports, servers, vms, volumes
from vetro.compute.values.faults import conflict, invalid_argument, not_found
from vetro.compute.values.parameters import UUID
from vetro.compute.values.records import Json, Record, mapping, text_of
from vetro.compute.wire import HVM_BRANDS
from vetro.compute.work.jobs import JobFailure, Step, Workflow
from vetro.compute.work.node_tasks import About, NodeTaskError
from vetro.http import Fault
from vetro.storage import StoredRow

MOVE, DRAIN = "vm-move", "server-drain"
#: The number of VMs that leave a server at once: each reads its disks and fills the network.
SIDE_BY_SIDE = 2
COPY_SECONDS = 6 * 3600
_SPACE = uuids.UUID("a3c2f6f1-5d0e-4c4e-9d0b-6f0e6f3a1c55")
#: States in which a VM can be moved.
_MOVABLE = ("running", "stopped")


def room_of(vm_uuid: str) -> str:
    """The uuid under which a moving VM's room on the target is held."""
    return str(uuids.uuid5(_SPACE, vm_uuid))


async def start_move(service: ServiceParts, vm_uuid: str, target: str | None) -> str:
    """Begin to move a VM to ``target``, or to a server the allocator chooses; the job's uuid.

    Errors: 404; 409 when it is being moved already, or when the target is not another server.
    """
    async with service.database.read() as tx:
        row = (await tx.execute(select(vms).where(vms.c.uuid == vm_uuid))).first()
        if row is None:
            raise not_found(f"VM {vm_uuid} not found")
        if target is not None:
            if not UUID.match(target):
                raise invalid_argument("Invalid target_server_uuid")
            target = target.lower()
            await service.servers.row(tx, target)
            if target == row.server_uuid:
                raise conflict(f"VM {vm_uuid} is on server {target} already")
        found = await tx.execute(select(volumes.c.uuid).where(volumes.c.vm_uuid == vm_uuid))
        held = [one.uuid for one in found]
        if held:
            raise conflict(
                f"VM {vm_uuid} has {len(held)} volumes on its server ({held[0]} …): detach them,"
                " move it, and attach them again: they are moved to its server then"
            )
    params = {"server_uuid": row.server_uuid, "vm_uuid": vm_uuid, "target_server_uuid": target}
    return await service.jobs.create(MOVE, vm_uuid, params)


async def start_drain(service: ServiceParts, server_uuid: str, *, move: bool) -> str:
    """Reserve a server (no new VMs are placed there) and move its VMs away; the job's uuid.

    Without ``move`` the job only lists the VMs on the server.
    """
    params = {"server_uuid": server_uuid, "move": move}
    return await service.jobs.create(DRAIN, server_uuid, params)


# Shared by the steps


def _uuid(run: Run) -> str:
    return str(run.params["vm_uuid"])


def _target(run: Run) -> str:
    return str(run.state["target"])


def _is_hvm(run: Run) -> bool:
    return mapping(run.state["vm"]).get("brand") in HVM_BRANDS


async def _task(run: Run, server_uuid: str, task: str, **more: Json) -> Record:
    """Run a task with the VM on one of the two servers; its id and outcome are in the job's info."""
    service = run.service
    params = {"uuid": _uuid(run), **more}
    async with service.database.read() as tx:
        agent = service.servers.agent_of(await service.servers.row(tx, server_uuid))
    id_ = await service.work.start(agent, task, params, About(_uuid(run), job_uuid=run.uuid))
    ended = await service.work.wait(id_, COPY_SECONDS)
    if ended.status != "complete":
        reason = ended.error or "the node gave no reason"
        raise JobFailure(f"{task} on server {server_uuid}: {reason}")
    return mapping(ended.result)


async def _step_task(run: Run, server_uuid: str, action: str, **more: Json) -> Record:
    """Run one action of ``machine_migrate``."""
    return await _task(
        run, server_uuid, "machine_migrate", action=action, vm_uuid=_uuid(run), **more
    )


async def _load(run: Run, server_uuid: str) -> Record:
    """The VM as one of the two servers has it."""
    return await _task(run, server_uuid, "machine_load", include_dni=True)


# The steps


async def look(run: Run) -> Json:
    """Read the VM's current state from its node."""
    vm = await _load(run, run.server_uuid)
    if vm.get("state") not in _MOVABLE:
        raise JobFailure(f"VM {_uuid(run)} is {vm.get('state')}: it must be running or stopped")
    snapshots = cast("list[Json]", vm.get("snapshots") or [])
    kept = [str(mapping(one).get("name")) for one in snapshots]
    if kept and vm.get("brand") in HVM_BRANDS and vm["state"] == "running":
        raise JobFailure(
            f"VM {_uuid(run)} has snapshots, which do not move with a virtual machine that runs:"
            f" stop it, or delete {', '.join(kept)} first"
        )
    run.state.setdefault("vm", vm)
    run.state.setdefault("running", vm["state"] == "running")


async def choose(run: Run) -> Json:
    """Choose the target and hold room there."""
    service, uuid = run.service, _uuid(run)
    async with service.database.read() as tx:
        row = (await tx.execute(select(vms).where(vms.c.uuid == uuid))).first()
    if row is None or row.server_uuid != run.server_uuid:
        raise JobFailure(f"VM {uuid} is not on server {run.server_uuid} any more")
    wanted = run.params.get("target_server_uuid")
    target = await hold_room(
        service, row, mapping(run.state["vm"]).get("image_uuid"), str(wanted) if wanted else None
    )
    run.state["target"] = target
    return f"server {target}"


async def hold_room(
    service: ServiceParts, row: StoredRow, image_uuid: Json, wanted: str | None = None
) -> str:
    """Hold room for a VM that leaves its server, under `room_of` its uuid; the chosen server.

    Where the networks of its ports can be: as for a new VM. ``wanted``: the only server to consider.
    Errors: ``JobFailure`` with the allocator's reasons.
    """
    async with service.database.read() as tx:
        others = await tx.execute(select(servers.c.uuid).where(servers.c.uuid != row.server_uuid))
        candidates = [one.uuid for one in others]
        mine = await tx.execute(select(ports.c.uuid).where(ports.c.device_uuid == row.uuid))
        held = [one.uuid for one in mine]
    request: Record = {
        "vm": {
            "vm_uuid": room_of(row.uuid),
            "owner_uuid": row.owner_uuid,
            "brand": row.vm.get("brand") or mapping(row.payload).get("brand") or "lx",
            "ram": row.memory_mib,
            "quota": row.quota_gib,
            "cpu_cap": row.cpu_cap or None,
        },
        "image": {"uuid": image_uuid},
        "nic_tags": await service.networks.fabric.nic_tags(held),
        "servers": [wanted] if wanted else candidates,
        "reserve_seconds": COPY_SECONDS,
    }
    request["vm"] = {name: one for name, one in request["vm"].items() if one is not None}
    try:
        placed = await service.placement.allocate(request, ports=held, counted=False)
    except Fault as fault:
        raise JobFailure(f"{fault.message}: {fault.extra.get('errors')}") from fault
    if placed.server is None:
        fault = no_place(placed)
        raise JobFailure(f"{fault.message}; {_reasons(fault)}")
    return str(placed.server["uuid"])


def _reasons(fault: Fault) -> str:
    extra = fault.extra or {}
    left_out = mapping(extra.get("not_considered"))
    texts = [f"{uuid}: {reason}" for uuid, reason in sorted(left_out.items())]
    for step in cast("list[Json]", extra.get("steps") or []):
        texts += [f"{uuid}: {why}" for uuid, why in mapping(mapping(step).get("reasons")).items()]
    return "; ".join(texts[:8]) or "there is no other server"


async def announce(run: Run) -> Json:
    """Send the target the networks before it gets the VM."""
    service = run.service
    async with service.database.transaction() as tx:
        await tx.execute(delete(moves).where(moves.c.vm_uuid == _uuid(run)))
        await tx.execute(
            insert(moves).values(vm_uuid=_uuid(run), target_uuid=_target(run), job_uuid=run.uuid)
        )
    await _apply_networks(run, _target(run))


async def _apply_networks(run: Run, server_uuid: str) -> None:
    try:
        await run.service.networks.apply(server_uuid)
    except NodeTaskError as error:
        raise JobFailure(f"the networks on server {server_uuid}: {error}") from error


async def prepare(run: Run) -> Json:
    """Create the VM on the target: stopped, hidden, with the image's files."""
    await _step_task(run, _target(run), "setup-filesystem", vm=run.state["vm"])


async def copy_snapshots(run: Run) -> Json:
    """Copy a container's snapshots, oldest first, and keep each on the target."""
    if _is_hvm(run):
        return "a virtual machine's are in its disks"
    here = await _snapshots(run, run.server_uuid)
    there = await _snapshots(run, _target(run))
    same = 0
    while same < min(len(here), len(there)) and here[same] == there[same]:
        same += 1
    # Deleted meanwhile, or out of order: the target's snapshots are created again from here.
    for name, _ in reversed(there[same:]):
        await _task(run, _target(run), "machine_delete_snapshot", snapshot_name=name)
    for name, created_at in here[same:]:
        await _copy(run, snapshot_name=name)
        stamp = {"snapshot_name": name, "created_at": created_at}
        await _step_task(run, _target(run), "keep-snapshot", **stamp)
    return f"{len(here) - same} copied"


async def _snapshots(run: Run, server_uuid: str) -> list[tuple[str, str]]:
    """Names and times of the VM's snapshots on a server, oldest first."""
    vm = await _load(run, server_uuid)
    listed = [mapping(one) for one in cast("list[Json]", vm.get("snapshots") or [])]
    return [(str(one.get("name")), str(one.get("created_at"))) for one in listed]


async def copy_running(run: Run) -> Json:
    """Copy a container's files while it runs: most of them need no second copy."""
    if _is_hvm(run):
        return "a virtual machine moves with its memory"
    if not run.state["running"]:
        return "not running"
    return await _copy(run)


async def _copy(run: Run, **what: Json) -> Json:
    where = await _step_task(run, _target(run), "receive")
    way = {name: where[name] for name in ("host", "port", "token")}
    sent = await _step_task(run, run.server_uuid, "sync", wait=True, **way, **what)
    if what and sent.get("snapshot_name") != what["snapshot_name"]:
        raise JobFailure(
            f"the agent of server {run.server_uuid} cannot send snapshots: install the version of"
            " this service on it, or delete the VM's snapshots"
        )
    return f"{sent.get('transferred', 0)} bytes"


async def stop(run: Run) -> Json:
    """Stop a container until it runs on the target."""
    if _is_hvm(run) or not run.state["running"]:
        return "nothing to stop"
    run.state["stopped"] = True
    await _task(run, run.server_uuid, "machine_shutdown", idempotent=True)


async def transfer(run: Run) -> Json:
    """Copy later changes; for a virtual machine everything, memory included."""
    if not _is_hvm(run):
        await copy_snapshots(run)
        return await _copy(run)
    if not run.state["running"]:
        return await _copy(run)
    # It may run there already: a service died after the move.
    arrived = (await _load(run, _target(run))).get("state") == "running"
    result = "it runs there" if arrived else await _copy(run)
    # Whatever happens now, it belongs to the target.
    await commit(run)
    return result


async def dress(run: Run) -> Json:
    """Make it an ordinary, visible VM on the target."""
    vm = mapping(run.state["vm"])
    target = _target(run)
    await _step_task(run, target, "set-create-timestamp", create_timestamp=vm["create_timestamp"])
    await _step_task(run, target, "set-autoboot", value=vm.get("autoboot") is not False)
    hidden = vm.get("do_not_inventory") is True
    await _step_task(run, target, "set-do-not-inventory", value=hidden)


async def commit(run: Run) -> Json:
    """Assign it to the target in the database."""
    uuid, target = _uuid(run), _target(run)
    loaded = await _load(run, target)
    async with run.service.database.transaction() as tx:
        await tx.execute(delete(vms).where(vms.c.uuid == room_of(uuid)))
        await tx.execute(delete(moves).where(moves.c.vm_uuid == uuid))
        moved = await tx.execute(
            update(vms)
            .where(vms.c.uuid == uuid, vms.c.server_uuid.in_((run.server_uuid, target)))
            .values(server_uuid=target, state=text_of(loaded.get("state"), 20), vm=loaded)
        )
        if moved.rowcount == 0:
            raise JobFailure(f"VM {uuid} was destroyed meanwhile")
        for one in (run.server_uuid, target):
            tx.notify(CHANNEL, one)
    run.state["committed"] = True


async def start(run: Run) -> Json:
    """Start it, if it ran before."""
    if not run.state["running"] or _is_hvm(run):
        return "nothing to start"
    await _task(run, _target(run), "machine_boot", idempotent=True)


async def remove(run: Run) -> Json:
    """Remove what is left on the source; update its networks and those of other nodes."""
    await _task(run, run.server_uuid, "machine_destroy", include_dni=True)
    await _apply_networks(run, _target(run))


async def undo(run: Run) -> None:
    """Before the commit: remove it from the target, start it on the source. Afterwards: nothing."""
    if run.state.get("committed"):
        return
    uuid, target = _uuid(run), run.state.get("target")
    async with run.service.database.transaction() as tx:
        await tx.execute(delete(vms).where(vms.c.uuid == room_of(uuid)))
        await tx.execute(delete(moves).where(moves.c.vm_uuid == uuid))
    problems: list[str] = []
    if run.state.get("stopped"):
        try:
            await _task(run, run.server_uuid, "machine_boot", idempotent=True)
        except (JobFailure, Fault) as error:
            problems.append(str(error))
    if target:
        try:
            await _task(run, str(target), "machine_destroy", include_dni=True)
        except (JobFailure, Fault) as error:
            problems.append(str(error))
    if problems:
        raise JobFailure("; ".join(problems))


# Draining


async def reserve(run: Run) -> Json:
    """Stop placement on the server."""
    await run.service.servers.change(run.server_uuid, {"reserved": True})


async def move_away(run: Run) -> Json:
    """Move every VM, a few at a time; VMs that remain are the job's error, with the reason."""
    service = run.service
    turn = asyncio.Semaphore(SIDE_BY_SIDE)

    async def one(vm_uuid: str) -> str | None:
        async with turn:
            try:
                job = await start_move(service, vm_uuid, None)
            except Fault as fault:
                known = mapping(fault.extra or {}).get("job_uuid")
                if not known:
                    return fault.message
                job = str(known)
            ended = await service.jobs.wait(job, COPY_SECONDS)
            failed = [step["error"] for step in ended["chain_results"] if step["error"]]
            return failed[0] if failed else None

    here = await _movable(run)
    if not run.params.get("move"):
        reasons = dict.fromkeys(here, "it is there")
    else:
        ended = await asyncio.gather(*(one(uuid) for uuid in here))
        reasons = {uuid: why for uuid, why in zip(here, ended, strict=True) if why}
    listed = {str(vm["uuid"]) for vm in await service.machines.listing(run.server_uuid)}
    for uuid in sorted(listed - set(here)):
        reasons[uuid] = "the service did not make it and cannot move it"
    if reasons:
        held = "; ".join(f"VM {uuid}: {why}" for uuid, why in sorted(reasons.items()))
        raise JobFailure(f"server {run.server_uuid} is held by {len(reasons)}: {held}")
    return f"{len(here)} moved"


async def _movable(run: Run) -> list[str]:
    async with run.service.database.read() as tx:
        query = select(vms.c.uuid).where(
            vms.c.server_uuid == run.server_uuid, vms.c.state != "allocated"
        )
        return [row.uuid for row in await tx.execute(query.order_by(vms.c.created, vms.c.uuid))]


WORKFLOWS: tuple[Workflow[ServiceParts], ...] = (
    Workflow(
        MOVE,
        (
            Step("look", 120, look),
            Step("choose", 60, choose),
            Step("networks", 120, announce),
            Step("prepare", 3600, prepare),
            Step("snapshots", COPY_SECONDS, copy_snapshots),
            Step("copy", COPY_SECONDS, copy_running),
            Step("stop", 600, stop),
            Step("transfer", COPY_SECONDS, transfer),
            Step("dress", 120, dress),
            Step("commit", 120, commit),
            Step("start", 600, start),
            Step("remove", 600, remove),
        ),
        undo,
        seconds=2 * COPY_SECONDS,
    ),
    Workflow(
        DRAIN,
        (Step("reserve", 30, reserve), Step("move", 4 * COPY_SECONDS, move_away)),
        seconds=4 * COPY_SECONDS,
    ),
)
