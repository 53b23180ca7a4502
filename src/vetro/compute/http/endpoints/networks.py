"""Networks, ports, addresses, security groups and key pairs: ours, beside CNAPI.

Every create takes a ``uuid`` chosen by the caller and may be repeated. A project's users see and change
what is their project's; operators may name a project.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Table

from vetro.compute.client.calls import (
    FLOATING_IPS,
    NETWORKS,
    PORTS,
    ROUTERS,
    SECURITY_GROUPS,
    SUBNETS,
    AnyKind,
)
from vetro.compute.http.endpoint import Access, Call, Endpoint
from vetro.compute.networks.fabric import Fabric, Hanging, Object, View
from vetro.compute.networks.keypairs import find_keypair, keypairs_of, remove_keypair
from vetro.compute.networks.ownership import (
    Reference,
    check_new,
    check_references,
    each,
    groups_of_rules,
    may_change,
)
from vetro.compute.tables import (
    floating_ips,
    networks,
    ports,
    routers,
    security_groups,
    subnets,
)
from vetro.compute.values.faults import invalid_argument, invalid_parameters, not_allowed, not_found
from vetro.compute.values.network_parameters import (
    ADDRESS,
    AN_UUID,
    LONG,
    MADE_BY,
    MTU,
    OPTIONAL_TEXT,
    PREFIXES,
    RANGE,
    RESOLVERS,
    RULES,
    TEXT,
    UPLINK,
    UUIDS,
    WISHES,
    text_of,
)
from vetro.compute.values.records import Json, Record, struct_of
from vetro.compute.wire import (
    FloatingIp,
    Keypair,
    Network,
    Port,
    Router,
    SecurityGroup,
    Subnet,
)
from vetro.http import listed, shape_of
from vetro.http.parameters import BOOLEAN, BOOLEAN_TEXT, Param, query
from vetro.storage import StoredRow


def _network(row: StoredRow, hanging: Hanging) -> Network:
    subnets = [one.uuid for one in hanging.subnets if one.network_uuid == row.uuid]
    return struct_of(Network, row, project_id=row.owner_uuid, subnets=subnets)


def _subnet(row: StoredRow, _hanging: Hanging) -> Subnet:
    return struct_of(Subnet, row, project_id=row.owner_uuid)


def _router(row: StoredRow, hanging: Hanging) -> Router:
    subnets = [one.subnet_uuid for one in hanging.interfaces if one.router_uuid == row.uuid]
    return struct_of(Router, row, project_id=row.owner_uuid, subnets=subnets)


def _group(row: StoredRow, _hanging: Hanging) -> SecurityGroup:
    return struct_of(SecurityGroup, row, project_id=row.owner_uuid)


def _port(row: StoredRow, _hanging: Hanging) -> Port:
    return struct_of(Port, row, project_id=row.owner_uuid, fixed_ips=[(row.subnet_uuid, row.ip)])


def _floating(row: StoredRow, hanging: Hanging) -> FloatingIp:
    port = next((one for one in hanging.ports if one.uuid == row.port_uuid), None)
    fixed_ip = port.ip if port is not None else None
    return struct_of(FloatingIp, row, project_id=row.owner_uuid, fixed_ip=fixed_ip)


@dataclass(frozen=True)
class Kind:
    """One kind of object: its calls, its table, how it is shown and created, what calls take."""

    calls: AnyKind
    table: Table
    view: View
    make: Callable[[Fabric, str, str, Any], Awaitable[None]]
    create: tuple[Param, ...]
    change: tuple[Param, ...]
    refers: tuple[Reference, ...] = ()


_IN_NETWORK = Reference("network_uuid", networks, "network")
_GROUPS = Reference("security_groups", security_groups, "security group", each)
_NAME = Param("name", TEXT)
_KINDS = (
    Kind(
        NETWORKS,
        networks,
        _network,
        Fabric.create_network,
        (_NAME, Param("mtu", MTU), Param("uplink", UPLINK)),
        (_NAME,),
    ),
    Kind(
        SUBNETS,
        subnets,
        _subnet,
        Fabric.create_subnet,
        (
            _NAME,
            Param("network_uuid", AN_UUID, required=True),
            Param("cidr", RANGE, required=True),
            Param("gateway", ADDRESS),
            Param("dns", RESOLVERS),
            Param("replaces", UUIDS),
        ),
        (_NAME, Param("dns", RESOLVERS)),
        # A subnet that is replaced because its creation was refused never existed.
        (_IN_NETWORK, Reference("replaces", subnets, "subnet", each, or_gone=True)),
    ),
    Kind(
        ROUTERS,
        routers,
        _router,
        Fabric.create_router,
        (_NAME, Param("external_network", OPTIONAL_TEXT)),
        (_NAME, Param("external_network", OPTIONAL_TEXT)),
        (Reference("external_network", networks, "network", external=True),),
    ),
    Kind(
        SECURITY_GROUPS,
        security_groups,
        _group,
        Fabric.create_security_group,
        (_NAME, Param("description", LONG), Param("rules", RULES)),
        (_NAME, Param("description", LONG), Param("rules", RULES)),
        (Reference("rules", security_groups, "security group", groups_of_rules),),
    ),
    Kind(
        PORTS,
        ports,
        _port,
        Fabric.create_port,
        (
            _NAME,
            Param("network_uuid", AN_UUID, required=True),
            Param("fixed_ips", WISHES),
            Param("security_groups", UUIDS),
            Param("port_security", BOOLEAN),
            Param("allowed_addresses", PREFIXES),
        ),
        (
            _NAME,
            Param("security_groups", UUIDS),
            Param("port_security", BOOLEAN),
            Param("allowed_addresses", PREFIXES),
        ),
        (_IN_NETWORK, _GROUPS),
    ),
    Kind(
        FLOATING_IPS,
        floating_ips,
        _floating,
        Fabric.create_floating_ip,
        (Param("network_uuid", OPTIONAL_TEXT), Param("port_uuid", AN_UUID)),
        (Param("port_uuid", AN_UUID), MADE_BY),
        (
            Reference("network_uuid", networks, "network", external=True),
            Reference("port_uuid", ports, "port"),
        ),
    ),
)
KINDS = {one.calls.path.removeprefix("/"): one for one in _KINDS}
_LISTS = ("dns", "security_groups", "rules", "allowed_addresses")


_REMOVALS = {
    "ports": "Remove a port that no VM uses; a floating address that led to it leads nowhere then.",
    "floating-ips": "Give a floating address back; the port that it led to keeps its own.",
    "networks": "Remove a network without subnets and ports, which no router leads to.",
    "security-groups": "Remove a security group that neither a port nor another group's rule names.",
}


async def apply_to_nodes(call: Call, kind: str, uuid: str, port: str | None) -> None:
    """Nodes that are concerned by a change have it before the call returns."""
    fabric = call.service.networks
    if kind == "security-groups":
        await fabric.apply_for_group(uuid)
    elif kind == "ports":
        await fabric.apply_for_ports([uuid])
    elif kind == "floating-ips" and port:
        await fabric.apply_for_ports([port])


async def found(call: Call, kind: str, uuid: str) -> Object:
    """An object the caller may see. Errors: 404."""
    one = KINDS[kind]
    for view in await call.service.fabric.views(one.table, call.project, one.view):
        if view.uuid == uuid:
            return view
    raise not_found(f"{one.calls.noun} {uuid[:64]} not found")


def _leads_to(view: Object) -> str | None:
    return view.port_uuid if isinstance(view, FloatingIp) else None


def _read(kind: Kind, params: Record) -> Any:
    """The body that creates an object; its values were checked one by one. Errors: 500."""
    given = {one.name: params[one.name] for one in kind.create if one.name in params}
    try:
        return msgspec.convert(given, kind.calls.new)
    except msgspec.ValidationError as error:
        raise invalid_parameters({kind.calls.noun: str(error)}) from error


def _check_fixed(call: Call, kind: Kind, view: Object) -> None:
    """Refuse a member that cannot be changed; one that stays as it is may be given. Errors: 409."""
    changeable = {param.name for param in kind.change}
    before: Record = msgspec.to_builtins(view)
    for name, value in call.body().items():
        if name in changeable or (name in before and before[name] == value):
            continue
        if name in before:
            raise invalid_argument(f"`{name}` of a {kind.calls.noun} cannot be changed")
        raise invalid_argument(f"`{name[:64]}` is not an explicitly defined parameter")


def _endpoints(kind: str) -> list[Endpoint]:
    one = KINDS[kind]

    async def list_all(call: Call) -> Json:
        wanted = call.project
        if call.get("project_id"):
            wanted = call.owner_of("networks")
        elif call.is_operator and call.flag("all_projects"):
            wanted = None
        return await call.service.fabric.views(one.table, wanted, one.view)

    async def add(call: Call) -> Json:
        fabric = call.service.fabric
        uuid = str(call.get("uuid") or call.service.new_uuid()).lower()
        if call.get("uplink") and not call.is_operator:
            raise not_allowed("Only operators may create a network with an uplink")
        owner = call.owner_of("networks")
        async with fabric.database.read() as tx:
            await check_new(tx, one.table, uuid, call.project)
        params = await check_references(fabric, one.refers, call.params, call.project, uuid)
        await one.make(fabric, uuid, owner, _read(one, params))
        await apply_to_nodes(call, kind, uuid, call.get("port_uuid"))
        return await found(call, kind, uuid)

    async def show(call: Call) -> Json:
        return await found(call, kind, str(call.get("uuid")))

    async def change(call: Call) -> Json:
        uuid = str(call.request.path_params["uuid"])
        before = await found(call, kind, uuid)
        may_change(before, one.calls.noun, call.project)
        _check_fixed(call, one, before)
        values: Record = {}
        for param in one.change:
            if param.name in call.params:
                value = call.params[param.name]
                values[param.name] = [] if value is None and param.name in _LISTS else value
        fabric = call.service.fabric
        values = await check_references(fabric, one.refers, values, call.project, uuid)
        await fabric.change(one.table, uuid, one.calls.noun, values)
        await apply_to_nodes(call, kind, uuid, _leads_to(before))
        await apply_to_nodes(call, kind, uuid, values.get("port_uuid"))
        return await found(call, kind, uuid)

    async def remove(call: Call) -> Json:
        uuid = str(call.get("uuid"))
        before = await found(call, kind, uuid)
        may_change(before, one.calls.noun, call.project)
        await call.service.fabric.remove(one.table, uuid, one.calls.noun)
        if kind == "floating-ips":
            await apply_to_nodes(call, kind, uuid, _leads_to(before))

    for run, doc in (
        (list_all, f"The {one.calls.noun}s of the project."),
        (add, f"Make a {one.calls.noun}; again with the same uuid: the same one."),
        (show, f"One {one.calls.noun}."),
        (change, f"Change a {one.calls.noun}."),
        (remove, _REMOVALS.get(kind, f"Remove a {one.calls.noun} that nothing uses.")),
    ):
        run.__doc__ = doc
    title = "".join(word.title() for word in one.calls.noun.split())
    shown = shape_of(one.calls.shown, title)
    return [
        _user(f"{title}List", "GET", f"/{kind}", list_all, (*_PROJECT, *query(BOOLEAN_TEXT, "all_projects")),
              reply=listed(shown)),
        _user(f"{title}Create", "POST", f"/{kind}", add, (Param("uuid", AN_UUID), _OWNER, *one.create),
              strict=True, reply=shown),
        _user(f"{title}Show", "GET", f"/{kind}/{{uuid}}", show, reply=shown),
        _user(f"{title}Change", "PUT", f"/{kind}/{{uuid}}", change, one.change, reply=shown),
        _user(f"{title}Delete", "DELETE", f"/{kind}/{{uuid}}", remove, status=204),
    ]  # fmt: skip


async def join(call: Call) -> Json:
    """Join a subnet to a router.

    ``made_by``: a mark of the caller; an interface that was made without it is refused.
    """
    router, subnet = str(call.get("router")), str(call.get("subnet"))
    await found(call, "routers", router)
    await found(call, "subnets", subnet)
    await call.service.fabric.add_interface(router, subnet, call.made_by)


async def part(call: Call) -> Json:
    """Part a subnet from a router; ``made_by``: only if it was joined with this mark."""
    router, subnet = str(call.get("router")), str(call.get("subnet"))
    await found(call, "routers", router)
    await found(call, "subnets", subnet)
    await call.service.fabric.remove_interface(router, subnet, call.made_by)


def _key_name(call: Call) -> str:
    name = str(call.request.path_params["name"])
    if len(name) > 255 or "\0" in name:
        raise not_found("key pair not found")
    return name


async def list_keys(call: Call) -> Json:
    """The public keys of a project, by their names."""
    owner = call.owner_of("networks")
    rows = await keypairs_of(call.service.database, owner)
    return [Keypair(name=row.name, project_id=owner, public_key=row.public_key) for row in rows]


async def show_key(call: Call) -> Json:
    """A public key by its name."""
    owner = call.owner_of("networks")
    row = await find_keypair(call.service.database, owner, _key_name(call))
    return Keypair(name=row.name, project_id=owner, public_key=row.public_key)


async def set_key(call: Call) -> Json:
    """Keep a public key under a name; a name that has another key is taken.

    ``made_by``: a mark of the caller; a key pair that was made without it is refused.
    """
    owner, name = call.owner_of("networks"), _key_name(call)
    public_key = str(call.get("public_key"))
    await call.service.fabric.set_keypair(owner, name, public_key, call.made_by)
    return Keypair(name=name, project_id=owner, public_key=public_key)


async def delete_key(call: Call) -> Json:
    """Forget a public key. Machines made with one have it themselves.

    ``made_by``: only if it was made with this mark.
    """
    owner, made_by = call.owner_of("networks"), call.made_by
    await remove_keypair(call.service.database, owner, _key_name(call), made_by)


_OWNER = Param("project_id", text_of(64))
_ONLY_BY = query(MADE_BY.rule, MADE_BY.name)
_PROJECT = query(text_of(64), "project_id")
_KEY = shape_of(Keypair)
_INTERFACE = "/routers/{router}/interfaces/{subnet}"
_user = functools.partial(Endpoint, access=Access.USER)

ENDPOINTS = [
    *(endpoint for kind in KINDS for endpoint in _endpoints(kind)),
    _user("RouterInterfaceAdd", "PUT", _INTERFACE, join, (MADE_BY,), status=204),
    _user("RouterInterfaceRemove", "DELETE", _INTERFACE, part, _ONLY_BY, status=204),
    _user("KeypairList", "GET", "/keypairs", list_keys, _PROJECT, reply=listed(_KEY)),
    _user("KeypairShow", "GET", "/keypairs/{name}", show_key, _PROJECT, reply=_KEY),
    _user("KeypairSet", "PUT", "/keypairs/{name}", set_key,
          (Param("public_key", LONG, required=True), _OWNER, MADE_BY), reply=_KEY),
    _user("KeypairDelete", "DELETE", "/keypairs/{name}", delete_key,
          (*_PROJECT, *_ONLY_BY), status=204),
]  # fmt: skip
