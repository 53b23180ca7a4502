"""Calls of the compute service: method, path, body, and the type of the answer.

Nothing is sent here. Paths are those of the service without its prefix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import GenericAlias
from typing import Any, Generic, Protocol, TypeVar, cast
from urllib.parse import quote

import msgspec

from vetro.compute.wire import (
    Attachment,
    FloatingIp,
    FloatingIpChange,
    Keypair,
    NameChange,
    Network,
    NewFloatingIp,
    NewKeypair,
    NewNetwork,
    NewPort,
    NewRouter,
    NewSecurityGroup,
    NewSubnet,
    NewVolume,
    NewVolumeCopy,
    Offer,
    Port,
    PortChange,
    Router,
    RouterChange,
    SecurityGroup,
    SecurityGroupChange,
    Subnet,
    SubnetChange,
    Volume,
    VolumeChange,
    VolumeCopy,
)

Answer = TypeVar("Answer")
Other = TypeVar("Other")


@dataclass(frozen=True, slots=True)
class Call(Generic[Answer]):
    """One request. ``answer``: the type of its JSON. ``seconds``: how long it may take (default: short)."""

    method: str
    path: str
    answer: type[Answer]
    body: object = None
    params: Mapping[str, str | int] = field(default_factory=dict[str, str | int])
    seconds: float | None = None

    @property
    def content(self) -> bytes | None:
        """The body as it is sent."""
        return None if self.body is None else msgspec.json.encode(self.body)

    def read(self, content: bytes) -> Answer:
        """The answer in a response's body. Errors: ``msgspec.MsgspecError``."""
        return msgspec.json.decode(content or b"null", type=self.answer)

    def answered_as(self, answer: type[Other]) -> Call[Other]:
        """The same request, its answer read as another type."""
        return Call(self.method, self.path, answer, self.body, self.params, self.seconds)


class Created(Protocol):
    """A body that creates an object: repeating it with the same ``uuid`` finds the object."""

    @property
    def uuid(self) -> str:
        """Chosen by the caller; '' lets the service choose."""
        ...


class Known(Protocol):
    """An object of a project; '' shares it."""

    uuid: str
    project_id: str


Shown = TypeVar("Shown", bound=Known)
New = TypeVar("New", bound=Created)
Change = TypeVar("Change")


@dataclass(frozen=True)
class Kind(Generic[Shown, New, Change]):
    """A kind of object that is created, shown, changed and removed in the same way."""

    noun: str
    path: str
    shown: type[Shown]
    new: type[New]
    changed: type[Change]
    #: How long a change may take (default: short).
    seconds: float | None = None

    def all(self, project_id: str | None = None) -> Call[list[Shown]]:
        """A project's objects and shared ones; for ``None`` all that the caller may see."""
        listed = cast("type[list[Shown]]", GenericAlias(list, (self.shown,)))
        return Call("GET", self.path, listed, params=_project(project_id))

    def one(self, uuid: str) -> Call[Shown]:
        """One object. Errors: 404."""
        return Call("GET", self.path_of(uuid), self.shown)

    def create(self, new: New) -> Call[Shown]:
        """Create an object, or find it when there is one with this uuid."""
        return Call("POST", self.path, self.shown, new, seconds=self.seconds)

    def change(self, uuid: str, change: Change) -> Call[Shown]:
        """Change an object; nodes that it concerns have the change when this returns."""
        return Call("PUT", self.path_of(uuid), self.shown, change, seconds=self.seconds)

    def remove(self, uuid: str) -> Call[None]:
        """Remove an object that nothing uses. Errors: 404, 409."""
        return Call("DELETE", self.path_of(uuid), type(None), seconds=self.seconds)

    def path_of(self, uuid: str) -> str:
        """The path of an object."""
        return f"{self.path}/{quote(uuid, safe='')}"


