"""``vetro volume``: storage of its own life, its snapshots and its backups."""

from __future__ import annotations

import click

from vetro.cli.client.connection import Connection
from vetro.cli.client.name_completion import VM
from vetro.cli.compute.lookup import (
    Kind,
    common_verbs,
    find,
    project_of,
    project_option,
    row_of,
)
from vetro.cli.compute.vm_lookup import find_vm
from vetro.cli.terminal.confirmation import agree, yes_option
from vetro.cli.terminal.output import PrintingGroup, done, fail
from vetro.compute.client.calls import (
    VOLUME_BACKUPS,
    VOLUME_SNAPSHOTS,
    VOLUMES,
    attach_volume,
    detach_volume,
    restore_volume,
)
from vetro.compute.wire import (
    HVM_BRANDS,
    Attachment,
    NameChange,
    NewVolume,
    NewVolumeCopy,
    VolumeChange,
    VolumeCopy,
    VolumeSource,
)

VOLUME = Kind(
    VOLUMES,
    "volume",
    ("name",),
    (("UUID", "uuid"), ("NAME", "name"), ("GIB", "size"), ("STATE", "state"), ("VM", "vm_uuid"),
     ("PLACE", "device"), ("SERVER", "server_uuid")),
    "Detach it first ('vetro volume detach'), and delete its snapshots ('vetro volume snapshot delete').",
)  # fmt: skip
_COPIES = (
    ("UUID", "uuid"), ("NAME", "name"), ("VOLUME", "volume_uuid"), ("GIB", "size"),
    ("STATE", "state"), ("CREATED", "created"),
)  # fmt: skip
SNAPSHOT = Kind(VOLUME_SNAPSHOTS, "volume snapshot", ("name",), _COPIES, "Try again later.")
BACKUP = Kind(VOLUME_BACKUPS, "volume backup", ("name",), _COPIES, "Try again later.")


@click.group(cls=PrintingGroup)
def volume() -> None:
    """Volumes: storage that outlives the VM that has it."""


@volume.group()
def snapshot() -> None:
    """Snapshots of volumes: copies on the volume's own server."""


@volume.group()
def backup() -> None:
    """Backups of volumes: copies that the service keeps."""


common_verbs(volume, VOLUME)
common_verbs(snapshot, SNAPSHOT, renamed=False)
common_verbs(backup, BACKUP, renamed=False)


@volume.command("create", short_help="Make a volume.")
@click.argument("name")
@click.option("--size", type=click.IntRange(1), help="GiB [the source's].")
@click.option("--from-volume", type=VOLUME.argument, help="Copy this volume.")
@click.option("--from-snapshot", type=SNAPSHOT.argument, help="Make it of this snapshot.")
@click.option("--from-backup", type=BACKUP.argument, help="Make it of this backup.")
@click.option("--read-only", is_flag=True, help="VMs cannot write into it.")
@project_option
def volume_create(
    name: str,
    size: int | None,
    from_volume: str | None,
    from_snapshot: str | None,
    from_backup: str | None,
    read_only: bool,
    project: str | None,
) -> None:
    """Make a volume. The server of the VM that it is first attached to keeps it."""
    given = [one for one in (from_volume, from_snapshot, from_backup) if one]
    if len(given) > 1:
        fail(
            "A volume has one source",
            "Give one of --from-volume, --from-snapshot, --from-backup.",
            2,
        )
    if size is None and not given:
        fail("An empty volume needs a size", "Give it in GiB: --size 10.", 2)
    with Connection() as connection:
        owner = project_of(connection, project)
        source = None
        if from_volume:
            found = find(connection, VOLUME, from_volume, owner)
            source = VolumeSource(kind="volume", uuid=found.uuid)
        elif from_snapshot:
            copy = find(connection, SNAPSHOT, from_snapshot, owner)
            source = VolumeSource(kind="snapshot", uuid=copy.uuid)
        elif from_backup:
            copy = find(connection, BACKUP, from_backup, owner)
            source = VolumeSource(kind="backup", uuid=copy.uuid)
        new = NewVolume(name=name, size=size, read_only=read_only, source=source, project_id=owner)
        made = connection.send(VOLUMES.create(new))
    done(f"Volume {name} of {made.size} GiB is there ({made.uuid})", **row_of(made))


