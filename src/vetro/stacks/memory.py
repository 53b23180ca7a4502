"""In-memory twins: a store, a compute service, and stacks on both.

For tests of code that uses stacks: `MemoryStacks()` behaves as the native back end does (the same
templates, graph, changes and operations), without a database or machines. `MemoryCompute` can
simulate failures: `fail["create_server"] = ResourceFailure("…")`.
"""

from __future__ import annotations

import asyncio
import copy
import ipaddress
import uuid as uuids
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from vetro.stacks.compute_port import (
    FloatingIpInfo,
    ImageInfo,
    NetworkInfo,
    Placement,
    PortInfo,
    RouterInfo,
    ServerInfo,
    ServerSpec,
    SubnetInfo,
)
from vetro.stacks.errors import (
    AddressRangeTaken,
    OperationLost,
    PlacementFailure,
    ResourceFailure,
    StackBusy,
    StackExists,
    StackNotFound,
)
from vetro.stacks.model import StackStatus
from vetro.stacks.native import NativeSettings, StackEngine
from vetro.stacks.optional_ports import BLOCK_STORAGE, SOFTWARE_DEPLOYMENTS, VolumeInfo
from vetro.stacks.owner import is_gone
from vetro.stacks.records import Hold, ResourceRow, StackRow

Json = Any
EXTERNAL_NETWORK = "00000000-0000-4000-8000-000000000001"


