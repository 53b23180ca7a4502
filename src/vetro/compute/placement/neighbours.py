"""Which servers a VM cannot be on because of where its networks are (decision 0845).

A network that Vetro makes lies in tunnels between the servers with VMs in it, so each of them must be
reached by the others. Where one is not, all VMs of the network are on one server: on the first one's.
A network of the machines' own wire connects any servers. A server that was given up is in no network any
more: its VMs are to be made elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import cast

from sqlalchemy import select

from vetro.compute.tables import networks, ports, servers, vms
from vetro.compute.values.records import Record, mapping
from vetro.compute.values.silence import is_given_up
from vetro.storage import Transaction

Homes = dict[str, set[str]]
"""The servers of each subnet: those with VMs in it, and those with room held for one."""

#: The member of a request, and of a reservation's row, that lists the subnets of the VM's ports.
SUBNETS = "subnets"


async def subnets_of(tx: Transaction, port_uuids: Collection[str]) -> list[str]:
    """The subnets of ports, but for those on the machines' own wire."""
    query = (
        select(ports.c.subnet_uuid, networks.c.uplink)
        .join(networks, networks.c.uuid == ports.c.network_uuid)
        .where(ports.c.uuid.in_(list(port_uuids)))
    )
    return sorted({row.subnet_uuid for row in await tx.execute(query) if not row.uplink})


async def homes_of(
    tx: Transaction, subnets: Collection[str], without: Collection[str] = ()
) -> Homes:
    """Where subnets are now, not on servers that were given up; ``without``: VMs that do not count."""
    found: Homes = {subnet: set() for subnet in subnets}
    if not found:
        return found
    counts = vms.c.uuid.not_in(without)
    bound = (
        select(ports.c.subnet_uuid, vms.c.server_uuid)
        .join(vms, vms.c.uuid == ports.c.device_uuid)
        .where(ports.c.subnet_uuid.in_(found), vms.c.state != "failed", counts)
    )
    for row in await tx.execute(bound):
        found[row.subnet_uuid].add(row.server_uuid)
    held = select(vms.c.server_uuid, vms.c.vm).where(vms.c.state == "allocated", counts)
    for row in await tx.execute(held):
        for subnet in wanted_by(mapping(row.vm)):
            if subnet in found:
                found[subnet].add(row.server_uuid)
    gone = await _given_up(tx, set[str]().union(*found.values()))
    return {subnet: there - gone for subnet, there in found.items()}


async def _given_up(tx: Transaction, uuids: Collection[str]) -> set[str]:
    """Those of the servers that were given up."""
    if not uuids:
        return set()
    query = select(servers.c.uuid, servers.c.status, servers.c.extra)
    known = {row.uuid: row for row in await tx.execute(query.where(servers.c.uuid.in_(uuids)))}
    return {uuid for uuid in uuids if is_given_up(known.get(uuid))}


def wanted_by(body: Record) -> list[str]:
    """The subnets that a request, or a reservation's row, names."""
    return cast("list[str]", body.get(SUBNETS) or [])


def apart(
    servers: Collection[str], subnets: Collection[str], homes: Homes, reached: Callable[[str], bool]
) -> dict[str, str]:
    """Those of the servers that cannot be in a network with those that are, and why.

    ``reached``: whether other servers reach one.
    """
    found: dict[str, str] = {}
    for subnet in subnets:
        there = homes.get(subnet)
        if not there:
            continue
        lonely = next((one for one in sorted(there) if not reached(one)), None)
        for uuid in servers:
            if uuid in there:
                continue
            if lonely is not None:
                found[uuid] = (
                    f"Server cannot share subnet {subnet}: it has VMs on server {lonely}, which no other"
                    " server reaches (setting node.admin_ip)"
                )
            elif not reached(uuid):
                found[uuid] = (
                    f"Server cannot share subnet {subnet}: no other server reaches it (setting"
                    f" node.admin_ip), and the subnet has VMs on server {min(there)}"
                )
    return found
