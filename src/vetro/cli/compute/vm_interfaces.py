"""``vetro vm interface``: interfaces of a machine that is there, by network or port."""

from __future__ import annotations

from dataclasses import dataclass

import click

from vetro.cli.client.connection import Connection
from vetro.cli.client.name_completion import VM
from vetro.cli.compute.lookup import GROUP, NETWORK, PORT, find
from vetro.cli.compute.servers import ended_task
from vetro.cli.compute.vm_lookup import called, find_vm
from vetro.cli.compute.vm_ports import free_numbers, is_own_port, make_port, remove_ports
from vetro.cli.terminal.confirmation import agree, choose, yes_option
from vetro.cli.terminal.output import (
    CommandError,
    PrintingGroup,
    Row,
    emit_object,
    emit_rows,
    fail,
    say,
    wants_json,
    word,
)
from vetro.compute.client import vm_calls
from vetro.compute.client.calls import FLOATING_IPS, NETWORKS, PORTS
from vetro.compute.wire import HVM_BRANDS, MOST_INTERFACES, Nic, Port, Vm

_COLUMNS = [
    ("INTERFACE", "interface"),
    ("MAC", "mac"),
    ("ADDRESS", "ip"),
    ("NETWORK", "network"),
    ("PORT", "port"),
    ("FLOATING", "floating"),
    ("PRIMARY", "primary"),
]


@dataclass(frozen=True)
class _Interface:
    """An interface as people know it. ``port``: none where the machine was made without ports."""

    nic: Nic
    port: Port | None
    network: str
    floating: str

    @property
    def address(self) -> str:
        """Its address, without the length of its prefix."""
        return (self.nic.ip or "").split("/")[0]

    @property
    def row(self) -> Row:
        """What the list shows of it."""
        return {
            "interface": self.nic.interface,
            "mac": self.nic.mac,
            "ip": self.address,
            "network": self.network,
            "port": PORT.called(self.port) if self.port else "",
            "port_uuid": self.port.uuid if self.port else None,
            "floating": self.floating,
            "primary": bool(self.nic.primary),
        }

    @property
    def label(self) -> str:
        """What distinguishes it from others."""
        return f"{self.nic.mac} ({self.address or 'no address'})"


@click.group("interface", cls=PrintingGroup)
def interface() -> None:
    """Interfaces of a VM: each is in a network and has an address there."""


def _there(connection: Connection, name_or_uuid: str) -> Vm:
    """A VM as its node has it now."""
    return connection.send(vm_calls.vm(find_vm(connection, name_or_uuid).uuid))


def _interfaces(connection: Connection, machine: Vm) -> list[_Interface]:
    ports = {
        one.mac: one for one in connection.send(PORTS.all()) if one.device_uuid == machine.uuid
    }
    names = {one.uuid: one.name or one.uuid for one in connection.send(NETWORKS.all())}
    floating = {one.port_uuid: one.address for one in connection.send(FLOATING_IPS.all())}
    found: list[_Interface] = []
    for nic in machine.nics or []:
        port = ports.get(nic.mac)
        network = names.get(port.network_uuid, port.network_uuid) if port else ""
        found.append(_Interface(nic, port, network, floating.get(port.uuid, "") if port else ""))
    return found


def _is_restarted(machine: Vm) -> bool:
    """Whether a change of its interfaces restarts it: a container has them while it runs."""
    return machine.brand in HVM_BRANDS and machine.state == "running"


@interface.command("list")
@click.argument("name_or_uuid", type=VM)
def interface_list(name_or_uuid: str) -> None:
    """List the interfaces of a VM. The default route leads through the primary one."""
    with Connection() as connection:
        found = _interfaces(connection, _there(connection, name_or_uuid))
    emit_rows([one.row for one in found], _COLUMNS)