class MemoryStore:
    """`StackStore` in a dictionary. What is stored is copied in and out."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.stacks: dict[str, StackRow] = {}
        self._now = now
        self._next = 0

    async def find(self, project_id: str, name: str) -> StackRow | None:
        row = self._row(project_id, name)
        return None if row is None else self._judged(copy.deepcopy(row))

    async def head(self, project_id: str, name: str) -> StackRow | None:
        row = self._row(project_id, name)
        if row is None:
            return None
        bare = replace(row, template={}, parameters={}, files={}, resources=[])
        return self._judged(copy.deepcopy(bare))

    def _row(self, project_id: str, name: str) -> StackRow | None:
        for row in self.stacks.values():
            if (row.project_id, row.name) == (project_id, name):
                return row
        return None

    def _judged(self, found: StackRow) -> StackRow:
        if found.status.in_progress and not self._is_held(found):
            action = found.status.value.removesuffix("_IN_PROGRESS")
            found.status = StackStatus(f"{action}_FAILED")
            found.reason = "The operation was interrupted before it was done"
        return found

    async def create(self, row: StackRow, owner: str, seconds: float) -> Hold:
        if await self.find(row.project_id, row.name) is not None:
            raise StackExists(row.name)
        stored = copy.deepcopy(row)
        stored.fence, stored.owner = 1, owner
        stored.owner_until = self._now() + timedelta(seconds=seconds)
        self.stacks[row.id] = stored
        return Hold(row.id, row.name, 1, owner)

    async def take(
        self, stack_id: str, name: str, values: Mapping[str, Any], owner: str, seconds: float
    ) -> Hold:
        row = self.stacks.get(stack_id)
        if row is None:
            raise StackNotFound(name)
        if self._is_held(row):
            raise StackBusy(name, row.status.value)
        row.fence += 1
        row.owner, row.owner_until = owner, self._now() + timedelta(seconds=seconds)
        self._set(row, values)
        return Hold(stack_id, name, row.fence, owner)

    async def renew(self, hold: Hold, seconds: float) -> None:
        self._held(hold).owner_until = self._now() + timedelta(seconds=seconds)

    async def change(self, hold: Hold, values: Mapping[str, Any]) -> None:
        self._set(self._held(hold), values)

    async def settle(self, hold: Hold, values: Mapping[str, Any]) -> None:
        row = self._held(hold)
        self._set(row, values)
        row.owner = row.owner_until = row.waiting_on = None

    async def remove(self, hold: Hold) -> None:
        self._held(hold)
        del self.stacks[hold.stack_id]

    async def add_resource(self, hold: Hold, row: ResourceRow) -> None:
        stack = self._held(hold)
        self._next += 1
        row.id = self._next
        stack.resources.append(copy.deepcopy(row))

    async def change_resource(self, hold: Hold, row: ResourceRow) -> None:
        stack = self._held(hold)
        stack.resources = [
            copy.deepcopy(row) if one.id == row.id else one for one in stack.resources
        ]

    async def remove_resource(self, hold: Hold, row: ResourceRow) -> None:
        stack = self._held(hold)
        stack.resources = [one for one in stack.resources if one.id != row.id]

    async def config_text(self, project_id: str, physical_id: str) -> str | None:
        for stack in self.stacks.values():
            for row in stack.resources:
                if stack.project_id == project_id and row.physical_id == physical_id:
                    return row.data.get("config")
        return None

    def _held(self, hold: Hold) -> StackRow:
        row = self.stacks.get(hold.stack_id)
        if row is None or (row.fence, row.owner) != (hold.fence, hold.owner):
            raise OperationLost(hold.name)
        return row

    def _is_held(self, row: StackRow) -> bool:
        if row.owner is None or row.owner_until is None:
            return False
        return row.owner_until > self._now() and not is_gone(row.owner)

    @staticmethod
    def _set(row: StackRow, values: Mapping[str, Any]) -> None:
        for key, value in values.items():
            setattr(row, key, copy.deepcopy(value))


@dataclass
class MemoryServer:
    """A server of the twin."""

    spec: ServerSpec
    host: str
    state: str = "running"


@dataclass
class MemoryCompute:
    """A compute service in memory: one host, as much room as `room` servers need.

    Like the real one it refuses to remove objects in use: a network with ports, a group that a port
    uses, a router with interfaces.
    """

    room: int = 1000
    fail: dict[str, Exception] = field(default_factory=dict[str, Exception])
    calls: list[str] = field(default_factory=list[str])
    network_list: dict[str, NetworkInfo] = field(default_factory=dict[str, NetworkInfo])
    subnet_list: dict[str, SubnetInfo] = field(default_factory=dict[str, SubnetInfo])
    router_list: dict[str, RouterInfo] = field(default_factory=dict[str, RouterInfo])
    group_list: dict[str, dict[str, Json]] = field(default_factory=dict[str, dict[str, Json]])
    port_list: dict[str, PortInfo] = field(default_factory=dict[str, PortInfo])
    floating_list: dict[str, FloatingIpInfo] = field(default_factory=dict[str, FloatingIpInfo])
    keypair_list: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    server_list: dict[str, MemoryServer] = field(default_factory=dict[str, MemoryServer])
    placed: dict[str, str] = field(default_factory=dict[str, str])
    """Host by server."""
    tickets: dict[str, str] = field(default_factory=dict[str, str])
    """Ticket by the server it holds room for."""
    images: dict[str, ImageInfo] = field(default_factory=dict[str, ImageInfo])
    offers: frozenset[str] = frozenset({BLOCK_STORAGE, SOFTWARE_DEPLOYMENTS})
    hosts: int = 1
    volume_list: dict[str, VolumeInfo] = field(default_factory=dict[str, VolumeInfo])
    deployments: dict[str, tuple[str, dict[str, Json]]] = field(
        default_factory=dict[str, tuple[str, dict[str, Json]]]
    )
    """Configuration and inputs of every software deployment that ran."""
    before: Callable[[str], None] = lambda call: None
    """Called with the name of every changing call before it takes effect."""
    after: Callable[[str], None] = lambda call: None

    def __post_init__(self) -> None:
        self.network_list[EXTERNAL_NETWORK] = NetworkInfo(
            uuid=EXTERNAL_NETWORK, name="ext-net", project_id="", external=True
        )
        if not self.images:
            image = "00000000-0000-4000-8000-000000000002"
            self.images["debian"] = ImageInfo(uuid=image, name="debian", brand="lxc")

    def is_empty(self) -> bool:
        """True if no project has anything here."""
        return not (
            len(self.network_list) > 1
            or self.subnet_list
            or self.router_list
            or self.group_list
            or self.port_list
            or self.floating_list
            or self.keypair_list
            or self.server_list
            or self.volume_list
            or self.tickets
        )

    async def _do(self, call: str) -> None:
        await asyncio.sleep(0)
        self.calls.append(call)
        self.before(call)
        if call in self.fail:
            raise self.fail[call]

    # networks

    async def create_network(self, uuid: str, *, project_id: str, name: str) -> None:
        await self._do("create_network")
        self.network_list.setdefault(uuid, NetworkInfo(uuid=uuid, name=name, project_id=project_id))
        self.after("create_network")

    async def update_network(self, uuid: str, *, name: str) -> None:
        await self._do("update_network")
        self.network_list[uuid] = replace(self._need(self.network_list, uuid, "network"), name=name)

    async def delete_network(self, uuid: str) -> None:
        await self._do("delete_network")
        if any(port.network_uuid == uuid for port in self.port_list.values()):
            raise ResourceFailure(f"The network {uuid} has ports")
        if any(subnet.network_uuid == uuid for subnet in self.subnet_list.values()):
            raise ResourceFailure(f"The network {uuid} has subnets")
        self.network_list.pop(uuid, None)
        self.after("delete_network")

    async def networks(self, project_id: str) -> list[NetworkInfo]:
        return [
            replace(
                one,
                subnets=[s.uuid for s in self.subnet_list.values() if s.network_uuid == one.uuid],
            )
            for one in self.network_list.values()
            if one.external or one.project_id == project_id
        ]

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
        await self._do("create_subnet")
        self._need(self.network_list, network, "network")
        mine = ipaddress.ip_network(cidr)
        for other in self.subnet_list.values():
            if other.uuid in (uuid, *replaces):
                continue
            if ipaddress.ip_network(other.cidr).overlaps(mine):
                raise AddressRangeTaken(f"subnet {cidr} overlaps {other.cidr}")
        self.subnet_list.setdefault(
            uuid,
            SubnetInfo(
                uuid=uuid,
                network_uuid=network,
                name=name,
                project_id=project_id,
                cidr=cidr,
                gateway=gateway,
                dns=list(dns),
            ),
        )
        self.after("create_subnet")

    async def update_subnet(self, uuid: str, *, name: str, dns: Sequence[str]) -> None:
        await self._do("update_subnet")
        found = self._need(self.subnet_list, uuid, "subnet")
        self.subnet_list[uuid] = replace(found, name=name, dns=list(dns))

    async def delete_subnet(self, uuid: str) -> None:
        await self._do("delete_subnet")
        for port in self.port_list.values():
            if any(subnet == uuid for subnet, _ in port.fixed_ips):
                raise ResourceFailure(f"The subnet {uuid} has ports")
        if any(uuid in router.subnets for router in self.router_list.values()):
            raise ResourceFailure(f"The subnet {uuid} is joined to a router")
        self.subnet_list.pop(uuid, None)
        self.after("delete_subnet")

    async def subnets(self, project_id: str) -> list[SubnetInfo]:
        return [one for one in self.subnet_list.values() if one.project_id == project_id]

    async def ranges(self) -> list[str]:
        return sorted({one.cidr for one in self.subnet_list.values()})

    # routers

    async def create_router(
        self, uuid: str, *, project_id: str, name: str, external_network: str | None
    ) -> None:
        await self._do("create_router")
        self.router_list.setdefault(
            uuid,
            RouterInfo(
                uuid=uuid, name=name, project_id=project_id, external_network=external_network
            ),
        )
        self.after("create_router")

    async def update_router(self, uuid: str, *, name: str, external_network: str | None) -> None:
        await self._do("update_router")
        found = self._need(self.router_list, uuid, "router")
        self.router_list[uuid] = replace(found, name=name, external_network=external_network)

    async def delete_router(self, uuid: str) -> None:
        await self._do("delete_router")
        found = self.router_list.get(uuid)
        if found is not None and found.subnets:
            raise ResourceFailure(f"The router {uuid} has interfaces")
        self.router_list.pop(uuid, None)
        self.after("delete_router")

    async def routers(self, project_id: str) -> list[RouterInfo]:
        return [one for one in self.router_list.values() if one.project_id == project_id]

    async def add_router_interface(self, router: str, subnet: str) -> None:
        await self._do("add_router_interface")
        found = self._need(self.router_list, router, "router")
        self._need(self.subnet_list, subnet, "subnet")
        subnets = [*found.subnets, *([] if subnet in found.subnets else [subnet])]
        self.router_list[router] = replace(found, subnets=subnets)
        self.after("add_router_interface")

    async def remove_router_interface(self, router: str, subnet: str) -> None:
        await self._do("remove_router_interface")
        found = self.router_list.get(router)
        if found is not None:
            left = [one for one in found.subnets if one != subnet]
            self.router_list[router] = replace(found, subnets=left)
        self.after("remove_router_interface")

    # security groups

    async def create_security_group(
        self, uuid: str, *, project_id: str, name: str, description: str, rules: list[Json]
    ) -> None:
        await self._do("create_security_group")
        self.group_list.setdefault(
            uuid, {"project_id": project_id, "name": name, "rules": copy.deepcopy(rules)}
        )
        self.after("create_security_group")

    async def update_security_group(
        self, uuid: str, *, name: str, description: str, rules: list[Json]
    ) -> None:
        await self._do("update_security_group")
        found = self._need(self.group_list, uuid, "security group")
        found.update(name=name, rules=copy.deepcopy(rules))

    async def delete_security_group(self, uuid: str) -> None:
        await self._do("delete_security_group")
        if any(uuid in port.security_groups for port in self.port_list.values()):
            raise ResourceFailure(f"The security group {uuid} is in use")
        self.group_list.pop(uuid, None)
        self.after("delete_security_group")

    async def security_groups(self, project_id: str) -> dict[str, str]:
        return {
            uuid: one["name"]
            for uuid, one in self.group_list.items()
            if one["project_id"] == project_id
        }

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
        await self._do("create_port")
        self._need(self.network_list, network, "network")
        if uuid not in self.port_list:
            number = len(self.port_list) + 1
            self.port_list[uuid] = PortInfo(
                uuid=uuid,
                network_uuid=network,
                project_id=project_id,
                name=name,
                mac=f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}",
                fixed_ips=[self._address(network, list(fixed_ips))],
                security_groups=list(security_groups),
            )
        self.after("create_port")

    async def update_port(
        self,
        uuid: str,
        *,
        name: str | None = None,
        security_groups: Sequence[str] | None = None,
        port_security: bool | None = None,
        allowed_addresses: Sequence[str] | None = None,
    ) -> None:
        await self._do("update_port")
        found = self._need(self.port_list, uuid, "port")
        if name is not None:
            found = replace(found, name=name)
        if security_groups is not None:
            found = replace(found, security_groups=list(security_groups))
        self.port_list[uuid] = found

    async def delete_port(self, uuid: str) -> None:
        await self._do("delete_port")
        found = self.port_list.get(uuid)
        if found is not None and found.device_uuid in self.server_list:
            raise ResourceFailure(f"The port {uuid} is in use by the server {found.device_uuid}")
        self.port_list.pop(uuid, None)
        for address, one in self.floating_list.items():
            if one.port_uuid == uuid:
                self.floating_list[address] = replace(one, port_uuid=None, fixed_ip=None)
        self.after("delete_port")

    async def port(self, uuid: str) -> PortInfo | None:
        return self.port_list.get(uuid)

    async def ports(self, project_id: str) -> list[PortInfo]:
        return [one for one in self.port_list.values() if one.project_id == project_id]

    async def create_floating_ip(
        self, uuid: str, *, project_id: str, network: str, port: str | None
    ) -> None:
        await self._do("create_floating_ip")
        if uuid not in self.floating_list:
            taken = {one.address for one in self.floating_list.values()}
            address = next(f"192.0.2.{n}" for n in range(1, 255) if f"192.0.2.{n}" not in taken)
            self.floating_list[uuid] = FloatingIpInfo(
                uuid=uuid, address=address, network_uuid=network, project_id=project_id
            )
        await self._give(uuid, port)
        self.after("create_floating_ip")

    async def update_floating_ip(self, uuid: str, *, port: str | None) -> None:
        await self._do("update_floating_ip")
        await self._give(uuid, port)
        self.after("update_floating_ip")

    async def _give(self, uuid: str, port: str | None) -> None:
        found = self._need(self.floating_list, uuid, "floating address")
        fixed = self._need(self.port_list, port, "port").fixed_ips[0][1] if port else None
        self.floating_list[uuid] = replace(found, port_uuid=port, fixed_ip=fixed)

    async def delete_floating_ip(self, uuid: str) -> None:
        await self._do("delete_floating_ip")
        self.floating_list.pop(uuid, None)
        self.after("delete_floating_ip")

    async def floating_ip(self, uuid: str) -> FloatingIpInfo | None:
        return self.floating_list.get(uuid)

    async def floating_ips(self, project_id: str) -> list[FloatingIpInfo]:
        return [one for one in self.floating_list.values() if one.project_id == project_id]

    # key pairs

    async def create_keypair(self, name: str, *, project_id: str, public_key: str) -> None:
        await self._do("create_keypair")
        self.keypair_list.setdefault((project_id, name), public_key)
        self.after("create_keypair")

    async def delete_keypair(self, name: str, *, project_id: str) -> None:
        await self._do("delete_keypair")
        self.keypair_list.pop((project_id, name), None)
        self.after("delete_keypair")

    async def public_key(self, name: str, *, project_id: str) -> str | None:
        return self.keypair_list.get((project_id, name))

    # servers

    async def image(self, project_id: str, name: str) -> ImageInfo:
        for image in self.images.values():
            if name in (image.uuid, image.name):
                return image
        raise ResourceFailure(f"There is no image {name!r}; there are: {', '.join(self.images)}")

    async def place(self, spec: ServerSpec) -> Placement:
        await self._do("place")
        if len(self.server_list) >= self.room:
            steps: list[Json] = [{"step": "Servers with enough room", "remaining": []}]
            raise PlacementFailure("No server has room", details=steps)
        host = self.placed.get(spec.uuid) or self._host(spec)
        self.placed[spec.uuid] = host
        ticket = self.tickets.setdefault(spec.uuid, str(uuids.uuid4()))
        self.after("place")
        return Placement(host=host, host_name=host, ticket=ticket)

    def _host(self, spec: ServerSpec) -> str:
        names = [f"host-{number}" for number in range(1, self.hosts + 1)]
        for side in ("near", "far"):
            listed = [self.placed.get(one) for one in (spec.locality or {}).get(side, [])]
            names = [name for name in names if not listed or (name in listed) is (side == "near")]
        if not names:
            steps: list[Json] = [
                {"step": "Servers with requested hard locality considered", "remaining": []}
            ]
            raise PlacementFailure("No server is where the server group wants it", details=steps)
        return min(names, key=lambda name: list(self.placed.values()).count(name))

    async def wait_turn(self, placement: Placement) -> None:
        await self._do("wait_turn")
        if placement.ticket not in self.tickets.values():
            raise ResourceFailure("The ticket has expired")

    async def ensure_image(
        self,
        placement: Placement,
        image: ImageInfo,
        say: Callable[[int], None] = lambda _percent: None,
    ) -> None:
        await self._do("ensure_image")

    async def create_server(self, placement: Placement, spec: ServerSpec) -> None:
        await self._do("create_server")
        for uuid in spec.ports:
            port = self._need(self.port_list, uuid, "port")
            if port.device_uuid not in (None, spec.uuid):
                raise ResourceFailure(f"The port {uuid} is in use")
            self.port_list[uuid] = replace(port, device_uuid=spec.uuid, device_owner="compute:nova")
        self.server_list.setdefault(spec.uuid, MemoryServer(spec, placement.host))
        for volume, device in spec.volumes.items():
            self._need(self.volume_list, volume, "volume").attachments[spec.uuid] = device
        self.after("create_server")

    async def release(self, uuid: str) -> None:
        await self._do("release")
        self.tickets.pop(uuid, None)
        self.after("release")

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
    ) -> None:
        await self._do("update_server")
        server = self._need(self.server_list, uuid, "server")
        changes = {"name": name, "metadata": metadata, "memory": memory, "disk": disk, "cpu": cpu}
        given: dict[str, Any] = {key: value for key, value in changes.items() if value is not None}
        server.spec = replace(server.spec, **given)

    async def delete_server(self, uuid: str, *, project_id: str, host: str | None) -> None:
        await self._do("delete_server")
        self.server_list.pop(uuid, None)
        self.placed.pop(uuid, None)
        for volume in self.volume_list.values():
            volume.attachments.pop(uuid, None)
        for name, port in self.port_list.items():
            if port.device_uuid == uuid:
                self.port_list[name] = replace(port, device_uuid=None, device_owner="")
        self.after("delete_server")

    async def server(self, uuid: str, *, project_id: str, host: str | None) -> ServerInfo | None:
        found = self.server_list.get(uuid)
        return None if found is None else ServerInfo(uuid=uuid, state=found.state, host=found.host)

    # block storage

    async def create_volume(
        self,
        uuid: str,
        *,
        project_id: str,
        name: str,
        size: int,
        source: tuple[str, str] | None,
        metadata: Mapping[str, str],
        read_only: bool,
    ) -> None:
        await self._do("create_volume")
        made = VolumeInfo(
            uuid=uuid,
            project_id=project_id,
            name=name,
            size=size,
            source=source,
            metadata=dict(metadata),
            read_only=read_only,
        )
        self.volume_list.setdefault(uuid, made)
        self.after("create_volume")

    async def update_volume(
        self, uuid: str, *, name: str, metadata: Mapping[str, str], read_only: bool
    ) -> None:
        await self._do("update_volume")
        found: VolumeInfo = self._need(self.volume_list, uuid, "volume")
        found.name, found.metadata, found.read_only = name, dict(metadata), read_only

    async def delete_volume(self, uuid: str) -> None:
        await self._do("delete_volume")
        found = self.volume_list.get(uuid)
        if found is not None and found.attachments:
            raise ResourceFailure(f"The volume {uuid} is attached to a server")
        self.volume_list.pop(uuid, None)
        self.after("delete_volume")

    async def volume(self, uuid: str) -> VolumeInfo | None:
        return self.volume_list.get(uuid)

    async def volume_image(self, project_id: str, uuid: str) -> ImageInfo:
        found: VolumeInfo = self._need(self.volume_list, uuid, "volume")
        if found.source is None or found.source[0] != "image":
            raise ResourceFailure(f"The volume {found.name} has no image to boot from")
        return await self.image(project_id, found.source[1])

    async def attach_volume(self, uuid: str, *, server: str, device: str) -> None:
        await self._do("attach_volume")
        self._need(self.server_list, server, "server")
        self._need(self.volume_list, uuid, "volume").attachments[server] = device
        self.after("attach_volume")

    async def detach_volume(self, uuid: str, *, server: str) -> None:
        await self._do("detach_volume")
        if uuid in self.volume_list:
            self.volume_list[uuid].attachments.pop(server, None)
        self.after("detach_volume")

    # software deployments

    async def run_deployment(
        self, uuid: str, *, server: str, config: str, inputs: Mapping[str, Json]
    ) -> tuple[str, str]:
        await self._do("run_deployment")
        self._need(self.server_list, server, "server")
        self.deployments[uuid] = (config, dict(inputs))
        return f"ran {uuid}", ""

    # inside

    def _address(
        self, network: str, wishes: list[tuple[str | None, str | None]]
    ) -> tuple[str, str]:
        subnet_wish, address_wish = wishes[0] if wishes else (None, None)
        subnets = [
            one
            for one in self.subnet_list.values()
            if one.network_uuid == network and subnet_wish in (None, one.uuid)
        ]
        if not subnets:
            raise ResourceFailure(f"The network {network} has no subnet to take an address from")
        subnet = subnets[0]
        taken = {ip for port in self.port_list.values() for _, ip in port.fixed_ips}
        taken.add(subnet.gateway or "")
        for one in ipaddress.ip_network(subnet.cidr).hosts():
            if address_wish in (None, str(one)) and str(one) not in taken:
                return subnet.uuid, str(one)
        raise ResourceFailure(f"The subnet {subnet.cidr} has no free address")

    @staticmethod
    def _need(items: Mapping[str, Any], uuid: str | None, what: str) -> Any:
        if uuid is None or uuid not in items:
            raise ResourceFailure(f"There is no {what} {uuid!r}")
        return items[uuid]


class MemoryStacks(StackEngine):
    """`Stacks` wholly in memory; `compute` shows what the stacks have made."""

    def __init__(
        self,
        compute: MemoryCompute | None = None,
        *,
        store: MemoryStore | None = None,
        settings: NativeSettings | None = None,
    ) -> None:
        self.compute = compute or MemoryCompute()
        self.store = store or MemoryStore()
        super().__init__(self.store, self.compute, settings=settings)
