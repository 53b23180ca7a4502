"""NICs of a VM, made from its ports (compute-node-api.md §8)."""

from __future__ import annotations

import ipaddress

from sqlalchemy import select, update

from vetro.compute.tables import networks, ports, subnets
from vetro.compute.values.faults import invalid_argument, not_found
from vetro.compute.values.records import Record
from vetro.storage import Transaction


async def bind_ports(tx: Transaction, uuid: str, wanted: list[str]) -> list[Record]:
    """Give ports to a VM; returns the NICs that the node makes of them.

    Errors: 404 for an unknown port, 409 for one that another VM has.
    """
    nics: list[Record] = []
    for position, port_uuid in enumerate(wanted):
        query = select(ports).where(ports.c.uuid == port_uuid).with_for_update()
        port = (await tx.execute(query)).first()
        if port is None:
            raise not_found(f"port {port_uuid} not found")
        if port.device_uuid not in (None, uuid):
            raise invalid_argument(f"port {port_uuid} is used by VM {port.device_uuid}")
        await tx.execute(
            update(ports)
            .where(ports.c.uuid == port_uuid)
            .values(device_uuid=uuid, device_owner="compute:vm")
        )
        subnet = (await tx.execute(select(subnets).where(subnets.c.uuid == port.subnet_uuid))).one()
        of_port = select(networks).where(networks.c.uuid == port.network_uuid)
        network = (await tx.execute(of_port)).one()
        uplink: Record = network.uplink or {}
        nics.append(
            {
                "interface": f"net{position}",
                "mac": port.mac,
                "ip": port.ip,
                "netmask": _mask(subnet.cidr),
                "gateway": subnet.gateway,
                "network_uuid": port.subnet_uuid,
                "nic_tag": uplink.get("nic_tag", "external"),
                "vlan_id": uplink.get("vlan_id", 0),
                "mtu": network.mtu,
                "primary": position == 0,
                "dns": subnet.dns,
            }
        )
    return nics


def _mask(cidr: str) -> str:
    """A range's mask; in IPv6 the length of its prefix."""
    network = ipaddress.ip_network(cidr)
    return str(network.netmask if network.version == 4 else network.prefixlen)