NETWORKS = Kind("network", "/networks", Network, NewNetwork, NameChange)
SUBNETS = Kind("subnet", "/subnets", Subnet, NewSubnet, SubnetChange)
ROUTERS = Kind("router", "/routers", Router, NewRouter, RouterChange)
SECURITY_GROUPS = Kind(
    "security group", "/security-groups", SecurityGroup, NewSecurityGroup, SecurityGroupChange
)
PORTS = Kind("port", "/ports", Port, NewPort, PortChange)
FLOATING_IPS = Kind(
    "floating address", "/floating-ips", FloatingIp, NewFloatingIp, FloatingIpChange
)
#: How long a node may take to copy a volume.
COPY_SECONDS = 3700.0
VOLUMES = Kind("volume", "/volumes", Volume, NewVolume, VolumeChange, COPY_SECONDS)
VOLUME_SNAPSHOTS = Kind(
    "volume snapshot", "/volume-snapshots", VolumeCopy, NewVolumeCopy, NameChange, COPY_SECONDS
)
VOLUME_BACKUPS = Kind(
    "volume backup", "/volume-backups", VolumeCopy, NewVolumeCopy, NameChange, COPY_SECONDS
)
AnyKind = Kind[Any, Any, Any]


def attach_volume(uuid: str, body: Attachment) -> Call[Volume]:
    """Give a volume to a VM; it has it when this returns. Errors: 404; 409 when another one has it."""
    return Call("POST", f"{VOLUMES.path_of(uuid)}/attach", Volume, body, seconds=COPY_SECONDS)


def detach_volume(uuid: str, vm_uuid: str = "", made_by: str | None = None) -> Call[Volume]:
    """Take a volume from the VM that has it; from ``vm_uuid`` only, if given. Errors: 404.

    ``made_by``: only if it was attached with this mark.
    """
    body = {**({"vm_uuid": vm_uuid} if vm_uuid else {}), **_mark(made_by)}
    return Call("POST", f"{VOLUMES.path_of(uuid)}/detach", Volume, body, seconds=COPY_SECONDS)


def restore_volume(backup: str, volume: str) -> Call[Volume]:
    """Replace what a detached volume has by a backup. Errors: 404, 409."""
    path = f"{VOLUME_BACKUPS.path_of(backup)}/restore"
    return Call("POST", path, Volume, {"volume_uuid": volume}, seconds=COPY_SECONDS)


def offers() -> Call[Offer]:
    """What the servers can do beyond running VMs."""
    return Call("GET", "/offers", Offer)


def add_interface(router: str, subnet: str, made_by: str | None = None) -> Call[None]:
    """Join a subnet to a router. Errors: with a mark, 409 when they were joined without it."""
    return Call("PUT", _interface(router, subnet), type(None), _mark(made_by) or None)


def remove_interface(router: str, subnet: str, made_by: str | None = None) -> Call[None]:
    """Part a subnet from a router; with a mark, only if they were joined with it."""
    return Call("DELETE", _interface(router, subnet), type(None), params=_mark(made_by))


def _interface(router: str, subnet: str) -> str:
    return f"{ROUTERS.path_of(router)}/interfaces/{quote(subnet, safe='')}"


def keypairs(project_id: str) -> Call[list[Keypair]]:
    """The public keys of a project."""
    return Call("GET", "/keypairs", list[Keypair], params={"project_id": project_id})


def keypair(name: str, project_id: str) -> Call[Keypair]:
    """A public key by its name. Errors: 404."""
    return Call("GET", _keypair(name), Keypair, params={"project_id": project_id})


def set_keypair(name: str, new: NewKeypair) -> Call[Keypair]:
    """Keep a public key. Errors: 409 when the name has another one, or another mark than the given."""
    return Call("PUT", _keypair(name), Keypair, new)


def remove_keypair(name: str, project_id: str, made_by: str | None = None) -> Call[None]:
    """Forget a public key. Errors: 404; with a mark, also for one that has another."""
    params = {"project_id": project_id, **_mark(made_by)}
    return Call("DELETE", _keypair(name), type(None), params=params)


def _mark(made_by: str | None) -> dict[str, str]:
    return {} if made_by is None else {"made_by": made_by}


def _keypair(name: str) -> str:
    return f"/keypairs/{quote(name, safe='')}"


def _project(project_id: str | None) -> dict[str, str | int]:
    return {"all_projects": "true"} if project_id is None else {"project_id": project_id}
