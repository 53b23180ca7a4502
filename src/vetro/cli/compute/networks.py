"""``vetro network``, ``subnet`` and ``router``: what machines are connected by."""

from __future__ import annotations

import ipaddress
import re
import uuid
from typing import TypeVar

import click

from vetro.cli.client.connection import Connection, error_text, hint_for, segment
from vetro.cli.compute.lookup import (
    NETWORK,
    ROUTER,
    SUBNET,
    Row,
    agree_to_delete,
    common_verbs,
    delete,
    find,
    listing,
    path_of,
    project_of,
    project_option,
    report_deleted,
)
from vetro.cli.terminal.confirmation import yes_option
from vetro.cli.terminal.output import CommandError, done, emit_object, fail, json_option, wants_json

OVERLAP = "Networks of one installation do not overlap: choose another range, such as 10.77.5.0/24."
_ROUTER_OF = "router-of-network-create"


@click.group()
def network() -> None:
    """Networks of a project."""


@click.group()
def subnet() -> None:
    """Subnets: the address ranges of networks."""


@click.group()
def router() -> None:
    """Routers: they lead networks out of their own."""


def _with_ranges(connection: Connection, rows: list[Row]) -> list[Row]:
    known = {one["uuid"]: one["cidr"] for one in connection.get(SUBNET.path, params=_ALL)}
    for row in rows:
        row["ranges"] = ", ".join(known.get(one, one) for one in row["subnets"])
    return rows


def _with_network(connection: Connection, rows: list[Row]) -> list[Row]:
    known = {one["uuid"]: one["name"] for one in connection.get(NETWORK.path, params=_ALL)}
    for row in rows:
        row["network"] = known.get(row["network_uuid"]) or row["network_uuid"]
    return rows


def _routers(connection: Connection, rows: list[Row]) -> list[Row]:
    known = {one["uuid"]: one["name"] for one in connection.get(NETWORK.path, params=_ALL)}
    for row in rows:
        outside = row["external_network"]
        row["outside"] = known.get(outside) or outside
    return _with_ranges(connection, rows)


#: Who is limited to a project sees that project's all the same.
_ALL = {"all_projects": "true"}

common_verbs(network, NETWORK, _with_ranges, deleted=False)
common_verbs(subnet, SUBNET, _with_network)
common_verbs(router, ROUTER, _routers, deleted=False)


def ipv4_range(_context: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """An address range as it is stored. Errors: wrong usage."""
    if value is None:
        return None
    try:
        given = ipaddress.IPv4Network(value)
    except ValueError as error:
        try:
            meant = ipaddress.IPv4Network(value, strict=False)
        except ValueError:
            raise click.BadParameter(f"{error}. A range is written like 10.77.5.0/24") from error
        raise click.BadParameter(f"{error}. Is {meant} meant?") from error
    if given.num_addresses < 4:
        raise click.BadParameter(f"{given} is too small: it needs at least 4 addresses")
    return str(given)


Addresses = TypeVar("Addresses", str | None, tuple[str, ...])


def ipv4_address(_context: click.Context, _param: click.Parameter, value: Addresses) -> Addresses:
    """One address, or several. Errors: wrong usage."""
    for one in value if isinstance(value, tuple) else [value]:
        if one is not None:
            try:
                ipaddress.IPv4Address(one)
            except ValueError as error:
                raise click.BadParameter(
                    f"{error}: an address is written like 10.77.5.1"
                ) from error
    return value


def _uplink(_context: click.Context, _param: click.Parameter, value: str | None) -> Row | None:
    if value is None:
        return None
    tag, colon, vlan = value.partition(":")
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,31}", tag) or (colon and not vlan.isdecimal()):
        raise click.BadParameter(f"{value!r} is not TAG or TAG:VLAN, such as office:12")
    if colon and int(vlan) > 4094:
        raise click.BadParameter("a VLAN is a number from 0 (untagged) to 4094")
    return {"nic_tag": tag, "vlan_id": int(vlan or 0)}


