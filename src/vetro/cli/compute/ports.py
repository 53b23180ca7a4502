"""``vetro port`` and ``vetro address``: what a machine is connected by, and what leads to it from outside."""

from __future__ import annotations

import ipaddress

import click

from vetro.cli.client.connection import Connection
from vetro.cli.client.name_completion import VM
from vetro.cli.compute.lookup import (
    ADDRESS,
    GROUP,
    NETWORK,
    PORT,
    SUBNET,
    Row,
    agree_to_delete,
    common_verbs,
    delete,
    find,
    path_of,
    project_of,
    project_option,
    report_deleted,
)
from vetro.cli.compute.networks import ipv4_address, refuse_nothing
from vetro.cli.compute.vm_lookup import find_vm
from vetro.cli.terminal.choices import choose
from vetro.cli.terminal.confirmation import yes_option
from vetro.cli.terminal.output import done, fail, json_option

_ALL = {"all_projects": "true"}


@click.group()
def port() -> None:
    """Ports: places in networks, each with an address; a VM has one for each interface."""


@click.group()
def address() -> None:
    """Floating addresses: they lead from outside to a VM."""


def _ports(connection: Connection, rows: list[Row]) -> list[Row]:
    networks = {one["uuid"]: one["name"] for one in connection.get(NETWORK.path, params=_ALL)}
    floating = {
        one["port_uuid"]: one["address"] for one in connection.get(ADDRESS.path, params=_ALL)
    }
    for row in rows:
        row["network"] = networks.get(row["network_uuid"]) or row["network_uuid"]
        row["ip"] = row["fixed_ips"][0][1]
        row["floating"] = floating.get(row["uuid"])
    return rows


def _addresses(connection: Connection, rows: list[Row]) -> list[Row]:
    ports = {one["uuid"]: one for one in connection.get(PORT.path, params=_ALL)}
    for row in rows:
        row["device_uuid"] = ports.get(row["port_uuid"], {}).get("device_uuid")
    return rows


common_verbs(port, PORT, _ports)
common_verbs(address, ADDRESS, _addresses, renamed=False, deleted=False)


