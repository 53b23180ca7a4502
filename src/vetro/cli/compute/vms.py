"""``vetro vm``: containers and virtual machines on compute nodes."""

from __future__ import annotations

from collections.abc import Callable

import click

from vetro.cli.client.connection import Connection, Decoded
from vetro.cli.client.name_completion import SERVER, VM
from vetro.cli.compute.servers import ended_task, find_server, wait_job
from vetro.cli.compute.vm_console import console, screenshot, vnc
from vetro.cli.compute.vm_creation import create
from vetro.cli.compute.vm_exec import exec_
from vetro.cli.compute.vm_interfaces import interface
from vetro.cli.compute.vm_lookup import (
    all_vms,
    called,
    environments_of,
    find_decoded,
    find_vm,
    floating_addresses,
)
from vetro.cli.compute.vm_ports import own_ports
from vetro.cli.terminal.confirmation import agree, yes_option
from vetro.cli.terminal.output import (
    PrintingGroup,
    Row,
    emit_json,
    emit_object,
    emit_rows,
    say,
    secrets_option,
    shown,
    wants_json,
)
from vetro.compute.client import vm_calls
from vetro.compute.client.calls import PORTS, Call
from vetro.compute.wire import Document, TaskStarted, Vm

VM_COLUMNS = [
    ("UUID", "uuid"),
    ("ALIAS", "alias"),
    ("STATE", "state"),
    ("ADDRESSES", "addresses"),
    ("FLOATING", "floating"),
    ("ENVIRONMENT", "environment"),
    ("SERVER", "server_uuid"),
]


@click.group(cls=PrintingGroup)
def vm() -> None:
    """Containers and virtual machines."""


for _command in (console, create, exec_, interface, screenshot, vnc):
    vm.add_command(_command)


@vm.command("list")
def vm_list() -> None:
    """List VMs."""
    with Connection() as connection:
        found = all_vms(connection)
        floating = floating_addresses(connection)
        homes = environments_of(connection, [answer.known for answer in found])
    rows: list[Row] = []
    for answer in found:
        uuid = answer.known.uuid
        leading = ", ".join(floating.get(uuid, []))
        rows.append({**answer.row, "floating": leading, "environment": homes.get(uuid)})
    emit_rows(rows, VM_COLUMNS)


@vm.command("show")
@click.argument("name_or_uuid", type=VM)
@secrets_option
def vm_show(name_or_uuid: str) -> None:
    """Show one VM as its node sees it."""
    with Connection() as connection:
        emit_object(shown(_as_it_is(connection, name_or_uuid).row))


def _as_it_is(connection: Connection, name_or_uuid: str) -> Decoded[Vm]:
    """A VM as its node sees it now."""
    found = find_vm(connection, name_or_uuid)
    # On any server: of one that is silent the service says what it can.
    return connection.decoded(vm_calls.vm(found.uuid))


def _vm_task(
    name_or_uuid: str, call_for: Callable[[Vm], Call[TaskStarted]], done: str, *, losing: str = ""
) -> None:
    """``losing``: what the user must agree to lose first, said behind the VM's name."""
    with Connection() as connection:
        found = find_vm(connection, name_or_uuid)
        if losing:
            agree(f"VM {called(found)} {losing}", "Go on")
        ended = ended_task(connection, connection.decoded(call_for(found)))
    if wants_json():
        emit_object(ended)
    say(f"VM {called(found)} {done}")


def _action(action: str, body: Document | None = None) -> Callable[[Vm], Call[TaskStarted]]:
    return lambda found: vm_calls.act_on_vm(found.uuid, action, body, found.server_uuid)


@vm.command("start")
@click.argument("name_or_uuid", type=VM)
def vm_start(name_or_uuid: str) -> None:
    """Start a VM."""
    _vm_task(name_or_uuid, _action("start"), "started")


@vm.command("stop")
@click.argument("name_or_uuid", type=VM)
@click.option("--force", is_flag=True, help="Do not wait for the guest to stop in order.")
def vm_stop(name_or_uuid: str, force: bool) -> None:
    """Stop a VM."""
    _vm_task(name_or_uuid, _action("stop", {"force": force}), "stopped")


@vm.command("reboot")
@click.argument("name_or_uuid", type=VM)
def vm_reboot(name_or_uuid: str) -> None:
    """Reboot a VM."""
    _vm_task(name_or_uuid, _action("reboot"), "rebooted")


