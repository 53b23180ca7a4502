"""HTTP of networks, ports, addresses, security groups and key pairs: ours, beside CNAPI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from litestar import Request, delete, get, post, put
from litestar.params import FromPath
from sqlalchemy import Row, Table, select
from sqlalchemy import delete as delete_from

from vetro.compute.fabric import text
from vetro.compute.faults import not_found
from vetro.compute.service import ComputeService
from vetro.compute.tables import (
    floating_ips,
    keypairs,
    networks,
    ports,
    routers,
    security_groups,
    subnets,
)
from vetro.http import Fault, principal_of

AnyRequest = Request[Any, Any, Any]
Body = dict[str, Any]
ReadBody = Callable[[AnyRequest], Awaitable[Body]]


def _network(row: Row[Any], hanging: Body) -> Body:
    return {
        "uuid": row.uuid,
        "name": row.name,
        "project_id": row.owner_uuid,
        "external": row.external,
        "mtu": row.mtu,
        "subnets": [one.uuid for one in hanging["subnets"] if one.network_uuid == row.uuid],
    }


def _subnet(row: Row[Any], _hanging: Body) -> Body:
    return {
        "uuid": row.uuid,
        "network_uuid": row.network_uuid,
        "name": row.name,
        "project_id": row.owner_uuid,
        "cidr": row.cidr,
        "gateway": row.gateway,
        "dns": row.dns,
    }


def _router(row: Row[Any], hanging: Body) -> Body:
    return {
        "uuid": row.uuid,
        "name": row.name,
        "project_id": row.owner_uuid,
        "external_network": row.external_network,
        "subnets": [
            one.subnet_uuid for one in hanging["interfaces"] if one.router_uuid == row.uuid
        ],
    }


def _group(row: Row[Any], _hanging: Body) -> Body:
    return {
        "uuid": row.uuid,
        "name": row.name,
        "project_id": row.owner_uuid,
        "description": row.description,
        "rules": row.rules,
    }


def _port(row: Row[Any], _hanging: Body) -> Body:
    return {
        "uuid": row.uuid,
        "network_uuid": row.network_uuid,
        "project_id": row.owner_uuid,
        "name": row.name,
        "mac": row.mac,
        "fixed_ips": [[row.subnet_uuid, row.ip]],
        "security_groups": row.security_groups,
        "port_security": row.port_security,
        "allowed_addresses": row.allowed_addresses,
        "device_uuid": row.device_uuid,
        "device_owner": row.device_owner,
    }


def _floating(row: Row[Any], hanging: Body) -> Body:
    port = next((one for one in hanging["ports"] if one.uuid == row.port_uuid), None)
    return {
        "uuid": row.uuid,
        "address": row.address,
        "network_uuid": row.network_uuid,
        "project_id": row.owner_uuid,
        "port_uuid": row.port_uuid,
        "fixed_ip": port.ip if port is not None else None,
    }


KINDS: dict[str, tuple[Table, str, Callable[[Row[Any], Body], Body]]] = {
    "networks": (networks, "network", _network),
    "subnets": (subnets, "subnet", _subnet),
    "routers": (routers, "router", _router),
    "security-groups": (security_groups, "security group", _group),
    "ports": (ports, "port", _port),
    "floating-ips": (floating_ips, "floating address", _floating),
}
# What an update may set, by kind: the request's field and the column.
CHANGES: dict[str, tuple[str, ...]] = {
    "networks": ("name",),
    "subnets": ("name", "dns"),
    "routers": ("name", "external_network"),
    "security-groups": ("name", "description", "rules"),
    "ports": ("name", "security_groups", "port_security", "allowed_addresses"),
    "floating-ips": ("port_uuid",),
}


def owner_of(request: AnyRequest, body: Body) -> str:
    """The project a call acts for: an administrator may name one. Errors: 403."""
    principal = principal_of(request)
    wanted = str(body.get("project_id") or principal.project_id)
    if wanted != principal.project_id and not principal.is_admin:
        raise Fault("Another project's networks", status=403, type_="NotAuthorized")
    return wanted


def fabric_handlers(service: ComputeService, body_of: ReadBody) -> list[Any]:
    """The handlers."""
    fabric = service.fabric
    create: dict[str, Callable[[str, str, Body], Awaitable[None]]] = {
        "networks": fabric.create_network,
        "subnets": fabric.create_subnet,
        "routers": fabric.create_router,
        "security-groups": fabric.create_security_group,
        "ports": fabric.create_port,
        "floating-ips": fabric.create_floating_ip,
    }

    async def tell(kind: str, uuid: str, port: str | None) -> None:
        """Nodes that are concerned by a change have it before the call returns."""
        if kind == "security-groups":
            await service.networks.apply_for_group(uuid)
        elif kind == "ports":
            await service.networks.apply_for_ports([uuid])
        elif kind == "floating-ips" and port:
            await service.networks.apply_for_ports([port])

    async def found(request: AnyRequest, kind: str, uuid: str) -> Body:
        table, what, view = KINDS[kind]
        principal = principal_of(request)
        owner = None if principal.is_admin else principal.project_id
        for one in await fabric.views(table, owner, view):
            if one["uuid"] == uuid:
                return one
        raise not_found(f"{what} {uuid} not found")

    def make(kind: str) -> list[Any]:
        table, what, view = KINDS[kind]

        @get(f"/{kind}", name=f"list {kind}")
        async def list_all(request: AnyRequest) -> list[Body]:
            principal = principal_of(request)
            wanted = request.query_params.get("project_id")
            if principal.is_admin:
                return await fabric.views(table, wanted, view)
            return await fabric.views(table, principal.project_id, view)

        @post(f"/{kind}", name=f"create {kind}", status_code=200)
        async def add(request: AnyRequest) -> Body:
            body = await body_of(request)
            uuid = str(body.get("uuid") or service.new_uuid())
            await create[kind](uuid, owner_of(request, body), body)
            await tell(kind, uuid, body.get("port_uuid"))
            return await found(request, kind, uuid)

        @get(f"/{kind}/{{uuid:str}}", name=f"show {kind}")
        async def show(request: AnyRequest, uuid: FromPath[str]) -> Body:
            return await found(request, kind, uuid)

        @put(f"/{kind}/{{uuid:str}}", name=f"change {kind}")
        async def change(request: AnyRequest, uuid: FromPath[str]) -> Body:
            before = await found(request, kind, uuid)
            body = await body_of(request)
            values = {name: body[name] for name in CHANGES[kind] if name in body}
            await fabric.change(table, uuid, what, values)
            await tell(kind, uuid, before.get("port_uuid"))
            await tell(kind, uuid, values.get("port_uuid"))
            return await found(request, kind, uuid)

        @delete(f"/{kind}/{{uuid:str}}", name=f"delete {kind}")
        async def remove(request: AnyRequest, uuid: FromPath[str]) -> None:
            before = await found(request, kind, uuid)
            await fabric.remove(table, uuid, what)
            if kind == "floating-ips":
                await tell(kind, uuid, before.get("port_uuid"))

        return [list_all, add, show, change, remove]

    @put("/routers/{router:str}/interfaces/{subnet:str}", status_code=204)
    async def join(request: AnyRequest, router: FromPath[str], subnet: FromPath[str]) -> None:
        await found(request, "routers", router)
        await fabric.add_interface(router, subnet)

    @delete("/routers/{router:str}/interfaces/{subnet:str}")
    async def part(request: AnyRequest, router: FromPath[str], subnet: FromPath[str]) -> None:
        await found(request, "routers", router)
        await fabric.remove_interface(router, subnet)

    @get("/keypairs/{name:str}")
    async def show_key(request: AnyRequest, name: FromPath[str]) -> Body:
        owner = owner_of(request, dict(request.query_params.items()))
        query = select(keypairs).where(keypairs.c.owner_uuid == owner, keypairs.c.name == name)
        async with service.database.read() as tx:
            row = (await tx.execute(query)).first()
        if row is None:
            raise not_found(f"key pair {name} not found")
        return {"name": row.name, "project_id": owner, "public_key": row.public_key}

    @put("/keypairs/{name:str}")
    async def set_key(request: AnyRequest, name: FromPath[str]) -> Body:
        body = await body_of(request)
        owner = owner_of(request, body)
        await fabric.set_keypair(owner, name, text(body, "public_key"))
        return {"name": name, "project_id": owner, "public_key": body["public_key"]}

    @delete("/keypairs/{name:str}")
    async def delete_key(request: AnyRequest, name: FromPath[str]) -> None:
        owner = owner_of(request, dict(request.query_params.items()))
        async with service.database.transaction() as tx:
            removed = await tx.execute(
                delete_from(keypairs).where(keypairs.c.owner_uuid == owner, keypairs.c.name == name)
            )
            if removed.rowcount == 0:
                raise not_found(f"key pair {name} not found")

    handlers: list[Any] = [join, part, show_key, set_key, delete_key]
    for kind in KINDS:
        handlers.extend(make(kind))
    return handlers
