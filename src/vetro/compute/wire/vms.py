"""VMs and what leads to one: its body, the room for it, the ticket of its turn, its node's task.

Nodes and their VMs may report more than these structs name: code that shows a VM unchanged reads it as JSON.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from vetro.json_values import Json

Number = int | float

#: The brand of a VM made of an image of this type; `lx` (a container) for every other type.
_BRANDS = {"vm": "kvm", "zvol": "kvm", "qcow2": "kvm"}
HVM_BRANDS = ("kvm", "bhyve")
#: The most interfaces that a VM has.
MOST_INTERFACES = 32


def brand_of(image_type: str) -> str:
    """The brand of VMs made of an image of this type."""
    return _BRANDS.get(image_type, "lx")


class Nic(msgspec.Struct, kw_only=True):
    """An interface of a VM. ``network_ip``: what was asked for, where the VM answers at another ``ip``.

    ``network_uuid``: its subnet. ``primary``: the default route leads through it.
    """

    mac: str = ""
    interface: str | None = None
    primary: bool | None = None
    ip: str | None = None
    network_ip: str | None = None
    network_uuid: str | None = None


class Snapshot(msgspec.Struct, kw_only=True):
    """A snapshot of a VM's disks."""

    name: str
    created_at: str | None = None


class Vm(msgspec.Struct, kw_only=True):
    """A VM as it is. Memory in MiB, quota in GiB, cpu_cap in percent of a core."""

    uuid: str
    server_uuid: str = ""
    alias: str | None = None
    brand: str | None = None
    owner_uuid: str | None = None
    state: str | None = None
    zone_state: str | None = None
    max_physical_memory: Number | None = None
    quota: Number | None = None
    cpu_cap: Number | None = None
    nics: list[Nic] | None = None
    tags: dict[str, Json] | None = None
    snapshots: list[Snapshot] | None = None
    failure: str = ""
    incarnation: str = ""

    @property
    def addresses(self) -> list[str]:
        """The addresses of its interfaces."""
        return [nic.ip for nic in self.nics or () if nic.ip]

    @property
    def answers_at(self) -> dict[str, str]:
        """Requested address to the actual one, if they differ (nodes without own networks)."""
        return {
            nic.network_ip.split("/")[0]: nic.ip.split("/")[0]
            for nic in self.nics or ()
            if nic.network_ip and nic.ip
        }


class Incarnation(msgspec.Struct, kw_only=True):
    """Which root disk a VM has. ``incarnation`` is another one when the disk was made anew from the image,
    or went back to a snapshot; it stays when the VM is changed, restarted or moved with its disk."""

    uuid: str
    incarnation: str


