"""What people take by hand from the network of a stack at Heat, and how it comes back (decision 0798).

Heat compares templates and does not look at what is there. So Neutron is asked, once for each kind of thing
that a stack has. What is gone (a security group) is marked unhealthy at Heat, which makes it again in the
next update. What a thing that is there lacks (a rule, the port of a floating address, the interface of a
router) is put back at Neutron from here: Heat would have to make the thing anew, or take away what people
have added.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from vetro.openstack import NotInCatalog, OpenStackError, RequestRefused, ServiceAway, Session
from vetro.stacks.errors import ResourceFailure, TemplateError
from vetro.stacks.heat.client import HeatClient, StackItem
from vetro.stacks.heat.rules import AWS_GROUP, GROUP, is_there, standard_egress, wanted_rules
from vetro.stacks.heat.written_out import Definition, used_by
from vetro.stacks.model import Json, StackFailure
from vetro.stacks.template.functions import Unknown, find_unknown, resolve

RULE = "OS::Neutron::SecurityGroupRule"
FLOATING = "OS::Neutron::FloatingIP"
ASSOCIATION = "OS::Neutron::FloatingIPAssociation"
INTERFACE = "OS::Neutron::RouterInterface"
_KINDS = {
    GROUP: "security-groups",
    AWS_GROUP: "security-groups",
    RULE: "security-group-rules",
    FLOATING: "floatingips",
}
"""What Heat makes again when it is gone: nothing that holds anybody's data."""
_WATCHED = {*_KINDS, ASSOCIATION, INTERFACE}
_IDS = 100
"""In one request, whose address must not be too long."""
Rows = list[dict[str, Json]]


@dataclass(frozen=True, slots=True)
class Lack:
    """Something that one call to the network service puts back."""

    resource: str
    what: str
    method: str
    path: str
    body: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class ByHand:
    """What is missing of a stack."""

    gone: list[StackItem] = field(default_factory=list[StackItem])
    lacks: list[Lack] = field(default_factory=list[Lack])

    @property
    def resources(self) -> list[str]:
        """The names of the resources."""
        return sorted({one.path for one in self.gone} | {one.resource for one in self.lacks})


