"""What a resource type is: a schema of properties, and how to make, change and remove one.

A type's `create` is given the physical id to use and may be called again for the same id after a
crash; `delete` is also called for resources that may never have been created. Both must therefore
be idempotent.

A stack removes what it made. An object has a uuid that was chosen for it, so whatever has this uuid is the
stack's. What has none is a `Relation`: the service keeps it with the mark `ResourceContext.claim`, and it is
the stack's only with this mark (decision 0794).
"""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias, cast

import msgspec

from vetro.compute.client.calls import AnyKind
from vetro.digits import is_number
from vetro.stacks.compute_service.port import ComputePort, Offers
from vetro.stacks.doors import Doors
from vetro.stacks.errors import (
    InvalidProperty,
    ResourceFailure,
    UnresolvedReference,
    UnsupportedResource,
    brief,
)
from vetro.stacks.flavors import Flavor
from vetro.stacks.model import Json
from vetro.stacks.template.functions import Unknown, function_of

Finding: TypeAlias = "Callable[[ResourceContext, Json, bool], Awaitable[Json]]"
"""Finds what a property names, by its name or its id: `ResourceType.named`."""
Shown: TypeAlias = dict[str, Json] | None
"""The attributes of a resource by name; None: it is not there."""

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str, int, float, bool),
    "integer": (int, str),
    "boolean": (bool, str),
    "map": (dict,),
    "list": (list,),
    "any": (object,),
}


@dataclass(frozen=True, slots=True)
class Property:
    """One property of a resource type."""

    kind: str = "string"
    update: bool = False
    """A change is made in place; otherwise the resource is replaced."""
    allowed: tuple[str, ...] = ()
    ignored: str = ""
    """Accepted and without effect here: why that does no harm."""
    only: tuple[str, ...] = ()
    """The values (as text, in small letters) that are what is the case here anyway; others are refused."""
    refused: str = ""
    """Why a value is not served."""
    needs: str = ""
    """What the compute service must offer for a value (`ComputePort.offers`)."""
    first_start: bool = False
    """It is read at the first start only: another value keeps the resource, and the value that it has."""
    tells_empty: bool = False
    """An empty text is not the same as none."""


@dataclass(frozen=True, slots=True)
class PlacementGroup:
    """A server group, as one of its servers sees it."""

    policy: str
    lock: asyncio.Lock
    """Servers of a group are placed one after another: each must know where the others are."""
    placed: Callable[[], list[str]]
    """The ids of the other servers that have their place."""


async def _nothing_known(_physical_id: str) -> frozenset[str]:
    return frozenset()


async def _cannot_adopt() -> None:
    raise AssertionError("only an operation on a stack can adopt")


@dataclass(slots=True)
class ResourceContext:
    """One resource in an operation: its identity, what was saved about it, and the world."""

    project_id: str
    stack_id: str
    stack_name: str
    name: str
    physical_id: str
    compute: ComputePort
    flavors: Mapping[str, Flavor]
    config: Callable[[str], Awaitable[dict[str, Json] | None]]
    """A software configuration by its id: its text is `config`."""
    group: Callable[[str], PlacementGroup | None]
    """A server group of the stack by its id."""
    save: Callable[[dict[str, Json]], Awaitable[None]]
    """Store `data` (before doing what it describes)."""
    own: Callable[[str], frozenset[str]] = lambda _physical_id: frozenset()
    """The types of the stack's resources that have this id: what a template names may be anybody's."""
    known: Callable[[str], Awaitable[frozenset[str]]] = _nothing_known
    """The same for all stacks of the project."""
    leaving: Callable[[], Sequence[str]] = tuple
    """Physical ids of the stack's resources of this type that this operation removes."""
    volumes: Callable[[], Sequence[str]] = tuple
    """Ids of existing volumes that the template attaches to this server."""
    doors: Doors = field(default_factory=Doors)
    """Ways to hear from guests."""
    say: Callable[[str], None] = lambda text: None
    """What this resource waits for now."""
    data: dict[str, Json] = field(default_factory=dict[str, Json])
    """What the type keeps about the resource, beyond its properties."""
    changed: frozenset[str] = frozenset()
    """The properties that differ, when it is changed in place."""
    claim: str = ""
    """The mark of what the resource makes that has no uuid of its own."""
    adopt: Callable[[], Awaitable[None]] = _cannot_adopt
    """Record that it was there before: it is neither changed nor removed, and outlives the stack."""
    former: Mapping[str, Json] | None = None
    """What it was like before that; None when a change has failed, and it may be like either."""

    async def config_text(self, given: str) -> str:
        """A text, or that of the software configuration whose id it is."""
        found = await self.config(given)
        return given if found is None else text(found["config"])