class Locality(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The placement of a VM relative to others. ``strict``: rather none than another one."""

    strict: bool
    near: list[str] | None = None
    far: list[str] | None = None


class NewVm(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The body that creates a VM. ``ports``: uuids, in the order of its interfaces."""

    uuid: str
    owner_uuid: str
    alias: str
    hostname: str
    brand: str
    image_uuid: str
    max_physical_memory: int
    quota: int
    cpu_cap: int
    vcpus: int | None = None
    tags: dict[str, str] = {}
    customer_metadata: dict[str, str] = {}
    ports: list[str] | None = None
    resolvers: list[str] | None = None
    autoboot: bool = False


class NewInterfaces(msgspec.Struct, kw_only=True):
    """The body that gives a VM interfaces. ``ports``: uuids, in the order of the interfaces."""

    ports: list[str]


class VmUpdate(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What changes of a VM in place; what is absent stays."""

    alias: str | None = None
    max_physical_memory: int | None = None
    quota: int | None = None
    cpu_cap: int | None = None
    set_tags: dict[str, str] | None = None
    remove_tags: list[str] | None = None


class PlacedVm(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A VM as the allocator wants to know it."""

    vm_uuid: str
    uuid: str
    owner_uuid: str
    alias: str
    brand: str
    image_uuid: str
    ram: int
    max_physical_memory: int
    quota: int
    cpu_cap: int
    vcpus: int | None = None
    tags: dict[str, str] = {}
    locality: Locality | None = None

    @classmethod
    def of(cls, vm: NewVm, locality: Locality | None = None) -> PlacedVm:
        """What the allocator needs of a VM that is to be created."""
        return cls(
            vm_uuid=vm.uuid,
            uuid=vm.uuid,
            owner_uuid=vm.owner_uuid,
            alias=vm.alias,
            brand=vm.brand,
            image_uuid=vm.image_uuid,
            ram=vm.max_physical_memory,
            max_physical_memory=vm.max_physical_memory,
            quota=vm.quota,
            cpu_cap=vm.cpu_cap,
            vcpus=vm.vcpus,
            tags=vm.tags,
            locality=locality,
        )


class PlacedImage(msgspec.Struct, kw_only=True):
    """The image of a VM as the allocator wants to know it."""

    uuid: str
    type: str


class SupposedVm(msgspec.Struct, kw_only=True):
    """A VM that counts as if it was on a server."""

    server: str
    vm: PlacedVm


class Allocation(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The body that asks for a server with room.

    ``reserve``, ``reserve_seconds``: hold the room under the VM's uuid. ``explain`` (always sent)
    false leaves the steps of a success out. ``servers``: only these. ``volumes``: those that the VM
    will be given; it is placed with them if it can be. When nothing is reserved: ``without``, VMs that
    count no more, and ``beside``, others that count as if they were there.
    """

    vm: PlacedVm
    image: PlacedImage
    explain: bool
    nic_tags: list[str] = msgspec.field(default_factory=list[str])
    ports: list[str] | None = None
    volumes: list[str] = msgspec.field(default_factory=list[str])
    reserve: bool = False
    reserve_seconds: int | None = None
    servers: list[str] | None = None
    without: list[str] = msgspec.field(default_factory=list[str])
    beside: list[SupposedVm] = msgspec.field(default_factory=list[SupposedVm])


class ChosenServer(msgspec.Struct, kw_only=True):
    """The server that was chosen."""

    uuid: str
    hostname: str | None = None


class Allocated(msgspec.Struct, kw_only=True):
    """The answer of an allocation; ``server`` ``None``: the chosen server is gone."""

    server: ChosenServer | None = None


class AllocationStep(msgspec.Struct, kw_only=True):
    """A step of an allocation that found nothing: ``reasons`` by server (``*``, ``skip``: of none)."""

    step: str = ""
    reasons: dict[str, str] | None = None


class NoAllocation(msgspec.Struct, kw_only=True):
    """What a refused allocation has beside its message."""

    steps: list[AllocationStep] | None = None
    not_considered: dict[str, str] | None = None

    def reasons(self) -> dict[str, str]:
        """Why servers were excluded, by server."""
        found = dict(self.not_considered or {})
        for step in self.steps or ():
            given = step.reasons or {}
            found |= {one: text for one, text in given.items() if one not in ("*", "skip")}
        return found


#: The code of the refusal (409) of a ticket whose uuid is in the queue of another server or VM.
OTHER_QUEUE = "TicketInAnotherQueue"


class NewTicket(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The body that queues up for a turn on a server."""

    uuid: str = ""
    scope: str
    id: str
    expires_at: str
    action: str | None = None
    extra: dict[str, Json] | None = None


class Ticket(msgspec.Struct, kw_only=True):
    """A turn on a server: ``queued``, ``active``, ``finished`` or ``expired``.

    ``scope`` and ``id`` name its queue there; the ``fence`` of a later ticket of a queue is higher.
    """

    uuid: str
    status: str
    server_uuid: str = ""
    scope: str = ""
    id: str = ""
    fence: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether it has its turn, or waits for it."""
        return self.status in ("queued", "active")

    @property
    def queue(self) -> tuple[str, str, str]:
        """The queue that it stands in."""
        return self.server_uuid, self.scope, self.id


class TaskStarted(msgspec.Struct, kw_only=True):
    """A node has work to do; no ``id`` when there is none (a VM that was only placed was destroyed)."""

    id: str | None = ""
    vm_uuid: str = ""


class _State(msgspec.Struct):
    state: str = ""


class _Result(msgspec.Struct):
    error: str = ""
    state: str = ""
    vm: _State | None = None


class Task(msgspec.Struct, kw_only=True):
    """Work of a node: ``active``, ``complete`` or ``failure``."""

    id: str = ""
    req_id: str | None = None
    server_uuid: str = ""
    task: str = ""
    status: str
    progress: Number = 0
    timestamp: str | None = None
    history: list[Json] | None = None
    result: Json = None
    waiting_on: str | UnsetType = UNSET

    @property
    def error(self) -> str:
        """Why it failed, in the node's words."""
        return self._parsed().error

    @property
    def vm_state(self) -> str:
        """The state in which the task left its VM."""
        result = self._parsed()
        return result.vm.state if result.vm is not None else result.state

    def _parsed(self) -> _Result:
        """What is known of any task's result; nodes may report anything else."""
        try:
            return msgspec.convert(self.result, _Result, strict=False)
        except msgspec.ValidationError:
            return _Result()
