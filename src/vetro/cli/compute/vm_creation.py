"""``vetro vm create``: room for a machine, its ports, its image, and the machine itself."""

from __future__ import annotations

import difflib
import json
import re
import uuid
from dataclasses import dataclass
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import Path

import click

from vetro.cli.client.connection import Connection, error_text, hint_for, read
from vetro.cli.client.deployment_progress import goes_on
from vetro.cli.client.name_completion import FLAVOR, IMAGE, KEYPAIR
from vetro.cli.compute.images import find_image
from vetro.cli.compute.keypairs import public_key
from vetro.cli.compute.lookup import (
    GROUP,
    NETWORK,
    PORT,
    find,
    listing,
    project_of,
    project_option,
)
from vetro.cli.compute.servers import wait_task
from vetro.cli.compute.vm_ports import make_port, remove_ports
from vetro.cli.terminal.documents import parted
from vetro.cli.terminal.output import (
    CommandError,
    PrintingCommand,
    emit_object,
    fail,
    say,
    wants_json,
    word,
)
from vetro.cli.terminal.paths import FILE
from vetro.compute.client import vm_calls
from vetro.compute.client.calls import SUBNETS
from vetro.compute.client.http_client import refusal
from vetro.compute.wire import (
    HVM_BRANDS,
    MOST_INTERFACES,
    Allocation,
    ChosenServer,
    Image,
    Network,
    NewVm,
    NoAllocation,
    PlacedImage,
    PlacedVm,
    Port,
    TaskStarted,
)

#: How long the room found for a machine is kept while its image is fetched.
_ROOM_SECONDS = 3600
_SIZE = "m1.small"
_REASONS = 5
_USER_DATA_LIMIT = 2**20
_HOST = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")


@click.command("create", short_help="Make a container or a virtual machine.", cls=PrintingCommand)
@click.argument("name")
@click.option("--image", "image_name", required=True, type=IMAGE, help="What it starts from.")
@click.option("--size", type=FLAVOR, help=f"A flavor [{_SIZE}]; the numbers below go before it.")
@click.option("--memory", type=click.IntRange(64, 2**24), metavar="MIB", help="Memory.")
@click.option("--vcpus", type=click.IntRange(1, 1024), metavar="N", help="Processors.")
@click.option("--disk", type=click.IntRange(1, 2**20), metavar="GIB", help="Disk.")
@click.option(
    "--network", "-n", "network_names", multiple=True, type=NETWORK.argument,
    help="A network it is in; may be repeated [the project's only one].",
)  # fmt: skip
@click.option(
    "--port", "-p", "port_names", multiple=True, type=PORT.argument,
    help="A port made before ('vetro port create'); may be repeated.",
)  # fmt: skip
@click.option("--no-network", is_flag=True, help="In no network at all.")
@click.option(
    "--group", "-g", "group_names", multiple=True, type=GROUP.argument,
    help="A security group of its interfaces; may be repeated. Without any they are open.",
)  # fmt: skip
@click.option("--key", type=KEYPAIR, help="A key pair, or the file of a public key, for root.")
@click.option(
    "--user-data",
    type=FILE,
    help="A script (#!) or #cloud-config that its first start runs.",
)
@click.option("--tag", "tags", multiple=True, metavar="NAME=VALUE", help="Kept with it.")
@click.option("--server", help="The compute node it is made on [where there is room].")
@project_option
@click.option("--wait/--no-wait", default=True, help="Wait until it runs.")
def create(
    name: str,
    image_name: str,
    size: str | None,
    memory: int | None,
    vcpus: int | None,
    disk: int | None,
    network_names: tuple[str, ...],
    port_names: tuple[str, ...],
    no_network: bool,
    group_names: tuple[str, ...],
    key: str | None,
    user_data: Path | None,
    tags: tuple[str, ...],
    server: str | None,
    project: str | None,
    wait: bool,
) -> None:
    """Make a container or virtual machine NAME, which the image decides.

    It is placed where there is room, and has an address in each of its networks;
    'vetro address create --vm NAME' leads a floating address to it.

    \b
    Example:
      vetro vm create box --image debian-12 --network lan --size m1.small --key laptop
    """
    host = name.lower()
    if not _HOST.match(host):
        fail(f"{name!r} is not a host name", "Use letters, digits and dashes, at most 63.", 2)
    if no_network and (network_names or port_names or group_names):
        fail("--no-network excludes --network, --port and --group", exit_code=2)
    if len(network_names) + len(port_names) > MOST_INTERFACES:
        fail(f"A machine has at most {MOST_INTERFACES} interfaces", exit_code=2)
    given_tags = dict(parted(tags, "--tag", "NAME=VALUE", "--tag role=web"))
    with Connection() as connection:
        owner = project_of(connection, project)
        image = find_image(connection, image_name).known
        if image.state != "active":
            fail(f"The image {image.name} has no file yet", "Import or build it first.")
        uid = str(uuid.uuid4())
        size_ = _measures(connection, size, memory, vcpus, disk)
        new = NewVm(
            uuid=uid,
            alias=name,
            hostname=host,
            owner_uuid=owner,
            image_uuid=image.uuid,
            brand=image.brand,
            max_physical_memory=size_.memory,
            quota=size_.disk,
            cpu_cap=size_.vcpus * 100,
            # A container shares the machine's processors, up to `cpu_cap`.
            vcpus=size_.vcpus if image.brand in HVM_BRANDS else None,
            tags=given_tags,
            customer_metadata=_metadata(connection, owner, key, user_data, uid),
            autoboot=True,
        )
        networks = [find(connection, NETWORK, one, owner) for one in network_names]
        ready = [find(connection, PORT, one, owner) for one in port_names]
        for one in ready:
            if one.device_uuid:
                fail(f"The port {PORT.called(one)} is used by VM {one.device_uuid}",
                     "'vetro port create' makes another.")  # fmt: skip
        groups = [find(connection, GROUP, one, owner).uuid for one in group_names]
        if not (networks or ready or no_network):
            networks = [_only_network(connection, owner)]
        if groups and not networks:
            fail("--group is for ports that are made for the machine",
                 "'vetro port update --group' changes those that are there.", 2)  # fmt: skip
        _make(connection, new, image, networks, ready, groups, server, wait)