class ResourceType:
    """Base of all types. One instance serves all resources of the type."""

    name: ClassVar[str]
    properties: ClassVar[Mapping[str, Property]] = {}
    attributes: ClassVar[frozenset[str]] = frozenset()
    required: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Groups of properties; one of each group must be given."""
    spelled: ClassVar[Mapping[str, str]] = {}
    """Other names of properties, each with the name that counts when both are given."""
    named: ClassVar[Mapping[tuple[str, ...], Finding]] = {}
    """Properties that name something which must be there, in all their spellings, and what finds it.

    It is given the property's value and whether that is the resource's own, and returns the same for each
    way to name the same. Raises `ResourceFailure` for what is not there."""
    delete_first: ClassVar[bool] = False
    """When replaced, the old one must go before the new one can be made."""
    needs: ClassVar[str] = ""
    """What the compute service must offer for resources of this type (`ComputePort.offers`)."""
    waits: ClassVar[bool] = False
    """Creating it means waiting for others: it delays no other resource, and ends when another one
    fails."""

    restores: ClassVar[bool] = False
    """Whether something can be taken from a resource by hand, or by a node that fails, and put back (`lacks`,
    `restore`)."""

    whole_first: ClassVar[bool] = False
    """Whether it is restored before it is changed in place."""

    def check(self, resource: str, properties: Mapping[str, Json]) -> None:
        """Check properties whose values may still be functions. Raises `InvalidProperty`."""
        for key, value in properties.items():
            known = self.properties.get(key)
            if known is None:
                near = difflib.get_close_matches(key, self.properties, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise InvalidProperty(
                    f"{self.name} has no property {key!r}{hint}", resource=resource
                )
            if known.refused:
                raise InvalidProperty(
                    f"the property {key!r} is not supported: {known.refused}", resource=resource
                )
            if function_of(value) is None and not isinstance(value, Unknown):
                self._check_value(resource, key, known, value)
        for group in self.required:
            if not any(key in properties for key in group):
                raise InvalidProperty(f"{self.name} needs {' or '.join(group)}", resource=resource)

    def check_needs(self, resource: str, properties: Mapping[str, Json], offers: Offers) -> None:
        """Raises `UnsupportedResource` or `InvalidProperty` for what the service cannot do."""
        lacks = offers.lacks(self.needs)
        if lacks is not None:
            raise UnsupportedResource(
                f"the type {self.name} is not supported: {lacks}", resource=resource
            )
        for key in properties:
            lacks = offers.lacks(self.properties[key].needs)
            if lacks is not None:
                raise InvalidProperty(
                    f"the property {key!r} is not supported: {lacks}", resource=resource
                )

    def wants(self, properties: Mapping[str, Json]) -> bool:
        """Whether a resource with these properties needs optional parts of the service."""
        return bool(self.needs) or any(self.properties[key].needs for key in properties)

    def check_attribute(self, resource: str, attribute: str) -> None:
        """Raises `UnresolvedReference` for an attribute this type does not have."""
        if attribute not in self.attributes and attribute != "show":
            known = ", ".join(sorted(self.attributes)) or "none"
            raise UnresolvedReference(
                f"{self.name} has no attribute {attribute!r}; it has: {known}", resource=resource
            )

    def changed_in_place(self, changed: frozenset[str]) -> bool:
        """True if these changed properties can be changed without a new resource."""
        known = (self.properties[key] for key in changed)
        return all(one.update or bool(one.ignored) for one in known)

    def kept(
        self, changed: frozenset[str], old: Mapping[str, Json], new: Mapping[str, Json]
    ) -> frozenset[str]:
        """Those of the changed properties whose new values concern a new resource only: the resource keeps
        the values that it was made with. `new` may hold `Unknown` values."""
        return frozenset(key for key in changed if self.properties[key].first_start)

    async def renamed(
        self,
        context: ResourceContext,
        changed: frozenset[str],
        old: Mapping[str, Json],
        new: Mapping[str, Json],
    ) -> frozenset[str]:
        """Those of the changed properties that name in other words what the resource has already.

        `new` may hold `Unknown` values."""
        same: set[str] = set()
        for keys, find in self.named.items():
            before, after = _first(old, keys), _first(new, keys)
            if changed.isdisjoint(keys) or None in (before, after) or unknown_in(after):
                continue
            if sum(key in new for key in keys) > 1:
                continue  # which of them is meant is for people to say
            try:
                if await find(context, before, True) == await find(context, after, False):
                    same |= changed & set(keys)
            except ResourceFailure:
                continue  # the operation says what is not there
        return frozenset(same)

    async def look(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        """Raises `ResourceFailure` when something is not there that creation would need, as far as it is
        known: `properties` may hold `Unknown` values."""
        for keys, find in self.named.items():
            value = _first(properties, keys)
            if value and not unknown_in(value):
                await find(context, value, False)

    def takes(self, properties: Mapping[str, Json]) -> tuple[str, ...] | None:
        """What only one resource can have and that has no uuid of its own; None: nothing."""
        return None

    def new_id(self, context: ResourceContext, properties: Mapping[str, Json]) -> str:
        """The id of a resource about to be made; by default the uuid chosen for it."""
        return context.physical_id

    def reference(self, physical_id: str, data: Mapping[str, Json]) -> Json:
        """What `get_resource` gives; `data` is what the type keeps about the resource."""
        return physical_id

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        """Make the resource, or finish making it. Raises `ResourceFailure`."""
        raise NotImplementedError

    async def update(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        """Change the properties `context.changed` in place. Raises `ResourceFailure`."""
        raise ResourceFailure(f"{self.name} cannot be changed in place")

    async def lacks(self, context: ResourceContext, properties: Mapping[str, Json]) -> bool:
        """Whether somebody has taken away what the resource was made with."""
        return False

    async def restore(self, context: ResourceContext, properties: Mapping[str, Json]) -> str | None:
        """Put back what somebody has taken away; what was added by hand stays. Raises `ResourceFailure`.

        Returns what of it cannot be put back, in words for people; None: nothing."""

    async def delete(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        """Remove the resource if it exists. Raises `ResourceFailure`."""
        raise NotImplementedError

    async def shown(self, context: ResourceContext, properties: Mapping[str, Json]) -> Shown:
        """The attributes now; None when the resource is not there or has none."""
        return None

    async def attribute(
        self, context: ResourceContext, properties: Mapping[str, Json], name: str
    ) -> Json:
        """The value of an attribute now; `show` is all of them."""
        shown = await self.shown(context, properties)
        return shown if shown is None or name == "show" else shown.get(name)

    def _check_value(self, resource: str, key: str, known: Property, value: Json) -> None:
        if not isinstance(value, _PYTHON_TYPES[known.kind]) or (
            known.kind in ("string", "integer") and isinstance(value, dict | list)
        ):
            raise InvalidProperty(
                f"the property {key!r} is a {known.kind}, not {brief(value)}", resource=resource
            )
        if known.kind == "integer" and not is_number(str(value).lstrip("-")):
            raise InvalidProperty(
                f"the property {key!r} is not an integer: {value!r}", resource=resource
            )
        said = flag(value, False) if known.kind == "boolean" else value
        if known.only and str(said).lower() not in known.only:
            raise InvalidProperty(
                f"the property {key!r} is not supported with the value {brief(value)}: {known.ignored}",
                resource=resource,
            )
        if known.allowed and str(value) not in known.allowed:
            raise InvalidProperty(
                f"the property {key!r} is {value!r}; use one of {', '.join(known.allowed)}",
                resource=resource,
            )


class ComputeObject(ResourceType):
    """Base of types that are objects of the compute service: `new` is all there is to say of one."""

    kind: ClassVar[AnyKind]
    """The kind of the object that its physical id names."""

    async def new(self, context: ResourceContext, properties: Mapping[str, Json]) -> msgspec.Struct:
        """The body that creates it; what can be changed of it has the same names there."""
        raise NotImplementedError

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await context.compute.create(self.kind, await self.new(context, properties))

    async def update(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        new = await self.new(context, properties)
        change = msgspec.convert(new, self.kind.changed, from_attributes=True)
        await context.compute.change(self.kind, context.physical_id, change)

    async def delete(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await context.compute.remove(self.kind, context.physical_id)


class Relation(ResourceType):
    """Base of types without a uuid of their own: a name, or two objects that belong together.

    One call makes it, with the mark `context.claim`: after a refusal nothing of it is there.
    """

    delete_first = True

    def takes(self, properties: Mapping[str, Json]) -> tuple[str, ...]:
        raise NotImplementedError


class StackOnly(ResourceType):
    """Base of types that are records of the stack alone: nothing is changed or removed elsewhere."""

    async def update(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        return

    async def delete(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        return


def unknown_in(value: object) -> Unknown | None:
    """The first value that is not known yet of a value; None: all is known."""
    if isinstance(value, Unknown):
        return value
    inner: list[object] = []
    if isinstance(value, Mapping):
        inner = [*cast("Mapping[object, object]", value).values()]
    elif isinstance(value, list):
        inner = [*cast("list[object]", value)]
    return next((found for one in inner if (found := unknown_in(one)) is not None), None)


def hidden(value: Json, names: Collection[str]) -> Json:
    """A value in which these names are not known: what a template gives them to is not looked for."""
    if isinstance(value, dict):
        return {key: hidden(one, names) for key, one in entries(value).items()}
    if isinstance(value, list):
        return [hidden(one, names) for one in items(value)]
    return Unknown(value) if isinstance(value, str) and value in names else value


def _first(properties: Mapping[str, Json], keys: tuple[str, ...]) -> Json:
    return next((properties[key] for key in keys if properties.get(key) is not None), None)


def text(value: Json, default: str = "") -> str:
    """A property as text."""
    return default if value is None else str(value)


def flag(value: Json, default: bool) -> bool:
    """A boolean property; templates also write texts."""
    if value is None:
        return default
    if isinstance(value, bool):
        return value
    return str(value).lower() in ("true", "t", "1", "yes", "on")


def as_static(value: Json) -> Json:
    """A property that is already known: None while it is a function, or absent."""
    return None if function_of(value) is not None or isinstance(value, Unknown) else value


def is_uuid(value: str) -> bool:
    """True for the text form of a uuid."""
    return re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", value) is not None


NOT_SERVED: Mapping[str, Property] = {
    name: Property("any", refused=why)
    for name, why in {
        "dns_name": "there is no DNS for instances; leave it out",
        "dns_domain": "there is no DNS for instances; leave it out",
        "qos_policy": "rates of interfaces are not limited; leave it out",
        "dhcp_agent_ids": "addresses are static, without agents of DHCP; leave it out",
        "l3_agent_id": "every node routes for its own instances; leave it out",
        "l3_agent_ids": "every node routes for its own instances; leave it out",
        "availability_zone_hints": "all nodes are one zone; leave it out",
        "subnetpool": "there are no pools of subnets; give the cidr",
        "prefixlen": "there are no pools of subnets; give the cidr",
        "segment": "a network has one segment; leave it out",
        "propagate_uplink_status": "interfaces are virtual; leave it out",
        "no_fixed_ips": "every port has one address; leave it out",
        "stateful": "groups let in answers to what an instance began; leave it out",
        "rules": "a policy has no limits here; leave it out",
        "imageRef": "use image",
        "multiattach": "a volume is attached to one server; leave it out",
        "admin_user": "the image says who logs in; leave it out",
        "reservation_id": "there are no reservations of servers; leave it out",
        "diskConfig": "the disk has the size of the flavor; leave it out",
        "deployment_swift_data": "agents have mailboxes; leave it out",
        "DisableApiTermination": "servers of a stack are removed with it; leave it out",
        "KernelId": "the image has its kernel; leave it out",
        "RamDiskId": "the image has its kernel; leave it out",
        "Monitoring": "there is no CloudWatch; leave it out",
        "PlacementGroupName": "use OS::Nova::ServerGroup and OS::Nova::Server",
        "PrivateIpAddress": "give a port (OS::Neutron::Port) with the address in NetworkInterfaces",
        "SourceDestCheck": "use allowed_address_pairs of a port (OS::Neutron::Port)",
        "NovaSchedulerHints": "use OS::Nova::Server",
        "Tenancy": "servers share machines; leave it out",
    }.items()
}
"""Heat's properties that nothing here stands for, by name."""


def not_served(*names: str) -> dict[str, Property]:
    """These of `NOT_SERVED`, to be put beside a type's other properties."""
    return {name: NOT_SERVED[name] for name in names}


def items(value: Json) -> list[Json]:
    """A list property; absent is empty."""
    return list(value or [])


def entries(value: Json) -> dict[str, Json]:
    """A map property; absent is empty."""
    return dict(value or {})