@vm.command("destroy", short_help="Destroy VMs and their disks.")
@click.argument("names_or_uuids", nargs=-1, required=True, type=VM)
@yes_option
def vm_destroy(names_or_uuids: tuple[str, ...]) -> None:
    """Destroy VMs and their disks; an environment that uses one will miss it.

    Ports that 'vetro vm create' made for them are removed, others are free; a floating address
    leads nowhere then and stays yours.
    """
    ended: list[Row] = []
    with Connection() as connection:
        # All are looked up before one is destroyed: a wrong name changes nothing.
        rows = [find_vm(connection, one) for one in dict.fromkeys(names_or_uuids)]
        names = ", ".join(called(row) for row in rows)
        agree(
            f"VM {names} would be destroyed with its disks and snapshots; an environment that uses it"
            " would miss it"
            if len(rows) == 1
            else f"VMs {names} would be destroyed with their disks and snapshots; environments that"
            " use them would miss them",
            "Go on",
        )
        for row in rows:
            ports = own_ports(connection, row.uuid)
            ended.append(ended_task(connection, connection.decoded(vm_calls.destroy_vm(row.uuid))))
            for port in ports:
                connection.send(PORTS.remove(port.uuid))
            say(f"VM {called(row)} destroyed")
    if wants_json():
        emit_json(shown(ended[0] if len(ended) == 1 else ended))


# Everything else is removed by a command 'delete': users who look for that word find this one.
vm.add_command(vm_destroy, "delete")


@vm.command("migrate")
@click.argument("name_or_uuid", type=VM)
@click.option("--to", "target", type=SERVER, help="The server it moves to [where there is room].")
def vm_migrate(name_or_uuid: str, target: str | None) -> None:
    """Move a VM to another compute node.

    A container stops for as long as it takes to copy what changed while the rest was copied; a
    virtual machine moves with its memory.
    """
    with Connection() as connection:
        found = find_vm(connection, name_or_uuid)
        to = None if target is None else find_server(connection, target).uuid
        job = connection.send(vm_calls.move_vm(found.uuid, to, found.server_uuid))
        wait_job(connection, job.job_uuid)
        moved = find_decoded(connection, found.uuid)
    if wants_json():
        emit_object(moved.row)
    say(f"VM {called(found)} is on server {moved.known.server_uuid}")


@vm.group()
def snapshot() -> None:
    """Snapshots of a VM's disks."""


@snapshot.command("list")
@click.argument("name_or_uuid", type=VM)
def snapshot_list(name_or_uuid: str) -> None:
    """List a VM's snapshots, oldest first."""
    with Connection() as connection:
        found = _as_it_is(connection, name_or_uuid).known.snapshots or []
    rows: list[Row] = [{"name": one.name, "created_at": one.created_at} for one in found]
    emit_rows(rows, [("NAME", "name"), ("CREATED", "created_at")])


@snapshot.command("create")
@click.argument("name_or_uuid", type=VM)
@click.argument("snapshot_name", required=False)
def snapshot_create(name_or_uuid: str, snapshot_name: str | None) -> None:
    """Take a snapshot; without a name it is called by the time."""
    _vm_task(
        name_or_uuid,
        lambda found: vm_calls.take_snapshot(found.uuid, snapshot_name or "", found.server_uuid),
        "has one more snapshot",
    )


@snapshot.command("rollback")
@click.argument("name_or_uuid", type=VM)
@click.argument("snapshot_name")
@yes_option
def snapshot_rollback(name_or_uuid: str, snapshot_name: str) -> None:
    """Take the disks back to a snapshot."""
    _vm_task(
        name_or_uuid,
        lambda found: vm_calls.roll_back(found.uuid, snapshot_name, found.server_uuid),
        f"is back at {snapshot_name}",
        losing=f"would lose what changed since {snapshot_name}, newer snapshots too",
    )


@snapshot.command("delete")
@click.argument("name_or_uuid", type=VM)
@click.argument("snapshot_name")
@yes_option
def snapshot_delete(name_or_uuid: str, snapshot_name: str) -> None:
    """Delete a snapshot."""
    _vm_task(
        name_or_uuid,
        lambda found: vm_calls.remove_snapshot(found.uuid, snapshot_name, found.server_uuid),
        f"has no snapshot {snapshot_name} any more",
        losing=f"would lose its snapshot {snapshot_name}",
    )
