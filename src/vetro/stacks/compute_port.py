"""What the native back end needs from the compute service.

Every `create_*` is given the uuid of its object and may be repeated: the second call finds the
existing object. Every `delete_*` of a missing object succeeds. So an interrupted operation can be
repeated or undone without knowing how far it had come. Failures are `ResourceFailure` (the service
refused, with its message) or transport errors of the client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Json = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkInfo:
    """A network."""

    uuid: str
    name: str
    project_id: str
    external: bool = False
    subnets: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class SubnetInfo:
    """A range of addresses in a network."""

    uuid: str
    network_uuid: str
    name: str
    project_id: str
    cidr: str
    gateway: str | None
    dns: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class PortInfo:
    """A connection point with its address."""

    uuid: str
    network_uuid: str
    project_id: str
    name: str
    mac: str
    fixed_ips: list[tuple[str, str]]
    """(subnet uuid, address)."""
    security_groups: list[str] = field(default_factory=list[str])
    device_uuid: str | None = None
    device_owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatingIpInfo:
    """An address of the external network, given to a port or free."""

    uuid: str
    address: str
    network_uuid: str
    project_id: str
    port_uuid: str | None = None
    fixed_ip: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterInfo:
    """A router, its external network and the subnets it joins."""

    uuid: str
    name: str
    project_id: str
    external_network: str | None
    subnets: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageInfo:
    """An image a server can be made of."""

    uuid: str
    name: str
    brand: str
    """`lxc`, `kvm` …: what kind of server it makes."""
    manifest: dict[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """A virtual machine to be made. Sizes: memory in MiB, disk in GiB, cpu in percent of a core."""

    uuid: str
    project_id: str
    name: str
    hostname: str
    image: ImageInfo
    memory: int
    disk: int
    cpu: int
    ports: Sequence[str]
    """Port uuids in the order of the interfaces."""
    metadata: Mapping[str, str]
    customer_metadata: Mapping[str, str]
    locality: Mapping[str, Json] | None = None
    """`{strict, near: [uuid], far: [uuid]}`: the placement relative to other servers."""
    volumes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Volumes attached from the beginning: the device of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """A virtual machine as it is."""

    uuid: str
    state: str
    host: str
    host_name: str = ""
    answers_at: Mapping[str, str] = field(default_factory=dict[str, str])
    """Requested address to the actual one, if they differ (nodes without own networks)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a server will live, and the ticket that holds the room for it."""

    host: str
    host_name: str
    ticket: str | None


class ComputePort(Protocol):
    """See the module."""

    @property
    def offers(self) -> frozenset[str]:
        """The parts of `vetro.stacks.optional_ports` that are supported."""
        ...

    # networks
    async def create_network(self, uuid: str, *, project_id: str, name: str) -> None: ...

    async def update_network(self, uuid: str, *, name: str) -> None: ...

    async def delete_network(self, uuid: str) -> None: ...

    async def networks(self, project_id: str) -> list[NetworkInfo]:
        """The project's networks and the shared and external ones."""
        ...

    async def create_subnet(
        self,
        uuid: str,
        *,
        project_id: str,
        network: str,
        name: str,
        cidr: str,
        gateway: str | None,
        dns: Sequence[str],
        replaces: Sequence[str] = (),
    ) -> None:
        """`replaces`: subnets that are being removed, whose addresses may be reused."""
        ...

    async def update_subnet(self, uuid: str, *, name: str, dns: Sequence[str]) -> None: ...

    async def delete_subnet(self, uuid: str) -> None: ...

    async def subnets(self, project_id: str) -> list[SubnetInfo]: ...

    async def ranges(self) -> list[str]:
        """The address ranges in use by every project: those on one machine must not overlap."""
        ...

    # routers
    async def create_router(
        self, uuid: str, *, project_id: str, name: str, external_network: str | None
    ) -> None: ...

    async def update_router(
        self, uuid: str, *, name: str, external_network: str | None
    ) -> None: ...

    async def delete_router(self, uuid: str) -> None: ...

    async def routers(self, project_id: str) -> list[RouterInfo]: ...

    async def add_router_interface(self, router: str, subnet: str) -> None: ...

    async def remove_router_interface(self, router: str, subnet: str) -> None: ...

    # security groups
    async def create_security_group(
        self, uuid: str, *, project_id: str, name: str, description: str, rules: list[Json]
    ) -> None: ...

    async def update_security_group(
        self, uuid: str, *, name: str, description: str, rules: list[Json]
    ) -> None: ...

    async def delete_security_group(self, uuid: str) -> None: ...

    async def security_groups(self, project_id: str) -> dict[str, str]:
        """Name by uuid of the project's groups."""
        ...

    # ports and addresses
    async def create_port(
        self,
        uuid: str,
        *,
        project_id: str,
        network: str,
        name: str,
        fixed_ips: Sequence[tuple[str | None, str | None]],
        security_groups: Sequence[str],
        port_security: bool,
        allowed_addresses: Sequence[str],
    ) -> None:
        """`fixed_ips` are (subnet uuid, address) wishes; either may be None."""
        ...

    async def update_port(
        self,
        uuid: str,
        *,
        name: str | None = None,
        security_groups: Sequence[str] | None = None,
        port_security: bool | None = None,
        allowed_addresses: Sequence[str] | None = None,
    ) -> None: ...

    async def delete_port(self, uuid: str) -> None: ...

    async def port(self, uuid: str) -> PortInfo | None: ...

    async def ports(self, project_id: str) -> list[PortInfo]: ...

    async def create_floating_ip(
        self, uuid: str, *, project_id: str, network: str, port: str | None
    ) -> None: ...

    async def update_floating_ip(self, uuid: str, *, port: str | None) -> None: ...

    async def delete_floating_ip(self, uuid: str) -> None: ...

    async def floating_ip(self, uuid: str) -> FloatingIpInfo | None: ...

    async def floating_ips(self, project_id: str) -> list[FloatingIpInfo]: ...

    # key pairs
    async def create_keypair(self, name: str, *, project_id: str, public_key: str) -> None: ...

    async def delete_keypair(self, name: str, *, project_id: str) -> None: ...

    async def public_key(self, name: str, *, project_id: str) -> str | None: ...

    # servers
    async def image(self, project_id: str, name: str) -> ImageInfo:
        """The image of this name or uuid. Raises `ResourceFailure` if there is none."""
        ...

    async def place(self, spec: ServerSpec) -> Placement:
        """Choose a host and hold room on it. For a server that has a place: that place.

        Raises `PlacementFailure` with the allocator's steps."""
        ...

    async def wait_turn(self, placement: Placement) -> None:
        """Wait until the placement's ticket is active."""
        ...

    async def ensure_image(
        self,
        placement: Placement,
        image: ImageInfo,
        say: Callable[[int], None] = lambda _percent: None,
    ) -> None:
        """Fetch the image to the host and wait for it. ``say`` is called with the progress."""
        ...

    async def create_server(self, placement: Placement, spec: ServerSpec) -> None:
        """Make and start the server; returns when it runs. One that is there already is kept."""
        ...

    async def release(self, uuid: str) -> None:
        """Release the tickets held for a server. May be repeated."""
        ...

    async def update_server(
        self,
        uuid: str,
        *,
        project_id: str,
        name: str | None = None,
        metadata: Mapping[str, str] | None = None,
        memory: int | None = None,
        disk: int | None = None,
        cpu: int | None = None,
    ) -> None: ...

    async def delete_server(self, uuid: str, *, project_id: str, host: str | None) -> None:
        """Remove the server wherever it is; returns when it is gone."""
        ...

    async def server(
        self, uuid: str, *, project_id: str, host: str | None
    ) -> ServerInfo | None: ...
