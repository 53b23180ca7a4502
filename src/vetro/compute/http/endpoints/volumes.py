"""Volumes, their snapshots and backups: ours, beside CNAPI.

Every create takes a ``uuid`` chosen by the caller; every call may be repeated. A call returns when the
node has done its part. A project's users see and change what is their project's.
"""

from __future__ import annotations

import asyncio
import functools
import posixpath
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from vetro.blobs import digest_of
from vetro.compute.http.answers import FILE
from vetro.compute.http.endpoint import Access, Call, Endpoint
from vetro.compute.servers.offers import offer
from vetro.compute.values.faults import conflict, invalid_parameters, not_allowed, not_found
from vetro.compute.values.network_parameters import AN_UUID, MADE_BY, TEXT, text_of
from vetro.compute.values.records import Json, mapping
from vetro.compute.vms.volume_views import BACKUP, SNAPSHOT, copy_view, told_copies, told_volumes
from vetro.compute.wire import NewVolume, Offer, Volume, VolumeCopy
from vetro.http import download, listed, receive_upload, shape_of
from vetro.http.parameters import BOOLEAN, BOOLEAN_TEXT, STRING, Param, Rule, query

LARGEST_GIB = 64 * 1024
_BACKUP_LIMIT = 64 * 2**40


def _size(_name: str, value: Json) -> list[str]:
    good = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST_GIB
    return [] if good else [f"value was not a whole number of GiB from 1 to {LARGEST_GIB}"]


def _texts(_name: str, value: Json) -> list[str]:
    given = mapping(value)
    if not isinstance(value, dict) or len(given) > 100:
        return ["value was not an object of at most 100 texts"]
    for key, one in given.items():
        if not isinstance(one, str) or len(one) > 255 or len(key) > 255 or "\0" in key + one:
            return ["value was not an object of texts of at most 255 characters"]
    return []


def _source(_name: str, value: Json) -> list[str]:
    given = mapping(value)
    kinds = ("image", "volume", "snapshot", "backup")
    if value is None:
        return []
    if given.get("kind") not in kinds:
        return [f"value was not an object with a kind of {', '.join(kinds)}"]
    if not isinstance(given.get("uuid"), str) or not 0 < len(given["uuid"]) <= 255:
        return ["uuid was not a text"]
    return [] if given.keys() <= {"kind", "uuid"} else ["only kind and uuid are known"]


def _place(_name: str, value: Json) -> list[str]:
    if not isinstance(value, str) or len(value) > 255 or not value.isprintable():
        return ["value was not a text of at most 255 characters"]
    if value and (not value.startswith("/") or posixpath.normpath(value) != value or value == "/"):
        return ["value was not an absolute path without '.' and '..'"]
    return []


_GIB = Rule("size", _size, {"type": "integer", "minimum": 1, "maximum": LARGEST_GIB})
_MAP = Rule("texts", _texts, {"type": "object", "additionalProperties": {"type": "string"}})
_SOURCE = Rule(
    "source",
    _source,
    {
        "type": ["object", "null"],
        "properties": {"kind": {"type": "string"}, "uuid": {"type": "string"}},
    },
)
_DEVICE = Rule("place", _place, {"type": "string", "maxLength": 255, "examples": ["/mnt/data"]})


def _listed(call: Call) -> str | None:
    if call.get("project_id"):
        return call.owner_of("volumes")
    if call.is_operator and call.flag("all_projects"):
        return None
    return call.project or call.principal.project_id


def _uuid(call: Call) -> str:
    return str(call.request.path_params["uuid"])


async def list_volumes(call: Call) -> Json:
    """The volumes of the project."""
    return await call.service.volumes.listing(_listed(call))


async def create_volume(call: Call) -> Json:
    """Make a volume; again with the same uuid: the same one.

    It is made on the server of the VM that it is first attached to; one of a ``source`` that is on a
    server (a volume, a snapshot) there, before this returns.
    """
    uuid = str(call.get("uuid") or call.service.new_uuid()).lower()
    names = ("name", "size", "read_only", "metadata", "source")
    try:
        new = msgspec.convert(
            {one: call.params[one] for one in names if one in call.params}, NewVolume
        )
    except msgspec.ValidationError as error:
        raise invalid_parameters({"volume": str(error)}) from error
    if new.size is None and (new.source is None or new.source.kind == "image"):
        raise invalid_parameters({"size": "is missing"})
    if new.source is not None and new.source.kind == "image":
        row = await call.service.images.get(new.source.uuid, call.project)
        new.source.uuid = row.uuid
    return await call.service.volumes.create(uuid, call.owner_of("volumes"), new, call.project)


