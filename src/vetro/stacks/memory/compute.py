"""A compute service in memory."""

from __future__ import annotations

import asyncio
import copy
import ipaddress
import uuid as uuids
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import msgspec
from msgspec import UNSET

from vetro.compute.client.calls import (
    FLOATING_IPS,
    NETWORKS,
    PORTS,
    ROUTERS,
    SECURITY_GROUPS,
    SUBNETS,
    VOLUMES,
    AnyKind,
    Change,
    Kind,
    New,
    Shown,
)
from vetro.compute.wire import (
    AddressWish,
    FloatingIp,
    FloatingIpChange,
    Image,
    Network,
    NewFloatingIp,
    NewPort,
    NewSubnet,
    Port,
    Router,
    SecurityGroup,
    Subnet,
    Vm,
    Volume,
    VolumeChange,
)
from vetro.stacks.compute_service.port import (
    BLOCK_STORAGE,
    LOAD_BALANCERS,
    Offers,
    Placement,
    ServerChange,
    ServerSpec,
)
from vetro.stacks.errors import AddressRangeTaken, PlacementFailure, ResourceFailure
from vetro.stacks.model import Json
from vetro.stacks.template.balancers import IMAGE as BALANCER_IMAGE

T = TypeVar("T")
EXTERNAL_NETWORK = "00000000-0000-4000-8000-000000000001"


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
    network_list: dict[str, Network] = field(default_factory=dict[str, Network])
    subnet_list: dict[str, Subnet] = field(default_factory=dict[str, Subnet])
    router_list: dict[str, Router] = field(default_factory=dict[str, Router])
    group_list: dict[str, SecurityGroup] = field(default_factory=dict[str, SecurityGroup])
    port_list: dict[str, Port] = field(default_factory=dict[str, Port])
    floating_list: dict[str, FloatingIp] = field(default_factory=dict[str, FloatingIp])
    keypair_list: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    server_list: dict[str, MemoryServer] = field(default_factory=dict[str, MemoryServer])
    disks: Counter[str] = field(default_factory=Counter[str])
    """How many root disks were made for each server, also for those that are gone."""
    placed: dict[str, str] = field(default_factory=dict[str, str])
    """Host by server."""
    tickets: dict[str, str] = field(default_factory=dict[str, str])
    """Ticket by the server it holds room for."""
    images: dict[str, Image] = field(default_factory=dict[str, Image])
    offers: frozenset[str] = frozenset({BLOCK_STORAGE, LOAD_BALANCERS})
    hosts: int = 1
    volume_list: dict[str, Volume] = field(default_factory=dict[str, Volume])
    makers: dict[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])
    """The marks of key pairs, interfaces, attachments and ways of floating addresses."""
    before: Callable[[str], None] = lambda call: None
    """Called with the name of every changing call before it takes effect."""
    after: Callable[[str], None] = lambda call: None

    def __post_init__(self) -> None:
        self.network_list[EXTERNAL_NETWORK] = Network(
            uuid=EXTERNAL_NETWORK, name="ext-net", project_id="", external=True
        )
        if not self.images:
            for number, name in ((2, "debian"), (3, BALANCER_IMAGE)):
                image = f"00000000-0000-4000-8000-{number:012}"
                self.images[name] = Image(uuid=image, name=name)

    async def offered(self) -> Offers:
        """What `offers` names."""
        return Offers(self.offers)

    async def _do(self, call: str) -> None:
        await asyncio.sleep(0)
        self.calls.append(call)
        self.before(call)
        if call in self.fail:
            raise self.fail[call]

    # networks, routers, security groups, ports, addresses

    async def create(self, kind: Kind[Shown, New, Change], new: New) -> Shown:
        call = _call("create", kind)
        await self._do(call)
        objects = self._objects(kind)
        self._check_new(new)
        if new.uuid not in objects:
            objects[new.uuid] = self._made(new)
        if isinstance(new, NewFloatingIp):
            self._lead(new.uuid, new.port_uuid)
        self.after(call)
        return objects[new.uuid]

    def _check_new(self, new: object) -> None:
        """Refuse what the real service refuses."""
        if isinstance(new, NewSubnet):
            _need(self.network_list, new.network_uuid, "network")
            mine = ipaddress.ip_network(new.cidr)
            for other in self.subnet_list.values():
                if other.uuid in (new.uuid, *(new.replaces or ())):
                    continue
                theirs = ipaddress.ip_network(other.cidr)
                if theirs.version == mine.version and theirs.overlaps(mine):
                    raise AddressRangeTaken(f"subnet {new.cidr} overlaps {other.cidr}")
        elif isinstance(new, NewPort):
            _need(self.network_list, new.network_uuid, "network")

    def _made(self, new: Any) -> Any:
        """The object that a body describes: what has the same name in both, and what is chosen."""
        given = {
            name: copy.deepcopy(value)
            for name, value in msgspec.structs.asdict(new).items()
            if value is not None
        }
        match new:
            case NewPort():
                number = len(self.port_list) + 1
                given["mac"] = f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}"
                given["fixed_ips"] = [self._address(new)]
            case NewFloatingIp():
                taken = {one.address for one in self.floating_list.values()}
                free = (f"192.0.2.{n}" for n in range(1, 255))
                given["address"] = next(one for one in free if one not in taken)
                given.pop("port_uuid", None)
            case _:
                given.pop("replaces", None)
        return _SHOWN[type(new)](**given)

    async def change(self, kind: Kind[Shown, New, Change], uuid: str, change: Change) -> None:
        call = _call("update", kind)
        await self._do(call)
        found = _need(self._objects(kind), uuid, kind.noun)
        given = {
            name: copy.deepcopy(value)
            for name, value in msgspec.structs.asdict(cast("Any", change)).items()
            if value is not UNSET
        }
        if isinstance(change, VolumeChange):
            self._check_size(uuid, change)
        if isinstance(change, FloatingIpChange):
            self._lead(uuid, given.get("port_uuid"), given.get("made_by"))
        else:
            self._objects(kind)[uuid] = msgspec.structs.replace(cast("Any", found), **given)
        self.after(call)

    def _check_size(self, uuid: str, change: VolumeChange) -> None:
        size = self.volume_list[uuid].size
        if change.size is not UNSET and change.size < size:
            raise ResourceFailure(
                f"volume {uuid} has {size} GiB and cannot shrink to {change.size} GiB"
            )

    async def remove(self, kind: Kind[Shown, New, Change], uuid: str) -> None:
        call = _call("delete", kind)
        await self._do(call)
        self._check_unused(kind.path, uuid)
        self._objects(kind).pop(uuid, None)
        if kind.path == PORTS.path:
            for address, one in self.floating_list.items():
                if one.port_uuid == uuid:
                    self._lead(address, None)
        self.after(call)

    def _check_unused(self, path: str, uuid: str) -> None:
        ports = self.port_list.values()
        if path == NETWORKS.path:
            if any(one.network_uuid == uuid for one in ports):
                raise ResourceFailure(f"The network {uuid} has ports")
            if any(one.network_uuid == uuid for one in self.subnet_list.values()):
                raise ResourceFailure(f"The network {uuid} has subnets")
        elif path == SUBNETS.path:
            if any(subnet == uuid for one in ports for subnet, _ in one.fixed_ips):
                raise ResourceFailure(f"The subnet {uuid} has ports")
            if any(uuid in one.subnets for one in self.router_list.values()):
                raise ResourceFailure(f"The subnet {uuid} is joined to a router")
        elif path == ROUTERS.path:
            if uuid in self.router_list and self.router_list[uuid].subnets:
                raise ResourceFailure(f"The router {uuid} has interfaces")
        elif path == SECURITY_GROUPS.path:
            if any(uuid in one.security_groups for one in ports):
                raise ResourceFailure(f"The security group {uuid} is in use")
        elif path == VOLUMES.path:
            if uuid in self.volume_list and self.volume_list[uuid].vm_uuid:
                raise ResourceFailure(f"The volume {uuid} is attached to a server")
        elif path == PORTS.path and uuid in self.port_list:
            user = self.port_list[uuid].device_uuid
            if user in self.server_list:
                raise ResourceFailure(f"The port {uuid} is in use by the server {user}")

    async def find(self, kind: Kind[Shown, New, Change], uuid: str) -> Shown | None:
        return self._objects(kind).get(uuid)

    async def ports_of(self, project_id: str, server: str) -> list[Port]:
        return [one for one in self.port_list.values() if one.device_uuid == server]

    async def all(self, kind: Kind[Shown, New, Change], project_id: str) -> list[Shown]:
        found: list[Any] = list(self._objects(kind).values())
        if kind.path == NETWORKS.path:
            return [
                msgspec.structs.replace(one, subnets=self._subnets_of(one.uuid))
                for one in found
                if one.external or one.project_id == project_id
            ]
        return [one for one in found if one.project_id == project_id]

    def _subnets_of(self, network: str) -> list[str]:
        return [one.uuid for one in self.subnet_list.values() if one.network_uuid == network]

    def _objects(self, kind: Kind[Shown, New, Change]) -> dict[str, Shown]:
        lists: dict[str, Any] = {
            NETWORKS.path: self.network_list,
            SUBNETS.path: self.subnet_list,
            ROUTERS.path: self.router_list,
            SECURITY_GROUPS.path: self.group_list,
            PORTS.path: self.port_list,
            FLOATING_IPS.path: self.floating_list,
            VOLUMES.path: self.volume_list,
        }
        return lists[kind.path]

    def _lead(self, address: str, port: str | None, made_by: str | None = None) -> None:
        found = _need(self.floating_list, address, "floating address")
        mark = ("floating address", address)
        if found.port_uuid is not None and not self._may(made_by, mark):
            if port is None:
                return
            raise ResourceFailure(
                f"the floating address {found.address} leads to port {found.port_uuid} already:"
                " part them first"
            )
        fixed = _need(self.port_list, port, "port").fixed_ips[0][1] if port else None
        if fixed is not None and ":" in fixed:
            raise ResourceFailure(
                f"port {port} has the IPv6 address {fixed}: floating addresses are IPv4; give the"
                " instance a second port in an IPv4 subnet"
            )
        if made_by is not None or port != found.port_uuid:
            self.makers[mark] = made_by or ""
        self.floating_list[address] = msgspec.structs.replace(found, port_uuid=port, fixed_ip=fixed)

    def _may(self, made_by: str | None, mark: tuple[str, ...]) -> bool:
        """Whether a caller may touch what is there: without a mark everything, else what bears it."""
        return made_by is None or self.makers.get(mark, "") == made_by

    async def ranges(self) -> list[str]:
        return sorted({one.cidr for one in self.subnet_list.values()})

    async def add_router_interface(
        self, router: str, subnet: str, made_by: str | None = None
    ) -> None:
        await self._do("add_router_interface")
        found = _need(self.router_list, router, "router")
        _need(self.subnet_list, subnet, "subnet")
        mark = ("interface", router, subnet)
        if subnet not in found.subnets:
            found.subnets.append(subnet)
            self.makers[mark] = made_by or ""
        elif not self._may(made_by, mark):
            raise ResourceFailure(
                f"the router {router} has an interface in subnet {subnet} already:"
                " use it without making it"
            )
        self.after("add_router_interface")

    async def remove_router_interface(
        self, router: str, subnet: str, made_by: str | None = None
    ) -> None:
        await self._do("remove_router_interface")
        found = self.router_list.get(router)
        mine = self._may(made_by, ("interface", router, subnet))
        if found is not None and subnet in found.subnets and mine:
            found.subnets.remove(subnet)
        self.after("remove_router_interface")

    # key pairs

    async def create_keypair(
        self, name: str, *, project_id: str, public_key: str, made_by: str | None = None
    ) -> None:
        await self._do("create_keypair")
        known = self.keypair_list.get((project_id, name))
        mark = ("key pair", project_id, name)
        if known is None:
            self.keypair_list[project_id, name] = public_key
            self.makers[mark] = made_by or ""
        elif known != public_key:
            raise ResourceFailure(f"the key pair {name} exists already, with another key")
        elif not self._may(made_by, mark):
            raise ResourceFailure(
                f"the key pair {name} exists already: use it without making it, or choose another"
                " name"
            )
        self.after("create_keypair")

    async def delete_keypair(
        self, name: str, *, project_id: str, made_by: str | None = None
    ) -> None:
        await self._do("delete_keypair")
        if self._may(made_by, ("key pair", project_id, name)):
            self.keypair_list.pop((project_id, name), None)
        self.after("delete_keypair")

    async def public_key(self, name: str, *, project_id: str) -> str | None:
        return self.keypair_list.get((project_id, name))

    # servers

    async def image(self, project_id: str, name: str) -> Image:
        for image in self.images.values():
            if name in (image.uuid, image.name):
                return image
        raise ResourceFailure(f"There is no image {name!r}; there are: {', '.join(self.images)}")

    async def place(self, spec: ServerSpec) -> Placement:
        await self._do("place")
        self._check_room(len(self.server_list))
        host = self.placed.get(spec.uuid) or self._host(spec)
        self.placed[spec.uuid] = host
        ticket = self.tickets.setdefault(spec.uuid, str(uuids.uuid4()))
        self.after("place")
        return Placement(host=host, host_name=host, ticket=ticket)

    async def would_place(
        self,
        spec: ServerSpec,
        *,
        without: Collection[str] = (),
        beside: Sequence[tuple[str, ServerSpec]] = (),
    ) -> str:
        self._check_room(len(self.server_list.keys() - {*without}) + len(beside))
        kept = {uuid: host for uuid, host in self.placed.items() if uuid not in without}
        return self._host(spec, kept | {one.uuid: host for host, one in beside})

    def _check_room(self, there: int) -> None:
        if there >= self.room:
            steps: list[Json] = [{"step": "Servers with enough room", "remaining": []}]
            raise PlacementFailure("No server has enough free resources", details=steps)

    def _host(self, spec: ServerSpec, placed: Mapping[str, str] | None = None) -> str:
        placed = self.placed if placed is None else placed
        names = [f"host-{number}" for number in range(1, self.hosts + 1)]
        for side in ("near", "far"):
            others: list[str] = getattr(spec.locality, side, None) or []
            listed = [placed.get(one) for one in others]
            names = [name for name in names if not listed or (name in listed) is (side == "near")]
        kept = {
            self.volume_list[one].server_uuid
            for one in (*spec.volumes, *spec.later_volumes)
            if one in self.volume_list
        }
        names = [name for name in names if name in kept] or names
        if not names:
            steps: list[Json] = [
                {"step": "Servers with requested hard locality considered", "remaining": []}
            ]
            raise PlacementFailure("No server meets the policy of the server group", details=steps)
        return min(names, key=lambda name: list(placed.values()).count(name))

    async def wait_turn(self, placement: Placement) -> None:
        await self._do("wait_turn")
        if placement.ticket not in self.tickets.values():
            raise ResourceFailure("The ticket has expired")

    async def ensure_image(
        self,
        placement: Placement,
        image: Image,
        say: Callable[[int], None] = lambda _percent: None,
    ) -> None:
        await self._do("ensure_image")

    async def create_server(self, placement: Placement, spec: ServerSpec) -> None:
        await self._do("create_server")
        for uuid in spec.ports:
            port = _need(self.port_list, uuid, "port")
            if port.device_uuid not in (None, spec.uuid):
                raise ResourceFailure(f"The port {uuid} is in use")
            port.device_uuid, port.device_owner = spec.uuid, "compute:nova"
        known = self.server_list.get(spec.uuid)
        if known is None or known.state == "missing":
            self.disks[spec.uuid] += 1
            self.server_list[spec.uuid] = MemoryServer(spec, placement.host)
        for volume, device in spec.volumes.items():
            self._attach(volume, spec.uuid, device)
        self.after("create_server")

    async def release(self, uuid: str) -> None:
        await self._do("release")
        self.tickets.pop(uuid, None)
        self.after("release")

    async def update_server(self, uuid: str, change: ServerChange) -> None:
        await self._do("update_server")
        server = _need(self.server_list, uuid, "server")
        spec = server.spec
        server.spec = replace(
            spec,
            name=spec.name if change.name is None else change.name,
            metadata=spec.metadata if change.metadata is None else change.metadata,
            memory=change.memory or spec.memory,
            disk=change.disk or spec.disk,
            cpu=change.cpu or spec.cpu,
        )

    async def delete_server(self, uuid: str) -> None:
        await self._do("delete_server")
        self.server_list.pop(uuid, None)
        self.placed.pop(uuid, None)
        for volume in self.volume_list.values():
            self._detach(volume, uuid)
        for port in self.port_list.values():
            if port.device_uuid == uuid:
                port.device_uuid, port.device_owner = None, ""
        self.after("delete_server")

    async def server(self, uuid: str) -> Vm | None:
        found = self.server_list.get(uuid)
        return None if found is None else Vm(uuid=uuid, state=found.state, server_uuid=found.host)

    async def incarnations(self, project_id: str) -> dict[str, str]:
        counts = {uuid: self.disks[uuid] for uuid in self.server_list}
        # The first is that of a server of an earlier release: its uuid.
        return {uuid: uuid if count < 2 else f"{uuid}/{count}" for uuid, count in counts.items()}

    # block storage

    async def volume_image(self, project_id: str, uuid: str) -> Image:
        found = _need(self.volume_list, uuid, "volume")
        if found.source is None or found.source.kind != "image":
            raise ResourceFailure(f"The volume {found.name} has no image to boot from")
        return await self.image(project_id, found.source.uuid)

    async def attach_volume(
        self, uuid: str, *, server: str, device: str, made_by: str | None = None
    ) -> None:
        await self._do("attach_volume")
        _need(self.server_list, server, "server")
        self._attach(uuid, server, device, made_by)
        self.after("attach_volume")

    async def detach_volume(self, uuid: str, *, server: str, made_by: str | None = None) -> None:
        await self._do("detach_volume")
        if uuid in self.volume_list and self._may(made_by, ("volume", uuid)):
            self._detach(self.volume_list[uuid], server)
        self.after("detach_volume")

    # inside

    def _attach(self, uuid: str, server: str, device: str, made_by: str | None = None) -> None:
        found = _need(self.volume_list, uuid, "volume")
        if found.vm_uuid not in (None, server):
            raise ResourceFailure(
                f"volume {uuid} is attached to VM {found.vm_uuid}: detach it there first"
            )
        if found.vm_uuid is None:
            self.makers["volume", uuid] = made_by or ""
        elif not self._may(made_by, ("volume", uuid)):
            raise ResourceFailure(
                f"volume {uuid} is attached to VM {server} already: use it without attaching it"
            )
        found.vm_uuid, found.device = server, _place(uuid, device)
        found.server_uuid = self.server_list[server].host

    def _detach(self, volume: Volume, server: str) -> None:
        if volume.vm_uuid == server:
            volume.vm_uuid, volume.device = None, ""

    def _address(self, new: NewPort) -> tuple[str, str]:
        wish = new.fixed_ips[0] if new.fixed_ips else AddressWish()
        subnets = [
            one
            for one in self.subnet_list.values()
            if one.network_uuid == new.network_uuid and wish.subnet_uuid in (None, one.uuid)
        ]
        if not subnets:
            raise ResourceFailure(
                f"The network {new.network_uuid} has no subnet to take an address from"
            )
        subnet = subnets[0]
        taken = {ip for port in self.port_list.values() for _, ip in port.fixed_ips}
        taken.add(subnet.gateway or "")
        for text in _hosts(subnet.cidr):
            if wish.ip in (None, text) and text not in taken:
                return subnet.uuid, text
        raise ResourceFailure(f"The subnet {subnet.cidr} has no free address")


