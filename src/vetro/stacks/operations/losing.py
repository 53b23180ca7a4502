"""What an operation would take from its user, by name: machines, volumes and addresses.

An address that comes and goes with a machine is not named beside it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vetro.compute.client.calls import FLOATING_IPS, PORTS, SUBNETS, VOLUMES
from vetro.secrecy import masked
from vetro.stacks.compute_service.port import ComputePort
from vetro.stacks.losses import ChangedProperty, Loss, LossHow, LossKind
from vetro.stacks.model import ChangeKind, Json, StackStatus, resources_of
from vetro.stacks.operations.changes import Decision
from vetro.stacks.operations.planning import Planned
from vetro.stacks.resources import resource_type
from vetro.stacks.resources.addresses import FloatingIP, NovaFloatingIP
from vetro.stacks.resources.base import entries, items, text
from vetro.stacks.resources.networks import Subnet
from vetro.stacks.resources.ports import Port
from vetro.stacks.resources.security_groups import SecurityGroup
from vetro.stacks.resources.servers import AwsInstance, Server
from vetro.stacks.resources.volumes import Volume
from vetro.stacks.state.records import ResourceRow, StackRow
from vetro.stacks.template.balancers import SERVER_PROPERTIES
from vetro.stacks.template.functions import Unknown, used_by

_MACHINES = (Server.name, AwsInstance.name)
_FLOATING = (FloatingIP.name, NovaFloatingIP.name)
SHARED_RANGE = "AllowedAddressPairsSubnet-"
"""What resources of the class library are called that are addresses for several machines (core-library.md
§3.7). A range of any other subnet is that of its machines."""
_AT_ONCE = 16
_LONGEST = 60
_UNMADE = ("allocated", "creating", "failed", "incomplete")
"""States of a machine that never ran, when its creation has not come to its end."""
_BEING_MADE = (StackStatus.CREATE_IN_PROGRESS, StackStatus.CREATE_FAILED)
_ALIKE = ("image", "flavor", "block_device_mapping_v2", "ImageId", "InstanceType")
"""Properties that a machine under another name has in common with the one it takes the place of."""
_JOINED = ("networks", "NetworkInterfaces")
WORDS = {
    "name": "host name",
    "ImageId": "image",
    "InstanceType": "flavor",
    "networks": "network",
    "NetworkInterfaces": "network",
    "SubnetId": "network",
    "key_name": "key pair",
    "KeyName": "key pair",
    "SecurityGroups": "security groups",
    "SecurityGroupIds": "security groups",
    "block_device_mapping_v2": "volume",
    "scheduler_hints": "placement",
    "source_volid": "source volume",
    "snapshot_id": "snapshot",
    "backup_id": "backup",
    "floating_network_id": "floating network",
    "network_id": "network",
    "fixed_ips": "address",
}
"""Properties as people call them; others by their own words."""


@dataclass(eq=False, repr=False)
class Losses:
    """Names what is lost of a stack's resources."""

    compute: ComputePort
    stack: StackRow
    """With all its resources, also those that an earlier operation has left to be removed."""
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    def __post_init__(self) -> None:
        self.rows = self.stack.resources
        self._types = {row.name: row.type for row in self.rows}
        self._given = _bodies(self.stack)
        # A machine that has another in its place already is still called as it was.
        known = [(self._kind(row), self._called(row)) for row in self.rows if row.current]
        self._twice = {one for one, count in Counter(known).items() if one[0] and count > 1}

    async def of_plan(self, planned: Iterable[Planned]) -> list[Loss]:
        """What an operation that does this would lose."""
        planned = list(planned)
        lost = [
            (one.row, one)
            for one in planned
            if one.row is not None and one.decision.kind in (ChangeKind.REPLACE, ChangeKind.DELETE)
        ]
        lost += [(row, _gone(row)) for row in self.rows if not row.current]
        return await self._named(lost, _renamed(planned), _wished(planned))

    async def of_all(self) -> list[Loss]:
        """What removing the stack would lose."""
        return await self._named([(row, _gone(row)) for row in self.rows], {}, frozenset())

    async def of_removal(self, resources: Collection[str]) -> list[Loss]:
        """What an operation would lose that takes these resources out of the template."""
        gone = [
            row for row in self.rows if not row.current or within(row.name, resources, self._given)
        ]
        return await self._named([(row, _gone(row)) for row in gone], {}, frozenset())

    async def of_replaced(
        self, row: ResourceRow, properties: Mapping[str, Json], decision: Decision
    ) -> list[Loss]:
        """What replacing one machine, volume, floating address or shared range would lose."""
        if self._kind(row) is None or row.type == Port.name:
            return []
        planned = Planned(row.name, row.type, row, decision, properties)
        return await self._named([(row, planned)], {}, frozenset())

    async def _named(
        self,
        lost: Sequence[tuple[ResourceRow, Planned]],
        renamed: Mapping[str, Planned],
        wished: Collection[str],
    ) -> list[Loss]:
        lost = [(row, one) for row, one in lost if self._kind(row) is not None and not row.retain]
        machines = {row.physical_id for row, _ in lost if self._kind(row) is LossKind.MACHINE}

        async def names_of(row: ResourceRow) -> list[str]:
            async with self._slots:
                return await self._names(row, machines, wished)

        found = await asyncio.gather(*(names_of(row) for row, _ in lost))
        result: list[Loss] = []
        for (row, one), names in zip(lost, found, strict=True):
            kind = self._kind(row)
            assert kind is not None
            how, changes = LossHow.REMOVED, tuple[ChangedProperty, ...]()
            if one.decision.kind is ChangeKind.REPLACE and row.current:
                how, changes = LossHow.REPLACED, _changes(row, one)
            for name in names:
                if kind is LossKind.MACHINE and how is LossHow.REMOVED and row.name in renamed:
                    how, other = LossHow.REPLACED, renamed[row.name]
                    new = shown("name", other.properties.get("name", other.name))
                    changes = (ChangedProperty(WORDS["name"], name, new),)
                    if new == name:
                        changes = (ChangedProperty("resource", row.name, other.name),)
                loss = Loss(kind, name, how, row.name, changes)
                if (kind, self._called(row)) in self._twice:
                    loss = replace(loss, name=f"{name} ({row.name})")
                result.append(loss)
        return sorted(result, key=lambda loss: ([*LossKind].index(loss.kind), loss.name))

    async def _names(
        self, row: ResourceRow, machines: Collection[str], wished: Collection[str]
    ) -> list[str]:
        """What is lost with a resource, as people know it; nothing when there is nothing."""
        if row.type in _MACHINES:
            server = await self.compute.server(row.physical_id)
            if server is None or server.state == "missing":
                return []
            if row.status in _BEING_MADE and server.state in _UNMADE:
                return []
            return [self._called(row)]
        if row.type == Volume.name:
            volume = await self.compute.find(VOLUMES, row.physical_id)
            return [] if volume is None else [self._called(row)]
        if row.type in _FLOATING:
            floating = await self.compute.find(FLOATING_IPS, row.physical_id)
            return [] if floating is None else [floating.address]
        if row.type == Subnet.name:
            subnet = await self.compute.find(SUBNETS, row.physical_id)
            return [] if subnet is None else [subnet.cidr]
        port = await self.compute.find(PORTS, row.physical_id)
        if port is None or port.device_uuid in machines:
            return []
        if port.device_uuid is None and self._is_of_a_machine(row):
            return []  # the machine was never made, or is gone
        return [address for _, address in port.fixed_ips if address not in wished]

    def _called(self, row: ResourceRow) -> str:
        """The name of a machine or volume, given or made of its resource's; of others, their resource's."""
        if pool := self._balancer(row):
            given = [text(one.properties.get("name")) for one in self.rows if one.name == pool]
            return "".join(given) or pool
        if row.type in _MACHINES:
            return text(row.properties.get("name")) or f"{self.stack.name}-{row.name}"
        return text(row.properties.get("name") if row.type == Volume.name else None) or row.name

    def _kind(self, row: ResourceRow) -> LossKind | None:
        if row.type in _MACHINES:
            return LossKind.BALANCER if self._balancer(row) else LossKind.MACHINE
        if row.type == Volume.name:
            return LossKind.VOLUME
        if row.type == Subnet.name and row.name.startswith(SHARED_RANGE):
            return LossKind.ADDRESS
        return LossKind.ADDRESS if row.type in (*_FLOATING, Port.name) else None

    def _balancer(self, row: ResourceRow) -> str:
        """The pool whose load balancer this server is; empty: it is a machine.

        By what the pool is written out to (`template.balancers`), as far as it leaves after the server.
        A machine of such a name has properties of its own, or is itself in the template.
        """
        pool = row.name.removesuffix(".server")
        parts = (self._types.get(f"{pool}.vip"), self._types.get(f"{pool}.access"))
        is_one = pool != row.name and parts == (Port.name, SecurityGroup.name)
        is_one = is_one and row.properties.keys() == SERVER_PROPERTIES
        return pool if is_one and row.name not in self._given else ""

    def _is_of_a_machine(self, port: ResourceRow) -> bool:
        """Whether a port was made for a machine: without one an address that was not chosen is nobody's."""
        if _addresses(port.properties):
            return False
        if port.status in _BEING_MADE:
            return True  # nobody has used it
        machines = [row for row in self.rows if row.type in _MACHINES]
        if port.name not in self._given:  # a member's, or one that leaves
            return any(port.id in row.requires for row in machines)
        return any(port.name in joined(one) for one in self._given.values())