async def show_volume(call: Call) -> Json:
    """One volume."""
    row = await call.service.volumes.find(_uuid(call), call.project)
    return (await told_volumes(call.service.database, [row]))[0]


async def change_volume(call: Call) -> Json:
    """Another name, other metadata, a larger size: also while a VM uses it."""
    row = await call.service.volumes.find(_uuid(call), call.project)
    names = ("name", "size", "read_only", "metadata")
    given = {one: call.params[one] for one in names if one in call.params}
    if row.vm_uuid and given.get("read_only", row.read_only) != row.read_only:
        raise conflict(f"volume {row.uuid} is attached: detach it to change `read_only`")
    return await call.service.volumes.change(row, given)


async def remove_volume(call: Call) -> Json:
    """Remove a volume that no VM has and that has no snapshots. Its backups stay."""
    await call.service.volumes.remove(await call.service.volumes.find(_uuid(call), call.project))


async def attach_volume(call: Call) -> Json:
    """Give a volume to a VM of its project, at once if it runs; one that another VM has is refused.

    In a container the file system appears at ``device`` (``/dev/NAME``: at ``/mnt/NAME``); a virtual
    machine gets a SCSI disk whose serial number is the volume's uuid. ``made_by``: a mark of the caller; a
    volume that was attached without it is refused.
    """
    row = await call.service.volumes.find(_uuid(call), call.project)
    device = str(call.get("device") or "")
    vm_uuid = str(call.get("vm_uuid")).lower()
    return await call.service.volumes.attach(row, vm_uuid, device, call.made_by)


async def detach_volume(call: Call) -> Json:
    """Take a volume from the VM that has it (``vm_uuid``: only from this one).

    Programs that still use it get errors from then on; what they wrote is kept. ``made_by``: only if it
    was attached with this mark.
    """
    row = await call.service.volumes.find(_uuid(call), call.project)
    vm_uuid = str(call.get("vm_uuid") or "").lower()
    return await call.service.volumes.detach(row, vm_uuid, call.made_by)


async def restore_backup(call: Call) -> Json:
    """Replace what a detached volume holds by a backup."""
    backup = await call.service.volumes.find_copy(BACKUP, _uuid(call), call.project)
    row = await call.service.volumes.find(str(call.get("volume_uuid")), call.project)
    return await call.service.volumes.restore(backup, row)


async def _may_move(call: Call, task: str, uuid: str) -> None:
    """Nodes read and write the backups that their own tasks name. Errors: 403."""
    if call.node is None:
        raise not_allowed("The files of backups are for nodes: restore a backup to read it")
    for params in await call.service.work.active(task, call.node):
        named = params.get("backup_uuid") or mapping(params.get("source")).get("uuid")
        if named == uuid:
            return
    raise not_allowed(f"No task of this node is about backup {uuid[:64]}")


async def upload_backup(call: Call) -> Json:
    """The file of a backup, from the node that makes it."""
    uuid = _uuid(call)
    await _may_move(call, "volume_backup", uuid)
    row = await call.service.volumes.find_copy(BACKUP, uuid, None)
    directory = call.service.volumes.blobs.directory
    path = await receive_upload(call.request, directory, _BACKUP_LIMIT)
    try:
        digest = await asyncio.to_thread(digest_of, path)
        if call.get("sha256") not in (None, "", digest):
            raise conflict(f"the file's SHA-256 is {digest}: send it again")
        await call.service.volumes.take_file(row.uuid, path, digest, path.stat().st_size)
    finally:
        path.unlink(missing_ok=True)
    return copy_view(await call.service.volumes.find_copy(BACKUP, uuid, None))


async def download_backup(call: Call) -> Json:
    """The file of a backup, for the node that restores it."""
    uuid = _uuid(call)
    await _may_move(call, "volume_create", uuid)
    row = await call.service.volumes.find_copy(BACKUP, uuid, None)
    if not row.sha256:
        raise not_found(f"volume backup {uuid} has no file")
    path = await call.service.volumes.fetch(row)
    if not path.exists():
        raise not_found(f"the file of volume backup {uuid} is gone")
    return await download(call.request, path, digest=str(row.sha256))


async def show_offers(call: Call) -> Json:
    """What the running servers can do beyond running VMs, and why not the rest."""
    return await offer(call.service.database)


