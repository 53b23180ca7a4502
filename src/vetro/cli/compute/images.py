"""``vetro image``: build, import, export, list and delete images."""

from __future__ import annotations

import asyncio
import hashlib
import signal
from collections.abc import Coroutine
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import click
import msgspec
from msgspec import UNSET

from vetro.cli.client.connection import (
    Connection,
    Decoded,
    data_directory,
    error_text,
    hint_for,
    read,
)
from vetro.cli.client.image_upload import upload_image
from vetro.cli.client.name_completion import IMAGE, VM
from vetro.cli.compute.servers import wait_task
from vetro.cli.compute.vm_lookup import find_vm
from vetro.cli.terminal.confirmation import agree, choose, some_of, yes_option
from vetro.cli.terminal.output import (
    PrintingGroup,
    Row,
    chose_columns,
    done,
    emit_rows,
    fail,
    remark,
    say,
    wants_json,
    word,
)
from vetro.cli.terminal.paths import FILE
from vetro.compute.client import vm_calls
from vetro.compute.wire import Image, ImageManifest, NewImage, VmImage
from vetro.http import Fault
from vetro.http.client import TransportError

T = TypeVar("T")
USED = "Destroy the instances first ('vetro vm list'); --force deletes the image all the same."
COLUMNS = [
    ("UUID", "uuid"),
    ("NAME", "name"),
    ("VERSION", "version"),
    ("OS", "os"),
    ("TYPE", "type"),
    ("MIB", "mib"),
    ("NODES", "on_nodes"),
]
#: An answer that nodes give up to this long after a change.
_NEWS_SECONDS = 20
#: Until nodes are asked to fetch a new image, at most (there may be none).
_ASKED_SECONDS = 2


@click.group(cls=PrintingGroup)
def image() -> None:
    """Images that instances start from."""


def _row(answer: Decoded[Image]) -> Row:
    image = answer.known
    size = image.size or sum(one.size for one in image.files)
    on_nodes = ""
    if image.nodes is not UNSET:
        on_nodes = str(image.nodes.present)
        if image.nodes.coming:
            on_nodes += f" (+{image.nodes.coming} at {image.nodes.percent} %)"
    return {**answer.row, "mib": round(size / 2**20, 1), "on_nodes": on_nodes}


def _label(answer: Decoded[Image]) -> str:
    image = answer.known
    return f"{image.uuid} (version {image.version}, {image.published_at})"


def show_step(step: str) -> None:
    """What the build does now, with the time of day: it can take minutes."""
    remark(f"  {datetime.now():%H:%M:%S} {step}")


async def until_signalled(work: Coroutine[Any, Any, T]) -> T:
    """Do the work; SIGTERM and a closed terminal end it in order: nothing of it stays."""
    task = asyncio.ensure_future(work)
    signals: list[int] = []

    def stop(number: int) -> None:
        signals.append(number)
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if not signals:
            raise
        raise click.exceptions.Exit(128 + signals[0]) from None


def hint_for_build(error: Exception) -> str | None:
    """What can be done about an image that was not built."""
    text = str(error)
    if "is not an image name" in text:
        return "For example debian-12-apache."
    if "is not a package name" in text:
        return "Names of Debian packages, separated by commas: --packages apache2,curl."
    if "is not a release name" in text:
        return "For example bookworm."
    if "needs root" in text or "is not installed" in text:
        return None
    if "Unable to locate package" in text:
        return "'apt-cache search WORD' finds packages of the release."
    return "Those are the bootstrap tool's words: are the names right, and the mirror reachable?"


def follow_copies(connection: Connection, uuid: str, name: str) -> Decoded[Image]:
    """Show how nodes fetch and unpack a new image until they have it; the image as it is then.

    Ctrl-C ends the display: the nodes continue.
    """
    version, seconds = "", 0
    shown: dict[str, str] = {}
    try:
        while True:
            found = connection.send(vm_calls.image_copies(uuid, version, seconds))
            for copy in found.copies:
                node = copy.hostname or copy.server_uuid
                how = f"{copy.state} {copy.percent} %" if copy.is_coming else copy.state
                reason = f": {copy.reason}" if copy.reason else ""
                # In steps: an image that is unpacked moves several times a second.
                step = f"{copy.state} {copy.percent // 20}"
                if shown.get(node) != step:
                    shown[node] = step
                    say(f"{node}: {how}{reason}")
            coming = any(copy.is_coming for copy in found.copies)
            # The first look may come before the nodes are asked.
            if found.policy == "none" or (not coming and (found.copies or version)):
                break
            version, seconds = found.version, _NEWS_SECONDS if coming else _ASKED_SECONDS
    except KeyboardInterrupt:
        say(f"The nodes go on; 'vetro image show {word(name)}' says how far they are.")
    return connection.decoded(vm_calls.image(uuid))