_gateway = click.option("--gateway", callback=ipv4_address, help="Its gateway [the first address].")
_dns = click.option(
    "--dns", multiple=True, callback=ipv4_address, help="A name server; may be repeated."
)


@network.command("create", short_help="Make a network.")
@click.argument("name")
@click.option("--cidr", callback=ipv4_range, help="Give it a subnet of this range: 10.77.5.0/24.")
@_gateway
@_dns
@click.option("--isolated", is_flag=True, help="Make no router: nothing leads out of it.")
@click.option("--mtu", type=click.IntRange(576, 65535), help="Largest packet [1450].")
@click.option(
    "--uplink",
    callback=_uplink,
    metavar="TAG[:VLAN]",
    help="On the machines' own wire of this NIC tag (operators).",
)
@project_option
@json_option
def network_create(
    name: str,
    cidr: str | None,
    gateway: str | None,
    dns: tuple[str, ...],
    isolated: bool,
    mtu: int | None,
    uplink: Row | None,
    project: str | None,
) -> None:
    """Make a network NAME; with --cidr also its subnet, and a router that leads out of it.

    Machines reach the outside through the router; from outside only floating addresses lead in
    ('vetro address create').
    """
    if cidr is None and (gateway or dns):
        fail("--gateway and --dns belong to a subnet", "Give its range with --cidr.", 2)
    with Connection() as connection:
        owner = {"project_id": project_of(connection, project)}
        body: Row = {**owner, "name": name, "mtu": mtu, "uplink": uplink}
        body = {key: value for key, value in body.items() if value is not None}
        made = connection.request("POST", NETWORK.path, json=body).json()
        if cidr is not None:
            try:
                joined = _make_subnet(
                    connection,
                    {**owner, "network_uuid": made["uuid"], "name": name, "cidr": cidr},
                    gateway,
                    dns,
                )
                if not isolated and uplink is None:
                    _make_router(connection, made, joined, owner)
            except BaseException:
                # All or nothing: half of it would be in the way of the next attempt.
                _remove_whole(connection, [made])
                raise
        made = _with_ranges(connection, [connection.get(path_of(NETWORK, made))])[0]
    if wants_json():
        emit_object(made)
        return
    ranges = f" with the range {made['ranges']}" if made["ranges"] else " without a subnet"
    done(f"Network {name} ({made['uuid']}) is there,{ranges}")


def _make_subnet(
    connection: Connection, body: Row, gateway: str | None, dns: tuple[str, ...]
) -> Row:
    if gateway is not None:
        body["gateway"] = gateway
        if ipaddress.IPv4Address(gateway) not in ipaddress.IPv4Network(body["cidr"]):
            fail(f"The gateway {gateway} is outside of {body['cidr']}", exit_code=2)
    answer = connection.answer("POST", SUBNET.path, json={**body, "dns": list(dns)})
    if answer.status >= 400:
        fail(error_text(answer), OVERLAP if answer.status == 409 else hint_for(answer))
    return answer.json()


def _outside(connection: Connection, wanted: str | None) -> Row:
    """The shared network that floating addresses are of."""
    rows = [row for row in connection.get(NETWORK.path, params=_ALL) if row["external"]]
    found = [row for row in rows if wanted in (None, row["name"], row["uuid"])]
    if not found:
        names = ", ".join(row["name"] for row in rows) or "none"
        fail(f"There is no shared network '{wanted or ''}'", f"There are: {names}.")
    return found[0]


def _make_router(connection: Connection, made: Row, joined: Row, owner: Row) -> None:
    body = {
        **owner,
        "uuid": _router_uuid(made),
        "name": made["name"],
        "external_network": _outside(connection, None)["uuid"],
    }
    row = connection.request("POST", ROUTER.path, json=body).json()
    connection.request("PUT", _interface(row, joined))


def _router_uuid(row: Row) -> str:
    """The uuid of the router that ``network create`` makes for a network: it goes with it."""
    return str(uuid.uuid5(uuid.UUID(row["uuid"]), _ROUTER_OF))


def _interface(row: Row, joined: Row) -> str:
    return f"{path_of(ROUTER, row)}/interfaces/{segment(joined['uuid'])}"