@volume.command("attach", short_help="Give a volume to a VM.")
@click.argument("name_or_uuid", type=VOLUME.argument)
@click.argument("vm", type=VM)
@click.option("--at", "place", default="", help="Where a container sees it [/mnt/volume-…].")
def volume_attach(name_or_uuid: str, vm: str, place: str) -> None:
    """Give a volume to a VM, also while it runs.

    A container sees its files at a directory. A virtual machine has another disk, whose serial
    number is the volume's uuid; an empty one needs a file system first.
    """
    with Connection() as connection:
        found = find(connection, VOLUME, name_or_uuid)
        machine = find_vm(connection, vm)
        if place and machine.brand in HVM_BRANDS:
            raise click.UsageError(
                f"VM {vm} is a virtual machine: it gets a disk, not a directory. Leave out --at"
            )
        body = Attachment(vm_uuid=machine.uuid, device=place)
        hint = "Detach it there first ('vetro volume detach')."
        made = connection.send(attach_volume(found.uuid, body), hint=hint)
    where = f"at {made.device} of VM {vm}"
    if machine.brand in HVM_BRANDS:
        where = f"a disk of VM {vm}: its serial number is {made.uuid}"
    done(f"Volume {VOLUME.called(found)} is {where}", **row_of(made))


@volume.command("detach", short_help="Take a volume from its VM.")
@click.argument("name_or_uuid", type=VOLUME.argument)
@yes_option
def volume_detach(name_or_uuid: str) -> None:
    """Take a volume from the VM that has it. Programs that use it get errors; what they wrote is kept."""
    with Connection() as connection:
        found = find(connection, VOLUME, name_or_uuid)
        if found.vm_uuid is not None:
            agree(f"VM {found.vm_uuid} would lose volume {VOLUME.called(found)}", "Go on")
        made = connection.send(detach_volume(found.uuid))
    done(f"No VM has volume {VOLUME.called(found)}", **row_of(made))


@volume.command("grow", short_help="Make a volume larger.")
@click.argument("name_or_uuid", type=VOLUME.argument)
@click.argument("size", type=click.IntRange(1))
def volume_grow(name_or_uuid: str, size: int) -> None:
    """Make a volume SIZE GiB large, also while a VM has it. It never gets smaller."""
    with Connection() as connection:
        found = find(connection, VOLUME, name_or_uuid)
        made = connection.send(VOLUMES.change(found.uuid, VolumeChange(size=size)))
    done(f"Volume {VOLUME.called(found)} has {made.size} GiB", **row_of(made))


@snapshot.command("create", short_help="Take a snapshot of a volume.")
@click.argument("volume_name", metavar="VOLUME", type=VOLUME.argument)
@click.argument("name")
def snapshot_create(volume_name: str, name: str) -> None:
    """Take a snapshot of a volume, also while a VM has it."""
    _copy(SNAPSHOT, "Snapshot", volume_name, name)


def _copy(kind: Kind[VolumeCopy, NewVolumeCopy, NameChange], what: str, of: str, name: str) -> None:
    with Connection() as connection:
        found = find(connection, VOLUME, of)
        new = NewVolumeCopy(volume_uuid=found.uuid, name=name, project_id=found.project_id)
        made = connection.send(kind.calls.create(new))
    done(f"{what} {name} of volume {VOLUME.called(found)} is there", **row_of(made))


@backup.command("create", short_help="Make a backup of a volume.")
@click.argument("volume_name", metavar="VOLUME", type=VOLUME.argument)
@click.argument("name")
def backup_create(volume_name: str, name: str) -> None:
    """Make a backup of a volume, also while a VM has it. The service keeps it."""
    _copy(BACKUP, "Backup", volume_name, name)


@backup.command("restore", short_help="Replace what a volume holds by a backup.")
@click.argument("name_or_uuid", type=BACKUP.argument)
@click.argument("volume_name", metavar="VOLUME", type=VOLUME.argument)
@yes_option
def backup_restore(name_or_uuid: str, volume_name: str) -> None:
    """Replace what a detached volume holds by a backup ('volume create --from-backup' makes a new one)."""
    with Connection() as connection:
        copy, found = find(connection, BACKUP, name_or_uuid), find(connection, VOLUME, volume_name)
        agree(f"What is in volume {VOLUME.called(found)} would be lost", "Go on")
        hint = "Detach it first ('vetro volume detach')."
        made = connection.send(restore_volume(copy.uuid, found.uuid), hint=hint)
    done(f"Volume {VOLUME.called(found)} is as in backup {BACKUP.called(copy)}", **row_of(made))
