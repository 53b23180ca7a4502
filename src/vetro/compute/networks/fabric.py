"""Networks, addresses, security groups: the service owns them and sends nodes the whole state.

Addresses are unique by a database constraint: two ports never share one. Every create takes a uuid
chosen by the caller and may be repeated.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import Table, delete, insert, select, update

from vetro.compute.settings import ExternalNetwork
from vetro.compute.tables import (
    floating_ips,
    keypairs,
    networks,
    ports,
    router_interfaces,
    routers,
    security_groups,
    subnets,
    vms,
)
from vetro.compute.values.faults import conflict, invalid_parameters, not_found
from vetro.compute.values.records import Record
from vetro.compute.wire import (
    AddressWish,
    FloatingIp,
    Network,
    NewFloatingIp,
    NewNetwork,
    NewPort,
    NewRouter,
    NewSecurityGroup,
    NewSubnet,
    Port,
    Router,
    SecurityGroup,
    Subnet,
)
from vetro.quotas import Quotas
from vetro.storage import Database, StoredRow, Transaction

LOCAL_MAC = "0a:56"  # locally administered, so that it never equals a vendor's


#: The MTU of an ordinary Ethernet, and of one between nodes: a tunnel's headers take 50 bytes.
WIRE_MTU = 1500
FABRIC_MTU = 1450


@dataclass(frozen=True)
class Hanging:
    """The rows that rows of other tables are shown with."""

    subnets: list[StoredRow]
    interfaces: list[StoredRow]
    ports: list[StoredRow]


Object = Network | Subnet | Router | SecurityGroup | Port | FloatingIp
View = Callable[[StoredRow, Hanging], Object]


class Fabric:
    """The networks of all projects."""

    def __init__(
        self, database: Database, external: ExternalNetwork, quotas: Quotas | None = None
    ) -> None:
        """``quotas``: how many addresses projects may have; without them any number."""
        self.database = database
        self.quotas = quotas
        self.external = external

    async def prepare(self) -> None:
        """Create the external network."""
        async with self.database.transaction() as tx:
            if await self._get(tx, networks, self.external.uuid) is None:
                await tx.execute(
                    insert(networks).values(
                        uuid=self.external.uuid,
                        name=self.external.name,
                        owner_uuid="",
                        external=True,
                        mtu=WIRE_MTU,
                    )
                )

    async def _get(self, tx: Transaction, table: Table, uuid: str) -> StoredRow | None:
        return (await tx.execute(select(table).where(table.c.uuid == uuid))).first()

    async def need(self, tx: Transaction, table: Table, uuid: str, what: str) -> StoredRow:
        """A row. Errors: 404."""
        row = await self._get(tx, table, uuid)
        if row is None:
            raise not_found(f"{what} {uuid} not found")
        return row

    async def _create(self, table: Table, uuid: str, values: Record) -> None:
        async with self.database.transaction() as tx:
            if await self._get(tx, table, uuid) is None:
                await tx.execute(insert(table).values(uuid=uuid, **values))

    async def nic_tags(self, port_uuids: Sequence[str]) -> list[str]:
        """The NIC tags that a node needs for these ports: those of their networks' uplinks."""
        query = (
            select(networks.c.uplink)
            .join(ports, ports.c.network_uuid == networks.c.uuid)
            .where(ports.c.uuid.in_(list(port_uuids)))
        )
        async with self.database.read() as tx:
            found = [row.uplink for row in await tx.execute(query)]
        return sorted({str(uplink["nic_tag"]) for uplink in found if uplink})

    # Networks, subnets, routers

    async def create_network(self, uuid: str, owner: str, new: NewNetwork) -> None:
        """Create a network; ``uplink``: on the machines' own wire instead of a tunnel."""
        values = {
            "name": new.name,
            "owner_uuid": owner,
            "external": False,
            "mtu": new.mtu or (WIRE_MTU if new.uplink else FABRIC_MTU),
            "uplink": new.uplink,
        }
        await self._create(networks, uuid, values)

    async def create_subnet(self, uuid: str, owner: str, new: NewSubnet) -> None:
        """Create a subnet in a network. Errors: 404, 409 overlapping, 500.

        ``replaces``: subnets of the same project that are being removed; their addresses may be
        reused.
        """
        cidr = ipaddress.ip_network(new.cidr)
        gateway = str(ipaddress.ip_address(new.gateway) if new.gateway else cidr[1])
        if ipaddress.ip_address(gateway) not in cidr:
            raise invalid_parameters({"gateway": f"value is outside of {cidr}"})
        leaving = set(new.replaces or ())
        async with self.database.transaction() as tx:
            # Two concurrent requests for one range: the second finds the first's subnet and is
            # refused.
            await tx.exclude("subnets")
            if await self._get(tx, subnets, uuid) is not None:
                return
            await self.need(tx, networks, new.network_uuid, "network")
            for other in (await tx.execute(select(subnets))).all():
                if not overlap(other.cidr, new.cidr):
                    continue
                if other.uuid not in leaving or other.owner_uuid != owner:
                    # Everyone is shown which range conflicts; only its owner is shown whose it is.
                    mine = other.owner_uuid == owner
                    whose = f"network {other.network_uuid}" if mine else "another project"
                    raise conflict(
                        f"subnet {cidr} overlaps {other.cidr} of {whose}:"
                        " networks of one node must not overlap; choose another range",
                        overlaps=other.cidr,
                        **({"subnet_uuid": other.uuid} if mine else {}),
                    )
                # Being removed: nodes give the addresses to the new one as soon as both exist.
                await tx.execute(
                    update(subnets).where(subnets.c.uuid == other.uuid).values(replaced_by=uuid)
                )
            await tx.execute(
                insert(subnets).values(
                    uuid=uuid,
                    network_uuid=new.network_uuid,
                    name=new.name,
                    owner_uuid=owner,
                    cidr=str(cidr),
                    gateway=gateway,
                    dns=new.dns or [],
                )
            )

    async def create_router(self, uuid: str, owner: str, new: NewRouter) -> None:
        """Create a router; ``external_network`` by uuid."""
        values = {
            "name": new.name,
            "owner_uuid": owner,
            "external_network": new.external_network,
        }
        await self._create(routers, uuid, values)

    async def add_interface(self, router: str, subnet: str, made_by: str | None = None) -> None:
        """Attach a subnet to a router; repeating it is harmless. Errors: 404.

        With a maker: 409 for an interface that it did not make.
        """
        async with self.database.transaction() as tx:
            await tx.exclude(f"interfaces {router}")
            await self.need(tx, routers, router, "router")
            await self.need(tx, subnets, subnet, "subnet")
            known = await tx.execute(
                select(router_interfaces).where(
                    router_interfaces.c.router_uuid == router,
                    router_interfaces.c.subnet_uuid == subnet,
                )
            )
            found = known.first()
            if found is None:
                await tx.execute(
                    insert(router_interfaces).values(
                        router_uuid=router, subnet_uuid=subnet, made_by=made_by or ""
                    )
                )
            elif made_by not in (None, found.made_by):
                raise conflict(
                    f"the router {router} has an interface in subnet {subnet} already:"
                    " use it without making it"
                )

    async def remove_interface(self, router: str, subnet: str, made_by: str | None = None) -> None:
        """Detach a subnet from a router; with a maker: only if that one attached it."""
        mine = (router_interfaces.c.router_uuid == router) & (
            router_interfaces.c.subnet_uuid == subnet
        )
        if made_by is not None:
            mine &= router_interfaces.c.made_by == made_by
        async with self.database.transaction() as tx:
            await tx.execute(delete(router_interfaces).where(mine))

    # Security groups, key pairs

    async def create_security_group(self, uuid: str, owner: str, new: NewSecurityGroup) -> None:
        """Create a security group with its rules."""
        values = {
            "name": new.name,
            "owner_uuid": owner,
            "description": new.description,
            "rules": new.rules or [],
        }
        await self._create(security_groups, uuid, values)

    async def set_keypair(
        self, owner: str, name: str, public_key: str, made_by: str | None = None
    ) -> None:
        """Store a public key; may be repeated. Errors: 409 when the name has another key.

        With a maker: also for the same key, when it did not make the key pair.
        """
        async with self.database.transaction() as tx:
            await tx.exclude("key pairs")
            mine = (keypairs.c.owner_uuid == owner) & (keypairs.c.name == name)
            known = (await tx.execute(select(keypairs).where(mine))).first()
            if known is None:
                await tx.execute(
                    insert(keypairs).values(
                        owner_uuid=owner, name=name, public_key=public_key, made_by=made_by or ""
                    )
                )
            elif known.public_key != public_key:
                raise conflict(f"the key pair {name} exists already, with another key")
            elif made_by not in (None, known.made_by):
                raise conflict(
                    f"the key pair {name} exists already: use it without making it, or choose"
                    " another name"
                )

    # Ports and addresses

    async def create_port(self, uuid: str, owner: str, new: NewPort) -> None:
        """Create a port with an address. Errors: 404, 409 when the address is taken or all are."""
        async with self.database.transaction() as tx:
            if await self._get(tx, ports, uuid) is not None:
                return
            network = await self.need(tx, networks, new.network_uuid, "network")
            wish = new.fixed_ips[0] if new.fixed_ips else AddressWish()
            subnet = await self._subnet(tx, network, wish.subnet_uuid)
            ip = await self._free(tx, subnet, wish.ip)
            await tx.execute(
                insert(ports).values(
                    uuid=uuid,
                    network_uuid=network.uuid,
                    subnet_uuid=subnet.uuid,
                    owner_uuid=owner,
                    name=new.name,
                    mac=await self._mac(tx, uuid),
                    ip=ip,
                    security_groups=new.security_groups or [],
                    port_security=new.port_security,
                    allowed_addresses=new.allowed_addresses or [],
                    device_owner="",
                )
            )

    async def _mac(self, tx: Transaction, uuid: str) -> str:
        """An address that no port has: from the port's uuid, else a random one."""
        digits = uuid.replace("-", "")[:8]
        while True:
            if len(digits) == 8:
                mac = ":".join([LOCAL_MAC, *(digits[i : i + 2] for i in range(0, 8, 2))])
                taken = await tx.execute(select(ports.c.uuid).where(ports.c.mac == mac))
                if taken.first() is None:
                    return mac
            digits = secrets.token_hex(4)

    async def _subnet(self, tx: Transaction, network: StoredRow, wanted: str | None) -> StoredRow:
        query = select(subnets).where(subnets.c.network_uuid == network.uuid)
        if wanted:
            query = query.where(subnets.c.uuid == wanted)
        row = (await tx.execute(query.order_by(subnets.c.uuid).with_for_update())).first()
        if row is None:
            raise not_found(f"network {network.name or network.uuid} has no such subnet")
        return row

    async def _free(self, tx: Transaction, subnet: StoredRow, wanted: str | None) -> str:
        network = ipaddress.ip_network(subnet.cidr)
        rows = await tx.execute(select(ports.c.ip).where(ports.c.subnet_uuid == subnet.uuid))
        taken = {row.ip for row in rows} | {subnet.gateway, str(network[1])}
        if wanted:
            # As it is kept: an IPv6 address has several texts.
            wanted = str(ipaddress.ip_address(wanted))
            if ipaddress.ip_address(wanted) not in network:
                raise conflict(f"address {wanted} is outside of {subnet.cidr}")
            if str(wanted) in (str(network[0]), str(network[-1])):
                raise conflict(f"address {wanted} is the first or the last of {subnet.cidr}")
            if wanted in taken:
                raise conflict(f"address {wanted} is taken")
            return wanted
        for address in network.hosts():
            if str(address) not in taken:
                return str(address)
        raise conflict(f"subnet {subnet.cidr} has no free address")

    async def create_floating_ip(self, uuid: str, owner: str, new: NewFloatingIp) -> None:
        """Allocate a floating address. Errors: 403 for the quota, 404, 409 when none is left."""
        async with self.database.transaction() as tx:
            if await self._get(tx, floating_ips, uuid) is not None:
                return
            if self.quotas is not None:
                await self.quotas.admit(tx, owner, addresses=1)
            wanted = new.network_uuid or self.external.uuid
            if wanted not in (self.external.uuid, self.external.name):
                raise not_found(f"external network {wanted} not found")
            if new.port_uuid:
                await self.need_ipv4(tx, new.port_uuid)
            await self.need(tx, networks, self.external.uuid, "network")
            taken = {row.address for row in await tx.execute(select(floating_ips.c.address))}
            pool = ipaddress.IPv4Network(self.external.cidr)
            free = (str(a) for a in pool.hosts() if str(a) not in {*taken, self.external.gateway})
            address = next(free, None)
            if address is None:
                raise conflict(f"no floating address is left in {self.external.cidr}")
            await tx.execute(
                insert(floating_ips).values(
                    uuid=uuid,
                    network_uuid=self.external.uuid,
                    owner_uuid=owner,
                    address=address,
                    port_uuid=new.port_uuid,
                )
            )

    async def need_ipv4(self, tx: Transaction, port_uuid: str) -> None:
        """A port that a floating address may lead to. Errors: 404, 409."""
        port = await self.need(tx, ports, port_uuid, "port")
        if ":" in port.ip:
            raise conflict(
                f"port {port_uuid} has the IPv6 address {port.ip}: floating addresses are IPv4;"
                " give the instance a second port in an IPv4 subnet"
            )

    # Shared by all kinds

    async def change(self, table: Table, uuid: str, what: str, values: Record) -> None:
        """Update a row. Errors: 404."""
        async with self.database.transaction() as tx:
            await self.need(tx, table, uuid, what)
            if table is floating_ips:
                values = await self._led(tx, uuid, values)
            if values:
                await tx.execute(update(table).where(table.c.uuid == uuid).values(**values))

    async def _led(self, tx: Transaction, uuid: str, values: Record) -> Record:
        """What changes when a floating address is led to a port, or nowhere. Errors: 404, 409.

        With a maker: nothing that another one did is undone.
        """
        if "port_uuid" not in values:
            return {}
        port_uuid, made_by = values["port_uuid"], values.get("made_by")
        await tx.exclude(f"floating address {uuid}")
        row = (await tx.execute(select(floating_ips).where(floating_ips.c.uuid == uuid))).one()
        if row.port_uuid is not None and made_by not in (None, row.made_by):
            if port_uuid is None:
                return {}
            raise conflict(
                f"the floating address {row.address} leads to port {row.port_uuid} already:"
                " part them first"
            )
        if port_uuid:
            await self.need_ipv4(tx, port_uuid)
        if made_by is None and port_uuid == row.port_uuid:
            made_by = row.made_by
        return {"port_uuid": port_uuid, "made_by": made_by or ""}

    async def remove(self, table: Table, uuid: str, what: str) -> None:
        """Delete a row. Errors: 404; 409 when other objects still use it, with their names."""
        async with self.database.transaction() as tx:
            await self.need(tx, table, uuid, what)
            users = await users_of(tx, table, uuid)
            if users:
                more = f" and {len(users) - _NAMED} more" if len(users) > _NAMED else ""
                raise conflict(
                    f"{what} {uuid} is in use by {', '.join(users[:_NAMED])}{more}", users=users
                )
            await tx.execute(delete(table).where(table.c.uuid == uuid))
            if table is subnets:
                # The subnets it was to replace stay.
                await tx.execute(
                    update(subnets).where(subnets.c.replaced_by == uuid).values(replaced_by=None)
                )

    async def rows(self, table: Table, owner: str | None) -> list[StoredRow]:
        """A project's rows (and shared networks); for ``None``, those of every project."""
        query = select(table)
        if owner is not None:
            mine = table.c.owner_uuid == owner
            query = query.where(mine | table.c.external if "external" in table.c else mine)
        async with self.database.read() as tx:
            return list(await tx.execute(query))

    async def views(self, table: Table, owner: str | None, view: View) -> list[Object]:
        """Rows as the API shows them, with their dependent objects."""
        rows = await self.rows(table, owner)
        async with self.database.read() as tx:
            hanging = Hanging(
                list(await tx.execute(select(subnets))),
                list(await tx.execute(select(router_interfaces))),
                list(await tx.execute(select(ports))),
            )
        return [view(row, hanging) for row in rows]


