"""Life of VMs (compute-node-api.md §8); ``placement`` finds their servers."""

from __future__ import annotations

import asyncio
import uuid as uuids
from dataclasses import dataclass, replace
from typing import cast

import structlog
from sqlalchemy import insert, select, update

from vetro.compute.networks.reconciler import NetworkReconciler
from vetro.compute.placement.disk_sizes import refuse_small_disks, refuse_small_quota
from vetro.compute.placement.placement import Placement
from vetro.compute.servers.store import CHANNEL, STRAYS, Agent, ServerStore, change_extra
from vetro.compute.tables import servers, tasks, vms
from vetro.compute.values.counters import next_number
from vetro.compute.values.faults import (
    internal_error,
    invalid_argument,
    invalid_parameters,
    not_found,
    task_failed,
)
from vetro.compute.values.parameters import UUID
from vetro.compute.values.project_use import admit_vm
from vetro.compute.values.records import Record, mapping, text_of, whole, without
from vetro.compute.values.silence import MISSING, nothing_known, told_state
from vetro.compute.vms.given_up import forget_vm, forget_volumes, leave_given_up
from vetro.compute.vms.image_copies import ImageHolders
from vetro.compute.vms.interfaces import Interfaces
from vetro.compute.vms.nics import bind_ports
from vetro.compute.vms.sizes import as_column, hold_growth, size_held, size_of
from vetro.compute.work.node_tasks import About, NodeTaskError, NodeTasks, TaskEnd
from vetro.http import Fault
from vetro.quotas import Quotas
from vetro.storage import Database, StoredRow, Transaction

log = structlog.get_logger(__name__)

#: A VM in one of these states is not shown as running, whatever its node reports.
UNMADE = ("allocated", "creating", "failed")
#: Tasks that return the VM as it is afterwards.
_CHANGING = (
    "machine_boot",
    "machine_shutdown",
    "machine_reboot",
    "machine_kill",
    "machine_reprovision",
    "machine_create_snapshot",
    "machine_rollback_snapshot",
    "machine_delete_snapshot",
)
#: Tasks after which a VM has another root disk than before: what was installed on it may be gone.
_RENEWING = ("machine_reprovision", "machine_rollback_snapshot")
#: Two creations of one uuid are the same request if these are equal.
_SAME = ("image_uuid", "owner_uuid", "brand")