def _make(
    connection: Connection, new: NewVm, image: Image, networks: list[Network], ready: list[Port],
    groups: list[str], server: str | None, wait: bool,
) -> None:  # fmt: skip
    """From the ports to the running machine; what cannot be placed leaves nothing behind."""
    name = new.alias
    ports: list[Port] = []
    started: TaskStarted | None = None
    placed = False
    try:
        for number, one in enumerate(networks):
            ports.append(make_port(connection, new, number, one, groups))
        new.ports = [one.uuid for one in [*ports, *ready]]
        say("  a server with room for it …")
        placed = True
        where = _place(connection, new, image, server)
        if wait:
            say(f"  the image {image.name} on {where.hostname} …")
            task = connection.send(vm_calls.ensure_image(where.uuid, image.uuid))
            if task.id:
                wait_task(connection, task.id)
        new.resolvers = _resolvers(connection, [*ports, *ready])
        started = connection.send(vm_calls.create_vm(where.uuid, new))
    except BaseException:
        if started is None:
            _undo(connection, new.uuid, ports, placed)
        raise
    if not wait:
        _show_created(connection, where.uuid, new, False)
        return
    say(f"  the machine on {where.hostname} …")
    try:
        with goes_on(f"It goes on: 'vetro vm show {word(name)}' says how far it is."):
            wait_task(connection, started.id or "")
    except CommandError as error:
        raise CommandError(
            error.message,
            f"'vetro vm show {word(name)}' keeps the reason; 'vetro vm destroy {word(name)}' removes what is"
            " left of it.",
        ) from error
    _show_created(connection, where.uuid, new, True)


def _show_created(connection: Connection, server: str, new: NewVm, made: bool) -> None:
    if wants_json():
        from vetro.cli.terminal.output import shown

        emit_object(shown(connection.decoded(vm_calls.vm(new.uuid, server)).row))
        return
    found = connection.send(vm_calls.vm(new.uuid, server))
    addresses = ", ".join(address.split("/")[0] for address in found.addresses)
    if made:
        say(f"VM {new.alias} ({new.uuid}) is {found.state}: {addresses or 'no address'}")
    else:
        say(f"VM {new.alias} ({new.uuid}) is being made; 'vetro vm show {new.alias}' says how far.")


def _undo(connection: Connection, uid: str, ports: list[Port], placed: bool) -> None:
    """Release capacity and ports after a failure; the failure is what the user sees."""
    if placed:
        # 404: it had no room yet.
        connection.answer_to(vm_calls.destroy_vm(uid))
    remove_ports(connection, ports)


def _only_network(connection: Connection, owner: str) -> Network:
    rows = [one for one in listing(connection, NETWORK, owner) if not one.external]
    if len(rows) == 1:
        return rows[0]
    if rows:
        names = ", ".join(NETWORK.called(row) for row in rows)
        fail("Which network is it in?", f"Give --network: {names}; or --no-network.", 2)
    fail(
        "The project has no network",
        "'vetro network create NAME --cidr 10.77.5.0/24' makes one; or give --no-network.",
    )


