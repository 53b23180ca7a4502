"""``vetro server``: compute nodes, and what operators do with whole ones."""

from __future__ import annotations

from collections import defaultdict
from contextlib import AbstractContextManager

import click

from vetro.cli.client.connection import Connection, Decoded
from vetro.cli.client.deployment_progress import goes_on
from vetro.cli.compute.lookup import UUID
from vetro.cli.terminal.confirmation import agree, agree_or, yes_option
from vetro.cli.terminal.documents import parted
from vetro.cli.terminal.output import (
    PrintingGroup,
    Row,
    emit_object,
    emit_rows,
    fail,
    say,
    wants_json,
)
from vetro.compute.client import servers, vm_calls
from vetro.compute.client.calls import Call
from vetro.compute.wire import Job, JobStarted, NicTags, Server, Task, TaskStarted

SERVER_COLUMNS = [
    ("UUID", "uuid"),
    ("HOSTNAME", "hostname"),
    ("STATUS", "status"),
    ("SETUP", "setup"),
    ("RESERVED", "reserved"),
    ("MEMORY FREE (MB)", "memory_free_mb"),
    ("VMS", "vm_count"),
]


@click.group(cls=PrintingGroup)
def server() -> None:
    """Compute nodes."""


def find_server(connection: Connection, wanted: str) -> Server:
    """The compute node with this uuid or host name. Fails when several have the name."""
    by = "uuids" if UUID.match(wanted) else "hostname"
    found = connection.send(servers.chosen(by, wanted))
    if len(found) > 1:
        uuids = ", ".join(one.uuid for one in found)
        fail(f"{len(found)} servers are called '{wanted}'", f"Give the uuid of one: {uuids}.")
    if not found:
        fail(f"There is no server '{wanted}'", "'vetro server list' shows them.")
    return found[0]


def wait_job(connection: Connection, job: str) -> Decoded[Job]:
    """A job when it has ended; the command fails with the job's own words when the job failed."""
    shown = ""
    call = servers.wait_job(job)
    while True:
        with _goes_on("job", job, call):
            answer = connection.decoded(call)
        known = answer.known
        if known.execution in ("failed", "canceled"):
            fail(known.error or f"The job {job} {known.execution}")
        if known.execution == "succeeded":
            return answer
        if known.waiting_on and known.waiting_on != shown:
            shown = known.waiting_on
            say(f"  {shown} …")


def wait_task(connection: Connection, task_id: str) -> Decoded[Task]:
    """A task when it has ended; the command fails with the node's own words when it failed."""
    call = vm_calls.wait_task(task_id, 30)
    with _goes_on("task", task_id, call):
        answer = connection.decoded(call)
        # A virtual machine has three minutes to stop in order.
        while answer.known.status not in ("complete", "failure"):
            answer = connection.decoded(call)
    task = answer.known
    if task.status == "failure":
        what = f"{task.task} on server {task.server_uuid}"
        fail(f"{what} failed: {task.error or 'no reason given'}")
    return answer


def ended_task(connection: Connection, answer: Decoded[TaskStarted]) -> Row:
    """The task that a call started, when it has ended; the answer itself when it started none."""
    return wait_task(connection, answer.known.id).row if answer.known.id else answer.row


def _goes_on(what: str, uuid: str, call: Call[Job] | Call[Task]) -> AbstractContextManager[None]:
    path = call.path.removesuffix("/wait")
    return goes_on(f"The {what} {uuid} goes on: 'vetro cnapi {path}' shows it.")


def finish(connection: Connection, job: JobStarted, wait: bool, done: str) -> None:
    """Print a job: its uuid at once, or how it ended; under ``--json`` the job itself."""
    if wait:
        answer = wait_job(connection, job.job_uuid)
        if wants_json():
            emit_object(answer.row)
        say(done)
    elif wants_json():
        emit_object({"job_uuid": job.job_uuid})
    else:
        say(job.job_uuid)


