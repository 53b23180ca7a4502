"""Floating addresses and who has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from vetro.compute.client.calls import FLOATING_IPS, NETWORKS, PORTS
from vetro.compute.wire import FloatingIp, FloatingIpChange, NewFloatingIp
from vetro.stacks.errors import ResourceFailure
from vetro.stacks.resources.base import (
    ComputeObject,
    Json,
    Property,
    Relation,
    ResourceContext,
    Shown,
    not_served,
    text,
)
from vetro.stacks.resources.networks import external_network_named, find_network


class FloatingIP(ComputeObject):
    """`OS::Neutron::FloatingIP`."""

    name = "OS::Neutron::FloatingIP"
    kind = FLOATING_IPS
    properties = {
        "floating_network": Property(),
        "floating_network_id": Property(),
        "floating_subnet": Property(ignored="there is one pool of addresses"),
        "port_id": Property(update=True),
        "fixed_ip_address": Property(ignored="a port has one address"),
        "floating_ip_address": Property(
            refused="floating addresses are chosen by the service; leave it out"
        ),
        "value_specs": Property("map", ignored="Neutron's extensions are not here", only=("{}",)),
    }
    properties |= not_served("dns_name", "dns_domain")
    required = (("floating_network", "floating_network_id"),)
    spelled = {"floating_network_id": "floating_network"}
    named = {("floating_network", "floating_network_id"): external_network_named}
    attributes = frozenset(
        {
            "floating_ip_address",
            "fixed_ip_address",
            "port_id",
            "floating_network_id",
            "router_id",
            "tenant_id",
        }
    )

    async def new(self, context: ResourceContext, properties: Mapping[str, Json]) -> NewFloatingIp:
        wanted = text(properties.get("floating_network", properties.get("floating_network_id")))
        return NewFloatingIp(
            uuid=context.physical_id,
            project_id=context.project_id,
            network_uuid=await find_network(context, wanted, external=True),
            port_uuid=properties.get("port_id"),
        )

    async def update(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        # The address is the stack's own: it leads where the template says, whoever led it elsewhere.
        change = FloatingIpChange(port_uuid=properties.get("port_id"))
        await context.compute.change(FLOATING_IPS, context.physical_id, change)

    async def shown(self, context: ResourceContext, properties: Mapping[str, Json]) -> Shown:
        found = await context.compute.find(FLOATING_IPS, context.physical_id)
        if found is None:
            return None
        return {
            "id": found.uuid,
            "floating_ip_address": await _reachable(context, found),
            "fixed_ip_address": found.fixed_ip,
            "port_id": found.port_uuid,
            "floating_network_id": found.network_uuid,
            "router_id": None,
            "tenant_id": found.project_id,
        }


class _Association(Relation):
    """Leads a floating address to a port.

    One that leads to another port is refused; one that leads to this port already is adopted.
    """

    address: ClassVar[str]
    """The property that names the address."""

    def takes(self, properties: Mapping[str, Json]) -> tuple[str, ...]:
        return "floating address", text(properties[self.address])

    async def port(self, context: ResourceContext, properties: Mapping[str, Json]) -> str | None:
        """The port it leads to."""
        raise NotImplementedError

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        address = text(properties[self.address])
        port = await self.port(context, properties)
        change = FloatingIpChange(port_uuid=port, made_by=context.claim)
        try:
            await context.compute.change(FLOATING_IPS, address, change)
        except ResourceFailure as error:
            found = None if error.uncertain else await context.compute.find(FLOATING_IPS, address)
            if found is None or port is None or found.port_uuid != port:
                raise
            await context.adopt()

    async def delete(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        address = text(properties[self.address])
        found = await context.compute.find(FLOATING_IPS, address)
        if found is None:
            return
        # Before there were marks, only the port told who had led it there.
        former = context.data.get("port", properties.get("port_id"))
        if context.claim or found.port_uuid == former:
            change = FloatingIpChange(port_uuid=None, made_by=context.claim)
            await context.compute.change(FLOATING_IPS, address, change)


class FloatingIPAssociation(_Association):
    """`OS::Neutron::FloatingIPAssociation`: gives a floating address to a port."""

    name = "OS::Neutron::FloatingIPAssociation"
    properties = {
        "floatingip_id": Property(),
        "port_id": Property(update=True),
        "fixed_ip_address": Property(ignored="a port has one address"),
    }
    required = (("floatingip_id",),)
    address = "floatingip_id"

    async def port(self, context: ResourceContext, properties: Mapping[str, Json]) -> str | None:
        return properties.get("port_id")

    async def update(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await self.create(context, properties)


class NovaFloatingIP(ComputeObject):
    """`OS::Nova::FloatingIP`: an address of the (first) external network."""

    name = "OS::Nova::FloatingIP"
    kind = FLOATING_IPS
    properties = {"pool": Property()}
    attributes = frozenset({"ip", "pool"})
    named = {("pool",): external_network_named}

    async def new(self, context: ResourceContext, properties: Mapping[str, Json]) -> NewFloatingIp:
        pool = properties.get("pool")
        if pool is not None:
            network = await find_network(context, text(pool), external=True)
        else:
            networks = await context.compute.all(NETWORKS, context.project_id)
            external = [one.uuid for one in networks if one.external]
            if not external:
                raise ResourceFailure("There is no external network to take an address from")
            network = external[0]
        return NewFloatingIp(
            uuid=context.physical_id, project_id=context.project_id, network_uuid=network
        )

    async def shown(self, context: ResourceContext, properties: Mapping[str, Json]) -> Shown:
        found = await context.compute.find(FLOATING_IPS, context.physical_id)
        return {
            "ip": await _reachable(context, found) if found else None,
            "pool": found.network_uuid if found else None,
        }


class NovaFloatingIPAssociation(_Association):
    """`OS::Nova::FloatingIPAssociation`: gives a floating address to a server's first port."""

    name = "OS::Nova::FloatingIPAssociation"
    properties = {"floating_ip": Property(), "server_id": Property()}
    required = (("floating_ip",), ("server_id",))
    address = "floating_ip"

    async def port(self, context: ResourceContext, properties: Mapping[str, Json]) -> str | None:
        server = text(properties["server_id"])
        ports = [
            one
            for one in await context.compute.all(PORTS, context.project_id)
            if one.device_uuid == server
        ]
        if not ports:
            raise ResourceFailure(f"The server {server} has no port to give the address to")
        return ports[0].uuid


async def _reachable(context: ResourceContext, floating: FloatingIp) -> str:
    """The address under which the instance answers: on a node without networks, its own."""
    port = await context.compute.find(PORTS, floating.port_uuid) if floating.port_uuid else None
    if port is None or port.device_uuid is None or not floating.fixed_ip:
        return floating.address
    server = await context.compute.server(port.device_uuid)
    answers_at: Mapping[str, str] = server.answers_at if server is not None else {}
    return answers_at.get(floating.fixed_ip, floating.address)