@network.command("delete", short_help="Delete networks that nothing is connected to.")
@click.argument("names_or_uuids", nargs=-1, required=True, type=NETWORK.argument)
@yes_option
@json_option
def network_delete(names_or_uuids: tuple[str, ...]) -> None:
    """Delete networks without ports, with their subnets and the router that 'create' made."""
    with Connection() as connection:
        rows = [find(connection, NETWORK, one) for one in dict.fromkeys(names_or_uuids)]
        ports = connection.get("/compute/ports", params=_ALL)
        for row in rows:
            used = [one for one in ports if one["network_uuid"] == row["uuid"]]
            if used:
                shown = ", ".join(one["name"] or one["uuid"] for one in used[:5])
                more = f" and {len(used) - 5} more" if len(used) > 5 else ""
                fail(f"The network {NETWORK.called(row)} has ports: {shown}{more}", NETWORK.in_use)
        agree_to_delete(NETWORK, rows)
        _remove_whole(connection, rows)
    report_deleted(NETWORK, rows)


def _remove_whole(connection: Connection, rows: list[Row]) -> None:
    for row in rows:
        now = connection.get(path_of(NETWORK, row))
        for joined in now["subnets"]:
            for one in connection.get(ROUTER.path, params=_ALL):
                if joined in one["subnets"]:
                    connection.request("DELETE", _interface(one, {"uuid": joined}))
            delete(connection, SUBNET, [{"uuid": joined}])
        routers = connection.get(ROUTER.path, params=_ALL)
        own = [one for one in routers if one["uuid"] == _router_uuid(row) and not one["subnets"]]
        delete(connection, ROUTER, own)
        delete(connection, NETWORK, [now])


@subnet.command("create", short_help="Give a network a range of addresses.")
@click.argument("network_name", metavar="NETWORK", type=NETWORK.argument)
@click.argument("cidr", callback=ipv4_range)
@click.option("--name", default="", help="What it is called.")
@_gateway
@_dns
@json_option
def subnet_create(
    network_name: str, cidr: str | None, name: str, gateway: str | None, dns: tuple[str, ...]
) -> None:
    """Make a subnet of NETWORK with the range CIDR, such as 10.77.5.0/24."""
    with Connection() as connection:
        row = find(connection, NETWORK, network_name)
        body = {"network_uuid": row["uuid"], "name": name, "cidr": cidr}
        if row["project_id"]:
            body["project_id"] = row["project_id"]
        made = _make_subnet(connection, body, gateway, dns)
    done(f"Subnet {made['cidr']} of network {NETWORK.called(row)} is there", **made)


@subnet.command("update", short_help="Change a subnet's name servers or name.")
@click.argument("name_or_uuid", type=SUBNET.argument)
@click.option("--name", help="What it is called.")
@_dns
@click.option("--no-dns", is_flag=True, help="No name servers of its own.")
@json_option
def subnet_update(name_or_uuid: str, name: str | None, dns: tuple[str, ...], no_dns: bool) -> None:
    """Change a subnet; machines made from then on have its name servers."""
    body: Row = {}
    if name is not None:
        body["name"] = name
    if dns or no_dns:
        body["dns"] = list(dns)
    refuse_nothing(body, "--name, --dns or --no-dns")
    with Connection() as connection:
        row = find(connection, SUBNET, name_or_uuid)
        changed = connection.request("PUT", path_of(SUBNET, row), json=body).json()
    done(f"Subnet {changed['cidr']} is changed", **changed)


def refuse_nothing(body: Row, options: str) -> None:
    """End a command that was told to change nothing."""
    if not body:
        fail("There is nothing to change", f"Give {options}.", 2)