def joined(body: Mapping[str, Json]) -> set[str]:
    """The ports of the same template that a machine is made with."""
    if body.get("type", body.get("Type")) not in _MACHINES:
        return set()
    given = entries(body.get("properties", body.get("Properties")) or {})
    return {name for key in _JOINED for name in used_by(given.get(key), False)}


def _bodies(stack: StackRow) -> dict[str, dict[str, Json]]:
    """The resources of a stack's template, in either spelling."""
    given = entries(resources_of(stack.template))
    return {name: entries(body) for name, body in given.items() if isinstance(body, dict)}


def within(path: str, resources: Collection[str], known: Collection[str]) -> bool:
    """Whether a resource is one of these, or in one of these (``group.0.server``).

    ``known``: the names in the template, which may have dots.
    """
    inside = path not in known and any(path.startswith(f"{one}.") for one in resources)
    return inside or path in resources


def _gone(row: ResourceRow) -> Planned:
    return Planned(row.name, row.type, row, Decision(ChangeKind.DELETE, ""), {})


def _addresses(properties: Mapping[str, Json]) -> set[str]:
    """The addresses that a port's properties ask for."""
    given = properties.get("fixed_ips")
    wanted = [entries(one) for one in items(given if isinstance(given, list) else [])]
    return {one["ip_address"] for one in wanted if isinstance(one.get("ip_address"), str)}