def overlap(one: str, other: str) -> bool:
    """Whether two ranges have an address in common."""
    first, second = ipaddress.ip_network(one), ipaddress.ip_network(other)
    return first.version == second.version and first.overlaps(second)


#: The number of users named in a refusal's message; ``users`` has them all.
_NAMED = 5
#: Columns by which rows of other tables refer to a row, and the names of those tables' objects.
USERS: dict[str, list[tuple[str, Any, Any]]] = {
    networks.name: [
        ("subnet", subnets.c.uuid, subnets.c.network_uuid),
        ("port", ports.c.uuid, ports.c.network_uuid),
        ("router", routers.c.uuid, routers.c.external_network),
        ("floating address", floating_ips.c.address, floating_ips.c.network_uuid),
    ],
    subnets.name: [
        ("port", ports.c.uuid, ports.c.subnet_uuid),
        ("router", router_interfaces.c.router_uuid, router_interfaces.c.subnet_uuid),
    ],
    routers.name: [
        ("subnet", router_interfaces.c.subnet_uuid, router_interfaces.c.router_uuid),
    ],
}


async def users_of(tx: Transaction, table: Table, uuid: str) -> list[str]:
    """The objects that refer to a row and still need it, as text.

    Excludes a port's floating address (the database clears its reference) and VMs created with a
    key pair: they have the key itself.
    """
    found: list[str] = []
    for what, name, column in USERS.get(table.name, []):
        rows = await tx.execute(select(name.label("name")).where(column == uuid).order_by(name))
        found += [f"{what} {row.name}" for row in rows]
    if table is ports:
        # A VM that has a record: a port whose VM was forgotten is unused.
        query = select(vms.c.uuid).join(ports, ports.c.device_uuid == vms.c.uuid)
        found += [f"VM {row.uuid}" for row in await tx.execute(query.where(ports.c.uuid == uuid))]
    if table is security_groups:
        for row in await tx.execute(select(ports.c.uuid, ports.c.security_groups)):
            found += [f"port {row.uuid}"] if uuid in (row.security_groups or []) else []
        for row in await tx.execute(select(security_groups)):
            named = cast("list[Record]", row.rules or [])
            if row.uuid != uuid and any(one.get("remote_group_id") == uuid for one in named):
                found.append(f"a rule of security group {row.uuid}")
    return found
