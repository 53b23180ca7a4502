"""Placement and life of VMs (compute-node-api.md §8, allocation.md §1)."""

from __future__ import annotations

import ipaddress
import uuid as uuids
from typing import Any, cast

from sqlalchemy import Row, delete, insert, select, update

from vetro.compute.allocation import allocate, request_of
from vetro.compute.faults import invalid_argument, invalid_parameters, no_server, not_found
from vetro.compute.netstate import NetworkReconciler
from vetro.compute.nodetasks import NodeTaskError, NodeTasks
from vetro.compute.servers import ServerStore
from vetro.compute.tables import ports, subnets, vms
from vetro.storage import Database, Transaction

Body = dict[str, Any]


class Machines:
    """VMs: where they are placed, what their nodes are told, what is remembered of them."""

    def __init__(
        self,
        database: Database,
        servers: ServerStore,
        work: NodeTasks,
        networks: NetworkReconciler,
    ) -> None:
        self.database = database
        self.servers = servers
        self.work = work
        self.networks = networks

    async def allocate(self, body: Body) -> Body:
        """Choose a server; with ``reserve`` hold the room under the VM's uuid. Errors: 409, 500.

        Choice and reservation are one transaction: two callers never get the same room.
        """
        vm = body.get("vm")
        if not isinstance(vm, dict):
            raise invalid_parameters({"vm": "value is not an object. (was: [object Undefined])"})
        wanted = cast("Body", vm)
        request = request_of(wanted, cast("Body | None", body.get("package")))
        if isinstance(request, tuple):
            raise invalid_parameters({request[0]: request[1]})
        uuid = str(wanted.get("uuid") or uuids.uuid4())
        async with self.database.transaction() as tx:
            if not self.database.is_sqlite:
                from sqlalchemy import text

                await tx.execute(text("SELECT pg_advisory_xact_lock(7239152311)"))
            known = (await tx.execute(select(vms).where(vms.c.uuid == uuid))).first()
            if known is not None:
                rows = await self.servers.views(tx, [known.server_uuid])
                return {"server": rows[0] if rows else None, "steps": [], "vm_uuid": uuid}
            candidates = await self.servers.views(tx, body.get("servers"))
            outcome = allocate(candidates, request)
            steps = [step.as_json() for step in outcome.steps]
            if outcome.chosen is None:
                raise no_server(outcome.explanation(), steps)
            if body.get("reserve"):
                await tx.execute(
                    insert(vms).values(
                        uuid=uuid,
                        server_uuid=outcome.chosen,
                        owner_uuid=request.owner_uuid,
                        alias=wanted.get("alias"),
                        state="allocated",
                        memory_mib=request.memory,
                        quota_gib=-(-request.disk // 1024),
                        cpu_cap=request.cpu,
                        vm={},
                        created=self.database.clock.now(),
                    )
                )
            chosen = next(one for one in candidates if one["uuid"] == outcome.chosen)
        return {"server": chosen, "steps": steps, "vm_uuid": uuid}

    async def find(self, uuid: str, server_uuid: str | None = None) -> Row[Any] | None:
        """A VM's record."""
        query = select(vms).where(vms.c.uuid == uuid)
        if server_uuid is not None and server_uuid != "default":
            query = query.where(vms.c.server_uuid == server_uuid)
        async with self.database.read() as tx:
            return (await tx.execute(query)).first()

    async def create(self, server_uuid: str, body: Body) -> Body:
        """Make a VM on a server. Its ports (``ports``: uuids) become its NICs. Returns the task.

        Asked again for a VM that is being made or is there, it answers the same and makes nothing.
        """
        uuid = str(body.get("uuid") or uuids.uuid4())
        try:
            uuids.UUID(uuid)
        except ValueError as error:
            raise invalid_argument("Invalid vm_uuid") from error
        request = request_of(body, None)
        if isinstance(request, tuple):
            raise invalid_parameters({request[0]: request[1]})
        async with self.database.transaction() as tx:
            agent = await self.servers.agent(tx, server_uuid)
            known = (await tx.execute(select(vms).where(vms.c.uuid == uuid))).first()
            if known is not None and known.server_uuid != server_uuid:
                raise invalid_argument(f"VM {uuid} lives on server {known.server_uuid}")
            given: list[object] = body.get("ports") or []
            wanted = [str(port) for port in given]
            nics = await self._bind(tx, uuid, wanted)
            payload = {k: v for k, v in body.items() if k not in ("ports", "reserve")}
            payload = {**payload, "uuid": uuid, "nics": nics or payload.get("nics") or []}
            values: Body = {
                "server_uuid": server_uuid,
                "owner_uuid": request.owner_uuid,
                "alias": body.get("alias"),
                "state": "creating",
                "memory_mib": request.memory,
                "quota_gib": -(-request.disk // 1024),
                "cpu_cap": request.cpu,
                "vm": {"nics": nics, "alias": body.get("alias"), "owner_uuid": request.owner_uuid},
            }
            if known is None:
                await tx.execute(
                    insert(vms).values(uuid=uuid, created=self.database.clock.now(), **values)
                )
            elif known.state in ("allocated", "creating", "failed"):
                await tx.execute(update(vms).where(vms.c.uuid == uuid).values(**values))

        async def prepare() -> None:
            await self.networks.apply(server_uuid)

        async def finish(good: bool, result: Body) -> None:
            made = cast("Body", result.get("vm") or {})
            state = str(made.get("state") or "running") if good else "failed"
            change: Body = {"state": state}
            if good:
                change["vm"] = made
            async with self.database.transaction() as tx:
                await tx.execute(update(vms).where(vms.c.uuid == uuid).values(**change))

        if known is not None and known.state not in ("allocated", "creating", "failed"):
            # It is there: the task only confirms it.
            task = await self.work.start(agent, "machine_load", {"uuid": uuid}, vm_uuid=uuid)
        else:
            task = await self.work.start(
                agent, "machine_create", payload, vm_uuid=uuid, finish=finish, before=prepare
            )
        return {"vm_uuid": uuid, "id": task}

    async def _bind(self, tx: Transaction, uuid: str, wanted: list[str]) -> list[Body]:
        nics: list[Body] = []
        for position, port_uuid in enumerate(wanted):
            port = (await tx.execute(select(ports).where(ports.c.uuid == port_uuid))).first()
            if port is None:
                raise not_found(f"port {port_uuid} not found")
            if port.device_uuid not in (None, uuid):
                raise invalid_argument(f"port {port_uuid} is used by VM {port.device_uuid}")
            await tx.execute(
                update(ports)
                .where(ports.c.uuid == port_uuid)
                .values(device_uuid=uuid, device_owner="compute:vm")
            )
            subnet = (
                await tx.execute(select(subnets).where(subnets.c.uuid == port.subnet_uuid))
            ).one()
            nics.append(
                {
                    "interface": f"net{position}",
                    "mac": port.mac,
                    "ip": port.ip,
                    "netmask": str(ipaddress.IPv4Network(subnet.cidr).netmask),
                    "gateway": subnet.gateway,
                    "network_uuid": port.subnet_uuid,
                    "nic_tag": "external",
                    "mtu": 1500,
                    "primary": position == 0,
                    "dns": subnet.dns,
                }
            )
        return nics

    async def act(self, server_uuid: str, uuid: str, task: str, params: Body) -> Body:
        """Start a task on a VM; returns it. Errors: 404, 409."""
        row = await self.find(uuid, server_uuid)
        if row is None:
            raise not_found(f"VM {uuid} not found")
        async with self.database.read() as tx:
            agent = await self.servers.agent(tx, row.server_uuid)

        async def finish(good: bool, result: Body) -> None:
            made = cast("Body", result.get("vm") or {})
            if good and made.get("state"):
                async with self.database.transaction() as tx:
                    await tx.execute(
                        update(vms).where(vms.c.uuid == uuid).values(state=made["state"], vm=made)
                    )

        id_ = await self.work.start(
            agent, task, {"uuid": uuid, **params}, vm_uuid=uuid, finish=finish
        )
        return {"vm_uuid": uuid, "id": id_}

    async def destroy(self, server_uuid: str, uuid: str) -> Body:
        """Destroy a VM, part its ports and forget it; repeating it is harmless. Errors: 404, 409."""
        row = await self.find(uuid, server_uuid)
        if row is None:
            raise not_found(f"VM {uuid} not found")
        if row.state == "allocated":
            await self._forget(uuid)
            return {"vm_uuid": uuid, "id": None}
        async with self.database.read() as tx:
            agent = await self.servers.agent(tx, row.server_uuid)

        async def finish(good: bool, _result: Body) -> None:
            if not good:
                return
            await self._forget(uuid)
            try:
                await self.networks.apply(row.server_uuid)
            except NodeTaskError:
                # The instance is gone; its network state is told again at the next change.
                return

        id_ = await self.work.start(
            agent, "machine_destroy", {"uuid": uuid}, vm_uuid=uuid, finish=finish
        )
        return {"vm_uuid": uuid, "id": id_}

    async def _forget(self, uuid: str) -> None:
        async with self.database.transaction() as tx:
            await tx.execute(
                update(ports)
                .where(ports.c.device_uuid == uuid)
                .values(device_uuid=None, device_owner="")
            )
            await tx.execute(delete(vms).where(vms.c.uuid == uuid))

    async def load(self, server_uuid: str, uuid: str) -> Body:
        """A VM as its node sees it now. Errors: 404, 409, 500."""
        row = await self.find(uuid, server_uuid)
        if row is None:
            raise not_found(f"VM {uuid} not found")
        record = {
            **row.vm,
            "uuid": row.uuid,
            "server_uuid": row.server_uuid,
            "state": row.state,
            "alias": row.alias,
        }
        if row.state in ("allocated", "creating"):
            return record
        async with self.database.read() as tx:
            agent = await self.servers.agent(tx, row.server_uuid)
        try:
            return {**record, **await self.work.run(agent, "machine_load", {"uuid": uuid})}
        except NodeTaskError as error:
            details = cast("Body", error.details or {})
            if details.get("restCode") == "VmNotFound":
                raise not_found(f"VM {uuid} not found") from error
            raise
