"""``vetro server`` and ``vetro vm``: compute nodes and what runs on them."""

from __future__ import annotations

from typing import Any

import click

from vetro.cli.connection import Connection, segment
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


@click.group()
def vm() -> None:
    """Containers and virtual machines."""


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
            task = connection.get(f"/compute/tasks/{task['id']}/wait", params={"timeout": 60})
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