def refuse_what_is_no_image(path: Path, type_: str) -> None:
    """End the command unless the file begins as a tar does, or one compressed; for VMs: or a qcow2 disk."""
    with path.open("rb") as file:
        head = file.read(512)
    packed = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00", b"BZh")
    empty = len(head) == 512 and not any(head)  # an archive of nothing ends at once
    if head.startswith(packed) or head[257:262] == b"ustar" or empty:
        return
    if type_ != "vm":
        fail(
            f"{path} is not a tar archive",
            "An image is the tar of a root file system, packed with zstd, gzip or xz, or not. A disk"
            " (qcow2) is one with --type vm.",
        )
    if not head.startswith(b"QFI\xfb"):
        fail(
            f"{path} is neither a qcow2 disk nor a tar archive",
            "'qemu-img convert -O qcow2' makes one of another disk.",
        )


def find_image(connection: Connection, wanted: str) -> Decoded[Image]:
    """The image with this uuid, or the newest of this name."""
    return images_called(connection, wanted)[-1]  # the newest


def images_called(connection: Connection, wanted: str) -> list[Decoded[Image]]:
    """The image with this uuid, or all of this name, oldest first."""
    all_ = connection.all_decoded(vm_calls.images())
    found = [one for one in all_ if one.known.uuid == wanted]
    found = found or [one for one in all_ if one.known.name == wanted]
    if found:
        return found
    names = ", ".join(sorted({one.known.name for one in all_})) or "none"
    fail(f"There is no image '{wanted}'", f"Images: {names}.")


_type_option = click.option(
    "--type",
    "type_",
    type=click.Choice(["lxc-rootfs", "vm"]),
    default="lxc-rootfs",
    show_default=True,
    help="For containers, or for virtual machines (with a kernel).",
)


@image.command("build", short_help="Build a root file system as an image.")
@click.argument("name")
@click.option("--packages", "-p", default="", help="Packages to put in, separated by commas.")
@click.option("--suite", default="bookworm", show_default=True, help="The Debian release.")
@click.option(
    "--cache-dir",
    type=click.Path(path_type=Path),
    envvar="VETRO_IMAGE_CACHE",
    help="Where built images are kept.",
)
@click.option("--no-import", is_flag=True, help="Only build; do not upload.")
@_type_option
def build(
    name: str, packages: str, suite: str, cache_dir: Path | None, no_import: bool, type_: str
) -> None:
    """Build a root file system as image NAME; the same inputs are built only once."""
    from vetro.node import ImageBuildError, build_image, build_vm_image, keep_once

    names = [part.strip() for part in packages.split(",") if part.strip()]
    cache = cache_dir or data_directory() / "image-cache"
    say(f"Building {name} ({suite}{', ' + ', '.join(names) if names else ''}) …")
    try:
        make = build_vm_image if type_ == "vm" else build_image
        built = asyncio.run(
            until_signalled(make(name, names, suite=suite, cache_dir=cache, on_step=show_step))
        )
    except ImageBuildError as error:
        fail(str(error), hint_for_build(error))
    if no_import:
        if wants_json():
            emit_rows([{"name": name, "file": str(built.path)}], [])
        else:
            say(str(built.path))
        return
    with Connection() as connection:
        for answer in connection.all_decoded(vm_calls.images()):
            if answer.known.name == name and answer.known.sha256 == built.sha256:
                emit_rows([_row(answer)], COLUMNS)
                return
        uuid = upload_image(connection, built.manifest(), built.path).uuid
        keep_once(built.path, data_directory() / "images" / f"{uuid}.image")
        answer = follow_copies(connection, uuid, name)
    emit_rows([_row(answer)], COLUMNS)


@image.command("create", short_help="Make an image of a stopped VM.")
@click.argument("name")
@click.option("--from-vm", "vm_name", required=True, type=VM, help="The VM, by alias or uuid.")
@click.option(
    "--version", default="1", show_default=True, help="What distinguishes it from older ones."
)
@click.option("--public", is_flag=True, help="For every project [the VM's only].")
def create(name: str, vm_name: str, version: str, public: bool) -> None:
    """Make an image NAME of the disks of a stopped VM; the VM stays as it is.

    'vetro vm create --image NAME' starts others from it. What distinguishes the VM from others (host keys,
    addresses, user data that has run) is in the image as well.
    """
    with Connection() as connection:
        vm = find_vm(connection, vm_name)
        called = vm.alias or vm.uuid
        if vm.state != "stopped":
            fail(
                f"The VM {called} is {vm.state}: an image can be made only of a stopped VM",
                f"Stop it first: 'vetro vm stop {called}'.",
            )
        manifest = ImageManifest(
            uuid=str(uuid4()),
            owner=str(vm.owner_uuid),
            name=name,
            version=version,
            public=public,
        )
        say(f"Making {name} of VM {called} …")
        new = VmImage(manifest=manifest)
        started = connection.send(vm_calls.image_of_vm(vm.uuid, new, vm.server_uuid))
        if started.id:
            wait_task(connection, started.id)
        answer = follow_copies(connection, manifest.uuid, name)
    emit_rows([_row(answer)], COLUMNS)


