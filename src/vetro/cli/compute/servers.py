"""``vetro server``: compute nodes, and what operators do with whole ones."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import click

from vetro.cli.client.connection import Connection, segment
from vetro.cli.client.deployment_progress import goes_on
from vetro.cli.terminal.confirmation import agree, agree_or, yes_option
from vetro.cli.terminal.output import emit_object, emit_rows, fail, json_option, say, wants_json

SERVER_COLUMNS = [
    ("UUID", "uuid"),
    ("HOSTNAME", "hostname"),
    ("STATUS", "status"),
    ("SETUP", "setup"),
    ("RESERVED", "reserved"),
    ("MEMORY FREE (MB)", "memory_free_mb"),
    ("VMS", "vm_count"),
]
Row = dict[str, Any]


@click.group()
def server() -> None:
    """Compute nodes."""


def list_servers(connection: Connection, extras: str = "vms") -> list[Row]:
    """The compute nodes with their VMs."""
    params = {"extras": extras} if extras else {}
    return connection.get("/compute/servers", params=params)


def find_server(connection: Connection, wanted: str) -> Row:
    """The compute node with this uuid or host name."""
    rows = list_servers(connection, "")
    found = [row for row in rows if wanted in (row["uuid"], row.get("hostname"))]
    if len(found) == 1:
        return found[0]
    many = "Several servers are called" if found else "There is no server"
    fail(f"{many} '{wanted}'", "'vetro server list' shows them.")


def path_of(row: Row) -> str:
    """A server's path."""
    return f"/compute/servers/{segment(row['uuid'])}"


def wait_job(connection: Connection, job: str) -> Row:
    """A job when it has ended; the command fails with the job's own words when the job failed."""
    shown = ""
    path = f"/compute/jobs/{segment(job)}"
    while True:
        with goes_on(
            f"The job {job} goes on: 'vetro cnapi {path.removeprefix('/compute')}' shows it."
        ):
            view = connection.get(f"{path}/wait", params={"timeout": 30})
        if view["execution"] in ("failed", "canceled"):
            steps: list[Row] = view["chain_results"]
            errors = [step["error"] for step in steps if step["error"]]
            fail(errors[0] if errors else f"The job {job} {view['execution']}")
        if view["execution"] == "succeeded":
            return view
        if view.get("waiting_on") and view["waiting_on"] != shown:
            shown = str(view["waiting_on"])
            say(f"  {shown} …")


def wait_task(connection: Connection, task_id: str) -> dict[str, Any]:
    """A task when it has ended; the command fails with the node's own words when it failed."""
    path = f"/compute/tasks/{segment(task_id)}"
    task: dict[str, Any] = {}
    with goes_on(
        f"The task {task_id} goes on: 'vetro cnapi {path.removeprefix('/compute')}' shows it."
    ):
        # A virtual machine has three minutes to stop in order.
        while task.get("status") not in ("complete", "failure"):
            task = connection.get(f"{path}/wait", params={"timeout": 30})
    if task["status"] == "failure":
        result: dict[str, Any] = task.get("result") or {}
        what = f"{task.get('task')} on server {task.get('server_uuid')}"
        fail(f"{what} failed: {result.get('error') or 'no reason given'}")
    return task


def finish(connection: Connection, job: str, wait: bool, done: str) -> None:
    """Tell of a job: its uuid at once, or how it ended; under ``--json`` the job itself."""
    if wait:
        view = wait_job(connection, job)
        if wants_json():
            emit_object(view)
        say(done)
    elif wants_json():
        emit_object({"job_uuid": job})
    else:
        say(job)


def start_job(connection: Connection, method: str, path: str, body: Row) -> str | None:
    """The uuid of the job a call starts; ``None`` when there was nothing to do."""
    response = connection.request(method, path, json=body)
    if response.status == 204:
        return None
    return str(response.json()["job_uuid"])


_wait = click.option("--wait/--no-wait", default=True, help="Wait until the job has ended.")


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
@click.argument("name_or_uuid")
@json_option
def server_show(name_or_uuid: str) -> None:
    """Show one compute node, by uuid or host name."""
    with Connection() as connection:
        row: Row = connection.get(path_of(find_server(connection, name_or_uuid)))
    if not wants_json():
        row["virtual_machines"] = virtual_machines(row)
    emit_object(row)


def virtual_machines(row: Row) -> str:
    """How a compute node runs virtual machines, in words."""
    sysinfo: Row = row.get("sysinfo") or {}
    node: Row = sysinfo.get("Vetro Node") or {}
    accelerator = node.get("accelerator")
    if accelerator == "kvm":
        return "with KVM"
    if accelerator:
        return f"emulated, several times slower: KVM does not work ({node['accelerator_reason']})"
    return "none"


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
        if undo:
            connection.request("POST", path_of(row), json={"reserved": False})
            if wants_json():
                emit_object({"uuid": row["uuid"], "reserved": False})
            say(f"Server {row.get('hostname')} takes VMs again")
            return
        job = start_job(connection, "POST", f"{path_of(row)}/drain", {"move": not no_move})
        finish(
            connection, str(job), True,
            f"Server {row.get('hostname')} is empty; 'vetro server drain --undo' lets it take VMs"
            " again",
        )  # fmt: skip