Run = Callable[[Call], Awaitable[Json]]
_user = functools.partial(Endpoint, access=Access.USER)
_PROJECT = Param("project_id", text_of(64))
_LIST: tuple[Any, ...] = (*query(text_of(64), "project_id"), *query(BOOLEAN_TEXT, "all_projects"))
_NAME = Param("name", TEXT)
_VOLUME, _COPY = shape_of(Volume), shape_of(VolumeCopy)


def _copies(kind: str, title: str, path: str) -> list[Endpoint]:
    async def list_all(call: Call) -> Json:
        return await call.service.volumes.copies(kind, _listed(call))

    async def add(call: Call) -> Json:
        uuid = str(call.get("uuid") or call.service.new_uuid()).lower()
        row = await call.service.volumes.find(str(call.get("volume_uuid")).lower(), call.project)
        return await call.service.volumes.copy(kind, uuid, row, str(call.get("name") or ""))

    async def show(call: Call) -> Json:
        row = await call.service.volumes.find_copy(kind, _uuid(call), call.project)
        return (await told_copies(call.service.database, [row]))[0]

    async def remove(call: Call) -> Json:
        row = await call.service.volumes.find_copy(kind, _uuid(call), call.project)
        await call.service.volumes.remove_copy(row)

    for run, doc in (
        (list_all, f"The volume {kind}s of the project."),
        (add, f"Make a {kind} of a volume, in use or not; again with the same uuid: the same one."),
        (show, f"One volume {kind}."),
        (remove, f"Remove a volume {kind}; volumes that were made of it stay."),
    ):
        run.__doc__ = doc
    of = Param("volume_uuid", AN_UUID, required=True)
    return [
        _user(f"{title}List", "GET", path, list_all, _LIST, reply=listed(_COPY)),
        _user(f"{title}Create", "POST", path, add, (Param("uuid", AN_UUID), _PROJECT, of, _NAME),
              strict=True, reply=_COPY),
        _user(f"{title}Show", "GET", f"{path}/{{uuid}}", show, reply=_COPY),
        _user(f"{title}Delete", "DELETE", f"{path}/{{uuid}}", remove, status=204),
    ]  # fmt: skip


ENDPOINTS = [
    _user("VolumeList", "GET", "/volumes", list_volumes, _LIST, reply=listed(_VOLUME)),
    _user("VolumeCreate", "POST", "/volumes", create_volume,
          (Param("uuid", AN_UUID), _PROJECT, _NAME, Param("size", _GIB), Param("read_only", BOOLEAN),
           Param("metadata", _MAP), Param("source", _SOURCE)), strict=True, reply=_VOLUME),
    _user("VolumeShow", "GET", "/volumes/{uuid}", show_volume, reply=_VOLUME),
    _user("VolumeChange", "PUT", "/volumes/{uuid}", change_volume,
          (_NAME, Param("size", _GIB), Param("read_only", BOOLEAN), Param("metadata", _MAP)),
          strict=True, reply=_VOLUME),
    _user("VolumeDelete", "DELETE", "/volumes/{uuid}", remove_volume, status=204),
    _user("VolumeAttach", "POST", "/volumes/{uuid}/attach", attach_volume,
          (Param("vm_uuid", AN_UUID, required=True), Param("device", _DEVICE), MADE_BY), strict=True,
          reply=_VOLUME),
    _user("VolumeDetach", "POST", "/volumes/{uuid}/detach", detach_volume,
          (Param("vm_uuid", AN_UUID), MADE_BY), strict=True, reply=_VOLUME),
    *_copies(SNAPSHOT, "VolumeSnapshot", "/volume-snapshots"),
    *_copies(BACKUP, "VolumeBackup", "/volume-backups"),
    _user("VolumeBackupRestore", "POST", "/volume-backups/{uuid}/restore", restore_backup,
          (Param("volume_uuid", AN_UUID, required=True),), strict=True, reply=_VOLUME),
    Endpoint("VolumeBackupUpload", "PUT", "/volume-backups/{uuid}/file", upload_backup,
             query(STRING, "sha256"), nodes=True, upload=True, reply=_COPY),
    Endpoint("VolumeBackupDownload", "GET", "/volume-backups/{uuid}/file", download_backup,
             any_accept=True, nodes=True, reply=FILE, errors=(416,)),
    _user("OfferShow", "GET", "/offers", show_offers, reply=shape_of(Offer)),
]  # fmt: skip
