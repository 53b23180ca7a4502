"""What exists in a project's network, for NetworkExplorer (core-library.md §4.8)."""

from __future__ import annotations

from typing import Any, Protocol


class RouterWithoutGateway(LookupError):
    """The project's default router has no external gateway."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Please set external gateway for the router {name} ")
        self.name = name


class NetworkDirectory(Protocol):
    """Read the networks of a project. Maps have Neutron's keys.

    `list_networks`: `id, name, tenant_id, router:external`; `list_subnetworks`: `id, name,
    network_id, cidr, gateway_ip, dns_nameservers, tenant_id, ip_version`; `list_ports`: `id,
    network_id, device_id, device_owner, fixed_ips`; `list_neutron_extensions`: `alias`.
    """

    async def default_router(
        self, project_id: str, *, name: str, create: bool, external_network: str
    ) -> str:
        """Id of the router called `name`; made with a gateway to `external_network` (name or id)
        when absent and `create`. Raises KeyError (text as core-library.md §1.1) or
        `RouterWithoutGateway`."""
        ...

    async def router_cidrs(self, project_id: str, router_id: str) -> list[str]:
        """CIDRs of the subnets attached to the router and of the project's other subnets."""
        ...

    async def external_network_for_router(self, project_id: str, router_id: str) -> str | None:
        """The id of the router's gateway network."""
        ...

    async def external_network_for_network(self, project_id: str, network_id: str) -> str | None:
        """`network_id` itself if it is external, else the gateway of a router attached to it."""
        ...

    async def list_networks(self, project_id: str) -> list[dict[str, Any]]: ...

    async def list_subnetworks(self, project_id: str) -> list[dict[str, Any]]: ...

    async def list_ports(self, project_id: str) -> list[dict[str, Any]]: ...

    async def list_neutron_extensions(self, project_id: str) -> list[dict[str, Any]]: ...