@server.command("evacuate", short_help="Make a dead node's VMs again elsewhere.")
@click.argument("name_or_uuid")
@click.option(
    "--fenced",
    is_flag=True,
    help="I have switched the machine off, or cut its power, and it stays so.",
)
@_wait
@json_option
def server_evacuate(name_or_uuid: str, fenced: bool, wait: bool) -> None:
    """Make the VMs of a dead compute node again on others.

    They keep uuid, addresses and size, but start from their images: what was on the dead machine's
    disks stays there. A machine that only lost its network still runs its VMs, so first switch it
    off; --fenced says that you did.
    """
    agree_or(
        f"if {name_or_uuid} still runs, its VMs would run twice, and what is on its disks is left",
        "Is it switched off, and stays so",
        option="--fenced",
        agreed=fenced,
        hint="Switch it off, make sure that it stays off, and say so with --fenced.",
    )
    with Connection() as connection:
        row = find_server(connection, name_or_uuid)
        job = start_job(connection, "POST", f"{path_of(row)}/evacuate", {"fenced": True})
        finish(
            connection, str(job), wait,
            f"Nothing of server {row.get('hostname')} is left to make again; when the machine comes"
            " back, what moved is destroyed on it and 'vetro server drain --undo' lets it take VMs",
        )  # fmt: skip


@server.command("reboot")
@click.argument("name_or_uuid")
@click.option("--drain", is_flag=True, help="Let the agent finish its tasks first.")
@_wait
@json_option
def server_reboot(name_or_uuid: str, drain: bool, wait: bool) -> None:
    """Reboot a compute node; its VMs stop, and start again with it."""
    with Connection() as connection:
        row = find_server(connection, name_or_uuid)
        job = start_job(connection, "POST", f"{path_of(row)}/reboot", {"drain": drain})
        finish(connection, str(job), wait, f"Server {row.get('hostname')} reboots")


@server.command("setup", short_help="Set a compute node up.")
@click.argument("name_or_uuid")
@click.argument("settings", nargs=-1, metavar="[KEY=VALUE]…")
@click.option("--wait", is_flag=True, help="Wait until the job has ended.")
@json_option
def server_setup(name_or_uuid: str, settings: tuple[str, ...], wait: bool) -> None:
    """Set a compute node up: its pool and its agents. Prints the job's uuid."""
    with Connection() as connection:
        row = find_server(connection, name_or_uuid)
        body = dict(_pair(one, "KEY=VALUE") for one in settings)
        job = start_job(connection, "PUT", f"{path_of(row)}/setup", body)
        if job is None:
            if wants_json():
                emit_object({"job_uuid": None})
            say(f"Server {row.get('hostname')} is set up")
        else:
            finish(connection, job, wait, f"Server {row.get('hostname')} is set up")


@server.command("factory-reset")
@click.argument("name_or_uuid")
@yes_option
@_wait
@json_option
def server_factory_reset(name_or_uuid: str, wait: bool) -> None:
    """Erase a compute node that has no VMs."""
    with Connection() as connection:
        row = find_server(connection, name_or_uuid)
        agree(
            f"Everything on server {row.get('hostname')} ({row['uuid']}) would be erased",
            "Erase it",
        )
        job = start_job(connection, "PUT", f"{path_of(row)}/factory-reset", {})
        finish(connection, str(job), wait, f"Server {row.get('hostname')} is reset")


def _pair(text: str, form: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        fail(f"'{text}' is not {form}", exit_code=2)
    return name, value


def _tags(action: str, name_or_uuid: str, pairs: tuple[str, ...], wait: bool) -> None:
    by_mac: defaultdict[str, list[str]] = defaultdict(list)
    for pair in pairs:
        name, mac = _pair(pair, "TAG_nic=MAC")
        if not name.endswith("_nic") or name == "_nic":
            fail(f"'{pair}' is not TAG_nic=MAC", exit_code=2)
        by_mac[mac].append(name.removesuffix("_nic"))
    with Connection() as connection:
        row = find_server(connection, name_or_uuid)
        nics = [{"mac": mac, "nic_tags_provided": tags} for mac, tags in by_mac.items()]
        body = {"action": action, "nics": nics}
        job = start_job(connection, "PUT", f"{path_of(row)}/nics", body)
        finish(connection, str(job), wait, f"The NIC tags of server {row.get('hostname')} are set")


def _tags_command(action: str, text: str) -> None:
    @server.command(f"{action}-nictags", help=text)
    @click.option("-s", "--server", "name_or_uuid", required=True, help="The server.")
    @click.argument("pairs", nargs=-1, required=True, metavar="TAG_nic=MAC…")
    @_wait
    @json_option
    def command(name_or_uuid: str, pairs: tuple[str, ...], wait: bool) -> None:
        _tags(action, name_or_uuid, pairs, wait)


_tags_command("update", "Give interfaces more NIC tags.")
_tags_command("replace", "Give interfaces these NIC tags and no others.")
_tags_command("delete", "Take NIC tags from interfaces.")
