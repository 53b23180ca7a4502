"""``vetro network``, ``subnet`` and ``router``: what machines are connected by."""

from __future__ import annotations

import ipaddress
import re
import uuid
from collections.abc import Sequence
from typing import TypeVar

import click
import msgspec

from vetro.cli.client.connection import Connection, error_text, hint_for, read
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
    project_of,
    project_option,
    report_deleted,
    row_of,
)
from vetro.cli.terminal.confirmation import yes_option
from vetro.cli.terminal.output import (
    CommandError,
    PrintingGroup,
    done,
    emit_object,
    fail,
    wants_json,
)
from vetro.compute.client.calls import (
    NETWORKS,
    PORTS,
    ROUTERS,
    SUBNETS,
    add_interface,
    remove_interface,
)
from vetro.compute.wire import (
    Network,
    NewNetwork,
    NewRouter,
    NewSubnet,
    Router,
    RouterChange,
    Subnet,
    SubnetChange,
    Uplink,
)
from vetro.digits import is_number

OVERLAP = "Networks of one installation do not overlap: choose another range, such as 10.77.5.0/24."
_ROUTER_OF = "router-of-network-create"


@click.group(cls=PrintingGroup)
def network() -> None:
    """Networks of a project."""


@click.group(cls=PrintingGroup)
def subnet() -> None:
    """Subnets: the address ranges of networks."""


@click.group(cls=PrintingGroup)
def router() -> None:
    """Routers: they lead networks out of their own."""


def _with_ranges(connection: Connection, found: Sequence[Network | Router]) -> list[Row]:
    known = {one.uuid: one.cidr for one in connection.send(SUBNETS.all())}
    return [
        row_of(one, ranges=", ".join(known.get(subnet, subnet) for subnet in one.subnets))
        for one in found
    ]


def _with_network(connection: Connection, found: list[Subnet]) -> list[Row]:
    known = {one.uuid: one.name for one in connection.send(NETWORKS.all())}
    return [row_of(one, network=known.get(one.network_uuid) or one.network_uuid) for one in found]


def _routers(connection: Connection, found: list[Router]) -> list[Row]:
    known = {one.uuid: one.name for one in connection.send(NETWORKS.all())}
    rows = _with_ranges(connection, found)
    for row in rows:
        row["outside"] = known.get(row["external_network"]) or row["external_network"]
    return rows


common_verbs(network, NETWORK, _with_ranges, deleting=None)
common_verbs(subnet, SUBNET, _with_network)
common_verbs(router, ROUTER, _routers, deleting="Delete routers that join no subnets.")


def address_range(
    _context: click.Context, _param: click.Parameter, value: str | None
) -> str | None:
    """An address range as it is stored. Errors: wrong usage."""
    if value is None:
        return None
    try:
        given = ipaddress.ip_network(value)
    except ValueError as error:
        try:
            meant = ipaddress.ip_network(value, strict=False)
        except ValueError:
            raise click.BadParameter(
                f"{error}. A range is written like 10.77.5.0/24, or fd00:5::/64"
            ) from error
        raise click.BadParameter(f"{error}. Is {meant} meant?") from error
    if given.num_addresses < 4:
        raise click.BadParameter(f"{given} is too small: it needs at least 4 addresses")
    return str(given)


Addresses = TypeVar("Addresses", str | None, tuple[str, ...])


def checked_address(
    _context: click.Context, _param: click.Parameter, value: Addresses
) -> Addresses:
    """One address, or several. Errors: wrong usage."""
    for one in value if isinstance(value, tuple) else [value]:
        if one is not None:
            try:
                ipaddress.ip_address(one)
            except ValueError as error:
                raise click.BadParameter(
                    f"{error}: an address is written like 10.77.5.1, or fd00:5::1"
                ) from error
    return value


def _uplink(_context: click.Context, _param: click.Parameter, value: str | None) -> Uplink | None:
    if value is None:
        return None
    tag, colon, vlan = value.partition(":")
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,31}", tag) or (colon and not is_number(vlan)):
        raise click.BadParameter(f"{value!r} is not TAG or TAG:VLAN, such as office:12")
    if colon and int(vlan) > 4094:
        raise click.BadParameter("a VLAN is a number from 0 (untagged) to 4094")
    return {"nic_tag": tag, "vlan_id": int(vlan or 0)}


_gateway = click.option(
    "--gateway", callback=checked_address, help="Its gateway [the first address]."
)
_dns = click.option(
    "--dns", multiple=True, callback=checked_address, help="A name server; may be repeated."
)


