"""Subnets with instances on several nodes: what each node must know of the others.

For a subnet's other nodes, a node needs their addresses, for the tunnels of the fabric, and the
addresses of a security group's members there. Both change when an instance is created or destroyed
elsewhere. The service stores a fingerprint of what it last sent each node about each subnet. So
after a change on one node, it updates exactly the affected nodes, whichever service process makes
the change.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import cast

from sqlalchemy import delete, insert, select, update

from vetro.compute.tables import fabric_numbers, moves, ports, servers, spans_told, vms
from vetro.compute.values.counters import next_number
from vetro.compute.values.faults import conflict
from vetro.compute.values.records import Record, is_reached, mapping, tunnel_address
from vetro.compute.values.silence import is_given_up
from vetro.storage import Transaction

LARGEST_VNI = 2**24 - 1


@dataclass
class Span:
    """One subnet: its servers and their addresses, and each group's members by server."""

    addresses: dict[str, str] = field(default_factory=dict[str, str])
    members: defaultdict[str, set[tuple[str, str]]] = field(
        default_factory=lambda: defaultdict(set)
    )

    def fingerprint(self) -> str:
        """Equal if no node's view of the others differs."""
        seen = [
            sorted(self.addresses.items()),
            # A single node has no others.
            sorted((group, sorted(who)) for group, who in self.members.items())
            if len(self.addresses) > 1
            else [],
        ]
        return hashlib.blake2b(json.dumps(seen).encode(), digest_size=16).hexdigest()


async def spans(tx: Transaction, subnets: Collection[str]) -> dict[str, Span]:
    """The spans of these subnets, with or without instances."""
    found = {subnet: Span() for subnet in subnets}
    if not found:
        return found
    query = (
        select(ports.c.subnet_uuid, ports.c.ip, ports.c.security_groups, vms.c.server_uuid)
        .join(vms, vms.c.uuid == ports.c.device_uuid)
        # A VM that could not be created is not a neighbour.
        .where(ports.c.subnet_uuid.in_(found), vms.c.state != "failed")
    )
    bound = list(await tx.execute(query))
    # A VM that is being moved is on both servers.
    query = (
        select(
            ports.c.subnet_uuid,
            ports.c.ip,
            ports.c.security_groups,
            moves.c.target_uuid.label("server_uuid"),
        )
        .join(moves, moves.c.vm_uuid == ports.c.device_uuid)
        .where(ports.c.subnet_uuid.in_(found))
    )
    bound += list(await tx.execute(query))
    known = await tx.execute(
        select(servers.c.uuid, servers.c.sysinfo, servers.c.status, servers.c.extra).where(
            servers.c.uuid.in_({row.server_uuid for row in bound})
        )
    )
    # A server that was given up is nobody's neighbour: what it had is made elsewhere, or is gone.
    address = {
        row.uuid: tunnel_address(mapping(row.sysinfo)) for row in known if not is_given_up(row)
    }
    for row in bound:
        if row.server_uuid not in address:
            continue
        span = found[row.subnet_uuid]
        span.addresses[row.server_uuid] = address[row.server_uuid]
        for group in cast("list[str]", row.security_groups):
            span.members[group].add((row.server_uuid, row.ip))
    return found


async def extend(tx: Transaction, server_uuid: str, state: Record, found: dict[str, Span]) -> None:
    """Add to a server's ``NetworkState`` what it must know of other nodes.

    Errors: 409 when a subnet would span a server whose address only it can reach.
    """
    for network in cast("list[Record]", state["networks"]):
        span = found[network["uuid"]]
        if network.get("uplink"):
            continue  # the wire itself connects the nodes
        others = {one: where for one, where in span.addresses.items() if one != server_uuid}
        if not others or server_uuid not in span.addresses:
            continue
        for one, where in span.addresses.items():
            _check_reachable(one, where, str(network["name"]))
        network["vni"] = await _number(tx, network["uuid"])
        network["remotes"] = sorted(set(others.values()))
    # Only groups that a rule refers to, to keep the state small.
    asked = {
        str(rule.get("remote_group_id"))
        for group in cast("list[Record]", state["security_groups"])
        for rule in cast("list[Record]", group["rules"])
    }
    given = {group["uuid"]: group for group in cast("list[Record]", state["security_groups"])}
    for group in sorted(asked & given.keys()):
        given[group]["members"] = sorted(
            ip
            for span in found.values()
            for where, ip in span.members.get(group, ())
            if where != server_uuid
        )


def _check_reachable(server_uuid: str, address: str, network: str) -> None:
    if not is_reached(address):
        raise conflict(
            f"network {network} would span several nodes, but no other node reaches server"
            f" {server_uuid} at '{address}': start its agent with an address of the network between"
            " the nodes (setting node.admin_ip), or place all instances of the network on one server"
        )


async def _number(tx: Transaction, subnet: str) -> int:
    query = select(fabric_numbers.c.vni).where(fabric_numbers.c.subnet_uuid == subnet)
    row = (await tx.execute(query)).first()
    if row is None:
        await tx.exclude("fabric numbers")
        row = (await tx.execute(query)).first()
    if row is not None:
        return int(row.vni)
    number = await next_number(tx, "fabric-number")
    if number > LARGEST_VNI:
        raise conflict("all fabric numbers are in use")
    await tx.execute(insert(fabric_numbers).values(subnet_uuid=subnet, vni=number))
    return number


async def record_sent(
    tx: Transaction, server_uuid: str, used: Iterable[str], found: dict[str, Span]
) -> set[str]:
    """Record that a server is sent ``found`` of its subnets; returns the servers to update now.

    ``found`` also contains the subnets that `last_sent` returned before.
    """
    here = set(used)
    await tx.execute(delete(spans_told).where(spans_told.c.server_uuid == server_uuid))
    if here:
        rows = [
            {
                "server_uuid": server_uuid,
                "subnet_uuid": subnet,
                "fingerprint": found[subnet].fingerprint(),
            }
            for subnet in sorted(here)
        ]
        await tx.execute(insert(spans_told), rows)
    others = await tx.execute(
        select(spans_told).where(
            spans_told.c.subnet_uuid.in_(found), spans_told.c.server_uuid != server_uuid
        )
    )
    return {
        row.server_uuid for row in others if row.fingerprint != found[row.subnet_uuid].fingerprint()
    }


async def last_sent(tx: Transaction, server_uuid: str) -> set[str]:
    """The subnets that a server was last sent."""
    rows = await tx.execute(
        select(spans_told.c.subnet_uuid).where(spans_told.c.server_uuid == server_uuid)
    )
    return {row.subnet_uuid for row in rows}


async def record_unsent(tx: Transaction, server_uuid: str) -> None:
    """Record that sending to a server failed: its next state counts as changed."""
    await tx.execute(
        update(spans_told).where(spans_told.c.server_uuid == server_uuid).values(fingerprint="")
    )