class NetworkService:
    """The calls of Neutron that this needs. Each is tried once: nobody waits for a look."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def rows(self, kind: str, key: str, ids: Iterable[str]) -> Rows:
        """The things of a kind of which ``key`` is one of the ids."""
        wanted = sorted(set(ids))
        found: Rows = []
        for start in range(0, len(wanted), _IDS):
            answer = await self._session.request(
                "network",
                "GET",
                f"{await self._version()}/{kind}",
                params={key: wanted[start : start + _IDS]},
            )
            assert answer is not None
            try:
                found += cast("Rows", answer.json()[kind.replace("-", "_")])
            except (KeyError, TypeError, ValueError) as error:
                raise ServiceAway("network", f"/{kind}", "it gives an odd answer") from error
        return found

    async def standard_rules(self) -> Rows | None:
        """The rules that this cloud gives new groups; None: it does not say, as Neutron did before 2023."""
        path = f"{await self._version()}/default-security-group-rules"
        answer = await self._session.request("network", "GET", path, absent=(403, 404))
        return None if answer is None else answer.json()["default_security_group_rules"]

    async def change(self, lack: Lack) -> None:
        """Put something back. What is there again, or has lost what it belonged to, is left alone."""
        path = f"{await self._version()}{lack.path}"
        try:
            await self._session.request("network", lack.method, path, json=lack.body, absent=(404,))
        except RequestRefused as error:
            if error.status != 409 or "quota" in str(error).lower():
                raise

    async def _version(self) -> str:
        return "" if (await self._session.endpoint("network")).endswith("/v2.0") else "/v2.0"


async def look(
    client: HeatClient, place: str, id_: str, definitions: Mapping[str, Definition]
) -> ByHand:
    """What is missing of a stack. ``definitions``: those of its template by path. Errors: `OpenStackError`.

    A cloud without a network service has nothing of this.
    """
    items = [
        # Heat lists the name that an environment has for a type, if it has one.
        replace(one, type=definitions[one.path].type) if one.path in definitions else one
        for one in await client.all_resources(place, id_)
    ]
    watched = [one for one in items if one.type in _WATCHED and one.physical_id and _settled(one)]
    network = NetworkService(client.session)
    by_path = {one.path: one for one in items}
    try:
        return await _Look(client, network, by_path, definitions).at(watched)
    except NotInCatalog:
        return ByHand()


def _settled(item: StackItem) -> bool:
    """What has failed Heat makes again by itself; what was marked is made again by a next update."""
    return item.status.endswith("_COMPLETE") or item.status == "CHECK_FAILED"


@dataclass(frozen=True, slots=True)
class _Look:
    client: HeatClient
    network: NetworkService
    items: Mapping[str, StackItem]
    definitions: Mapping[str, Definition]

    async def at(self, watched: Collection[StackItem]) -> ByHand:
        """What is missing of these."""
        there: dict[str, dict[str, Json]] = {}
        for kind in sorted(set(_KINDS.values())):
            ids = [one.physical_id for one in watched if _KINDS.get(one.type) == kind]
            there |= {str(row["id"]): row for row in await self.network.rows(kind, "id", ids)}
        gone = [one for one in watched if one.type in _KINDS and one.physical_id not in there]
        lacks = await self._interfaces([one for one in watched if one.type == INTERFACE])
        for one in watched:
            if one.type in (GROUP, AWS_GROUP) and one.physical_id in there:
                lacks += await self._rules(one, there[one.physical_id])
        lacks += await self._addresses(watched, there)
        return ByHand(gone, lacks)

    async def _rules(self, item: StackItem, group: Mapping[str, Json]) -> list[Lack]:
        if item.path not in self.definitions:
            return []
        given = self.definitions[item.path].properties
        properties = {key: await self._values(one) for key, one in given.items()}
        wanted, egress = wanted_rules(item.type, properties, item.physical_id)
        there = cast("Rows", group.get("security_group_rules") or [])
        if not egress and any(not is_there(one, there) for one in standard_egress(None)):
            wanted += standard_egress(await self.network.standard_rules())
        return [
            Lack(
                item.path,
                "a rule of the security group",
                "POST",
                "/security-group-rules",
                {"security_group_rule": {**one, "security_group_id": item.physical_id}},
            )
            for one in wanted
            if not is_there(one, there)
        ]

    async def _interfaces(self, items: Collection[StackItem]) -> list[Lack]:
        # Heat's id of an interface: ``ROUTER:subnet_id=SUBNET``. One of a port has lost its port as well.
        pairs = {one.path: one.physical_id.partition(":subnet_id=") for one in items}
        pairs = {path: one for path, one in pairs.items() if one[2]}
        routers = {one[0] for one in pairs.values()}
        ports = await self.network.rows("ports", "device_id", routers)
        there = {
            (port["device_id"], row["subnet_id"])
            for port in ports
            for row in cast("Rows", port["fixed_ips"])
        }
        return [
            Lack(
                path,
                "the interface of the router",
                "PUT",
                f"/routers/{router}/add_router_interface",
                {"subnet_id": subnet},
            )
            for path, (router, _, subnet) in pairs.items()
            if (router, subnet) not in there
        ]

    async def _addresses(
        self, watched: Collection[StackItem], there: Mapping[str, Mapping[str, Json]]
    ) -> list[Lack]:
        wanted: dict[str, tuple[str, dict[str, Json]]] = {}
        for one in watched:
            if one.type not in (FLOATING, ASSOCIATION) or one.path not in self.definitions:
                continue
            given = self.definitions[one.path].properties
            port = await self._value(given.get("port_id"))
            fixed = await self._value(given.get("fixed_ip_address"))
            address = one.physical_id
            if one.type == ASSOCIATION:
                address = await self._value(given.get("floatingip_id"))
            if isinstance(port, str) and isinstance(address, str):
                way: dict[str, Json] = {"port_id": port}
                if isinstance(fixed, str):
                    way["fixed_ip_address"] = fixed
                wanted[address] = one.path, way
        rows = {**there}
        others = [one for one in wanted if one not in there]
        rows |= {
            str(one["id"]): one for one in await self.network.rows("floatingips", "id", others)
        }
        return [
            Lack(path, "the port of the floating address", "PUT", f"/floatingips/{address}",
                 {"floatingip": way})
            for address, (path, way) in wanted.items()
            if address in rows and not rows[address].get("port_id")
        ]  # fmt: skip

    # --- what a template's values are at the cloud --------------------------------------

    async def _values(self, value: Json) -> Json:
        """The same for each member of a list: one that is not known does not hide the others."""
        if isinstance(value, list):
            return [await self._value(one) for one in cast("list[Json]", value)]
        return await self._value(value)

    async def _value(self, value: Json) -> Json:
        """A value with the ids and attributes of resources; `Unknown` when only Heat could tell."""
        used = [one for one in used_by(value, True) if one in self.items]
        said = {one: await self.client.attributes(self.items[one]) for one in used}
        try:
            found = resolve(value, _Made(self.items, said))
        except TemplateError as error:
            return Unknown(str(error))
        return found if find_unknown(found) is None else Unknown("what only Heat knows")


@dataclass(frozen=True, slots=True)
class _Made:
    """The `Context` of a template whose resources there are. Parameters have their values before."""

    items: Mapping[str, StackItem]
    said: Mapping[str, Mapping[str, Json]]

    def parameter(self, name: str) -> Json:
        return Unknown(name)

    def reference_id(self, resource: str) -> Json:
        item = self.items.get(resource)
        return item.physical_id if item is not None else Unknown(resource)

    def attribute(self, resource: str, name: str) -> Json:
        found = self.said.get(resource) or {}
        return found if name == "show" and found else found.get(name, Unknown(name))

    def file(self, name: str) -> str:
        raise TemplateError(f"the file {name!r} is Heat's")

    def mapping(self, name: str, first: str, second: str) -> Json:
        return Unknown(name)


async def put_back(session: Session, lacks: Iterable[Lack]) -> StackFailure | None:
    """Put back what things lack; what was refused first, after everything else was put back."""
    network = NetworkService(session)
    failed: StackFailure | None = None
    for one in lacks:
        try:
            await network.change(one)
        except OpenStackError as error:
            text = (
                f"{one.what} was removed by hand and cannot be put back: {error}. Mend that and deploy"
                " again"
            )
            failed = failed or StackFailure(one.resource, ResourceFailure.__name__, text)
    return failed
