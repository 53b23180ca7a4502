"""What exists in a project's network, for NetworkExplorer (core-library.md §4.8)."""

from __future__ import annotations

import hashlib
import ipaddress
import random
import time
import uuid
from asyncio import sleep
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol

from vetro.compute.client.calls import NETWORKS, PORTS, ROUTERS, SUBNETS
from vetro.compute.wire import NewRouter, Router
from vetro.stacks.compute_service.port import ComputePort
from vetro.stacks.resources.ports import describe_port


class RouterWithoutGateway(LookupError):
    """The project's default router has no external gateway."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Please set external gateway for the router {name} ")
        self.name = name


class NetworkDirectory(Protocol):
    """Read the networks of a project. Maps have Neutron's keys.

    `list_routers`: `id, name, tenant_id, external_gateway_info` (a map with `network_id`, or `None`);
    `list_networks`: `id, name, tenant_id, router:external` (of Neutron also `shared`);
    `list_subnetworks`: `id, name, network_id, cidr, gateway_ip, dns_nameservers, tenant_id, ip_version`;
    `list_ports`: `id, network_id, device_id, device_owner, fixed_ips`; `list_neutron_extensions`: `alias`.
    """

    async def default_router(
        self, project_id: str, *, name: str, create: bool, external_network: str
    ) -> str:
        """Id of the router called `name`; made with a gateway to `external_network` (name or id)
        when absent and `create`. Raises KeyError (text as core-library.md §1.1) or
        `RouterWithoutGateway`."""
        ...

    async def router_cidrs(self, project_id: str, router_id: str) -> list[str]:
        """CIDRs a new subnet must not overlap: the router's and the others in use."""
        ...

    async def external_network_for_router(self, project_id: str, router_id: str) -> str | None:
        """The id of the router's gateway network."""
        ...

    async def external_network_for_network(self, project_id: str, network_id: str) -> str | None:
        """`network_id` itself if it is external, else the gateway of a router attached to it."""
        ...

    async def list_routers(self, project_id: str) -> list[dict[str, Any]]: ...

    async def list_networks(self, project_id: str) -> list[dict[str, object]]: ...

    async def list_subnetworks(self, project_id: str) -> list[dict[str, object]]: ...

    async def list_ports(self, project_id: str) -> list[dict[str, object]]: ...

    async def list_neutron_extensions(self, project_id: str) -> list[dict[str, object]]: ...


_ROUTER_SPACE = uuid.UUID("6a1c4d0e-52a0-4f0f-9a3a-0d6f6c1f5b60")
GATEWAY_PATIENCE = 30.0
"""Seconds that a router may take to get its gateway from another process."""


