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
    common_verbs,
    find,
    project_of,
    project_option,
    row_of,
)
from vetro.cli.compute.networks import checked_address, refuse_nothing
from vetro.cli.compute.vm_lookup import find_vm
from vetro.cli.terminal.confirmation import choose
from vetro.cli.terminal.output import PrintingGroup, done, fail, word
from vetro.compute.client.calls import FLOATING_IPS, NETWORKS, PORTS
from vetro.compute.wire import (
    AddressWish,
    FloatingIp,
    FloatingIpChange,
    NewFloatingIp,
    NewPort,
    Port,
    PortChange,
)


@click.group(cls=PrintingGroup)
def port() -> None:
    """Ports: places in networks, each with an address; a VM has one for each interface."""


@click.group(cls=PrintingGroup)
def address() -> None:
    """Floating addresses: they lead from outside to a VM."""


def _ports(connection: Connection, found: list[Port]) -> list[Row]:
    networks = {one.uuid: one.name for one in connection.send(NETWORKS.all())}
    floating = {one.port_uuid: one.address for one in connection.send(FLOATING_IPS.all())}
    return [
        row_of(
            one,
            network=networks.get(one.network_uuid) or one.network_uuid,
            ip=one.fixed_ips[0][1],
            floating=floating.get(one.uuid),
        )
        for one in found
    ]


def _addresses(connection: Connection, found: list[FloatingIp]) -> list[Row]:
    users = {one.uuid: one.device_uuid for one in connection.send(PORTS.all())}
    return [row_of(one, device_uuid=users.get(one.port_uuid or "")) for one in found]


common_verbs(port, PORT, _ports)
common_verbs(
    address,
    ADDRESS,
    _addresses,
    renamed=False,
    deleting="Give floating addresses back; where one led, nothing leads any more.",
)


def allowed(_context: click.Context, _param: click.Parameter, value: tuple[str, ...]) -> list[str]:
    """Addresses or ranges. Errors: wrong usage."""
    for one in value:
        try:
            ipaddress.ip_network(one)
        except ValueError as error:
            raise click.BadParameter(f"{error}. An address or range is written 10.77.5.9,"
                                     " 10.77.5.0/24, fd00:5::9") from error  # fmt: skip
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
    return [find(connection, GROUP, one, project).uuid for one in dict.fromkeys(names)]


@port.command("create", short_help="Make a port in a network.")
@click.argument("network_name", metavar="NETWORK", type=NETWORK.argument)
@click.option("--name", default="", help="What it is called.")
@click.option("--subnet", "subnet_name", type=SUBNET.argument, help="Which of several subnets.")
@click.option("--ip", callback=checked_address, help="The address it has [a free one].")
@_groups
@click.option("--no-port-security", is_flag=True, help="Neither groups nor checks of addresses.")
@_allowed
@project_option
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
        wish = AddressWish(ip=ip)
        if subnet_name is not None:
            wish.subnet_uuid = find(connection, SUBNET, subnet_name, owner).uuid
        new = NewPort(
            project_id=owner,
            name=name,
            network_uuid=row.uuid,
            fixed_ips=[wish],
            security_groups=group_uuids(connection, groups, owner),
            port_security=not no_port_security,
            allowed_addresses=allowed_addresses,
        )
        hint = (
            f"'vetro subnet create {row.uuid} RANGE' gives the network addresses;"
            " 'vetro port list' says which are taken."
        )
        made = connection.send(PORTS.create(new), hint=hint)
    done(f"Port {made.uuid} has {made.fixed_ips[0][1]} in network {NETWORK.called(row)}",
         **row_of(made))  # fmt: skip


