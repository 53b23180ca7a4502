"""``vetro vm``: containers and virtual machines on compute nodes."""

from __future__ import annotations

from typing import Any

import click

from vetro.cli.client.connection import Connection, segment
from vetro.cli.client.name_completion import SERVER, VM
from vetro.cli.compute.servers import find_server, wait_job, wait_task
from vetro.cli.compute.vm_console import console, screenshot, vnc
from vetro.cli.compute.vm_creation import create, own_ports
from vetro.cli.compute.vm_exec import exec_
from vetro.cli.compute.vm_lookup import all_vms, environments_of, find_vm, with_floating_addresses
from vetro.cli.terminal.confirmation import agree, yes_option
from vetro.cli.terminal.output import (
    emit_json,
    emit_object,
    emit_rows,
    json_option,
    say,
    secrets_option,
    shown,
    wants_json,
)
from vetro.compute.client.calls import PORTS

VM_COLUMNS = [
    ("UUID", "uuid"),
    ("ALIAS", "alias"),
    ("STATE", "state"),
    ("ADDRESSES", "addresses"),
    ("FLOATING", "floating"),
    ("ENVIRONMENT", "environment"),
    ("SERVER", "server_uuid"),
]


@click.group()
def vm() -> None:
    """Containers and virtual machines."""


for _command in (console, create, exec_, screenshot, vnc):
    vm.add_command(_command)


@vm.command("list")
@json_option
def vm_list() -> None:
    """List VMs."""
    with Connection() as connection:
        rows = with_floating_addresses(connection, all_vms(connection))
        homes = environments_of(connection, [row["uuid"] for row in rows])
        for row in rows:
            row["environment"] = homes.get(row["uuid"])
    emit_rows(rows, VM_COLUMNS)


@vm.command("show")
@click.argument("name_or_uuid", type=VM)
@secrets_option
@json_option
def vm_show(name_or_uuid: str) -> None:
    """Show one VM as its node sees it."""
    with Connection() as connection:
        row = find_vm(connection, name_or_uuid)
        found = connection.get(f"/compute/servers/{row['server_uuid']}/vms/{row['uuid']}")
        emit_object(shown(found))


def _vm_task(
    name_or_uuid: str,
    method: str,
    suffix: str,
    done: str,
    body: dict[str, Any] | None = None,
    *,
    losing: str = "",
) -> None:
    """``losing``: what the user must agree to lose first, said behind the VM's name."""
    with Connection() as connection:
        row = find_vm(connection, name_or_uuid)
        if losing:
            agree(f"VM {row.get('alias') or row['uuid']} {losing}", "Go on")
        path = f"/compute/servers/{segment(row['server_uuid'])}/vms/{segment(row['uuid'])}{suffix}"
        task = connection.request(method, path, json=body or {}).json()
        if task.get("id"):
            task = wait_task(connection, task["id"])
    if wants_json():
        emit_object(task)
    say(f"VM {row.get('alias') or row['uuid']} {done}")


@vm.command("start")
@click.argument("name_or_uuid", type=VM)
@json_option
def vm_start(name_or_uuid: str) -> None:
    """Start a VM."""
    _vm_task(name_or_uuid, "POST", "/start", "started")


@vm.command("stop")
@click.argument("name_or_uuid", type=VM)
@click.option("--force", is_flag=True, help="Do not wait for the guest to stop in order.")
@json_option
def vm_stop(name_or_uuid: str, force: bool) -> None:
    """Stop a VM."""
    _vm_task(name_or_uuid, "POST", "/stop", "stopped", {"force": force})


@vm.command("reboot")
@click.argument("name_or_uuid", type=VM)
@json_option
def vm_reboot(name_or_uuid: str) -> None:
    """Reboot a VM."""
    _vm_task(name_or_uuid, "POST", "/reboot", "rebooted")


