"""What the native back end needs from the compute service.

Every object is created under the uuid that its body names, and creating may be repeated: the second
call finds the existing object. Removing what is missing succeeds. So an interrupted operation can be
repeated or undone without knowing how far it had come.

What has no uuid of its own (a key pair, an interface of a router, the attachment of a volume, the way of a
floating address) has the mark of who made it, `made_by`: repeating with the same mark succeeds, with another
one it is refused, and removing with another one changes nothing. Without a mark (None) a call acts whoever
made it. Failures are `ResourceFailure` (the service
refused, with its message) or transport errors of the client.

Objects and bodies are those of `vetro.compute.wire`; their kinds (`NETWORKS`, `PORTS` …) are those of
`vetro.compute.client`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from vetro.compute.client.calls import Change, Kind, New, Shown
from vetro.compute.wire import Image, Locality, Port, Vm

BLOCK_STORAGE = "block storage"
LOAD_BALANCERS = "load balancers"
PARTS = {"volumes": BLOCK_STORAGE, "load balancers": LOAD_BALANCERS}
"""What the service calls them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """A virtual machine to be made. Sizes: memory in MiB, disk in GiB, cpu in percent of a core."""

    uuid: str
    project_id: str
    name: str
    hostname: str
    image: Image
    memory: int
    disk: int
    cpu: int
    ports: Sequence[str]
    """Port uuids in the order of the interfaces."""
    metadata: Mapping[str, str]
    customer_metadata: Mapping[str, str]
    locality: Locality | None = None
    """The placement relative to other servers."""
    volumes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Volumes attached from the beginning: the device of each."""
    later_volumes: Sequence[str] = ()
    """Volumes attached when it runs. It is placed where its volumes are, if there is room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a server will live, and the ticket that holds the room for it."""

    host: str
    host_name: str
    ticket: str | None


@dataclass(frozen=True, slots=True)
class Offers:
    """What a compute service supports beyond `ComputePort`'s own calls, and why not the rest."""

    parts: frozenset[str] = frozenset()
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why a part is missing."""

    def lacks(self, part: str) -> str | None:
        """Why a part cannot be used; None when it can."""
        if not part or part in self.parts:
            return None
        return self.reasons.get(part, f"this back end has no {part}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerChange:
    """What changes of a server in place; `None`: stays. `metadata` replaces what there is."""

    name: str | None = None
    metadata: Mapping[str, str] | None = None
    memory: int | None = None
    disk: int | None = None
    cpu: int | None = None


class ComputePort(Protocol):
    """See the module."""

    async def offered(self) -> Offers:
        """The parts of `vetro.stacks.compute_service.port` that are supported now."""
        ...

    # Networks, subnets, routers, security groups, ports, floating addresses, volumes
    async def create(self, kind: Kind[Shown, New, Change], new: New) -> Shown:
        """Create an object. Raises `AddressRangeTaken` for a subnet whose addresses are in use."""
        ...

    async def change(self, kind: Kind[Shown, New, Change], uuid: str, change: Change) -> None: ...

    async def remove(self, kind: Kind[Shown, New, Change], uuid: str) -> None: ...

    async def find(self, kind: Kind[Shown, New, Change], uuid: str) -> Shown | None: ...

    async def all(self, kind: Kind[Shown, New, Change], project_id: str) -> list[Shown]:
        """The project's objects; of networks the shared and external ones, too."""
        ...

    async def ports_of(self, project_id: str, server: str) -> list[Port]:
        """The ports that a server of the project is plugged in with."""
        ...

    async def ranges(self) -> list[str]:
        """The address ranges in use by every project: those on one machine must not overlap."""
        ...

    async def add_router_interface(
        self, router: str, subnet: str, made_by: str | None = None
    ) -> None: ...

    async def remove_router_interface(
        self, router: str, subnet: str, made_by: str | None = None
    ) -> None: ...

    # key pairs
    async def create_keypair(
        self, name: str, *, project_id: str, public_key: str, made_by: str | None = None
    ) -> None: ...

    async def delete_keypair(
        self, name: str, *, project_id: str, made_by: str | None = None
    ) -> None: ...

    async def public_key(self, name: str, *, project_id: str) -> str | None: ...

    # servers
    async def image(self, project_id: str, name: str) -> Image:
        """The image of this name or uuid. Raises `ResourceFailure` if there is none."""
        ...

    async def place(self, spec: ServerSpec) -> Placement:
        """Choose a host and hold room on it. For a server that has a place: that place.

        Raises `PlacementFailure` with the allocator's steps."""
        ...

    async def would_place(
        self,
        spec: ServerSpec,
        *,
        without: Collection[str] = (),
        beside: Sequence[tuple[str, ServerSpec]] = (),
    ) -> str:
        """The host that a server would get; nothing is held.

        `without`: uuids of servers whose room and quota are free for it; `beside`: hosts, each with a server
        that counts as if it was there. Raises `PlacementFailure` with the allocator's steps."""
        ...

    async def wait_turn(self, placement: Placement) -> None:
        """Wait until the placement's ticket is active."""
        ...

    async def ensure_image(
        self,
        placement: Placement,
        image: Image,
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

    async def update_server(self, uuid: str, change: ServerChange) -> None: ...

    async def delete_server(self, uuid: str) -> None:
        """Remove the server wherever it is; returns when it is gone."""
        ...

    async def server(self, uuid: str) -> Vm | None: ...

    async def incarnations(self, project_id: str) -> dict[str, str]:
        """Which root disk each server of the project has, by uuid: another value when it was made anew."""
        ...

    # block storage
    async def volume_image(self, project_id: str, uuid: str) -> Image:
        """What a server that boots from the volume is. Raises `ResourceFailure`."""
        ...

    async def attach_volume(
        self, uuid: str, *, server: str, device: str, made_by: str | None = None
    ) -> None: ...

    async def detach_volume(
        self, uuid: str, *, server: str, made_by: str | None = None
    ) -> None: ...