@network.command("create", short_help="Make a network.")
@click.argument("name")
@click.option(
    "--cidr",
    callback=address_range,
    help="Give it a subnet of this range: 10.77.5.0/24, or fd00:5::/64.",
)
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
def network_create(
    name: str,
    cidr: str | None,
    gateway: str | None,
    dns: tuple[str, ...],
    isolated: bool,
    mtu: int | None,
    uplink: Uplink | None,
    project: str | None,
) -> None:
    """Make a network NAME; with --cidr also its subnet, and a router that leads out of it.

    Machines reach the outside through the router; from outside only floating addresses lead in
    ('vetro address create').

    \b
    Example:
      vetro network create lan --cidr 10.77.5.0/24
    """
    if cidr is None and (gateway or dns):
        fail("--gateway and --dns belong to a subnet", "Give its range with --cidr.", 2)
    with Connection() as connection:
        owner = project_of(connection, project)
        new = NewNetwork(project_id=owner, name=name, mtu=mtu, uplink=uplink)
        made = connection.send(NETWORKS.create(new))
        if cidr is not None:
            try:
                joined = _make_subnet(
                    connection,
                    NewSubnet(
                        project_id=owner,
                        network_uuid=made.uuid,
                        name=name,
                        cidr=cidr,
                        gateway=gateway,
                        dns=list(dns),
                    ),
                )
                if not isolated and uplink is None:
                    _make_router(connection, made, joined, owner)
            except BaseException:
                # All or nothing: half of it would be in the way of the next attempt.
                _remove_whole(connection, [made])
                raise
        row = _with_ranges(connection, [connection.send(NETWORKS.one(made.uuid))])[0]
    if wants_json():
        emit_object(row)
        return
    ranges = f" with the range {row['ranges']}" if row["ranges"] else " without a subnet"
    done(f"Network {name} ({made.uuid}) is there,{ranges}")


def _make_subnet(connection: Connection, new: NewSubnet) -> Subnet:
    gateway = new.gateway
    if gateway and ipaddress.ip_address(gateway) not in ipaddress.ip_network(new.cidr):
        fail(f"The gateway {gateway} is outside of {new.cidr}", exit_code=2)
    call = SUBNETS.create(new)
    answer = connection.answer_to(call)
    if answer.status >= 400:
        fail(error_text(answer), OVERLAP if answer.status == 409 else hint_for(answer))
    return read(call, answer)


def _outside(connection: Connection, wanted: str | None) -> Network:
    """The shared network that floating addresses are of."""
    rows = [one for one in connection.send(NETWORKS.all()) if one.external]
    found = [one for one in rows if wanted in (None, one.name, one.uuid)]
    if not found:
        names = ", ".join(one.name for one in rows) or "none"
        fail(f"There is no shared network '{wanted or ''}'", f"There are: {names}.")
    return found[0]


def _make_router(connection: Connection, made: Network, joined: Subnet, owner: str) -> None:
    new = NewRouter(
        uuid=_router_uuid(made),
        project_id=owner,
        name=made.name,
        external_network=_outside(connection, None).uuid,
    )
    row = connection.send(ROUTERS.create(new))
    connection.send(add_interface(row.uuid, joined.uuid))


def _router_uuid(made: Network) -> str:
    """The uuid of the router that ``network create`` makes for a network: it goes with it."""
    return str(uuid.uuid5(uuid.UUID(made.uuid), _ROUTER_OF))


@network.command("delete", short_help="Delete networks that nothing is connected to.")
@click.argument("names_or_uuids", nargs=-1, required=True, type=NETWORK.argument)
@yes_option
def network_delete(names_or_uuids: tuple[str, ...]) -> None:
    """Delete networks without ports, with their subnets and the router that 'create' made."""
    with Connection() as connection:
        rows = [find(connection, NETWORK, one) for one in dict.fromkeys(names_or_uuids)]
        ports = connection.send(PORTS.all())
        for row in rows:
            used = [one for one in ports if one.network_uuid == row.uuid]
            if used:
                shown = ", ".join(one.name or one.uuid for one in used[:5])
                more = f" and {len(used) - 5} more" if len(used) > 5 else ""
                fail(f"The network {NETWORK.called(row)} has ports: {shown}{more}", NETWORK.in_use)
        agree_to_delete(NETWORK, rows)
        _remove_whole(connection, rows)
    report_deleted(NETWORK, rows)


def _remove_whole(connection: Connection, found: list[Network]) -> None:
    for one in found:
        now = connection.send(NETWORKS.one(one.uuid))
        for joined in now.subnets:
            for row in connection.send(ROUTERS.all()):
                if joined in row.subnets:
                    connection.send(remove_interface(row.uuid, joined))
            delete(connection, SUBNET, [connection.send(SUBNETS.one(joined))])
        routers = connection.send(ROUTERS.all())
        own = [row for row in routers if row.uuid == _router_uuid(one) and not row.subnets]
        delete(connection, ROUTER, own)
        delete(connection, NETWORK, [now])


@subnet.command("create", short_help="Give a network a range of addresses.")
@click.argument("network_name", metavar="NETWORK", type=NETWORK.argument)
@click.argument("cidr", callback=address_range)
@click.option("--name", default="", help="What it is called.")
@_gateway
@_dns
def subnet_create(
    network_name: str, cidr: str | None, name: str, gateway: str | None, dns: tuple[str, ...]
) -> None:
    """Make a subnet of NETWORK with the range CIDR, such as 10.77.5.0/24."""
    with Connection() as connection:
        row = find(connection, NETWORK, network_name)
        new = NewSubnet(
            project_id=row.project_id,
            network_uuid=row.uuid,
            name=name,
            cidr=str(cidr),
            gateway=gateway,
            dns=list(dns),
        )
        made = _make_subnet(connection, new)
    done(f"Subnet {made.cidr} of network {NETWORK.called(row)} is there", **row_of(made))