def _place(connection: Connection, vm: NewVm, image: Image, server: str | None) -> ChosenServer:
    """The compute node that has room, which is kept for the machine."""
    from vetro.cli.compute.servers import find_server

    wanted = Allocation(
        vm=PlacedVm.of(vm),
        image=PlacedImage(uuid=image.uuid, type=image.type),
        ports=vm.ports,
        reserve_seconds=_ROOM_SECONDS,
        explain=False,
    )
    if server is not None:
        wanted.servers = [find_server(connection, server).uuid]
    call = vm_calls.allocate(wanted)
    answer = connection.answer_to(call)
    if answer.status == 409:
        reasons = refusal(answer.status, answer.content).body_as(NoAllocation).reasons()
        excluded = "; ".join(f"{one}: {text}" for one, text in list(reasons.items())[:_REASONS])
        fail(
            f"{error_text(answer)}{f' ({excluded})' if excluded else ''}",
            "A smaller --memory or --disk may fit; 'vetro server list' shows what is free.",
        )
    if answer.status >= 400:
        fail(error_text(answer), hint_for(answer))
    chosen = read(call, answer).server
    if chosen is None:
        fail("The compute node that was chosen is gone", "Try again.")
    return chosen


def _resolvers(connection: Connection, ports: list[Port]) -> list[str]:
    """The name servers of the ports' subnets, in their order."""
    found: dict[str, None] = {}
    for one in ports:
        subnet = connection.send(SUBNETS.one(one.fixed_ips[0][0]))
        found.update(dict.fromkeys(subnet.dns))
    return list(found)


@dataclass(frozen=True)
class _Size:
    """Memory in MiB, disk in GiB."""

    memory: int
    vcpus: int
    disk: int


def _measures(
    connection: Connection,
    size: str | None,
    memory: int | None,
    vcpus: int | None,
    disk: int | None,
) -> _Size:
    """What it gets: the flavor's numbers, and those that were given in their place."""
    given = {"memory": memory, "vcpus": vcpus, "disk": disk}
    flavor: dict[str, int] = {key: one for key, one in given.items() if one is not None}
    if size is not None or len(flavor) < len(given):
        wanted = size or _SIZE
        known = {one["name"]: one for one in connection.get("/v1/flavors")["flavors"]}
        if wanted not in known:
            near = difflib.get_close_matches(wanted, known, 1)
            there = ", ".join(sorted(known)) or "none"
            fail(
                f"There is no size '{wanted}'",
                f"Did you mean {near[0]}?" if near else f"There are: {there}.",
            )
        flavor = {**known[wanted], **flavor}
    return _Size(flavor["memory"], flavor["vcpus"], flavor["disk"])


def _metadata(
    connection: Connection, owner: str, key: str | None, user_data: Path | None, boundary: str
) -> dict[str, str]:
    """What the machine finds when it starts first: its user data, and who may log in."""
    found: dict[str, str] = {}
    if user_data is not None:
        found["user-data"] = _user_data(user_data)
    if key is not None:
        public = public_key(connection, key, owner)
        found["root_authorized_keys"] = public
        found["user-data"] = _with_key(found.get("user-data"), public, boundary)
    return found


def _user_data(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        fail(f"{path} is not a text file", "User data is a script (#!) or #cloud-config.", 2)
    if len(text.encode()) > _USER_DATA_LIMIT:
        fail(f"{path} is larger than 1 MiB", "Let a short script fetch the rest.", 2)
    if "\0" in text or not text.lstrip().startswith(("#!", "#cloud-config", "{")):
        fail(
            f"{path} is neither a script nor #cloud-config: the machine would ignore it",
            "It begins with '#!/bin/sh', or with '#cloud-config'.",
            2,
        )
    return text


def _with_key(user_data: str | None, public: str, boundary: str) -> str:
    config = "#cloud-config\n" + json.dumps({"ssh_authorized_keys": [public]})
    if user_data is None:
        return config
    message = MIMEMultipart(boundary=f"=={boundary}==")
    kind = "x-shellscript" if user_data.startswith("#!") else "cloud-config"
    for text, name, subtype in (
        (user_data, "user-data", kind),
        (config, "authorized-keys", "cloud-config"),
    ):
        part = MIMEText(text, subtype, "us-ascii" if text.isascii() else "utf-8")
        part.add_header("Content-Disposition", "attachment", filename=name)
        message.attach(part)
    return message.as_string()
