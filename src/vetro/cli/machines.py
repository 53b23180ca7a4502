"""``vetro vm``: containers and virtual machines on compute nodes."""

from __future__ import annotations

from typing import Any

import click

from vetro.cli.connection import Connection, segment
from vetro.cli.console import console, screenshot, vnc
from vetro.cli.execution import exec_
from vetro.cli.output import (
    emit_object,
    emit_rows,
    fail,
    json_option,
    say,
    secrets_option,
    shown,
    wants_json,
)
from vetro.cli.servers import find_server, list_servers, wait_job

VM_COLUMNS = [
    ("UUID", "uuid"),
    ("ALIAS", "alias"),
    ("STATE", "state"),
    ("ADDRESSES", "addresses"),
    ("SERVER", "server_uuid"),
]


@click.group()
def vm() -> None:
    """Containers and virtual machines."""


for _command in (console, exec_, screenshot, vnc):
    vm.add_command(_command)


def all_vms(connection: Connection) -> list[dict[str, Any]]:
    """Every VM of every node, with its addresses."""
    rows: list[dict[str, Any]] = []
    for node in list_servers(connection):
        held: dict[str, dict[str, Any]] = node.get("vms") or {}
        for uuid, status in held.items():
            nics: list[dict[str, Any]] = status.get("nics") or []
            row: dict[str, Any] = {"uuid": uuid, "server_uuid": node["uuid"], **status}
            row["addresses"] = ", ".join(str(nic["ip"]) for nic in nics if nic.get("ip"))
            rows.append(row)
    return rows


def find_vm(connection: Connection, wanted: str) -> dict[str, Any]:
    """The VM with this uuid or alias."""
    rows = [row for row in all_vms(connection) if wanted in (row["uuid"], row.get("alias"))]
    if len(rows) == 1:
        return rows[0]
    fail(
        f"{'Several VMs are called' if rows else 'There is no VM'} '{wanted}'",
        "'vetro vm list' shows them.",
    )


@vm.command("list")
@json_option
def vm_list() -> None:
    """List VMs."""
    with Connection() as connection:
        emit_rows(all_vms(connection), VM_COLUMNS)


@vm.command("show")
@click.argument("name_or_uuid")
@secrets_option
@json_option
def vm_show(name_or_uuid: str) -> None:
    """Show one VM as its node sees it."""
    with Connection() as connection:
        row = find_vm(connection, name_or_uuid)
        found = connection.get(f"/compute/servers/{row['server_uuid']}/vms/{row['uuid']}")
        emit_object(shown(found))


def wait_task(connection: Connection, task_id: str) -> dict[str, Any]:
    """A task when it has ended; the command fails with the node's own words when it failed."""
    path = f"/compute/tasks/{segment(task_id)}/wait"
    task = connection.get(path, params={"timeout": 30})
    # A virtual machine has three minutes to stop in order.
    while task.get("status") not in ("complete", "failure"):
        task = connection.get(path, params={"timeout": 30})
    if task["status"] == "failure":
        result: dict[str, Any] = task.get("result") or {}
        what = f"{task.get('task')} on server {task.get('server_uuid')}"
        fail(f"{what} failed: {result.get('error') or 'no reason given'}")
    return task


def _vm_task(
    name_or_uuid: str, method: str, suffix: str, done: str, body: dict[str, Any] | None = None
) -> None:
    with Connection() as connection:
        row = find_vm(connection, name_or_uuid)
        path = f"/compute/servers/{segment(row['server_uuid'])}/vms/{segment(row['uuid'])}{suffix}"
        task = connection.request(method, path, json=body or {}).json()
        if task.get("id"):
            task = wait_task(connection, task["id"])
    if wants_json():
        emit_object(task)
    say(f"VM {row.get('alias') or row['uuid']} {done}")


@vm.command("start")
@click.argument("name_or_uuid")
@json_option
def vm_start(name_or_uuid: str) -> None:
    """Start a VM."""
    _vm_task(name_or_uuid, "POST", "/start", "started")


@vm.command("stop")
@click.argument("name_or_uuid")
@click.option("--force", is_flag=True, help="Do not wait for the guest to stop in order.")
@json_option
def vm_stop(name_or_uuid: str, force: bool) -> None:
    """Stop a VM."""
    _vm_task(name_or_uuid, "POST", "/stop", "stopped", {"force": force})


@vm.command("reboot")
@click.argument("name_or_uuid")
@json_option
def vm_reboot(name_or_uuid: str) -> None:
    """Reboot a VM."""
    _vm_task(name_or_uuid, "POST", "/reboot", "rebooted")


@vm.command("destroy")
@click.argument("name_or_uuid")
@click.confirmation_option(prompt="Destroy it and its disk?")
@json_option
def vm_destroy(name_or_uuid: str) -> None:
    """Destroy a VM; an environment that uses it will miss it."""
    _vm_task(name_or_uuid, "DELETE", "", "destroyed")


@vm.command("migrate")
@click.argument("name_or_uuid")
@click.option("--to", "target", help="The server it moves to [where there is room].")
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
@click.argument("name_or_uuid")
@json_option
def snapshot_list(name_or_uuid: str) -> None:
    """List a VM's snapshots, oldest first."""
    with Connection() as connection:
        row = find_vm(connection, name_or_uuid)
        path = f"/compute/servers/{segment(row['server_uuid'])}/vms/{segment(row['uuid'])}"
        rows: list[dict[str, Any]] = connection.get(path).get("snapshots") or []
    emit_rows(rows, [("NAME", "name"), ("CREATED", "created_at")])


@snapshot.command("create")
@click.argument("name_or_uuid")
@click.argument("snapshot_name", required=False)
@json_option
def snapshot_create(name_or_uuid: str, snapshot_name: str | None) -> None:
    """Take a snapshot; without a name it is called by the time."""
    body = {"snapshot_name": snapshot_name} if snapshot_name else {}
    _vm_task(name_or_uuid, "PUT", "/snapshots", "has one more snapshot", body)


@snapshot.command("rollback")
@click.argument("name_or_uuid")
@click.argument("snapshot_name")
@click.confirmation_option(prompt="Lose what changed since, newer snapshots too?")
@json_option
def snapshot_rollback(name_or_uuid: str, snapshot_name: str) -> None:
    """Take the disks back to a snapshot."""
    path = f"/snapshots/{segment(snapshot_name)}/rollback"
    _vm_task(name_or_uuid, "PUT", path, f"is back at {snapshot_name}")


@snapshot.command("delete")
@click.argument("name_or_uuid")
@click.argument("snapshot_name")
@json_option
def snapshot_delete(name_or_uuid: str, snapshot_name: str) -> None:
    """Delete a snapshot."""
    path = f"/snapshots/{segment(snapshot_name)}"
    _vm_task(name_or_uuid, "DELETE", path, f"has no snapshot {snapshot_name} any more")