@image.command("import")
@click.argument("name")
@click.argument("file", type=FILE)
@_type_option
@click.option("--os", "os_", default="linux", show_default=True, help="What runs in it.")
def import_(name: str, file: Path, type_: str, os_: str) -> None:
    """Upload FILE (the tar of a root, or a qcow2 disk) as image NAME."""
    refuse_what_is_no_image(file, type_)
    with Connection() as connection:
        made = upload_image(connection, NewImage(name=name, type=type_, os=os_), file)
        emit_rows([_row(follow_copies(connection, made.uuid, name))], COLUMNS)


@image.command("export", short_help="Write an image's file to FILE.")
@click.argument("name_or_uuid", type=IMAGE)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def export(name_or_uuid: str, file: Path) -> None:
    """Write an image's file to FILE: what 'vetro image import' takes, here or elsewhere."""
    if file.exists():
        fail(f"{file} exists", "Choose another name, or remove it first.")
    partial = file.with_name(f".{file.name}.partial")
    with Connection() as connection:
        found = find_image(connection, name_or_uuid).known
        try:
            size = connection.client.download(
                f"{connection.url}/compute{vm_calls.image_file_path(found.uuid)}",
                partial,
                headers={"X-Auth-Token": connection.token},
            )
            with partial.open("rb") as written:
                digest = hashlib.file_digest(written, "sha256").hexdigest()
            if found.sha256 not in (None, digest):
                fail(
                    f"The downloaded file of {found.name} is damaged: its digest is {digest}",
                    "Try again; if it fails again, the file of the service is damaged.",
                )
            partial.rename(file)
        except Fault as fault:
            fail(f"The image was not exported: {fault.message}")
        except (TransportError, OSError) as error:
            fail(
                f"The image was not exported: {error}",
                "Check that the disk has room for it and that the service runs.",
            )
        finally:
            partial.unlink(missing_ok=True)
    done(f"{found.name}: {size} bytes, sha256 {digest}", file=str(file), sha256=digest, size=size)


@image.command("list")
def list_() -> None:
    """List images."""
    with Connection() as connection:
        emit_rows([_row(one) for one in connection.all_decoded(vm_calls.images())], COLUMNS)


@image.command("show")
@click.argument("name_or_uuid", type=IMAGE)
def show(name_or_uuid: str) -> None:
    """Show an image, and which nodes have it."""
    with Connection() as connection:
        found = find_image(connection, name_or_uuid)
        # Which machines there are is for operators: others are refused.
        call = vm_calls.image_copies(found.known.uuid)
        answer = connection.answer_to(call)
    copies = read(call, answer).copies if answer.status == 200 else []
    rows: list[Row] = [msgspec.to_builtins(one) for one in copies]
    if wants_json():
        emit_rows([{**_row(found), "copies": rows}], COLUMNS)
        return
    emit_rows([_row(found)], COLUMNS)
    if chose_columns():
        return
    emit_rows(
        [{**row, "hostname": row["hostname"] or row["server_uuid"]} for row in rows],
        [("NODE", "hostname"), ("STATE", "state"), ("PERCENT", "percent"), ("REASON", "reason")],
    )


@image.command("delete")
@click.argument("names_or_uuids", nargs=-1, required=True, type=IMAGE)
@click.option(
    "--force",
    is_flag=True,
    help="Also one that instances use: they keep running, but cannot be created again.",
)
@yes_option
def delete(names_or_uuids: tuple[str, ...], force: bool) -> None:
    """Delete images that no instance uses."""
    gone: list[str] = []
    with Connection() as connection:
        rows = [
            choose(images_called(connection, wanted), wanted, _label, "Name it by its uuid.").known
            for wanted in names_or_uuids
        ]
        names = some_of([f"{row.name} ({row.uuid})" for row in rows])
        agree(f"{names}: the file of the image would be lost", "Delete")
        for row in rows:
            answer = connection.answer_to(vm_calls.remove_image(row.uuid, force=force))
            if answer.status >= 400:
                fail(error_text(answer), USED if answer.status == 409 else hint_for(answer))
            gone.append(f"{row.name} ({row.uuid})")
    done(f"Deleted image {', '.join(gone)}", deleted=gone)
