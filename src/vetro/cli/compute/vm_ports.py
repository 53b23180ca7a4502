"""Ports that commands make for a machine: they belong to it, and go with it."""

from __future__ import annotations

import uuid

from vetro.cli.client.connection import Connection, error_text, hint_for, read
from vetro.cli.compute.lookup import NETWORK
from vetro.cli.terminal.output import fail
from vetro.compute.client.calls import PORTS
from vetro.compute.wire import MOST_INTERFACES, Network, NewPort, NewVm, Port, Vm


def own_ports(connection: Connection, vm: str) -> list[Port]:
    """The ports that commands made for a machine: they are deleted with it."""
    made = set(_own_uuids(vm))
    return [one for one in connection.send(PORTS.all()) if one.uuid in made]


def is_own_port(vm: str, port: str) -> bool:
    """Whether a command made this port for the machine."""
    return port in _own_uuids(vm)


def free_numbers(connection: Connection, vm: str) -> list[int]:
    """The numbers of ports that can still be made for a machine."""
    taken = {one.uuid for one in own_ports(connection, vm)}
    return [number for number, one in enumerate(_own_uuids(vm)) if one not in taken]


def make_port(
    connection: Connection, vm: NewVm | Vm, number: int, network: Network, groups: list[str]
) -> Port:
    """A port for a machine in a network; its ``number`` says which. The command ends when it cannot be."""
    call = PORTS.create(
        NewPort(
            uuid=_port_uuid(vm.uuid, number),
            project_id=vm.owner_uuid or "",
            name=f"{vm.alias or vm.uuid}-net{number}",
            network_uuid=network.uuid,
            security_groups=groups,
        )
    )
    answer = connection.answer_to(call)
    if answer.status >= 400:
        hint = f"'vetro subnet create {NETWORK.called(network)} RANGE' gives it addresses."
        fail(error_text(answer), hint_for(answer) if network.subnets else hint)
    return read(call, answer)


def remove_ports(connection: Connection, ports: list[Port]) -> None:
    """Remove ports after a failure; the failure is what the user sees."""
    for one in ports:
        connection.answer_to(PORTS.remove(one.uuid))


def _own_uuids(vm: str) -> list[str]:
    return [_port_uuid(vm, number) for number in range(MOST_INTERFACES)]


def _port_uuid(vm: str, number: int) -> str:
    return str(uuid.uuid5(uuid.UUID(vm), f"vm-create-port-{number}"))
