"""Interfaces of a VM that is there: ports that it is given later, and ports that are taken from it. Ours.

A port is bound to the VM in the transaction that stores the node's task. It is free again when the task has
taken its interface away, or has failed to make it. After a failure the node says which interfaces the VM has:
a port stays bound as long as the VM may still use its address (decision 0843).
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

import structlog
from sqlalchemy import select, update

from vetro.compute.networks.reconciler import NetworkReconciler
from vetro.compute.servers.store import Agent, ServerStore
from vetro.compute.tables import moves, networks, ports, tasks, vms
from vetro.compute.values.faults import conflict, not_found
from vetro.compute.values.records import Record, mapping
from vetro.compute.values.silence import OWN_STATES
from vetro.compute.vms.nics import bind_ports
from vetro.compute.wire import MOST_INTERFACES
from vetro.compute.work.node_tasks import About, NodeTaskError, NodeTasks, TaskEnd
from vetro.http import Fault
from vetro.storage import Database, StoredRow, Transaction

log = structlog.get_logger(__name__)

#: How long a node may take to say which interfaces a VM has.
_LOOK_SECONDS = 60.0
#: What a task has that changes interfaces and nothing else.
_ONLY_NICS = {"uuid", "server_uuid", "add_nics", "remove_nics", "resolvers"}


@dataclass(eq=False, repr=False)
class Interfaces:
    """Interfaces that are added and removed, and the ports behind them."""

    database: Database
    servers: ServerStore
    work: NodeTasks
    networks: NetworkReconciler

    async def add(self, agent: Agent, uuid: str, wanted: list[str], about: About) -> Record:
        """Give a VM an interface for each port (uuids); returns the task.

        Repeated, the same task, and none (``id`` is null) when the VM has them. Errors: 404 for a VM or
        a port; 409 for a port of another VM, a VM that is being made or moved, one interface too many, and
        a server without the NIC tag of a network.
        """
        id_ = str(uuids.uuid4())
        async with self.database.transaction() as tx:
            row = await self._changeable(tx, agent.server_uuid, uuid)
            has = {str(nic["mac"]): nic for nic in nics_of(row)}
            coming = await self._changing(tx, uuid, "add_nics")
            bound = await bind_ports(tx, uuid, list(dict.fromkeys(wanted)))
            new = [nic for nic in bound if nic["mac"] not in has and nic["mac"] not in coming]
            if not new:
                known = next((coming[nic["mac"]] for nic in bound if nic["mac"] in coming), None)
                return {"vm_uuid": uuid, "id": known}
            if len({*has, *coming}) + len(new) > MOST_INTERFACES:
                raise conflict(
                    f"VM {uuid} has {len({*has, *coming})} interfaces, and at most"
                    f" {MOST_INTERFACES} are possible: remove one first"
                )
            await self._need_tags(
                tx, agent.server_uuid, [nic["network_uuid"] for nic in new], wanted
            )
            # The node names it, and keeps the primary one that there is.
            added = [
                {name: value for name, value in nic.items() if name not in ("interface", "primary")}
                for nic in new
            ]
            params: Record = {"uuid": uuid, "add_nics": added}
            named = _names(mapping(row.vm).get("resolvers"))
            more = [one for nic in new for one in _names(nic["dns"]) if one not in named]
            if named and more:
                params["resolvers"] = list(dict.fromkeys([*named, *more]))
            about = replace(about, vm_uuid=uuid)
            await self.work.store(tx, id_, agent, "machine_update", params, about)
        await self.work.launch(id_)
        return {"vm_uuid": uuid, "id": id_}

    async def remove(self, agent: Agent, uuid: str, mac: str, about: About) -> Record:
        """Take the interface with this MAC address from a VM; returns the task.

        Its port is free when the task has ended. Errors: 404 for a VM, or a MAC that it does not have;
        409 for a VM that is being made or moved.
        """
        id_ = str(uuids.uuid4())
        mac = mac.lower()
        async with self.database.transaction() as tx:
            row = await self._changeable(tx, agent.server_uuid, uuid)
            has = {str(nic["mac"]): nic for nic in nics_of(row)}
            coming = await self._changing(tx, uuid, "add_nics")
            going = await self._changing(tx, uuid, "remove_nics")
            if mac in going:
                return {"vm_uuid": uuid, "id": going[mac]}
            mine = (ports.c.device_uuid == uuid) & (ports.c.mac == mac)
            port = (await tx.execute(select(ports.c.uuid).where(mine))).first()
            if mac not in has and mac not in coming and port is None:
                raise not_found(f"VM {uuid} has no interface with the MAC address {mac[:64]}")
            params: Record = {"uuid": uuid, "remove_nics": [mac]}
            named = _names(mapping(row.vm).get("resolvers"))
            others = {
                one for other, nic in has.items() if other != mac for one in _names(nic.get("dns"))
            }
            gone = {*_names(has.get(mac, {}).get("dns"))} - others
            if gone & {*named}:
                params["resolvers"] = [one for one in named if one not in gone]
            about = replace(about, vm_uuid=uuid)
            await self.work.store(tx, id_, agent, "machine_update", params, about)
        await self.work.launch(id_)
        return {"vm_uuid": uuid, "id": id_}

    async def prepare(self, server_uuid: str, params: Record) -> None:
        """Send the networks of new interfaces before the interfaces."""
        if params.get("add_nics"):
            await self.networks.apply(server_uuid)

    async def settle(self, end: TaskEnd) -> TaskEnd | None:
        """Free the ports of interfaces that a VM does not have after its update.

        An update of which the answer was lost, and that the node has done, counts as done. What the VM
        would be made of on another server follows.
        """
        added, removed = macs_of(end.params, "add_nics"), macs_of(end.params, "remove_nics")
        if not end.vm_uuid or not (added or removed):
            return None
        vm = mapping(end.result.get("vm")) if end.good else await self._look(end)
        if vm is None:
            return None
        has = _macs(vm.get("nics")) if "nics" in vm or not end.good else added - removed
        async with self.database.transaction() as tx:
            await tx.exclude(f"vm {end.vm_uuid}")
            others = await self._changing(tx, end.vm_uuid, "add_nics", but=end.id)
            mine = (ports.c.device_uuid == end.vm_uuid) & ports.c.mac.in_(added | removed)
            bound = {row.mac for row in await tx.execute(select(ports.c.mac).where(mine))}
            await tx.execute(
                update(ports)
                .where(ports.c.device_uuid == end.vm_uuid, ports.c.mac.in_(bound - has - {*others}))
                .values(device_uuid=None, device_owner="")
            )
            there = added <= has and not removed & has and added | removed <= bound
            # What else the task was to change is not known.
            if not end.good and there and vm.get("state") and not set(end.params) - _ONLY_NICS:
                end = replace(end, good=True, result={"vm": vm})
            if end.good and "nics" in vm:
                await self._remember(tx, end, vm)
        if (added | removed) - has:
            await self._send_networks(end.server_uuid)
        return end

    @staticmethod
    async def _remember(tx: Transaction, end: TaskEnd, vm: Record) -> None:
        """Keep what a VM would be made again with, should its server be lost: its interfaces of now."""
        here = (vms.c.uuid == end.vm_uuid) & (vms.c.server_uuid == end.server_uuid)
        row = (await tx.execute(select(vms.c.payload).where(here))).first()
        if row is None or not row.payload:
            return
        payload = mapping(row.payload)
        asked = [*_objects(payload.get("nics")), *_objects(end.params.get("add_nics"))]
        known = {str(nic.get("mac")).lower(): nic for nic in asked}
        nics = [
            {**known.get(str(nic["mac"]).lower(), nic), "interface": nic.get("interface"),
             "primary": bool(nic.get("primary"))}
            for nic in _objects(vm.get("nics"))
            if nic.get("mac")
        ]  # fmt: skip
        changed = {**payload, "nics": nics}
        if "resolvers" in end.params:
            changed["resolvers"] = end.params["resolvers"]
        await tx.execute(update(vms).where(here).values(payload=changed))

    async def _look(self, end: TaskEnd) -> Record | None:
        """The VM as its node has it now, an empty one if it has none; ``None`` when it does not say."""
        if mapping(end.result.get("details")).get("restCode") == "GivenUp":
            return None
        async with self.database.read() as tx:
            row = await self.servers.row(tx, end.server_uuid)
        try:
            return await self.work.run(
                self.servers.agent_of(row), "machine_load", {"uuid": end.vm_uuid},
                timeout_seconds=_LOOK_SECONDS,
            )  # fmt: skip
        except (NodeTaskError, TimeoutError) as error:
            if isinstance(error, NodeTaskError) and error.rest_code == "VmNotFound":
                return {}
            log.warning("vm_interfaces_not_known", vm=end.vm_uuid, error=str(error))
            return None

    async def _send_networks(self, server_uuid: str) -> None:
        try:
            await self.networks.apply(server_uuid)
        except (NodeTaskError, Fault) as error:
            # The interface is gone; the network state is sent again at the next change.
            log.warning("node_networks_not_sent", server=server_uuid, error=str(error))

    async def _changeable(self, tx: Transaction, server_uuid: str, uuid: str) -> StoredRow:
        """The row of a VM whose interfaces may change now. Errors: 404, 409."""
        await tx.exclude(f"vm {uuid}")
        query = select(vms).where(vms.c.uuid == uuid, vms.c.server_uuid == server_uuid)
        row = (await tx.execute(query)).first()
        if row is None:
            raise not_found(f"VM {uuid} not found")
        if row.state in OWN_STATES:
            raise conflict(f"VM {uuid} is {row.state}: its interfaces change when it is there")
        moving = select(moves.c.target_uuid).where(moves.c.vm_uuid == uuid)
        if (await tx.execute(moving)).first() is not None:
            raise conflict(f"VM {uuid} is being moved: try again when it has arrived")
        return row

    async def _changing(
        self, tx: Transaction, uuid: str, what: str, but: str = ""
    ) -> dict[str, str]:
        """The MAC addresses that active updates of a VM add or remove, with their tasks."""
        query = select(tasks.c.id, tasks.c.params).where(
            tasks.c.vm_uuid == uuid,
            tasks.c.task == "machine_update",
            tasks.c.status == "active",
            tasks.c.id != but,
        )
        found: dict[str, str] = {}
        for row in await tx.execute(query):
            for mac in macs_of(mapping(row.params), what):
                found[mac] = str(row.id)
        return found

    async def _need_tags(
        self, tx: Transaction, server_uuid: str, subnets: list[str], wanted: list[str]
    ) -> None:
        """Refuse a network on a wire that the server does not have. Errors: 409."""
        query = (
            select(networks.c.name, networks.c.uuid, networks.c.uplink)
            .join(ports, ports.c.network_uuid == networks.c.uuid)
            .where(ports.c.uuid.in_(wanted), ports.c.subnet_uuid.in_(subnets))
        )
        needed = [row for row in await tx.execute(query) if row.uplink]
        if not needed:
            return
        sysinfo = mapping((await self.servers.row(tx, server_uuid)).sysinfo)
        there = {
            tag
            for group, names in (
                ("Network Interfaces", "NIC Names"),
                ("Virtual Network Interfaces", "Overlay Nic Tags"),
            )
            for one in mapping(sysinfo.get(group)).values()
            if mapping(one).get("Link Status") == "up"
            for tag in _names(mapping(one).get(names))
        }
        for row in needed:
            tag = str(mapping(row.uplink).get("nic_tag"))
            if tag not in there:
                raise conflict(
                    f"server {server_uuid} has no interface with the NIC tag {tag}, which network"
                    f" {row.name or row.uuid} needs: move the VM to one that has, or choose another network"
                )


def nics_of(row: StoredRow) -> list[Record]:
    """The interfaces of a VM, as its node said after the last change."""
    return [nic for nic in _objects(mapping(row.vm).get("nics")) if nic.get("mac")]


def macs_of(params: Record, what: str) -> set[str]:
    """The MAC addresses that an update names in ``add_nics`` or ``remove_nics``."""
    if what == "remove_nics":
        return {one.lower() for one in _names(params.get(what))}
    return _macs(params.get(what))


def _macs(nics: object) -> set[str]:
    return {str(nic["mac"]).lower() for nic in _objects(nics) if nic.get("mac")}


def _objects(value: object) -> Iterable[Record]:
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return [mapping(one) for one in listed]


def _names(value: object) -> list[str]:
    return [str(one) for one in cast("list[object]", value)] if isinstance(value, list) else []