def allowed(_context: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> list[str]:
    """Addresses or ranges. Errors: wrong usage."""
    for one in value:
        try:
            ipaddress.IPv4Network(one)
        except ValueError as error:
            raise click.BadParameter(f"{error}. An address or range is written 10.77.5.9, or"
                                     " 10.77.5.0/24") from error  # fmt: skip
    return list(value)


_groups = click.option(
    "--group",
    "-g",
    "groups",
    multiple=True,
    type=GROUP.argument,
    help="A security group; may be repeated. Without any the port is open.",
)
_allowed = click.option(
    "--allow",
    "allowed_addresses",
    multiple=True,
    callback=allowed,
    help="An address or range that it may use beside its own.",
)


def group_uuids(connection: Connection, names: tuple[str, ...], project: str) -> list[str]:
    """Security groups by their names."""
    return [find(connection, GROUP, one, project)["uuid"] for one in dict.fromkeys(names)]


@port.command("create", short_help="Make a port in a network.")
@click.argument("network_name", metavar="NETWORK", type=NETWORK.argument)
@click.option("--name", default="", help="What it is called.")
@click.option("--subnet", "subnet_name", type=SUBNET.argument, help="Which of several subnets.")
@click.option("--ip", callback=ipv4_address, help="The address it has [a free one].")
@_groups
@click.option("--no-port-security", is_flag=True, help="Neither groups nor checks of addresses.")
@_allowed
@project_option
@json_option
def port_create(
    network_name: str,
    name: str,
    subnet_name: str | None,
    ip: str | None,
    groups: tuple[str, ...],
    no_port_security: bool,
    allowed_addresses: list[str],
    project: str | None,
) -> None:
    """Make a port with an address in NETWORK; 'vetro vm create --port' takes it."""
    with Connection() as connection:
        owner = project_of(connection, project)
        row = find(connection, NETWORK, network_name, owner)
        wish: Row = {} if ip is None else {"ip": ip}
        if subnet_name is not None:
            wish["subnet_uuid"] = find(connection, SUBNET, subnet_name, owner)["uuid"]
        body = {
            "project_id": owner,
            "name": name,
            "network_uuid": row["uuid"],
            "fixed_ips": [wish],
            "security_groups": group_uuids(connection, groups, owner),
            "port_security": not no_port_security,
            "allowed_addresses": allowed_addresses,
        }
        made = make_port(connection, body)
    done(f"Port {made['uuid']} has {made['fixed_ips'][0][1]} in network {NETWORK.called(row)}",
         **made)  # fmt: skip


def make_port(connection: Connection, body: Row) -> Row:
    """A port, or the reason why there is none with a hint."""
    hint = (
        f"'vetro subnet create {body['network_uuid']} RANGE' gives the network addresses;"
        " 'vetro port list' says which are taken."
    )
    return connection.request("POST", PORT.path, json=body, hint=hint).json()


@port.command("update", short_help="Change a port's security groups or addresses.")
@click.argument("name_or_uuid", type=PORT.argument)
@click.option("--name", help="What it is called.")
@_groups
@click.option("--no-groups", is_flag=True, help="No security groups: the port is open.")
@click.option("--port-security/--no-port-security", default=None, help="Keep groups and addresses.")
@_allowed
@click.option("--no-allow", is_flag=True, help="Only its own address.")
@json_option
def port_update(
    name_or_uuid: str,
    name: str | None,
    groups: tuple[str, ...],
    no_groups: bool,
    port_security: bool | None,
    allowed_addresses: list[str],
    no_allow: bool,
) -> None:
    """Change a port; what is given replaces what was there. Its node has it when this returns."""
    if (groups and no_groups) or (allowed_addresses and no_allow):
        fail("An option and its opposite exclude each other", exit_code=2)
    with Connection() as connection:
        row = find(connection, PORT, name_or_uuid)
        body: Row = {}
        if name is not None:
            body["name"] = name
        if groups or no_groups:
            body["security_groups"] = group_uuids(connection, groups, row["project_id"])
        if port_security is not None:
            body["port_security"] = port_security
        if allowed_addresses or no_allow:
            body["allowed_addresses"] = allowed_addresses
        refuse_nothing(body, "--group, --no-groups, --allow, --no-allow, --port-security or --name")
        changed = connection.request("PUT", path_of(PORT, row), json=body).json()
    done(f"Port {PORT.called(row)} is changed", **changed)


def _port_meant(connection: Connection, vm_name: str | None, port_name: str | None) -> Row | None:
    """The port that ``--vm`` or ``--port`` mean; ``None`` when neither was given."""
    if vm_name is not None and port_name is not None:
        fail("--vm and --port exclude each other", exit_code=2)
    if port_name is not None:
        return find(connection, PORT, port_name)
    if vm_name is None:
        return None
    machine = find_vm(connection, vm_name)
    rows = [
        row
        for row in connection.get(PORT.path, params=_ALL)
        if row["device_uuid"] == machine["uuid"]
    ]
    if not rows:
        fail(
            f"The VM {vm_name} is in no network",
            "An address leads to an interface: 'vetro vm create --network' makes a VM with one.",
        )
    return choose(
        _ports(connection, rows),
        f"the interfaces of VM {vm_name}",
        lambda row: f"{row['uuid']} ({row['ip']} in {row['network']})",
        "Name one with --port.",
    )


_vm_option = click.option("--vm", "vm_name", type=VM, help="The VM that it leads to.")
_port_option = click.option("--port", "port_name", type=PORT.argument, help="The port it leads to.")


@address.command("create", short_help="Take a floating address.")
@_vm_option
@_port_option
@project_option
@json_option
def address_create(vm_name: str | None, port_name: str | None, project: str | None) -> None:
    """Take a free floating address; with --vm or --port it leads there at once."""
    with Connection() as connection:
        target = _port_meant(connection, vm_name, port_name)
        owner = project_of(connection, project)
        body: Row = {"project_id": owner}
        if target is not None:
            body["port_uuid"] = target["uuid"]
            if project is None:
                body["project_id"] = target["project_id"]
        hint = "'vetro address list --all-projects' says who has them; 'delete' gives one back."
        made = connection.request("POST", ADDRESS.path, json=body, hint=hint).json()
    leads = f" leads to {made['fixed_ip']}" if made["fixed_ip"] else " is yours"
    done(f"{made['address']}{leads}", **made)


@address.command("associate", short_help="Lead a floating address to a VM.")
@click.argument("address_or_uuid", type=ADDRESS.argument)
@_vm_option
@_port_option
@json_option
def associate(address_or_uuid: str, vm_name: str | None, port_name: str | None) -> None:
    """Lead a floating address to a VM or port; where it led before it leads no more."""
    with Connection() as connection:
        row = find(connection, ADDRESS, address_or_uuid)
        target = _port_meant(connection, vm_name, port_name)
        if target is None:
            fail("Where is it to lead?", "Give --vm or --port.", 2)
        body = {"port_uuid": target["uuid"]}
        changed = connection.request("PUT", path_of(ADDRESS, row), json=body).json()
    done(f"{changed['address']} leads to {changed['fixed_ip']}", **changed)


@address.command("disassociate", short_help="Lead a floating address nowhere; it stays yours.")
@click.argument("address_or_uuid", type=ADDRESS.argument)
@json_option
def disassociate(address_or_uuid: str) -> None:
    """Lead a floating address nowhere; it stays yours."""
    with Connection() as connection:
        row = find(connection, ADDRESS, address_or_uuid)
        body = {"port_uuid": None}
        changed = connection.request("PUT", path_of(ADDRESS, row), json=body).json()
    done(f"{changed['address']} leads nowhere", **changed)


@address.command("delete", short_help="Give floating addresses back.")
@click.argument("addresses_or_uuids", nargs=-1, required=True, type=ADDRESS.argument)
@yes_option
@json_option
def address_delete(addresses_or_uuids: tuple[str, ...]) -> None:
    """Give floating addresses back; where one led, nothing leads any more."""
    with Connection() as connection:
        rows = [find(connection, ADDRESS, one) for one in dict.fromkeys(addresses_or_uuids)]
        agree_to_delete(ADDRESS, rows)
        report_deleted(ADDRESS, delete(connection, ADDRESS, rows))