def _wished(planned: Sequence[Planned]) -> set[str]:
    """Addresses that ports which an operation makes have again."""
    made = (ChangeKind.CREATE, ChangeKind.REPLACE)
    ports = [one for one in planned if one.type == Port.name and one.decision.kind in made]
    return {address for one in ports for address in _addresses(one.properties)}


def _renamed(planned: Sequence[Planned]) -> dict[str, Planned]:
    """What comes in the place of machines that go, by their resources: one that is like them."""
    gone: dict[str, list[Planned]] = {}
    come: dict[str, list[Planned]] = {}
    for one in planned:
        if one.type not in _MACHINES:
            continue
        if one.decision.kind is ChangeKind.DELETE and one.row is not None:
            gone.setdefault(_likeness(one.type, one.row.properties), []).append(one)
        elif one.row is None:
            come.setdefault(_likeness(one.type, one.properties), []).append(one)
    return {
        gone[like][0].name: come[like][0]
        for like in gone.keys() & come.keys()
        if len(gone[like]) == len(come[like]) == 1
    }


def _likeness(type_name: str, properties: Mapping[str, Json]) -> str:
    return repr((type_name, [properties.get(key) for key in _ALIKE]))


def _changes(row: ResourceRow, planned: Planned) -> tuple[ChangedProperty, ...]:
    if row.type != planned.type:
        return (ChangedProperty("type", row.type, planned.type),)
    if row.status is StackStatus.CREATE_FAILED:
        return (ChangedProperty("state", "creation failed", "made again"),)
    known = resource_type(row.type, row.name).properties
    return tuple(
        changed(key, row.properties.get(key), planned.properties.get(key))
        for key in sorted(planned.decision.changed)
        if key not in known or not known[key].update
    )


def changed(key: str, old: Json, new: Json) -> ChangedProperty:
    """A property with both values, as people read them; of lists what is not in both."""
    values: list[Json] = [old, new]
    if isinstance(old, list) and isinstance(new, list):
        before, after = items(old), items(new)
        gone = [one for one in before if one not in after]
        come = [one for one in after if one not in before]
        if gone or come:  # else they are in another order
            values = [gone, come]
    word = WORDS.get(key) or key.replace("_", " ")
    return ChangedProperty(word, *(shown(key, one) for one in values))


def shown(key: str, value: Json) -> str:
    """A value as people read it; secrets are masked."""
    said = _text(_wished_words(value) if key == "fixed_ips" else _masked(value, key))
    return said if len(said) <= _LONGEST else said[: _LONGEST - 1] + "…"


def _masked(value: Json, key: str) -> Json:
    return value if isinstance(value, Unknown) else masked(value, key)


def _wished_words(value: Json) -> Json:
    """The addresses that a port asks for; where it asks for any one of a subnet, that is said."""
    if not isinstance(value, list):
        return value or "any"
    wishes = [
        entries(one) if isinstance(one, dict) else {"ip_address": one} for one in items(value)
    ]
    return [
        one.get("ip_address") or _any_in(one.get("subnet", one.get("subnet_id"))) for one in wishes
    ] or "any"


def _any_in(subnet: Json) -> str:
    return f"any in subnet {subnet.reason if isinstance(subnet, Unknown) else subnet}"


def _text(value: Json) -> str:
    if isinstance(value, Unknown):
        return f"depends on {value.reason}"
    if value is None or value in ("", [], {}):
        return "none"
    if isinstance(value, list):
        return ", ".join(_text(one) for one in items(value))
    if isinstance(value, dict):
        parts = entries(value)
        if "ip_address" in parts:
            return _text(parts["ip_address"])
        if len(parts) == 1:
            return _text(next(iter(parts.values())))
        return ", ".join(f"{key}: {_text(one)}" for key, one in parts.items())
    return str(value)