@vm.command("destroy", short_help="Destroy VMs and their disks.")
@click.argument("names_or_uuids", nargs=-1, required=True, type=VM)
@yes_option
@json_option
def vm_destroy(names_or_uuids: tuple[str, ...]) -> None:
    """Destroy VMs and their disks; an environment that uses one will miss it.

    Ports that 'vetro vm create' made for them are removed, others are free; a floating address
    leads nowhere then and stays yours.
    """
    ended: list[dict[str, Any]] = []
    with Connection() as connection:
        # All are looked up before one is destroyed: a wrong name changes nothing.
        rows = [find_vm(connection, one) for one in dict.fromkeys(names_or_uuids)]
        called = ", ".join(str(row.get("alias") or row["uuid"]) for row in rows)
        agree(
            f"VM {called} would be destroyed with its disks and snapshots; an environment that uses it"
            " would miss it"
            if len(rows) == 1
            else f"VMs {called} would be destroyed with their disks and snapshots; environments that"
            " use them would miss them",
            "Go on",
        )
        for row in rows:
            ports = own_ports(connection, row["uuid"])
            path = f"/compute/servers/{segment(row['server_uuid'])}/vms/{segment(row['uuid'])}"
            task = connection.request("DELETE", path, json={}).json()
            ended.append(wait_task(connection, task["id"]) if task.get("id") else task)
            for port in ports:
                connection.send(PORTS.remove(port.uuid))
            say(f"VM {row.get('alias') or row['uuid']} destroyed")
    if wants_json():
        emit_json(ended[0] if len(ended) == 1 else ended)


# Everything else that is removed is deleted: who looks for that word finds the command.
vm.add_command(vm_destroy, "delete")


@vm.command("migrate")
@click.argument("name_or_uuid", type=VM)
@click.option("--to", "target", type=SERVER, help="The server it moves to [where there is room].")
@json_option
def vm_migrate(name_or_uuid: str, target: str | None) -> None:
    """Move a VM to another compute node.

    A container stops for as long as it takes to copy what changed while the rest was copied; a
    virtual machine moves with its memory.
    """
    with Connection() as connection:
        row = find_vm(connection, name_or_uuid)
        path = f"/compute/servers/{segment(row['server_uuid'])}/vms/{segment(row['uuid'])}"
        body = {} if target is None else {
            "target_server_uuid": find_server(connection, target)["uuid"]
        }  # fmt: skip
        job = connection.request("POST", f"{path}/move", json=body).json()
        wait_job(connection, job["job_uuid"])
        moved = find_vm(connection, row["uuid"])
    if wants_json():
        emit_object(moved)
    say(f"VM {row.get('alias') or row['uuid']} is on server {moved['server_uuid']}")


@vm.group()
def snapshot() -> None:
    """Snapshots of a VM's disks."""


@snapshot.command("list")
@click.argument("name_or_uuid", type=VM)
@json_option
def snapshot_list(name_or_uuid: str) -> None:
    """List a VM's snapshots, oldest first."""
    with Connection() as connection:
        row = find_vm(connection, name_or_uuid)
        path = f"/compute/servers/{segment(row['server_uuid'])}/vms/{segment(row['uuid'])}"
        rows: list[dict[str, Any]] = connection.get(path).get("snapshots") or []
    emit_rows(rows, [("NAME", "name"), ("CREATED", "created_at")])


@snapshot.command("create")
@click.argument("name_or_uuid", type=VM)
@click.argument("snapshot_name", required=False)
@json_option
def snapshot_create(name_or_uuid: str, snapshot_name: str | None) -> None:
    """Take a snapshot; without a name it is called by the time."""
    body = {"snapshot_name": snapshot_name} if snapshot_name else {}
    _vm_task(name_or_uuid, "PUT", "/snapshots", "has one more snapshot", body)


@snapshot.command("rollback")
@click.argument("name_or_uuid", type=VM)
@click.argument("snapshot_name")
@yes_option
@json_option
def snapshot_rollback(name_or_uuid: str, snapshot_name: str) -> None:
    """Take the disks back to a snapshot."""
    path = f"/snapshots/{segment(snapshot_name)}/rollback"
    losing = f"would lose what changed since {snapshot_name}, newer snapshots too"
    _vm_task(name_or_uuid, "PUT", path, f"is back at {snapshot_name}", losing=losing)


@snapshot.command("delete")
@click.argument("name_or_uuid", type=VM)
@click.argument("snapshot_name")
@yes_option
@json_option
def snapshot_delete(name_or_uuid: str, snapshot_name: str) -> None:
    """Delete a snapshot."""
    path = f"/snapshots/{segment(snapshot_name)}"
    losing = f"would lose its snapshot {snapshot_name}"
    _vm_task(
        name_or_uuid, "DELETE", path, f"has no snapshot {snapshot_name} any more", losing=losing
    )