def _hosts(cidr: str) -> Iterator[str]:
    """The addresses of a range as text. Large ranges are gone through once for every port."""
    network = ipaddress.ip_network(cidr)
    if network.version == 6 or network.prefixlen > 30:
        yield from map(str, network.hosts())
        return
    for one in range(int(network.network_address) + 1, int(network.broadcast_address)):
        yield f"{one >> 24}.{one >> 16 & 255}.{one >> 8 & 255}.{one & 255}"


_SHOWN: dict[type[object], type[object]] = {
    kind.new: kind.shown
    for kind in (NETWORKS, SUBNETS, ROUTERS, SECURITY_GROUPS, PORTS, FLOATING_IPS, VOLUMES)
}
#: What the calls are named in `MemoryCompute.calls` and `fail`.
_NAMES = {FLOATING_IPS.path: "floating_ip"}


def _place(volume: str, device: str) -> str:
    """Where a volume appears in a container."""
    if device.startswith("/dev/"):
        return f"/mnt/{device.rpartition('/')[2]}"
    return device or f"/mnt/volume-{volume[:8]}"


def _call(verb: str, kind: AnyKind) -> str:
    return f"{verb}_{_NAMES.get(kind.path, kind.noun.replace(' ', '_'))}"


def _need(items: Mapping[str, T], uuid: str | None, what: str) -> T:
    if uuid is None or uuid not in items:
        raise ResourceFailure(f"There is no {what} {uuid!r}")
    return items[uuid]