@port.command("update", short_help="Change a port's security groups or addresses.")
@click.argument("name_or_uuid", type=PORT.argument)
@click.option("--name", help="What it is called.")
@_groups
@click.option("--no-groups", is_flag=True, help="No security groups: the port is open.")
@click.option("--port-security/--no-port-security", default=None, help="Keep groups and addresses.")
@_allowed
@click.option("--no-allow", is_flag=True, help="Only its own address.")
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
        change = PortChange()
        if name is not None:
            change.name = name
        if groups or no_groups:
            change.security_groups = group_uuids(connection, groups, row.project_id)
        if port_security is not None:
            change.port_security = port_security
        if allowed_addresses or no_allow:
            change.allowed_addresses = allowed_addresses
        refuse_nothing(
            change, "--group, --no-groups, --allow, --no-allow, --port-security or --name"
        )
        changed = connection.send(PORTS.change(row.uuid, change))
    done(f"Port {PORT.called(row)} is changed", **row_of(changed))


def _port_meant(connection: Connection, vm_name: str | None, port_name: str | None) -> Port | None:
    """The port that ``--vm`` or ``--port`` mean; ``None`` when neither was given."""
    if vm_name is not None and port_name is not None:
        fail("--vm and --port exclude each other", exit_code=2)
    if port_name is not None:
        return find(connection, PORT, port_name)
    if vm_name is None:
        return None
    machine = find_vm(connection, vm_name)
    ports = connection.send(PORTS.all())
    found = {one.uuid: one for one in ports if one.device_uuid == machine.uuid}
    if not found:
        fail(
            f"The VM {vm_name} is in no network",
            f"An address leads to an interface: 'vetro vm interface add {word(vm_name)}' gives it one.",
        )
    row = choose(
        _ports(connection, list(found.values())),
        f"the interfaces of VM {vm_name}",
        lambda row: f"{row['uuid']} ({row['ip']} in {row['network']})",
        "Name one with --port.",
    )
    return found[row["uuid"]]


_vm_option = click.option("--vm", "vm_name", type=VM, help="The VM that it leads to.")
_port_option = click.option("--port", "port_name", type=PORT.argument, help="The port it leads to.")


@address.command("create", short_help="Take a floating address.")
@_vm_option
@_port_option
@project_option
def address_create(vm_name: str | None, port_name: str | None, project: str | None) -> None:
    """Take a free floating address; with --vm or --port it leads there at once."""
    with Connection() as connection:
        target = _port_meant(connection, vm_name, port_name)
        owner = project_of(connection, project)
        new = NewFloatingIp(project_id=owner)
        if target is not None:
            new.port_uuid = target.uuid
            if project is None:
                new.project_id = target.project_id
        hint = "'vetro address list --all-projects' says who has them; 'delete' gives one back."
        made = connection.send(FLOATING_IPS.create(new), hint=hint)
    leads = f" leads to {made.fixed_ip}" if made.fixed_ip else " is yours"
    done(f"{made.address}{leads}", **row_of(made))


@address.command("associate", short_help="Lead a floating address to a VM.")
@click.argument("address_or_uuid", type=ADDRESS.argument)
@_vm_option
@_port_option
def associate(address_or_uuid: str, vm_name: str | None, port_name: str | None) -> None:
    """Lead a floating address to a VM or port; where it led before it leads no more."""
    with Connection() as connection:
        row = find(connection, ADDRESS, address_or_uuid)
        target = _port_meant(connection, vm_name, port_name)
        if target is None:
            fail("Where is it to lead?", "Give --vm or --port.", 2)
        change = FloatingIpChange(port_uuid=target.uuid)
        changed = connection.send(FLOATING_IPS.change(row.uuid, change))
    done(f"{changed.address} leads to {changed.fixed_ip}", **row_of(changed))


@address.command("disassociate", short_help="Lead a floating address nowhere; it stays yours.")
@click.argument("address_or_uuid", type=ADDRESS.argument)
def disassociate(address_or_uuid: str) -> None:
    """Lead a floating address nowhere; it stays yours."""
    with Connection() as connection:
        row = find(connection, ADDRESS, address_or_uuid)
        change = FloatingIpChange(port_uuid=None)
        changed = connection.send(FLOATING_IPS.change(row.uuid, change))
    done(f"{changed.address} leads nowhere", **row_of(changed))