@subnet.command("update", short_help="Change a subnet's name servers or name.")
@click.argument("name_or_uuid", type=SUBNET.argument)
@click.option("--name", help="What it is called.")
@_dns
@click.option("--no-dns", is_flag=True, help="No name servers of its own.")
def subnet_update(name_or_uuid: str, name: str | None, dns: tuple[str, ...], no_dns: bool) -> None:
    """Change a subnet; machines made from then on have its name servers."""
    change = SubnetChange()
    if name is not None:
        change.name = name
    if dns or no_dns:
        change.dns = list(dns)
    refuse_nothing(change, "--name, --dns or --no-dns")
    with Connection() as connection:
        row = find(connection, SUBNET, name_or_uuid)
        changed = connection.send(SUBNETS.change(row.uuid, change))
    done(f"Subnet {changed.cidr} is changed", **row_of(changed))


def refuse_nothing(change: msgspec.Struct, options: str) -> None:
    """End a command that was given nothing to change."""
    if not msgspec.to_builtins(change):
        fail("There is nothing to change", f"Give {options}.", 2)


@router.command("create", short_help="Make a router.")
@click.argument("name")
@click.option("--outside", "shared", help="The shared network it leads to [the only one].")
@click.option("--isolated", is_flag=True, help="It leads to none.")
@project_option
def router_create(name: str, shared: str | None, isolated: bool, project: str | None) -> None:
    """Make a router NAME; 'vetro router attach' joins subnets to it."""
    if shared is not None and isolated:
        fail("--outside and --isolated exclude each other", exit_code=2)
    with Connection() as connection:
        owner = project_of(connection, project)
        to = None if isolated else _outside(connection, shared).uuid
        new = NewRouter(project_id=owner, name=name, external_network=to)
        made = connection.send(ROUTERS.create(new))
    done(f"Router {name} ({made.uuid}) is there", **row_of(made))


@router.command("update", short_help="Change where a router leads.")
@click.argument("name_or_uuid", type=ROUTER.argument)
@click.option("--outside", "shared", help="The shared network it leads to.")
@click.option("--isolated", is_flag=True, help="It leads to none.")
def router_update(name_or_uuid: str, shared: str | None, isolated: bool) -> None:
    """Lead a router to a shared network, or to none."""
    if (shared is not None) == isolated:
        fail("Where is it to lead?", "Give either --outside NETWORK or --isolated.", 2)
    with Connection() as connection:
        row = find(connection, ROUTER, name_or_uuid)
        to = None if isolated else _outside(connection, shared).uuid
        changed = connection.send(ROUTERS.change(row.uuid, RouterChange(external_network=to)))
    done(f"Router {ROUTER.called(row)} is changed", **row_of(changed))


def _joined(connection: Connection, router_name: str, subnet_name: str) -> tuple[Router, Subnet]:
    """A router and a subnet; a network of one subnet stands for it."""
    row = find(connection, ROUTER, router_name)
    networks = [
        one
        for one in listing(connection, NETWORK, row.project_id or None)
        if one.name == subnet_name and len(one.subnets) == 1
    ]
    if len(networks) == 1:
        return row, connection.send(SUBNETS.one(networks[0].subnets[0]))
    return row, find(connection, SUBNET, subnet_name, row.project_id)


@router.command("attach", short_help="Join a subnet to a router.")
@click.argument("router_name", metavar="ROUTER", type=ROUTER.argument)
@click.argument("subnet_name", metavar="SUBNET", type=SUBNET.argument)
def router_attach(router_name: str, subnet_name: str) -> None:
    """Join SUBNET (name, range or uuid; or the name of a network that has one) to ROUTER."""
    with Connection() as connection:
        row, joined = _joined(connection, router_name, subnet_name)
        connection.send(add_interface(row.uuid, joined.uuid))
        now = connection.send(ROUTERS.one(row.uuid))
    done(f"Subnet {joined.cidr} is joined to router {ROUTER.called(row)}", **row_of(now))


@router.command("detach", short_help="Part a subnet from a router.")
@click.argument("router_name", metavar="ROUTER", type=ROUTER.argument)
@click.argument("subnet_name", metavar="SUBNET", type=SUBNET.argument)
def router_detach(router_name: str, subnet_name: str) -> None:
    """Detach SUBNET from ROUTER: its machines no longer reach other networks."""
    with Connection() as connection:
        row, joined = _joined(connection, router_name, subnet_name)
        if joined.uuid not in row.subnets:
            raise CommandError(
                f"Subnet {joined.cidr} is not joined to router {ROUTER.called(row)}",
                "'vetro router show' says which are.",
            )
        connection.send(remove_interface(row.uuid, joined.uuid))
        now = connection.send(ROUTERS.one(row.uuid))
    done(f"Subnet {joined.cidr} is parted from router {ROUTER.called(row)}", **row_of(now))
