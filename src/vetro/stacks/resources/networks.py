"""Networks, subnets, routers and their interfaces."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from vetro.compute.client.calls import NETWORKS, ROUTERS, SUBNETS
from vetro.compute.wire import NewNetwork, NewRouter, NewSubnet
from vetro.stacks.errors import InvalidProperty, ResourceFailure
from vetro.stacks.resources.base import (
    ComputeObject,
    Json,
    Property,
    Relation,
    ResourceContext,
    Shown,
    as_static,
    entries,
    is_uuid,
    items,
    not_served,
    text,
)
from vetro.stacks.template.functions import Unknown, function_of

_MAPPED = ipaddress.IPv6Network("::/8")


_STATIC = "instances get their IPv6 addresses with their configuration; leave it out"


async def find_network(context: ResourceContext, wanted: str, external: bool = False) -> str:
    """The uuid of a network given by name or uuid. Raises `ResourceFailure`.

    A uuid is not looked up: the compute service refuses an unknown one.
    """
    if is_uuid(wanted):
        return wanted
    matching: list[str] = []
    for network in await context.compute.all(NETWORKS, context.project_id):
        if network.name == wanted and (network.external or not external):
            matching.append(network.uuid)
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise ResourceFailure(f"There are {len(matching)} networks called {wanted!r}; give its id")
    raise ResourceFailure(f"There is no network {wanted!r}")


async def network_named(context: ResourceContext, wanted: Json, made: bool) -> Json:
    """The uuid of a network that is there (`ResourceType.named`). Raises `ResourceFailure`."""
    return await _there(context, await find_network(context, text(wanted)), wanted)


async def external_network_named(context: ResourceContext, wanted: Json, made: bool) -> Json:
    """The same for a network that floating addresses are taken from."""
    return await _there(context, await find_network(context, text(wanted), external=True), wanted)


async def _there(context: ResourceContext, found: str, wanted: Json) -> str:
    if await context.compute.find(NETWORKS, found) is None:
        raise ResourceFailure(f"There is no network {text(wanted)!r}")
    return found


class Net(ComputeObject):
    """`OS::Neutron::Net`."""

    name = "OS::Neutron::Net"
    kind = NETWORKS
    properties = {
        "name": Property(update=True),
        "admin_state_up": Property("boolean", ignored="it is always up", only=("true",)),
        "shared": Property("boolean", ignored="a network belongs to one project", only=("false",)),
        "tenant_id": Property(ignored="what a stack makes belongs to its project"),
        "port_security_enabled": Property("boolean", ignored="say it of the ports", only=("true",)),
        "tags": Property("list", update=True),
        "value_specs": Property("map", ignored="Neutron's extensions are not here", only=("{}",)),
    }
    properties |= not_served(
        "dhcp_agent_ids", "qos_policy", "dns_domain", "availability_zone_hints"
    )
    attributes = frozenset({"name", "status", "subnets", "tenant_id", "admin_state_up"})

    async def new(self, context: ResourceContext, properties: Mapping[str, Json]) -> NewNetwork:
        name = text(properties.get("name"), context.name)
        return NewNetwork(uuid=context.physical_id, project_id=context.project_id, name=name)

    async def shown(self, context: ResourceContext, properties: Mapping[str, Json]) -> Shown:
        networks = await context.compute.all(NETWORKS, context.project_id)
        for network in networks:
            if network.uuid == context.physical_id:
                return {
                    "id": network.uuid,
                    "name": network.name,
                    "status": "ACTIVE",
                    "admin_state_up": True,
                    "subnets": network.subnets,
                    "tenant_id": network.project_id,
                    "tags": items(properties.get("tags")),
                }
        return None


class Subnet(ComputeObject):
    """`OS::Neutron::Subnet`."""

    name = "OS::Neutron::Subnet"
    kind = SUBNETS
    properties = {
        "network": Property(),
        "network_id": Property(),
        "cidr": Property(),
        "ip_version": Property("integer", allowed=("4", "6")),
        "name": Property(update=True),
        "dns_nameservers": Property("list", update=True),
        "gateway_ip": Property(tells_empty=True),
        "enable_dhcp": Property("boolean", ignored="addresses are static, with and without"),
        "ipv6_address_mode": Property(refused=_STATIC),
        "ipv6_ra_mode": Property(refused=_STATIC),
        "allocation_pools": Property(
            "list",
            ignored="any free address of the range is given; one that a port asks for is its own",
        ),
        "host_routes": Property(
            "list", ignored="instances have the route to their gateway only", only=("[]",)
        ),
        "tenant_id": Property(ignored="what a stack makes belongs to its project"),
        "tags": Property("list", update=True),
        "value_specs": Property("map", ignored="Neutron's extensions are not here", only=("{}",)),
    }
    properties |= not_served("subnetpool", "prefixlen", "segment")
    required = (("network", "network_id"), ("cidr",))
    spelled = {"network_id": "network"}
    named = {("network", "network_id"): network_named}
    attributes = frozenset(
        {
            "allocation_pools",
            "cidr",
            "gateway_ip",
            "network_id",
            "ip_version",
            "dns_nameservers",
            "enable_dhcp",
            "name",
            "tenant_id",
        }
    )

    def check(self, resource: str, properties: Mapping[str, Json]) -> None:
        super().check(resource, properties)
        cidr = properties.get("cidr")
        if function_of(cidr) is not None or isinstance(cidr, Unknown):
            return
        try:
            found = ipaddress.ip_network(str(cidr))
        except ValueError as error:
            raise InvalidProperty(
                f"the property 'cidr' is {cidr!r}: {error}", resource=resource
            ) from error
        version = as_static(properties.get("ip_version"))
        if version is not None and int(version) != found.version:
            raise InvalidProperty(
                f"the property 'ip_version' is {version}, and {found} is a range of IPv{found.version}",
                resource=resource,
            )
        if found.version == 6 and found.subnet_of(_MAPPED):
            raise InvalidProperty(
                f"the property 'cidr' is {found}: IPv4-mapped addresses are not routed;"
                " choose a range of fd00::/8",
                resource=resource,
            )

    async def new(self, context: ResourceContext, properties: Mapping[str, Json]) -> NewSubnet:
        cidr = ipaddress.ip_network(text(properties["cidr"]))
        gateway = properties.get("gateway_ip")
        return NewSubnet(
            uuid=context.physical_id,
            project_id=context.project_id,
            network_uuid=text(properties.get("network", properties.get("network_id"))),
            name=text(properties.get("name"), context.name),
            cidr=str(cidr),
            # A subnet without a word about its gateway has it at its first address.
            gateway=text(gateway) or None if gateway is not None else str(cidr[1]),
            dns=[text(one) for one in items(properties.get("dns_nameservers"))],
            replaces=list(context.leaving()),
        )

    async def shown(self, context: ResourceContext, properties: Mapping[str, Json]) -> Shown:
        for subnet in await context.compute.all(SUBNETS, context.project_id):
            if subnet.uuid == context.physical_id:
                return {
                    "id": subnet.uuid,
                    "allocation_pools": _pools(subnet.cidr, subnet.gateway),
                    "cidr": subnet.cidr,
                    "gateway_ip": subnet.gateway,
                    "network_id": subnet.network_uuid,
                    "ip_version": 6 if ":" in subnet.cidr else 4,
                    "dns_nameservers": subnet.dns,
                    "enable_dhcp": False,
                    "name": subnet.name,
                    "tenant_id": subnet.project_id,
                    "tags": items(properties.get("tags")),
                }
        return None


def _pools(cidr: str, gateway: str | None) -> list[Json]:
    """The addresses that ports can have: all of the range but its ends and the gateway."""
    network = ipaddress.ip_network(cidr)
    first, last = int(network[1]), int(network[-1 if network.version == 6 else -2])
    ranges = [(first, last)]
    if gateway and first <= (taken := int(ipaddress.ip_address(gateway))) <= last:
        ranges = [(first, taken - 1), (taken + 1, last)]
    address = type(network[0])
    return [
        {"start": str(address(start)), "end": str(address(end))}
        for start, end in ranges
        if start <= end
    ]


class Router(ComputeObject):
    """`OS::Neutron::Router`."""

    name = "OS::Neutron::Router"
    kind = ROUTERS
    properties = {
        "name": Property(update=True),
        "external_gateway_info": Property("map", update=True),
        "admin_state_up": Property("boolean", ignored="it is always up", only=("true",)),
        "tags": Property("list", update=True),
        "tenant_id": Property(ignored="what a stack makes belongs to its project"),
        "ha": Property("boolean", ignored="every node routes for its own instances"),
        "distributed": Property("boolean", ignored="every node routes for its own instances"),
        "value_specs": Property("map", ignored="Neutron's extensions are not here", only=("{}",)),
    }
    properties |= not_served("l3_agent_id", "l3_agent_ids", "availability_zone_hints")
    attributes = frozenset({"name", "status", "external_gateway_info", "tenant_id"})

    async def new(self, context: ResourceContext, properties: Mapping[str, Json]) -> NewRouter:
        return NewRouter(
            uuid=context.physical_id,
            project_id=context.project_id,
            name=text(properties.get("name"), context.name),
            external_network=await self._gateway(context, properties),
        )

    async def shown(self, context: ResourceContext, properties: Mapping[str, Json]) -> Shown:
        for router in await context.compute.all(ROUTERS, context.project_id):
            if router.uuid == context.physical_id:
                return {
                    "id": router.uuid,
                    "name": router.name,
                    "status": "ACTIVE",
                    "external_gateway_info": {"network_id": router.external_network},
                    "tenant_id": router.project_id,
                    "tags": items(properties.get("tags")),
                }
        return None

    async def _gateway(
        self, context: ResourceContext, properties: Mapping[str, Json]
    ) -> str | None:
        info = entries(properties.get("external_gateway_info"))
        wanted = info.get("network", info.get("network_id"))
        return None if wanted is None else await find_network(context, text(wanted))


class RouterInterface(Relation):
    """`OS::Neutron::RouterInterface`: joins a subnet to a router; refused when they are joined already."""

    name = "OS::Neutron::RouterInterface"
    properties = {
        "router": Property(),
        "router_id": Property(),
        "subnet": Property(),
        "subnet_id": Property(),
        "port": Property(refused="give the subnet"),
        "port_id": Property(refused="give the subnet"),
    }
    required = (("router", "router_id"), ("subnet", "subnet_id"))
    spelled = {"router_id": "router", "subnet_id": "subnet"}

    def takes(self, properties: Mapping[str, Json]) -> tuple[str, ...]:
        return "interface", *_interface(properties)

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        router, subnet = _interface(properties)
        await context.compute.add_router_interface(router, subnet, context.claim)

    async def delete(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        router, subnet = _interface(properties)
        await context.compute.remove_router_interface(router, subnet, context.claim)


def _interface(properties: Mapping[str, Json]) -> tuple[str, str]:
    return (
        text(properties.get("router", properties.get("router_id"))),
        text(properties.get("subnet", properties.get("subnet_id"))),
    )