_wait = click.option("--wait/--no-wait", default=True, help="Wait until the job has ended.")


@server.command("list")
def server_list() -> None:
    """List compute nodes."""
    with Connection() as connection:
        nodes = connection.all_decoded(servers.servers("vms,memory,capacity"))
    emit_rows([_with_counts(one) for one in nodes], SERVER_COLUMNS)


def _with_counts(answer: Decoded[Server]) -> Row:
    free = answer.known.memory_available_bytes
    counts = {
        "vm_count": len(answer.known.vms or {}),
        "memory_free_mb": free // 2**20 if free else None,
    }
    return {**answer.row, **counts}


@server.command("show")
@click.argument("name_or_uuid")
def server_show(name_or_uuid: str) -> None:
    """Show one compute node, by uuid or host name."""
    with Connection() as connection:
        answer = connection.decoded(servers.server(find_server(connection, name_or_uuid).uuid))
    words = {} if wants_json() else {"virtual_machines": virtual_machines(answer.known)}
    emit_object({**answer.row, **words})


def virtual_machines(server: Server) -> str:
    """How a compute node runs virtual machines, in words."""
    node = server.sysinfo.node if server.sysinfo is not None else None
    if node is None or not node.accelerator:
        return "none"
    if node.accelerator == "kvm":
        return "with KVM"
    return f"emulated, several times slower: KVM does not work ({node.accelerator_reason})"


@server.command("drain", short_help="Empty a compute node.")
@click.argument("name_or_uuid")
@click.option(
    "--no-move", is_flag=True, help="Only place nothing new there, and say what is there."
)
@click.option("--undo", is_flag=True, help="Let it take VMs again.")
def server_drain(name_or_uuid: str, no_move: bool, undo: bool) -> None:
    """Empty a compute node: nothing new is placed on it, and its VMs move to others.

    Fails with the name of each VM that stays and its reason; the others have moved.
    """
    with Connection() as connection:
        found = find_server(connection, name_or_uuid)
        if undo:
            connection.send(servers.take_vms_again(found.uuid))
            if wants_json():
                emit_object({"uuid": found.uuid, "reserved": False})
            say(f"Server {found.hostname} takes VMs again")
            return
        job = connection.send(servers.drain(found.uuid, move=not no_move))
        finish(
            connection, job, True,
            f"Server {found.hostname} is empty; 'vetro server drain {found.uuid} --undo' lets it take"
            " VMs again",
        )  # fmt: skip


@server.command("evacuate", short_help="Make a dead node's VMs again elsewhere.")
@click.argument("name_or_uuid")
@click.option(
    "--fenced",
    is_flag=True,
    help="I have switched the machine off, or cut its power, and it stays so.",
)
@_wait
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
        found = find_server(connection, name_or_uuid)
        job = connection.send(servers.evacuate(found.uuid))
        finish(
            connection, job, wait,
            f"Nothing of server {found.hostname} is left to make again; when the machine comes"
            f" back, what moved is destroyed on it and 'vetro server drain {found.uuid} --undo' lets it"
            f" take VMs; if it never does, 'vetro server delete {found.uuid}' forgets it",
        )  # fmt: skip


@server.command("delete", short_help="Forget a compute node and what it had.")
@click.argument("name_or_uuid")
@click.option(
    "--force",
    is_flag=True,
    help="Also one that is heard, or that has VMs that were not made again elsewhere.",
)
@yes_option
def server_delete(name_or_uuid: str, force: bool) -> None:
    """Delete the record of a compute node that is gone for good, with those of its VMs, tasks and volumes.

    Nothing is done on the machine. Refused while it is heard, and while it has VMs: evacuate it first. With
    --force the records of its VMs go; an environment that uses one makes it again at its next deployment,
    empty. If the machine comes back, what was made again elsewhere is destroyed on it at once, and what has
    no record after compute.unknown_vm_seconds.
    """
    with Connection() as connection:
        found = find_server(connection, name_or_uuid)
        agree(
            f"The records of server {found.hostname} ({found.uuid}) would be deleted, and its volumes would"
            " be lost",
            "Delete them",
        )
        connection.send(servers.remove(found.uuid, force=force))
    if wants_json():
        emit_object({"uuid": found.uuid})
    say(f"Server {found.hostname} deleted")


