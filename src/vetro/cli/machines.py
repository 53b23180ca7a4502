"""``vetro server`` and ``vetro vm``: compute nodes and what runs on them."""

from __future__ import annotations

from typing import Any

import click

from vetro.cli.connection import Connection, segment
from vetro.cli.console import console, screenshot, vnc
from vetro.cli.output import emit_object, emit_rows, fail, json_option, say

SERVER_COLUMNS = [
    ("UUID", "uuid"),
    ("HOSTNAME", "hostname"),
    ("STATUS", "status"),
    ("SETUP", "setup"),
    ("MEMORY FREE (MB)", "memory_free_mb"),
    ("VMS", "vm_count"),
]
VM_COLUMNS = [
    ("UUID", "uuid"),
    ("ALIAS", "alias"),
    ("STATE", "state"),
    ("ADDRESSES", "addresses"),
    ("SERVER", "server_uuid"),
]


@click.group()
def server() -> None:
    """Compute nodes."""


def list_servers(connection: Connection, extras: str = "vms") -> list[dict[str, Any]]:
    """The compute nodes with their VMs."""
    return connection.get("/compute/servers", params={"extras": extras})


@server.command("list")
@json_option
def server_list() -> None:
    """List compute nodes."""
    with Connection() as connection:
        rows = list_servers(connection, "vms,memory,capacity")
    for row in rows:
        row["vm_count"] = len(row.get("vms") or {})
        available = row.get("memory_available_bytes")
        row["memory_free_mb"] = available // 2**20 if available else None
    emit_rows(rows, SERVER_COLUMNS)


@server.command("show")
@click.argument("uuid")
@json_option
def server_show(uuid: str) -> None:
    """Show one compute node, by uuid or host name."""
    with Connection() as connection:
        for row in list_servers(connection):
            if uuid in (row["uuid"], row.get("hostname")):
                emit_object(connection.get(f"/compute/servers/{row['uuid']}"))
                return
    fail(f"There is no server '{uuid}'", "'vetro server list' shows them.")


def find_server(connection: Connection, wanted: str) -> dict[str, Any]:
    """The compute node with this uuid or host name."""
    rows = list_servers(connection)
    found = [row for row in rows if wanted in (row["uuid"], row.get("hostname"))]
    if len(found) == 1:
        return found[0]
    many = "Several servers are called" if found else "There is no server"
    fail(f"{many} '{wanted}'", "'vetro server list' shows them.")


def wait_job(connection: Connection, job: str) -> dict[str, Any]:
    """A job when it has ended; the command fails with the job's own words when the job failed."""
    shown = ""
    while True:
        view = connection.get(f"/compute/jobs/{segment(job)}/wait", params={"timeout": 30})
        if view["execution"] == "failed":
            steps: list[dict[str, Any]] = view["chain_results"]
            errors = [step["error"] for step in steps if step["error"]]
            fail(errors[0] if errors else f"The job {job} failed")
        if view["execution"] == "succeeded":
            return view
        if view.get("waiting_on") and view["waiting_on"] != shown:
            shown = str(view["waiting_on"])
            say(f"  {shown} …")


@server.command("drain", short_help="Empty a compute node.")
@click.argument("name_or_uuid")
@click.option(
    "--no-move", is_flag=True, help="Only place nothing new there, and say what is there."
)
@click.option("--undo", is_flag=True, help="Let it take VMs again.")
@json_option
def server_drain(name_or_uuid: str, no_move: bool, undo: bool) -> None:
    """Empty a compute node: nothing new is placed on it, and its VMs move to others.

    Fails with the name of each VM that stays and its reason; the others have moved.
    """
    with Connection() as connection:
        row = find_server(connection, name_or_uuid)
        path = f"/compute/servers/{segment(row['uuid'])}"
        if undo:
            connection.request("POST", path, json={"reserved": False})
            say(f"Server {row.get('hostname')} takes VMs again")
            return
        job = connection.request("POST", f"{path}/drain", json={"move": not no_move}).json()
        wait_job(connection, job["job_uuid"])
    say(
        f"Server {row.get('hostname')} is empty; 'vetro server drain --undo' lets it take VMs again"
    )


@click.group()
def vm() -> None:
    """Containers and virtual machines."""


for _command in (console, screenshot, vnc):
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
@json_option
def vm_show(name_or_uuid: str) -> None:
    """Show one VM as its node sees it."""
    with Connection() as connection:
        row = find_vm(connection, name_or_uuid)
        emit_object(connection.get(f"/compute/servers/{row['server_uuid']}/vms/{row['uuid']}"))


def _vm_task(name_or_uuid: str, method: str, suffix: str, done: str) -> None:
    with Connection() as connection:
        row = find_vm(connection, name_or_uuid)
        path = f"/compute/servers/{segment(row['server_uuid'])}/vms/{segment(row['uuid'])}{suffix}"
        task = connection.request(method, path, json={}).json()
        if task.get("id"):
            path = f"/compute/tasks/{task['id']}/wait"
            task = connection.get(path, params={"timeout": 30})
            # A virtual machine has three minutes to stop in order.
            while task.get("status") not in ("complete", "failure"):
                task = connection.get(path, params={"timeout": 30})
            if task.get("status") == "failure":
                result: dict[str, Any] = task.get("result") or {}
                fail(f"{row['uuid']}: the task failed: {result.get('error') or 'no reason given'}")
    say(f"VM {row.get('alias') or row['uuid']} {done}")


@vm.command("start")
@click.argument("name_or_uuid")
@json_option
def vm_start(name_or_uuid: str) -> None:
    """Start a VM."""
    _vm_task(name_or_uuid, "POST", "/start", "started")


@vm.command("stop")
@click.argument("name_or_uuid")
@json_option
def vm_stop(name_or_uuid: str) -> None:
    """Stop a VM."""
    _vm_task(name_or_uuid, "POST", "/stop", "stopped")


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
    say(f"VM {row.get('alias') or row['uuid']} is on server {moved['server_uuid']}")