@interface.command("add", short_help="Give a VM an interface in a network, or at a port.")
@click.argument("name_or_uuid", type=VM)
@click.option(
    "--network", "-n", "network_names", multiple=True, type=NETWORK.argument,
    help="A network it is to be in; may be repeated.",
)  # fmt: skip
@click.option(
    "--port", "-p", "port_names", multiple=True, type=PORT.argument,
    help="A port made before ('vetro port create'); may be repeated.",
)  # fmt: skip
@click.option(
    "--group", "-g", "group_names", multiple=True, type=GROUP.argument,
    help="A security group of the interfaces in --network; may be repeated. Without any they are open.",
)  # fmt: skip
@yes_option
def interface_add(
    name_or_uuid: str,
    network_names: tuple[str, ...],
    port_names: tuple[str, ...],
    group_names: tuple[str, ...],
) -> None:
    """Give a VM an interface in a network, or at a port.

    A container has it at once. A virtual machine that runs is restarted; the command asks first. An
    interface in a --network goes with its port; that at a --port leaves the port when it is removed.

    \b
    Example:
      vetro vm interface add box --network lan --group front
    """
    if not (network_names or port_names):
        fail("Where is the interface to be?", "Give --network or --port.", 2)
    if group_names and not network_names:
        fail("--group is for ports that are made for the machine",
             "'vetro port update --group' changes those that are there.", 2)  # fmt: skip
    with Connection() as connection:
        machine = _there(connection, name_or_uuid)
        owner = machine.owner_uuid
        networks = [find(connection, NETWORK, one, owner) for one in network_names]
        ready = [find(connection, PORT, one, owner) for one in dict.fromkeys(port_names)]
        groups = [find(connection, GROUP, one, owner).uuid for one in group_names]
        for one in ready:
            if one.device_uuid not in (None, machine.uuid):
                fail(f"The port {PORT.called(one)} is used by VM {one.device_uuid}",
                     "'vetro port create' makes another.")  # fmt: skip
        numbers = free_numbers(connection, machine.uuid)
        if len(machine.nics or []) + len(networks) + len(ready) > MOST_INTERFACES or len(
            numbers
        ) < len(networks):
            fail(f"A machine has at most {MOST_INTERFACES} interfaces",
                 f"'vetro vm interface remove {word(called(machine))}' makes room.")  # fmt: skip
        if _is_restarted(machine):
            agree(f"VM {called(machine)} would be restarted to get the interface", "Go on")
        made: list[Port] = []
        try:
            for number, network in zip(numbers, networks, strict=False):
                made.append(make_port(connection, machine, number, network, groups))
            ports = [*made, *ready]
            call = vm_calls.add_interfaces(
                machine.uuid, [one.uuid for one in ports], machine.server_uuid
            )
            started = connection.decoded(call)
        except BaseException:
            remove_ports(connection, made)
            raise
        try:
            ended = ended_task(connection, started)
        except CommandError:
            # Of a task that has failed the ports are free; one that goes on keeps them.
            remove_ports(connection, made)
            raise
        names = {one.uuid: one.name or one.uuid for one in connection.send(NETWORKS.all())}
    if wants_json():
        emit_object(ended)
    where = [
        f"{one.fixed_ips[0][1]} in network {names.get(one.network_uuid, one.network_uuid)}"
        for one in ports
    ]
    say(f"VM {called(machine)} has {', '.join(where)}")


@interface.command("remove", short_help="Take an interface from a VM.")
@click.argument("name_or_uuid", type=VM)
@click.option("--network", "-n", "network_name", type=NETWORK.argument, help="The one in it.")
@click.option("--port", "-p", "port_name", type=PORT.argument, help="The one at this port.")
@click.option("--mac", help="The one with this MAC address.")
@yes_option
def interface_remove(
    name_or_uuid: str, network_name: str | None, port_name: str | None, mac: str | None
) -> None:
    """Take an interface from a VM.

    A port that was made for the VM is deleted with it; one that was made by hand is free. A virtual
    machine that runs is restarted.
    """
    if len([one for one in (network_name, port_name, mac) if one is not None]) != 1:
        fail("Which interface is it?", "Give one of --network, --port and --mac.", 2)
    with Connection() as connection:
        machine = _there(connection, name_or_uuid)
        there = _interfaces(connection, machine)
        found = _meant(connection, machine, there, network_name, port_name, mac)
        agree(_lost(machine, there, found), "Go on")
        call = vm_calls.remove_interface(machine.uuid, found.nic.mac, machine.server_uuid)
        ended = ended_task(connection, connection.decoded(call))
        port = found.port
        if port is not None and is_own_port(machine.uuid, port.uuid):
            connection.send(PORTS.remove(port.uuid))
            port = None
    if wants_json():
        emit_object(ended)
    free = f"; the port {PORT.called(port)} is free" if port is not None else ""
    say(f"VM {called(machine)} has no interface {found.label} any more{free}")


def _meant(
    connection: Connection, machine: Vm, there: list[_Interface],
    network_name: str | None, port_name: str | None, mac: str | None,
) -> _Interface:  # fmt: skip
    """The interface that the options name; of several in a network the user says which."""
    owner = machine.owner_uuid
    if network_name is not None:
        network = find(connection, NETWORK, network_name, owner)
        where = f"in network {NETWORK.called(network)}"
        found = [one for one in there if one.port and one.port.network_uuid == network.uuid]
    elif port_name is not None:
        port = find(connection, PORT, port_name, owner)
        where = f"at port {PORT.called(port)}"
        found = [one for one in there if one.port and one.port.uuid == port.uuid]
    else:
        where = f"with the MAC address {mac}"
        found = [one for one in there if one.nic.mac == str(mac).lower()]
    if not found:
        fail(f"VM {called(machine)} has no interface {where}",
             f"'vetro vm interface list {word(called(machine))}' shows them.")  # fmt: skip
    return choose(
        found,
        f"the interfaces of VM {called(machine)} {where}",
        lambda one: one.label,
        "Name one with --mac.",
    )


def _lost(machine: Vm, there: list[_Interface], gone: _Interface) -> str:
    """What goes with an interface, in one sentence."""
    others = [one for one in there if one is not gone]
    parts = [f"VM {called(machine)} would lose the interface {gone.label}"]
    if not others:
        parts.append("be in no network")
    elif gone.nic.primary:
        parts.append(f"have its default route through {others[0].label}")
    if gone.floating:
        parts.append(f"not be reached at {gone.floating}")
    if _is_restarted(machine):
        parts.append("be restarted")
    return " and ".join(parts)