@router.command("create", short_help="Make a router.")
@click.argument("name")
@click.option("--outside", "shared", help="The shared network it leads to [the only one].")
@click.option("--isolated", is_flag=True, help="It leads to none.")
@project_option
@json_option
def router_create(name: str, shared: str | None, isolated: bool, project: str | None) -> None:
    """Make a router NAME; 'vetro router attach' joins subnets to it."""
    if shared is not None and isolated:
        fail("--outside and --isolated exclude each other", exit_code=2)
    with Connection() as connection:
        body: Row = {"project_id": project_of(connection, project), "name": name}
        if not isolated:
            body["external_network"] = _outside(connection, shared)["uuid"]
        made = connection.request("POST", ROUTER.path, json=body).json()
    done(f"Router {name} ({made['uuid']}) is there", **made)


@router.command("update", short_help="Change where a router leads.")
@click.argument("name_or_uuid", type=ROUTER.argument)
@click.option("--outside", "shared", help="The shared network it leads to.")
@click.option("--isolated", is_flag=True, help="It leads to none.")
@json_option
def router_update(name_or_uuid: str, shared: str | None, isolated: bool) -> None:
    """Lead a router to a shared network, or to none."""
    if (shared is not None) == isolated:
        fail("Where is it to lead?", "Give either --outside NETWORK or --isolated.", 2)
    with Connection() as connection:
        row = find(connection, ROUTER, name_or_uuid)
        to = None if isolated else _outside(connection, shared)["uuid"]
        body = {"external_network": to}
        changed = connection.request("PUT", path_of(ROUTER, row), json=body).json()
    done(f"Router {ROUTER.called(row)} is changed", **changed)


@router.command("delete", short_help="Delete routers that join no subnets.")
@click.argument("names_or_uuids", nargs=-1, required=True, type=ROUTER.argument)
@yes_option
@json_option
def router_delete(names_or_uuids: tuple[str, ...]) -> None:
    """Delete routers that join no subnets."""
    with Connection() as connection:
        rows = [find(connection, ROUTER, one) for one in dict.fromkeys(names_or_uuids)]
        agree_to_delete(ROUTER, rows)
        report_deleted(ROUTER, delete(connection, ROUTER, rows))


def _joined(connection: Connection, router_name: str, subnet_name: str) -> tuple[Row, Row]:
    """A router and a subnet; a network of one subnet stands for it."""
    row = find(connection, ROUTER, router_name)
    networks = [
        one
        for one in listing(connection, NETWORK, row["project_id"] or None)
        if one["name"] == subnet_name and len(one["subnets"]) == 1
    ]
    if len(networks) == 1:
        return row, connection.get(f"{SUBNET.path}/{networks[0]['subnets'][0]}")
    return row, find(connection, SUBNET, subnet_name, row["project_id"])


@router.command("attach", short_help="Join a subnet to a router.")
@click.argument("router_name", metavar="ROUTER", type=ROUTER.argument)
@click.argument("subnet_name", metavar="SUBNET", type=SUBNET.argument)
@json_option
def router_attach(router_name: str, subnet_name: str) -> None:
    """Join SUBNET (name, range or uuid; or the name of a network that has one) to ROUTER."""
    with Connection() as connection:
        row, joined = _joined(connection, router_name, subnet_name)
        connection.request("PUT", _interface(row, joined))
        now = connection.get(path_of(ROUTER, row))
    done(f"Subnet {joined['cidr']} is joined to router {ROUTER.called(row)}", **now)


@router.command("detach", short_help="Part a subnet from a router.")
@click.argument("router_name", metavar="ROUTER", type=ROUTER.argument)
@click.argument("subnet_name", metavar="SUBNET", type=SUBNET.argument)
@json_option
def router_detach(router_name: str, subnet_name: str) -> None:
    """Part SUBNET from ROUTER: its machines reach the outside no more."""
    with Connection() as connection:
        row, joined = _joined(connection, router_name, subnet_name)
        if joined["uuid"] not in row["subnets"]:
            raise CommandError(
                f"Subnet {joined['cidr']} is not joined to router {ROUTER.called(row)}",
                "'vetro router show' says which are.",
            )
        connection.request("DELETE", _interface(row, joined))
        now = connection.get(path_of(ROUTER, row))
    done(f"Subnet {joined['cidr']} is parted from router {ROUTER.called(row)}", **now)