@server.command("reboot")
@click.argument("name_or_uuid")
@click.option("--drain", is_flag=True, help="Let the agent finish its tasks first.")
@_wait
def server_reboot(name_or_uuid: str, drain: bool, wait: bool) -> None:
    """Reboot a compute node; its VMs stop, and start again with it."""
    with Connection() as connection:
        found = find_server(connection, name_or_uuid)
        job = connection.send(servers.reboot(found.uuid, drain=drain))
        finish(connection, job, wait, f"Server {found.hostname} reboots")


@server.command("setup", short_help="Set a compute node up.")
@click.argument("name_or_uuid")
@click.argument("settings", nargs=-1, metavar="[KEY=VALUE]…")
@click.option("--wait", is_flag=True, help="Wait until the job has ended.")
def server_setup(name_or_uuid: str, settings: tuple[str, ...], wait: bool) -> None:
    """Set a compute node up: its pool and its agents. Prints the job's uuid."""
    wanted = dict(parted(settings, "Setting", "KEY=VALUE", "hostname=node-2"))
    with Connection() as connection:
        found = find_server(connection, name_or_uuid)
        job = connection.send(servers.set_up(found.uuid, wanted))
        if job is None:
            if wants_json():
                emit_object({"job_uuid": None})
            say(f"Server {found.hostname} is set up")
        else:
            finish(connection, job, wait, f"Server {found.hostname} is set up")


@server.command("factory-reset")
@click.argument("name_or_uuid")
@yes_option
@_wait
def server_factory_reset(name_or_uuid: str, wait: bool) -> None:
    """Erase a compute node that has no VMs."""
    with Connection() as connection:
        found = find_server(connection, name_or_uuid)
        agree(
            f"Everything on server {found.hostname} ({found.uuid}) would be erased",
            "Erase it",
        )
        job = connection.send(servers.factory_reset(found.uuid))
        finish(connection, job, wait, f"Server {found.hostname} is reset")


def _tags(action: str, name_or_uuid: str, pairs: tuple[str, ...], wait: bool) -> None:
    by_mac: defaultdict[str, list[str]] = defaultdict(list)
    for name, mac in parted(pairs, "Tag", "TAG_nic=MAC", "office_nic=90:b8:d0:17:02:01"):
        if not name.endswith("_nic") or name == "_nic":
            fail(f"'{name}={mac}' is not TAG_nic=MAC", exit_code=2)
        by_mac[mac].append(name.removesuffix("_nic"))
    with Connection() as connection:
        found = find_server(connection, name_or_uuid)
        nics = [NicTags(mac=mac, nic_tags_provided=tags) for mac, tags in by_mac.items()]
        job = connection.send(servers.change_nic_tags(found.uuid, action, nics))
        finish(connection, job, wait, f"The NIC tags of server {found.hostname} are set")


def _tags_command(action: str, text: str) -> None:
    @server.command(f"{action}-nictags", help=text)
    @click.option("-s", "--server", "name_or_uuid", required=True, help="The server.")
    @click.argument("pairs", nargs=-1, required=True, metavar="TAG_nic=MAC…")
    @_wait
    def command(name_or_uuid: str, pairs: tuple[str, ...], wait: bool) -> None:
        _tags(action, name_or_uuid, pairs, wait)


_tags_command("update", "Give interfaces more NIC tags.")
_tags_command("replace", "Give interfaces these NIC tags and no others.")
_tags_command("delete", "Take NIC tags from interfaces.")
