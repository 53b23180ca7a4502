"""What is there: networks and free addresses (core-library.md §4.8), copies of volumes (§5.6)."""

from __future__ import annotations

import ipaddress
from typing import Any

from vetro.engine.errors import NoBlockStorage, RouterInfoError
from vetro.engine.services import block_storage, logger, places, services_of
from vetro.muranopl import CallContext


class NetworkExplorer:
    """Looks at the project's networks through the directory of the stack back end."""

    def __init__(self, region_name: str | None = None) -> None:
        self.region_name = region_name

    def get_default_router(self, ctx: CallContext) -> str:
        """Id of the project's router, made when absent."""
        services = services_of(ctx)
        settings = services.settings

        from vetro.stacks import RouterWithoutGateway

        async def find() -> str:
            try:
                return await places(services, self.region_name)[1].default_router(
                    services.project_id,
                    name=settings.network.router_name,
                    create=settings.network.create_router,
                    external_network=settings.network.external_network,
                )
            except RouterWithoutGateway as error:
                raise RouterInfoError(str(error)) from error

        return ctx.effect("network.router", {"name": settings.network.router_name}, find)

    def get_available_cidr(
        self,
        ctx: CallContext,
        router_id: str | None,
        net_id: str,
        ip_version: int = 4,
        exclude: list[str] | None = None,
    ) -> str | None:
        """A range that nothing uses; the same for the same network while it is free.

        ``exclude`` are ranges that turned out to be taken although no list showed them.
        """
        services = services_of(ctx)
        settings = services.settings

        async def find() -> str | None:
            used = await places(services, self.region_name)[1].router_cidrs(
                services.project_id, router_id or ""
            )
            others = [cidr for net, cidr in services.chosen_ranges.items() if net != net_id]
            from vetro.stacks import choose_cidr

            return choose_cidr(
                net_id,
                [*used, *others, *(exclude or [])],
                template=settings.network.env_ip_template,
                max_environments=settings.network.max_environments,
                max_hosts=settings.network.max_hosts,
            )

        request = {"network": net_id, "router": router_id, "exclude": exclude or []}
        found = ctx.effect("network.cidr", request, find)
        if found is None:
            return None
        services.chosen_ranges[net_id] = found
        return found if ip_version == 4 else mapped(found)

    def get_default_dns(self, ctx: CallContext, ip_version: int = 4) -> object:
        """Name servers of this IP version; the first alone for packages of the first formats."""
        found: list[str] = []
        for text in services_of(ctx).settings.network.default_dns:
            try:
                if ipaddress.ip_address(text).version == ip_version:
                    found.append(text)
            except ValueError:
                logger(__name__).warning("default_name_server_is_no_address", address=text)
        package = ctx.caller_package
        if package is not None and package.legacy:
            return found[0] if found else None
        return found

    def get_external_network_id_for_router(self, ctx: CallContext, router_id: str) -> str | None:
        """The network behind a router's gateway."""
        request = {"router": router_id}
        return self._look(ctx, "external", request, "external_network_for_router", router_id)

    def get_external_network_id_for_network(self, ctx: CallContext, network_id: str) -> str | None:
        """The external network reachable from a network."""
        request = {"network": network_id}
        return self._look(ctx, "external", request, "external_network_for_network", network_id)

    def _list(self, ctx: CallContext, what: str) -> Any:
        return self._look(ctx, what, {}, what)

    def _look(
        self, ctx: CallContext, kind: str, request: dict[str, str], call: str, *arguments: str
    ) -> Any:
        """The answer of a call of the directory for the project."""
        services = services_of(ctx)

        async def find() -> Any:
            directory = places(services, self.region_name)[1]
            return await getattr(directory, call)(services.project_id, *arguments)

        return ctx.effect(f"network.{kind}", request, find)

    def list_networks(self, ctx: CallContext) -> object:
        """Networks with Neutron's keys."""
        return self._list(ctx, "list_networks")

    def list_subnetworks(self, ctx: CallContext) -> object:
        """Subnets with Neutron's keys."""
        return self._list(ctx, "list_subnetworks")

    def list_ports(self, ctx: CallContext) -> object:
        """Ports with Neutron's keys."""
        return self._list(ctx, "list_ports")

    def list_neutron_extensions(self, ctx: CallContext) -> object:
        """What the network service can do."""
        return self._list(ctx, "list_neutron_extensions")


def mapped(cidr: str) -> str:
    """An IPv4 range as the IPv6 range of its mapped addresses: ``::ffff:a.b.c.d/(96 + n)``."""
    network = ipaddress.IPv4Network(cidr)
    base = (0xFFFF << 32) | int(network.network_address)
    return str(ipaddress.IPv6Network((base, 96 + network.prefixlen)))


class VolumeExplorer:
    """Looks at a project's block storage in a region. Errors: ``NoBlockStorage`` where there is none."""

    def __init__(self, region_name: str | None = None) -> None:
        self.region_name = region_name

    def has_snapshot(self, ctx: CallContext, snapshot_id: str) -> bool:
        """Whether the project has the snapshot."""
        return self._has(ctx, "snapshot", snapshot_id)

    def has_backup(self, ctx: CallContext, backup_id: str) -> bool:
        """Whether the project has the backup."""
        return self._has(ctx, "backup", backup_id)

    def _has(self, ctx: CallContext, kind: str, id_: str) -> bool:
        services = services_of(ctx)
        volumes = block_storage(services, self.region_name)
        if volumes is None:
            raise NoBlockStorage
        return ctx.effect(
            "volume.exists",
            {"kind": kind, "id": id_},
            lambda: volumes.exists(services.project_id, kind, id_),
        )