async def router_with_gateway(
    name: str,
    look: Callable[[], Awaitable[tuple[str, bool] | None]],
    pause: Callable[[float], Awaitable[None]] = sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> str | None:
    """The id of a router once it has its gateway; ``None`` when there is none of the name.

    ``look``: the router's id, and whether it has one. Raises `RouterWithoutGateway`.
    """
    deadline = monotonic() + GATEWAY_PATIENCE
    while (found := await look()) is not None:
        if found[1]:
            return found[0]
        # Another process may be about to set the gateway.
        wait = random.uniform(1, 10)  # noqa: S311 spreads retries, guards nothing
        if monotonic() + wait > deadline:
            raise RouterWithoutGateway(name)
        await pause(wait)
    return None


@dataclass(eq=False, repr=False)
class ComputeNetworkDirectory:
    """`NetworkDirectory` on the compute service (`compute_adapter.port_of(client)`)."""

    compute: ComputePort
    _: KW_ONLY
    pause: Callable[[float], Awaitable[None]] = sleep
    monotonic: Callable[[], float] = time.monotonic

    async def default_router(
        self, project_id: str, *, name: str, create: bool, external_network: str
    ) -> str:
        """The router called `name`; see `NetworkDirectory`."""

        async def look() -> tuple[str, bool] | None:
            router = await self._router(project_id, name)
            return None if router is None else (router.uuid, router.external_network is not None)

        found = await router_with_gateway(name, look, self.pause, self.monotonic)
        if found is None and not create:
            raise KeyError(f"Router {name} was not found")
        return found or await self._make_router(project_id, name, external_network)

    async def router_cidrs(self, project_id: str, router_id: str) -> list[str]:
        """CIDRs in use: the router's, and all others a new network must not overlap."""
        return await self.compute.ranges()

    async def external_network_for_router(self, project_id: str, router_id: str) -> str | None:
        """The router's gateway network."""
        for router in await self.compute.all(ROUTERS, project_id):
            if router.uuid == router_id:
                return router.external_network
        return None

    async def external_network_for_network(self, project_id: str, network_id: str) -> str | None:
        """The external network reachable from a network."""
        subnets: set[str] = set()
        for network in await self.compute.all(NETWORKS, project_id):
            if network.uuid == network_id:
                if network.external:
                    return network_id
                subnets = set(network.subnets)
        for router in await self.compute.all(ROUTERS, project_id):
            if router.external_network and subnets & set(router.subnets):
                return router.external_network
        return None

    async def list_routers(self, project_id: str) -> list[dict[str, Any]]:
        """The project's own routers."""
        return [
            {
                "id": one.uuid,
                "name": one.name,
                "tenant_id": one.project_id,
                "external_gateway_info": one.external_network
                and {"network_id": one.external_network},
            }
            for one in await self.compute.all(ROUTERS, project_id)
            if one.project_id == project_id
        ]

    async def list_networks(self, project_id: str) -> list[dict[str, object]]:
        """The project's networks and the external ones."""
        return [
            {
                "id": one.uuid,
                "name": one.name,
                "tenant_id": one.project_id,
                "router:external": one.external,
                "subnets": one.subnets,
            }
            for one in await self.compute.all(NETWORKS, project_id)
        ]

    async def list_subnetworks(self, project_id: str) -> list[dict[str, object]]:
        """The project's subnets."""
        return [
            {
                "id": one.uuid,
                "name": one.name,
                "network_id": one.network_uuid,
                "cidr": one.cidr,
                "gateway_ip": one.gateway,
                "dns_nameservers": one.dns,
                "tenant_id": one.project_id,
                "ip_version": 6 if ":" in one.cidr else 4,
            }
            for one in await self.compute.all(SUBNETS, project_id)
        ]

    async def list_ports(self, project_id: str) -> list[dict[str, object]]:
        """The project's ports."""
        return [describe_port(one) for one in await self.compute.all(PORTS, project_id)]

    async def list_neutron_extensions(self, project_id: str) -> list[dict[str, object]]:
        """What the network service can do; packages ask for security groups."""
        return [{"alias": alias} for alias in ("security-group", "router", "external-net")]

    async def _router(self, project_id: str, name: str) -> Router | None:
        for router in await self.compute.all(ROUTERS, project_id):
            if router.name == name:
                return router
        return None

    async def _make_router(self, project_id: str, name: str, external_network: str) -> str:
        gateway = None
        for network in await self.compute.all(NETWORKS, project_id):
            if network.external and external_network in (network.uuid, network.name):
                gateway = network.uuid
        if gateway is None:
            raise KeyError(f"Router {name} could not be created, no external network found")
        # A project always gets the same router, also when two deployments create it at once.
        router = str(uuid.uuid5(_ROUTER_SPACE, f"{project_id}/{name}"))
        new = NewRouter(uuid=router, project_id=project_id, name=name, external_network=gateway)
        await self.compute.create(ROUTERS, new)
        return router


def choose_cidr(
    net_id: str | None,
    taken: Sequence[str],
    *,
    template: str = "10.0.0.0",
    max_environments: int = 250,
    max_hosts: int = 250,
) -> str | None:
    """A free IPv4 range for a network (core-library.md §4.8, `getAvailableCidr`).

    The search begins at a place given by a stable digest of `net_id`, so that a network gets the
    same range again where possible, and goes on past ranges that overlap one of `taken`. Without
    `net_id` it begins at the first range of the template (xml-workflows.md §11). None when all are taken.

    `max_environments` and `max_hosts` settle the sizes: 20 and 250 cut a /19 into /24.
    """
    host_bits = max(1, (max_hosts - 1).bit_length())
    environment_bits = (max_environments - 1).bit_length()
    space = ipaddress.ip_network(
        f"{template}/{max(0, 32 - host_bits - environment_bits)}", strict=False
    )
    used = [
        (int(one.network_address), int(one.broadcast_address))
        for one in (ipaddress.ip_network(text, strict=False) for text in taken)
        if one.version == 4
    ]
    count = 1 << environment_bits
    digest = b"" if net_id is None else hashlib.sha256(net_id.encode()).digest()
    start = int.from_bytes(digest[:8], "big") % count
    for step in range(count):
        index = (start + step) % count
        first = int(space.network_address) + (index << host_bits)
        last = first + (1 << host_bits) - 1
        if not any(low <= last and first <= high for low, high in used):
            return str(ipaddress.ip_network((first, 32 - host_bits)))
    return None
