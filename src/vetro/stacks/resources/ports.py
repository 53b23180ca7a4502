"""Ports: where servers are plugged into networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vetro.compute.client.calls import PORTS, SECURITY_GROUPS, SUBNETS
from vetro.compute.wire import AddressWish, NewPort, PortChange
from vetro.compute.wire import Port as WirePort
from vetro.stacks.errors import ResourceFailure
from vetro.stacks.resources.base import (
    ComputeObject,
    Json,
    Property,
    ResourceContext,
    Shown,
    entries,
    flag,
    is_uuid,
    items,
    not_served,
    text,
    unknown_in,
)
from vetro.stacks.resources.networks import find_network, network_named


async def find_groups(context: ResourceContext, wanted: Json) -> list[str]:
    """Security groups given by name or uuid as uuids. An unknown name is an error."""
    names = [text(one) for one in items(wanted)]
    if all(is_uuid(name) for name in names):
        return names
    groups = await context.compute.all(SECURITY_GROUPS, context.project_id)
    known = {one.uuid: one.name for one in groups}
    found: list[str] = []
    for name in names:
        matching = [name] if name in known else [u for u, n in known.items() if n == name]
        if not matching:
            raise ResourceFailure(f"There is no security group {name!r}")
        if len(matching) > 1:
            raise ResourceFailure(
                f"There are {len(matching)} security groups called {name!r}; give its id"
            )
        found.extend(matching)
    return found


async def groups_named(context: ResourceContext, wanted: Json, made: bool) -> Json:
    """The uuids of security groups that are there (`ResourceType.named`). Raises `ResourceFailure`."""
    found = await find_groups(context, wanted)
    for one in found:
        if await context.compute.find(SECURITY_GROUPS, one) is None:
            raise ResourceFailure(f"There is no security group {one!r}")
    return sorted(found)


def _subnet(wish: Mapping[str, Json]) -> Json:
    return wish.get("subnet", wish.get("subnet_id"))


async def _fixed(context: ResourceContext, wanted: Json, made: bool) -> Json:
    """The subnets and addresses that a port has, or that are asked for."""
    port = await context.compute.find(PORTS, context.physical_id) if made else None
    if port is not None:
        return [[subnet, address] for subnet, address in port.fixed_ips]
    wishes = map(entries, items(wanted))
    return [[text(_subnet(one)), text(one.get("ip_address"))] for one in wishes]


async def _network(context: ResourceContext, wanted: Json, made: bool) -> Json:
    """The network that a port is in; of one that is made, the one that it names."""
    port = await context.compute.find(PORTS, context.physical_id) if made else None
    return await network_named(context, wanted, made) if port is None else port.network_uuid


class Port(ComputeObject):
    """`OS::Neutron::Port`."""

    name = "OS::Neutron::Port"
    kind = PORTS
    properties = {
        "network": Property(),
        "network_id": Property(),
        "name": Property(update=True),
        "fixed_ips": Property("list"),
        "security_groups": Property("list", update=True),
        "port_security_enabled": Property("boolean", update=True),
        "allowed_address_pairs": Property("list", update=True),
        "replacement_policy": Property(
            ignored="a port is replaced when it must be", allowed=("AUTO", "REPLACE_ALWAYS")
        ),
        "mac_address": Property(refused="MAC addresses are chosen by the service; leave it out"),
        "device_id": Property(ignored="a server names its ports in networks", only=("",)),
        "device_owner": Property(ignored="it is set by what uses the port"),
        "tags": Property("list", update=True),
        "admin_state_up": Property("boolean", ignored="it is always up", only=("true",)),
        "binding:vnic_type": Property(ignored="interfaces are virtual", only=("normal",)),
        "value_specs": Property("map", ignored="Neutron's extensions are not here", only=("{}",)),
    }
    properties |= not_served("dns_name", "qos_policy", "propagate_uplink_status", "no_fixed_ips")
    required = (("network", "network_id", "fixed_ips"),)
    spelled = {"network_id": "network"}
    named = {
        ("network", "network_id"): _network,
        ("fixed_ips",): _fixed,
        ("security_groups",): groups_named,
    }
    attributes = frozenset(
        {
            "fixed_ips",
            "mac_address",
            "network_id",
            "security_groups",
            "status",
            "name",
            "device_id",
            "subnets",
            "tenant_id",
            "allowed_address_pairs",
        }
    )

    def kept(
        self, changed: frozenset[str], old: Mapping[str, Json], new: Mapping[str, Json]
    ) -> frozenset[str]:
        """An address that is not asked for any more is as good as any other one of its subnet."""
        before, after = items(old.get("fixed_ips")), items(new.get("fixed_ips"))
        as_good = len(before) == len(after) and all(map(is_as_good, before, after))
        same = frozenset({"fixed_ips"}) if as_good else frozenset[str]()
        return super().kept(changed, old, new) | (changed & same)

    async def new(self, context: ResourceContext, properties: Mapping[str, Json]) -> NewPort:
        wishes = [entries(one) for one in items(properties.get("fixed_ips"))]
        named = properties.get("network", properties.get("network_id"))
        subnets = [text(_subnet(one)) for one in wishes]
        wanted = text(named) if named is not None else await _network_of(context, subnets)
        return NewPort(
            uuid=context.physical_id,
            project_id=context.project_id,
            network_uuid=await find_network(context, wanted),
            name=text(properties.get("name"), f"{context.stack_name}-{context.name}"),
            fixed_ips=[
                AddressWish(subnet_uuid=_subnet(one), ip=one.get("ip_address")) for one in wishes
            ],
            security_groups=await find_groups(context, properties.get("security_groups")),
            port_security=flag(properties.get("port_security_enabled"), True),
            allowed_addresses=_allowed(properties),
        )

    async def update(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        change = PortChange(
            name=text(properties.get("name"), f"{context.stack_name}-{context.name}"),
            security_groups=await find_groups(context, properties.get("security_groups")),
            port_security=flag(properties.get("port_security_enabled"), True),
            allowed_addresses=_allowed(properties),
        )
        await context.compute.change(PORTS, context.physical_id, change)

    async def shown(self, context: ResourceContext, properties: Mapping[str, Json]) -> Shown:
        port = await context.compute.find(PORTS, context.physical_id)
        if port is None:
            return None
        shown = describe_port(port)
        shown["tags"] = items(properties.get("tags"))
        shown["allowed_address_pairs"] = items(properties.get("allowed_address_pairs"))
        return shown


async def _network_of(context: ResourceContext, subnets: list[str]) -> str:
    """The network of a port that names only its subnets."""
    for one in await context.compute.all(SUBNETS, context.project_id):
        if one.uuid in subnets:
            return one.network_uuid
    raise ResourceFailure(f"There is no subnet {subnets[0]!r}; name the port's network")


def describe_port(port: WirePort) -> dict[str, Json]:
    """A port with Neutron's keys."""
    return {
        "id": port.uuid,
        "name": port.name,
        "network_id": port.network_uuid,
        "mac_address": port.mac,
        "fixed_ips": [
            {"subnet_id": subnet, "ip_address": address} for subnet, address in port.fixed_ips
        ],
        "subnets": [{"id": subnet} for subnet, _ in port.fixed_ips],
        "security_groups": port.security_groups,
        "status": "ACTIVE" if port.device_uuid else "DOWN",
        "device_id": port.device_uuid or "",
        "device_owner": port.device_owner,
        "tenant_id": port.project_id,
    }


async def without_ipv4(context: ResourceContext, ports: Sequence[str]) -> bool:
    """Whether a server with these ports (uuids) has IPv6 addresses only."""
    found = [await context.compute.find(PORTS, port) for port in ports]
    addresses = [ip for port in found if port is not None for _, ip in port.fixed_ips]
    return bool(addresses) and all(":" in ip for ip in addresses)


def is_as_good(had: Json, wanted: Json) -> bool:
    """Whether what a port has by one wish is what another one asks for."""
    if unknown_in(had) or unknown_in(wanted):
        return False
    before, after = entries(had), entries(wanted)
    address = after.get("ip_address")
    return _subnet(before) == _subnet(after) and address in (None, before.get("ip_address"))


def _allowed(properties: Mapping[str, Json]) -> list[str]:
    pairs = [entries(one) for one in items(properties.get("allowed_address_pairs"))]
    return [text(pair["ip_address"]) for pair in pairs if pair.get("ip_address")]
