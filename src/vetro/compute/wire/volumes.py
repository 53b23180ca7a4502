"""Volumes, their snapshots and backups: objects of the service, and the bodies that change them.

As in ``networks``: the object as it is shown, the body that creates one, the body that changes one.
Sizes are GiB.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from vetro.compute.wire.networks import NameChange, NewObject


class VolumeSource(msgspec.Struct, kw_only=True):
    """What a volume is made of. ``kind``: ``image``, ``volume``, ``snapshot`` or ``backup``."""

    kind: str
    uuid: str


class Volume(msgspec.Struct, kw_only=True):
    """Storage of its own life. ``vm_uuid``: the VM that has it, at ``device``.

    ``server_uuid``: the server that keeps it, ``None`` before it is first attached. ``format``:
    ``ext4`` for containers, ``qcow2`` for virtual machines, '' before. ``state``: ``available``,
    ``in-use``, ``failed``, ``lost`` with a server that was evacuated (``reason`` says why).
    """

    uuid: str
    project_id: str
    name: str
    size: int
    format: str = ""
    state: str = "available"
    reason: str = ""
    server_uuid: str | None = None
    vm_uuid: str | None = None
    device: str = ""
    read_only: bool = False
    metadata: dict[str, str] = {}
    source: VolumeSource | None = None


class NewVolume(NewObject, kw_only=True):
    """``size`` may be left out for one of a source: it is the source's."""

    size: int | None = None
    read_only: bool = False
    metadata: dict[str, str] = {}
    source: VolumeSource | None = None


class VolumeChange(NameChange, kw_only=True):
    """Another name, a larger size."""

    size: int | UnsetType = UNSET
    read_only: bool | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET


class Attachment(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The body that gives a volume to a VM. ``device``: where, '' lets the service choose.

    In a container the file system is mounted there; ``/dev/NAME`` means ``/mnt/NAME``.
    ``made_by``: the caller's mark. An attachment with another mark is refused, even to the same VM.
    """

    vm_uuid: str
    device: str = ""
    made_by: str | UnsetType = UNSET


class VolumeCopy(msgspec.Struct, kw_only=True):
    """A snapshot or a backup of a volume; ``size`` is that of the volume then.

    ``state``: ``creating``, ``available``, ``failed``, ``lost``. A snapshot is kept by the volume's
    server, a backup by the service (``bytes``: its file).
    """

    uuid: str
    project_id: str
    volume_uuid: str
    name: str
    size: int
    state: str
    reason: str = ""
    bytes: int = 0
    created: str | None = None


class NewVolumeCopy(NewObject, kw_only=True):
    """The body that takes a snapshot or makes a backup, of a volume in use, too."""

    volume_uuid: str


class Offer(msgspec.Struct, kw_only=True):
    """What servers can do beyond running VMs; ``reasons``: why a part is missing, by its name."""

    parts: list[str] = []
    reasons: dict[str, str] = {}