@dataclass(eq=False, repr=False)
class Machines:
    """VMs: where they are placed, what their nodes are asked for, what is stored of them."""

    database: Database
    servers: ServerStore
    work: NodeTasks
    networks: NetworkReconciler
    quotas: Quotas
    placement: Placement

    def __post_init__(self) -> None:
        self._holders = ImageHolders()
        self.work.before("machine_create", self._prepare)
        self.work.after("machine_create", self._created)
        self.work.after("machine_destroy", self._destroyed)
        self.interfaces = Interfaces(self.database, self.servers, self.work, self.networks)
        self.work.before("machine_update", self.interfaces.prepare)
        self.work.after("machine_update", self._updated)
        for task in _CHANGING:
            self.work.after(task, self._changed)

    async def find(self, uuid: str, server_uuid: str | None = None) -> StoredRow | None:
        """A VM's record."""
        query = select(vms).where(vms.c.uuid == uuid)
        if server_uuid is not None and server_uuid != "default":
            query = query.where(vms.c.server_uuid == server_uuid)
        async with self.database.read() as tx:
            return (await tx.execute(query)).first()

    async def create(self, agent: Agent, body: Record, about: About = About()) -> Record:
        """Create a VM on a server. Its ports (``ports``: uuids) become its NICs. Returns the task.

        For a VM that exists or is being created, returns the same answer and creates nothing; one that
        is missing on its server is created again.
        Errors: 403 for a quota, 404 for a port, 409, 422 for a disk smaller than its image's.
        """
        server_uuid = agent.server_uuid
        uuid = str(body.get("uuid") or uuids.uuid4()).lower()
        if not UUID.match(uuid):
            raise invalid_argument("Invalid vm_uuid")
        given: object = body.get("ports") or []
        if not isinstance(given, list):
            raise invalid_parameters({"ports": "value was not an array"})
        async with self.database.transaction() as tx:
            await tx.exclude(f"vm {uuid}")
            known = (await tx.execute(select(vms).where(vms.c.uuid == uuid))).first()
            if known is not None and known.server_uuid != server_uuid:
                raise invalid_argument(f"VM {uuid} is on server {known.server_uuid}")
            if known is not None and known.state == "creating":
                running = await self._creation(tx, uuid)
                if running is not None:
                    return {"vm_uuid": uuid, "id": running}
            nics = await bind_ports(tx, uuid, [str(port) for port in cast("list[object]", given)])
            payload = {k: v for k, v in body.items() if k not in ("ports", "reserve", "ticket")}
            payload = {**payload, "uuid": uuid, "nics": nics or payload.get("nics") or []}
            id_ = str(uuids.uuid4())
            if known is not None and known.state not in (*UNMADE, MISSING):
                # It exists: the task only confirms it.
                about = replace(about, vm_uuid=uuid, fence=None)
                await self.work.store(tx, id_, agent, "machine_load", {"uuid": uuid}, about)
            else:
                await refuse_small_disks(tx, payload)
                await self._keep(tx, server_uuid, uuid, payload, known)
                peers = await self._holders.peers(tx, _image_of(payload), server_uuid)
                params = {**payload, "imgapiPeers": peers} if peers else payload
                about = await _in_turn(tx, uuid, about)
                await self.work.store(tx, id_, agent, "machine_create", params, about)
        await self.work.launch(id_)
        return {"vm_uuid": uuid, "id": id_}

    async def _creation(self, tx: Transaction, uuid: str) -> str | None:
        """The VM's creation that is in progress."""
        query = select(tasks.c.id).where(
            tasks.c.vm_uuid == uuid, tasks.c.task == "machine_create", tasks.c.status == "active"
        )
        row = (await tx.execute(query)).first()
        return row.id if row is not None else None

    async def _keep(
        self, tx: Transaction, server_uuid: str, uuid: str, payload: Record, known: StoredRow | None
    ) -> None:
        disk = sum(whole(mapping(one).get("size")) for one in _listed(payload.get("disks")))
        values: Record = {
            "server_uuid": server_uuid,
            "owner_uuid": text_of(payload.get("owner_uuid"), 64),
            "alias": text_of(payload.get("alias")) or None,
            "state": "creating",
            "memory_mib": 256,
            "quota_gib": as_column(-(-disk // 1024)),
            "cpu_cap": 0,
            **size_of(payload),
            "vm": {
                "nics": payload["nics"],
                "alias": payload.get("alias"),
                "owner_uuid": payload.get("owner_uuid"),
                "brand": payload.get("brand"),
            },
            "payload": payload,
        }
        await admit_vm(self.quotas, tx, values, known)
        if known is None:
            now = self.database.clock.now()
            await tx.execute(insert(vms).values(uuid=uuid, created=now, **values))
        else:
            if known.state == MISSING:
                # What it had is not attached to the one that takes its place.
                await forget_volumes(tx, uuid)
            await tx.execute(update(vms).where(vms.c.uuid == uuid).values(**values))
        tx.notify(CHANNEL, server_uuid)

    async def _prepare(self, server_uuid: str, _params: Record) -> None:
        """Send the networks before the VM."""
        await self.networks.apply(server_uuid)

    async def _created(self, end: TaskEnd) -> TaskEnd | None:
        """Record how a creation ended. An identical VM that exists already counts as created."""
        good, result = end.good, end.result
        details = mapping(result.get("details"))
        if not good and details.get("restCode") == "VmAlreadyExists":
            there = await self._same_vm(end)
            if there is not None:
                good, result = True, {"vm": there}
        made = mapping(result.get("vm"))
        change: Record = {
            "state": text_of(made.get("state"), 20) or "running" if good else "failed"
        }
        if good:
            change["vm"] = made
            # Also for one that was there: an answer may have been lost, and this is its repetition.
            change["incarnation"] = str(uuids.uuid4())
            self._holders.add(_image_of(made or end.params), end.server_uuid)
        async with self.database.transaction() as tx:
            if not good:
                change["vm"] = await self._with_failure(tx, end)
            await tx.execute(
                update(vms)
                .where(
                    vms.c.uuid == end.vm_uuid,
                    vms.c.server_uuid == end.server_uuid,
                    vms.c.state.in_(UNMADE),
                )
                .values(**change)
            )
            tx.notify(CHANNEL, end.server_uuid)
        if good == end.good:
            return None
        return TaskEnd(end.id, end.task, end.server_uuid, end.vm_uuid, end.params, good, result)

    async def _with_failure(self, tx: Transaction, end: TaskEnd) -> Record:
        """The fields of a VM and why it does not exist (``failure``: the node's message)."""
        row = (await tx.execute(select(vms.c.vm).where(vms.c.uuid == end.vm_uuid))).first()
        reason = text_of(end.result.get("error"), 2000) or "the node gave no reason"
        return {**(row.vm if row is not None else {}), "failure": reason}

    async def _same_vm(self, end: TaskEnd) -> Record | None:
        """The VM that a creation found in its place, if it is the requested one."""
        async with self.database.read() as tx:
            row = await self.servers.row(tx, end.server_uuid)
        try:
            there = await self.work.run(
                self.servers.agent_of(row), "machine_load", {"uuid": end.vm_uuid}
            )
        except NodeTaskError:
            return None
        for name in _SAME:
            if name in there and name in end.params and there[name] != end.params[name]:
                return None
        return there if there.get("state") in ("running", "stopped") else None

    async def act(
        self, agent: Agent, uuid: str, task: str, params: Record, about: About = About()
    ) -> Record:
        """Start a task on a VM; returns it. A missing VM shows as the task's failure.

        Errors: 403 for an update to more than the quota of the project, 409 to more than its server has,
        422 to less than its image's disk.
        """
        id_ = str(uuids.uuid4())
        resized = task == "machine_update" and bool(size_of(params))
        opened = self.placement.alone() if resized else self.database.transaction()
        async with opened as tx:
            if resized:
                await refuse_small_quota(tx, uuid, params)
                await hold_growth(self.quotas, self.placement, tx, agent.server_uuid, uuid, params)
            params = {**params, "uuid": uuid, "server_uuid": agent.server_uuid}
            await self.work.store(tx, id_, agent, task, params, replace(about, vm_uuid=uuid))
        await self.work.launch(id_)
        return {"vm_uuid": uuid, "id": id_}

    async def _updated(self, end: TaskEnd) -> TaskEnd | None:
        """Free the ports that the VM does not use any more, then store it."""
        settled = await self.interfaces.settle(end)
        await self._changed(settled or end)
        return settled

    async def _changed(self, end: TaskEnd) -> None:
        """Store a finished task's VM at once, not only with the node's next status."""
        made = mapping(end.result.get("vm"))
        if not end.vm_uuid:
            return
        if not end.good or not made.get("state"):
            if end.task == "machine_update":
                await self._kept(end, end.vm_uuid)
            return
        state = text_of(made.get("state"), 20)
        change: Record = {"state": state, "vm": made}
        if text_of(made.get("alias")):
            change["alias"] = text_of(made["alias"])
        if end.task in _RENEWING:
            change["incarnation"] = str(uuids.uuid4())
        async with self.database.transaction() as tx:
            change |= await size_held(tx, end.vm_uuid, made, end.id)
            changed = await tx.execute(
                update(vms)
                .where(vms.c.uuid == end.vm_uuid, vms.c.server_uuid == end.server_uuid)
                .values(**change)
            )
            if changed.rowcount == 0:
                await change_reported(tx, end.server_uuid, end.vm_uuid, made)
            tx.notify(CHANNEL, end.server_uuid)

    async def _kept(self, end: TaskEnd, uuid: str) -> None:
        """A VM that was not updated holds no more than before."""
        here = (vms.c.uuid == uuid) & (vms.c.server_uuid == end.server_uuid)
        async with self.database.transaction() as tx:
            query = select(vms.c.vm, vms.c.payload).where(here).with_for_update()
            row = (await tx.execute(query)).first()
            if row is not None:
                before = {**mapping(row.payload), **mapping(row.vm)}
                size = await size_held(tx, uuid, before, end.id)
                await tx.execute(update(vms).where(here).values(vm=row.vm, **size))

    async def destroy(
        self, agent: Agent, uuid: str, params: Record, about: About = About()
    ) -> Record:
        """Destroy a VM, detach its ports and delete its record; repeating it is harmless.

        An unfinished creation of the VM is withdrawn: a process that takes it over finds it
        withdrawn, and the node refuses a creation that arrives after the destruction.
        """
        id_ = str(uuids.uuid4())
        async with self.database.transaction() as tx:
            await tx.exclude(f"vm {uuid}")
            query = select(vms.c.state).where(
                vms.c.uuid == uuid, vms.c.server_uuid == agent.server_uuid
            )
            row = (await tx.execute(query)).first()
            if row is not None and row.state == "allocated":
                await forget_vm(tx, uuid)
                return {"vm_uuid": uuid, "id": None}
            reason = f"VM {uuid} was destroyed before it was made"
            await self.work.withdraw(tx, uuid, "machine_create", reason)
            params = {**params, "uuid": uuid, "server_uuid": agent.server_uuid}
            about = await _in_turn(tx, uuid, about)
            await self.work.store(tx, id_, agent, "machine_destroy", params, about)
        await self.work.launch(id_)
        return {"vm_uuid": uuid, "id": id_}

    async def _destroyed(self, end: TaskEnd) -> None:
        if not end.vm_uuid:
            return
        if not end.good:
            await self._not_destroyed(end)
            return
        async with self.database.transaction() as tx:
            await tx.exclude(f"vm {end.vm_uuid}")
            query = select(vms.c.server_uuid).where(vms.c.uuid == end.vm_uuid)
            row = (await tx.execute(query)).first()
            # A VM that was requested again meanwhile is created again: keep its record.
            again = await self._created_since(tx, end)
            if row is not None and row.server_uuid == end.server_uuid and not again:
                await forget_vm(tx, end.vm_uuid)
        async with self.database.transaction() as tx:
            await change_reported(tx, end.server_uuid, end.vm_uuid, None)
            tx.notify(CHANNEL, end.server_uuid)
        try:
            await self.networks.apply(end.server_uuid)
        except (NodeTaskError, Fault) as error:
            # The instance is gone; the network state is sent again at the next change.
            log.warning("node_networks_not_sent", server=end.server_uuid, error=str(error))

    async def _created_since(self, tx: Transaction, end: TaskEnd) -> bool:
        """Whether a VM was requested again after a task on it."""
        asked = select(tasks.c.created).where(tasks.c.id == end.id).scalar_subquery()
        query = select(tasks.c.id).where(
            tasks.c.vm_uuid == end.vm_uuid,
            tasks.c.task == "machine_create",
            tasks.c.status.in_(("active", "complete")),
            tasks.c.created > asked,
        )
        return (await tx.execute(query.limit(1))).first() is not None

    async def _not_destroyed(self, end: TaskEnd) -> None:
        """Mark a VM whose creation was withdrawn, and that exists all the same, as failed."""
        async with self.database.transaction() as tx:
            await tx.exclude(f"vm {end.vm_uuid}")
            if await self._creation(tx, str(end.vm_uuid)) is None:
                await tx.execute(
                    update(vms)
                    .where(
                        vms.c.uuid == end.vm_uuid,
                        vms.c.server_uuid == end.server_uuid,
                        vms.c.state == "creating",
                    )
                    .values(state="failed", vm=await self._with_failure(tx, end))
                )
            tx.notify(CHANNEL, end.server_uuid)

    async def destroy_unheard(self, uuid: str, server: StoredRow | None) -> Record:
        """Delete the record of a VM on a server that was given up.

        Errors: 409 for a server that is only silent.
        """
        if await leave_given_up(self.database, uuid) or server is None:
            return {"vm_uuid": uuid, "id": None}
        raise nothing_known(f"VM {uuid}", server)

    async def ask(
        self,
        agent: Agent,
        task: str,
        params: Record,
        *,
        seconds: float,
        request_id: str = "",
        codes: tuple[str, ...] = ("VmNotFound",),
    ) -> Record:
        """Run a query task within ``seconds``. Errors: 404 and others by restCode, 500."""
        try:
            async with asyncio.timeout(seconds):
                return await self.work.run(agent, task, params, request_id=request_id)
        except TimeoutError as error:
            raise internal_error(
                f"Time-out reached waiting for {task} request to return"
            ) from error
        except NodeTaskError as error:
            if error.rest_code == "VmNotFound" and "VmNotFound" in codes:
                raise not_found(f"VM {params.get('uuid')} not found") from error
            raise task_failed(str(error), error.details, codes=codes) from error

    async def load(
        self, agent: Agent, uuid: str, *, include_dni: bool = False, request_id: str = ""
    ) -> Record:
        """A VM as its node reports it now; during its creation, its record. Errors: 404, 500."""
        row = await self.find(uuid, agent.server_uuid)
        record: Record = {"uuid": uuid, "server_uuid": agent.server_uuid}
        if row is not None:
            record |= {**row.vm, "uuid": uuid, "state": row.state, "alias": row.alias}
            record["incarnation"] = row.incarnation or uuid
            if row.state in UNMADE:
                return record
        params: Record = {"uuid": uuid, "server_uuid": agent.server_uuid}
        if include_dni:
            params["include_dni"] = "true"
        loaded = await self.ask(agent, "machine_load", params, seconds=60, request_id=request_id)
        return {**record, **loaded}

    async def incarnations(self, owner_uuid: str) -> list[Record]:
        """Which root disk each VM of a project has, as the service knows: no node is asked."""
        query = select(vms.c.uuid, vms.c.incarnation).where(
            vms.c.owner_uuid == owner_uuid, vms.c.counted
        )
        async with self.database.read() as tx:
            found = await tx.execute(query.order_by(vms.c.uuid))
            return [{"uuid": row.uuid, "incarnation": row.incarnation or row.uuid} for row in found]

    async def unheard(self, uuid: str, server: StoredRow | None) -> Record:
        """A VM whose server cannot be asked, as far as anything is known of it. Errors: 404."""
        row = await self.find(uuid)
        if row is None:
            raise not_found(f"VM {uuid} not found")
        there = {"uuid": uuid, "server_uuid": row.server_uuid, "alias": row.alias}
        there["incarnation"] = row.incarnation or uuid
        return {**row.vm, **there, "state": told_state(row.state, server)}

    async def not_there(self, uuid: str, server: StoredRow) -> Record:
        """A VM that its server does not have, as the server itself said: it is missing. Errors: 404."""
        mine = (vms.c.uuid == uuid) & (vms.c.server_uuid == server.uuid)
        gone = mine & vms.c.state.not_in((*UNMADE, MISSING))
        async with self.database.transaction() as tx:
            changed = await tx.execute(update(vms).where(gone).values(state=MISSING))
            if changed.rowcount:
                log.warning("vm_missing_on_server", server=server.uuid, vm=uuid)
                tx.notify(CHANNEL, server.uuid)
        return await self.unheard(uuid, server)

    async def listing(self, server_uuid: str) -> list[Record]:
        """The VMs of a server: those its node reports and those it was asked to create."""
        async with self.database.read() as tx:
            record = (await self.servers.views(tx, [server_uuid]))[0]
        fields = (
            "uuid", "owner_uuid", "quota", "max_physical_memory", "zone_state", "state", "brand",
            "cpu_cap", "last_modified", "alias",
        )  # fmt: skip
        shown: Record = record["vms"]
        # A status names a VM by its key; what it says of it need not repeat that.
        return [
            {**{name: one.get(name) for name in fields}, "uuid": uuid}
            for uuid, one in sorted(shown.items())
        ]


async def _in_turn(tx: Transaction, uuid: str, about: About) -> About:
    """Orders a VM's creations and destructions: its node refuses one that is overtaken."""
    fence = about.fence or {
        "scope": "vm-life", "id": uuid, "number": await next_number(tx, "vm-life"),
    }  # fmt: skip
    return replace(about, vm_uuid=uuid, fence=fence)


def _listed(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _image_of(payload: Record) -> str:
    """The image of a VM: a virtual machine's is on its first disk."""
    disks = _listed(payload.get("disks"))
    first = mapping(disks[0]) if disks else {}
    return str(payload.get("image_uuid") or first.get("image_uuid") or "")


#: The fields of a VM that a status reports.
_FIELDS = (
    "brand", "cpu_cap", "last_modified", "max_physical_memory", "owner_uuid", "quota",
    "state", "uuid", "zone_state",
)  # fmt: skip


async def change_reported(
    tx: Transaction, server_uuid: str, uuid: str, made: Record | None
) -> None:
    """Update what a server's last status says of a VM; ``made`` None: the VM is gone."""
    query = (
        select(servers.c.sample, servers.c.extra)
        .where(servers.c.uuid == server_uuid)
        .with_for_update()
    )
    row = (await tx.execute(query)).first()
    if row is None:
        return
    if made is None and uuid in mapping(row.extra.get(STRAYS)):
        await change_extra(tx, server_uuid, STRAYS, lambda known: without(known, uuid))
    sample = mapping(row.sample)
    reported = mapping(sample.get("vms"))
    if made is None:
        if uuid not in reported:
            return
        reported = without(reported, uuid)
    else:
        known = mapping(reported.get(uuid))
        news = {name: made[name] for name in _FIELDS if name in made}
        reported = {**reported, uuid: {**known, **news}}
    await tx.execute(
        update(servers)
        .where(servers.c.uuid == server_uuid)
        .values(sample={**sample, "vms": reported})
    )
