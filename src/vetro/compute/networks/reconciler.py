"""The network state a node should have, computed from the database and sent in one task."""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec
import structlog
from sqlalchemy import select, update

from vetro.compute.networks import overlays
from vetro.compute.networks.fabric import Fabric, overlap
from vetro.compute.servers.store import ServerStore
from vetro.compute.tables import (
    floating_ips,
    moves,
    networks,
    ports,
    router_interfaces,
    routers,
    security_groups,
    servers,
    subnets,
    vms,
)
from vetro.compute.values.silence import is_given_up
from vetro.compute.work.node_tasks import NodeTaskError, NodeTasks
from vetro.http import Fault
from vetro.storage import Database, StoredRow, Transaction, watch

log = structlog.get_logger(__name__)


def _uplink_of(network: StoredRow) -> dict[str, object]:
    """Added only where there is an uplink, to keep the state short."""
    return {"uplink": network.uplink} if network.uplink else {}


class NetworkReconciler:
    """Sends nodes their network state: one message at a time for each node, newest state only."""

    def __init__(
        self, database: Database, fabric: Fabric, store: ServerStore, work: NodeTasks
    ) -> None:
        self.database = database
        self.fabric = fabric
        self.servers = store
        self.work = work
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        # The last state each node accepted from here: its version and a digest of the rest.
        self._has: dict[str, tuple[int, bytes]] = {}
        # Nodes whose view of others has changed; updated in the background by ``spread``.
        self._due: list[str] = []
        self._news = asyncio.Event()

    async def state(self, tx: Transaction, server_uuid: str, version: int) -> dict[str, Any]:
        """``NetworkState`` of one server (docs/architecture.md)."""
        held = await tx.execute(select(vms.c.uuid).where(vms.c.server_uuid == server_uuid))
        coming = await tx.execute(select(moves.c.vm_uuid).where(moves.c.target_uuid == server_uuid))
        here = [*(row.uuid for row in held), *(row.vm_uuid for row in coming)]
        bound = list(await tx.execute(select(ports).where(ports.c.device_uuid.in_(here))))
        ranges = {row.uuid: row for row in await tx.execute(select(subnets))}
        gone = given_up({row.subnet_uuid for row in bound}, ranges)
        bound = [row for row in bound if row.subnet_uuid not in gone]
        wanted = {row.network_uuid for row in bound}
        used = {row.subnet_uuid for row in bound}
        query = (
            select(router_interfaces.c.subnet_uuid)
            .join(routers, routers.c.uuid == router_interfaces.c.router_uuid)
            .where(routers.c.external_network.is_not(None))
        )
        routed = {row.subnet_uuid for row in await tx.execute(query)}
        known = await tx.execute(select(networks).where(networks.c.uuid.in_(wanted)))
        by_network = {row.uuid: row for row in known}
        groups = {group for row in bound if row.port_security for group in row.security_groups}
        found = await tx.execute(select(security_groups).where(security_groups.c.uuid.in_(groups)))
        rules = {row.uuid: row.rules for row in found}
        by_port = {row.uuid: row for row in bound}
        floating = await tx.execute(
            select(floating_ips).where(floating_ips.c.port_uuid.in_(list(by_port)))
        )
        return {
            "version": version,
            "external": {
                "cidr": self.fabric.external.cidr,
                "gateway": self.fabric.external.gateway,
            },
            "networks": [
                {
                    "uuid": subnet,
                    "name": by_network[ranges[subnet].network_uuid].name,
                    "cidr": ranges[subnet].cidr,
                    "gateway": ranges[subnet].gateway,
                    "mtu": by_network[ranges[subnet].network_uuid].mtu,
                    "masquerade": subnet in routed,
                    **_uplink_of(by_network[ranges[subnet].network_uuid]),
                }
                for subnet in sorted(used)
            ],
            "nics": [
                {
                    "mac": row.mac,
                    "vm_uuid": row.device_uuid,
                    "network_uuid": row.subnet_uuid,
                    "ip": row.ip,
                    "security_groups": (
                        [group for group in row.security_groups if group in rules]
                        if row.port_security
                        else []
                    ),
                    "allowed_addresses": row.allowed_addresses,
                }
                for row in bound
            ],
            "security_groups": [
                {"uuid": uuid, "rules": [complete_rule(rule, uuid) for rule in body]}
                for uuid, body in sorted(rules.items())
            ],
            "floating_ips": [
                {
                    "address": row.address,
                    "fixed_ip": by_port[row.port_uuid].ip,
                    "mac": by_port[row.port_uuid].mac,
                }
                for row in floating
            ],
        }

    async def apply(self, server_uuid: str, *, renew: bool = False) -> None:
        """Send one node its state and wait until it has it. Errors: ``NodeTaskError``, 404, 409.

        A node that already has exactly this state is skipped, unless ``renew``; so is one that was given
        up, which gets its state when it registers again.
        """
        async with self._locks[server_uuid]:
            async with self.database.transaction() as tx:
                if is_given_up(await self.servers.known(tx, server_uuid)):
                    return
                agent = await self.servers.agent(tx, server_uuid, "a part of the network")
                state = await self.state(tx, server_uuid, 0)
                used = {network["uuid"] for network in state["networks"]}
                found = await overlays.spans(tx, used | await overlays.last_sent(tx, server_uuid))
                await overlays.extend(tx, server_uuid, state, found)
                digest = hashlib.blake2b(msgspec.json.encode(state), digest_size=16).digest()
                query = select(servers.c.network_version).where(servers.c.uuid == server_uuid)
                # The version shows whether another service process has sent a state since.
                has = ((await tx.execute(query)).one().network_version, digest)
                if self._has.get(server_uuid) == has and not renew:
                    return
                raised = await tx.execute(
                    update(servers)
                    .where(servers.c.uuid == server_uuid)
                    .values(network_version=servers.c.network_version + 1)
                    .returning(servers.c.network_version)
                )
                state["version"] = raised.one().network_version
                others = await overlays.record_sent(tx, server_uuid, used, found)
            self._due.extend(one for one in sorted(others) if one not in self._due)
            self._news.set()
            try:
                await self.work.run(agent, "network_apply", state)
            except NodeTaskError:
                async with self.database.transaction() as tx:
                    await overlays.record_unsent(tx, server_uuid)
                raise
            self._has[server_uuid] = (state["version"], digest)

    async def apply_for_ports(self, port_uuids: list[str]) -> None:
        """Update the nodes of these ports' instances."""
        query = (
            select(vms.c.server_uuid)
            .join(ports, ports.c.device_uuid == vms.c.uuid)
            .where(ports.c.uuid.in_(port_uuids))
            .distinct()
        )
        async with self.database.read() as tx:
            where = [row.server_uuid for row in await tx.execute(query)]
        for server_uuid in where:
            await self.apply(server_uuid)

    async def apply_for_group(self, group_uuid: str) -> None:
        """Update the nodes with ports in a security group."""
        async with self.database.read() as tx:
            rows = await tx.execute(select(ports).where(ports.c.device_uuid.is_not(None)))
            concerned = [row.uuid for row in rows if group_uuid in row.security_groups]
        await self.apply_for_ports(concerned)

    async def watch(self) -> None:
        """Send its state to each node that registers (again), until cancelled."""

        async def send(named: set[str] | None) -> None:
            for uuid in named or ():
                await self._update(uuid, renew=True)

        await watch(self.database, "compute/registered", send)

    async def spread(self) -> None:
        """Update nodes when their networks change on other nodes, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._news.wait()
                self._news.clear()
                while self._due:
                    group.create_task(self._update(self._due.pop(0)))

    async def _update(self, server_uuid: str, *, renew: bool = False) -> None:
        try:
            await self.apply(server_uuid, renew=renew)
        except (NodeTaskError, Fault, OSError, TimeoutError) as error:
            # The node is updated when it registers again, or at its next change.
            log.warning("node_networks_not_applied", server=server_uuid, error=str(error))


def given_up(used: set[str], ranges: Mapping[str, StoredRow]) -> set[str]:
    """Subnets being removed whose addresses another subnet on the same node has taken over."""
    return {
        uuid
        for uuid in used
        if ranges[uuid].replaced_by
        and any(
            not ranges[other].replaced_by and overlap(ranges[other].cidr, ranges[uuid].cidr)
            for other in used
        )
    }


def complete_rule(rule: dict[str, object], group: str) -> dict[str, object]:
    """A rule in which a remote "this group" is replaced by the group."""
    if rule.get("remote_mode") == "remote_group_id" and not rule.get("remote_group_id"):
        return {**rule, "remote_group_id": group}
    return rule
