"""Volumes: storage of its own life on the servers' disks (decision 0235).

A new volume is a record. The server of the VM that it is first attached to makes it, in the format that
VM takes; from then on it is there. Attached to a VM on another server, it moves: a backup of it is restored
there. Work of a node is a stored task (`NodeTasks`), so that it ends whatever happens to this process;
every call may be repeated.
"""

from __future__ import annotations

import uuid as uuids
from dataclasses import dataclass
from pathlib import Path

import structlog
from sqlalchemy import Table, delete, insert, select, update

from vetro.blobs import BLOB_SUFFIXES, BlobStore
from vetro.compute.servers.store import ServerStore
from vetro.compute.tables import vms, volume_copies, volumes
from vetro.compute.values.faults import conflict, internal_error, invalid_argument, not_found
from vetro.compute.values.records import Record, mapping
from vetro.compute.vms.given_up import lose_gone, lose_if_given_up, refuse_lost
from vetro.compute.vms.volume_views import (
    BACKUP,
    BOOT,
    LOST_STATE,
    SNAPSHOT,
    copy_view,
    told_copies,
    told_volumes,
    volume_view,
)
from vetro.compute.wire import HVM_BRANDS, NewVolume, Volume, VolumeCopy, VolumeSource
from vetro.compute.work.node_tasks import NodeTasks
from vetro.http import Fault
from vetro.quotas import Quotas
from vetro.storage import Database, StoredRow, Transaction

log = structlog.get_logger(__name__)

_TASK_SECONDS = 3650.0
_STATUS = {
    "VolumeInUse": 409,
    "VmNotFound": 404,
    "InvalidPayload": 409,
    "ResourceExhausted": 409,
    "NotImplemented": 409,
}


@dataclass(eq=False, repr=False)
class Volumes:
    """The volumes of all projects, their snapshots and backups. ``blobs``: files of backups."""

    database: Database
    servers: ServerStore
    work: NodeTasks
    blobs: BlobStore
    quotas: Quotas

    # Reading

    async def listing(self, project: str | None) -> list[Volume]:
        """Volumes of a project, or of all."""
        return await told_volumes(self.database, await self._rows(volumes, project))

    async def copies(self, kind: str, project: str | None) -> list[VolumeCopy]:
        """Snapshots or backups of a project, or of all."""
        rows = [row for row in await self._rows(volume_copies, project) if row.kind == kind]
        return await told_copies(self.database, rows)

    async def _rows(self, table: Table, project: str | None) -> list[StoredRow]:
        query = select(table).order_by(table.c.created, table.c.uuid)
        if project is not None:
            query = query.where(table.c.owner_uuid == project)
        async with self.database.read() as tx:
            return list(await tx.execute(query))

    async def find(self, uuid: str, project: str | None) -> StoredRow:
        """A volume. Errors: 404, also for another project's."""
        return await self._find(volumes, uuid, project, "volume")

    async def find_copy(self, kind: str, uuid: str, project: str | None) -> StoredRow:
        """A snapshot or a backup. Errors: 404."""
        row = await self._find(volume_copies, uuid, project, f"volume {kind}")
        if row.kind != kind:
            raise not_found(f"volume {kind} {uuid[:64]} not found")
        return row

    async def _find(self, table: Table, uuid: str, project: str | None, what: str) -> StoredRow:
        async with self.database.read() as tx:
            row = (await tx.execute(select(table).where(table.c.uuid == uuid[:64]))).first()
        if row is None or project not in (None, row.owner_uuid):
            raise not_found(f"{what} {uuid[:64]} not found")
        return row

    # Volumes

    async def create(self, uuid: str, owner: str, new: NewVolume, project: str | None) -> Volume:
        """Make a volume; one of a volume or of a snapshot is copied at once. Errors: 403 for
        the quota, 404, 409."""
        async with self.database.read() as tx:
            known = (await tx.execute(select(volumes).where(volumes.c.uuid == uuid))).first()
        if known is not None:
            if known.owner_uuid != owner:
                raise conflict(f"the uuid {uuid} is taken: choose another one")
            return await self._made(known)
        values: Record = {
            "owner_uuid": owner,
            "name": new.name,
            "format": "",
            "state": "available",
            "reason": "",
            "server_uuid": None,
            "device": "",
            "read_only": new.read_only,
            "metadata": new.metadata,
            "source": None,
            "created": self.database.clock.now(),
        }
        least = await self._take_source(new.source, project, values)
        size = new.size if new.size is not None else least
        if size < max(1, least):
            raise invalid_argument(f"`size` must be at least {max(1, least)} GiB")
        async with self.database.transaction() as tx:
            await tx.exclude(f"volume {uuid}")
            if (await tx.execute(select(volumes).where(volumes.c.uuid == uuid))).first() is None:
                await self.quotas.admit(tx, owner, volumes=1, disk=size)
                await tx.execute(insert(volumes).values(uuid=uuid, size_gib=size, **values))
        return await self._made(await self.find(uuid, None))

    async def _take_source(
        self, source: VolumeSource | None, project: str | None, values: Record
    ) -> int:
        """Fill in what a source decides; the least size. Errors: 404, 409."""
        if source is None:
            return 0
        values["source"] = {"kind": source.kind, "uuid": source.uuid}
        if source.kind == BOOT:
            values["format"] = BOOT
            return 1
        if source.kind == "volume":
            row = await self.find(source.uuid, project)
            refuse_lost(row)
            if row.format == BOOT:
                raise conflict(f"volume {row.uuid} is a root disk: make an image of its VM instead")
        elif source.kind in (SNAPSHOT, BACKUP):
            row = await self.find_copy(source.kind, source.uuid, project)
            if row.state != "available":
                raise conflict(f"volume {source.kind} {row.uuid} is {row.state}: {row.reason}")
            values["source"]["volume_uuid"] = row.volume_uuid
        else:
            raise invalid_argument("`source.kind` must be image, volume, snapshot or backup")
        values["format"] = row.format
        if source.kind != BACKUP:
            values["server_uuid"] = row.server_uuid
            values["state"] = "creating" if row.server_uuid else "available"
        return int(row.size_gib)

    async def _made(self, row: StoredRow) -> Volume:
        """Have the node make a volume that a source put on a server."""
        if row.state == "creating":
            await self._make(row, row.server_uuid, row.format, row.source)
            row = await self._set(row.uuid, state="available", reason="")
        return volume_view(row)

    async def _make(self, row: StoredRow, server: str, format_: str, source: Record | None) -> None:
        brand = "kvm" if format_ == "qcow2" else "lx"
        params: Record = {"volume_uuid": row.uuid, "size": row.size_gib, "brand": brand}
        if source and source.get("kind") != BOOT:
            params["source"] = source
        await self._task(server, "volume_create", params)

    async def change(self, row: StoredRow, values: Record) -> Volume:
        """Another name, a larger size. Errors: 403 for the quota, 409 to shrink it."""
        size = values.pop("size", None)
        if size is not None:
            refuse_lost(row)
            if size < row.size_gib:
                raise conflict(
                    f"volume {row.uuid} has {row.size_gib} GiB and cannot shrink to {size} GiB:"
                    " copy what it holds into a smaller one"
                )
            if row.format == BOOT and size != row.size_gib:
                raise conflict(f"volume {row.uuid} is a root disk: resize its VM instead")
            if row.format != BOOT:
                await self._grow(row, size)
                row = await self.find(row.uuid, None)
        return volume_view(await self._set(row.uuid, **values) if values else row)

    async def _grow(self, row: StoredRow, size: int) -> None:
        """Grow a volume on its server, if it has one: its size counts for the quota from the admission on.

        The same size again is sent too: a service that ended in between may have left the server behind.
        """
        async with self.database.transaction() as tx:
            await self.quotas.admit(tx, row.owner_uuid, disk=size - row.size_gib)
            mine = (volumes.c.uuid == row.uuid) & (volumes.c.size_gib == row.size_gib)
            changed = await tx.execute(update(volumes).where(mine).values(size_gib=size))
            if not changed.rowcount:
                raise conflict(f"the size of volume {row.uuid} was changed meanwhile: try again")
        if not row.server_uuid:
            return
        params = {"volume_uuid": row.uuid, "size": size, **_vm_of(row)}
        try:
            await self._task(row.server_uuid, "volume_grow", params)
        except Fault:
            async with self.database.transaction() as tx:
                mine = (volumes.c.uuid == row.uuid) & (volumes.c.size_gib == size)
                await tx.execute(update(volumes).where(mine).values(size_gib=row.size_gib))
            raise

    async def remove(self, row: StoredRow) -> None:
        """Remove a volume. Errors: 409 while a VM has it, or while it has snapshots."""
        if row.vm_uuid and row.format != BOOT:
            raise conflict(f"volume {row.uuid} is attached to VM {row.vm_uuid}: detach it first")
        async with self.database.read() as tx:
            mine = volume_copies.c.volume_uuid == row.uuid
            query = select(volume_copies.c.uuid).where(mine & (volume_copies.c.kind == SNAPSHOT))
            taken = [one.uuid for one in await tx.execute(query)]
        if taken:
            raise conflict(
                f"volume {row.uuid} has {len(taken)} snapshots ({taken[0]} …): remove them first"
            )
        if row.server_uuid and not await lose_if_given_up(self.database, row):
            await self._task(row.server_uuid, "volume_delete", {"volume_uuid": row.uuid})
        async with self.database.transaction() as tx:
            await tx.execute(delete(volumes).where(volumes.c.uuid == row.uuid))

    # Attaching

    async def attach(
        self, row: StoredRow, vm_uuid: str, device: str, made_by: str | None = None
    ) -> Volume:
        """Give a volume to a VM of its project. Errors: 404; 409 when another VM has it.

        With a maker: also when this VM has it, and that one did not attach it.
        """
        await lose_if_given_up(self.database, row)
        async with self.database.transaction() as tx:
            await tx.exclude(f"volume {row.uuid}")
            vm = await self._vm(tx, vm_uuid, row.owner_uuid)
            query = select(volumes).where(volumes.c.uuid == row.uuid)
            row = (await tx.execute(query)).one()
            refuse_lost(row)
            if row.vm_uuid not in (None, vm_uuid):
                raise conflict(
                    f"volume {row.uuid} is attached to VM {row.vm_uuid}: detach it there first"
                )
            if row.vm_uuid and made_by not in (None, row.made_by):
                raise conflict(
                    f"volume {row.uuid} is attached to VM {vm_uuid} already: use it without attaching it"
                )
            device = row.device if row.vm_uuid else await self._place(tx, row, vm_uuid, device)
            maker = row.made_by if row.vm_uuid else made_by or ""
            await tx.execute(
                update(volumes)
                .where(volumes.c.uuid == row.uuid)
                .values(vm_uuid=vm_uuid, device=device, made_by=maker)
            )
        if row.format == BOOT:
            return volume_view(await self.find(row.uuid, None))
        try:
            await self._bring(row, vm)
            await self._task(
                vm.server_uuid,
                "volume_attach",
                {
                    "uuid": vm_uuid,
                    "volume_uuid": row.uuid,
                    "path": device,
                    "read_only": row.read_only,
                },
            )
        except Fault:
            if row.vm_uuid is None:
                await self._set(row.uuid, vm_uuid=None, device="")
            raise
        return volume_view(await self.find(row.uuid, None))

    async def _vm(self, tx: Transaction, uuid: str, owner: str) -> StoredRow:
        query = select(vms).where(vms.c.uuid == uuid[:64])
        row = (await tx.execute(query)).first()
        if row is None or row.owner_uuid != owner:
            raise not_found(f"VM {uuid[:64]} not found")
        return row

    async def _place(self, tx: Transaction, row: StoredRow, vm_uuid: str, device: str) -> str:
        """Where a volume appears in its VM. Errors: 409 when another one is there."""
        query = select(volumes.c.uuid, volumes.c.device).where(volumes.c.vm_uuid == vm_uuid)
        others = {one.device: one.uuid for one in await tx.execute(query)}
        if device.startswith("/dev/"):
            device = f"/mnt/{device.rpartition('/')[2]}"
        path = device or f"/mnt/volume-{row.uuid[:8]}"
        if path in others:
            raise conflict(
                f"VM {vm_uuid} has volume {others[path]} at {path}: choose another place"
            )
        return path

    async def _bring(self, row: StoredRow, vm: StoredRow) -> None:
        """Have the volume on the VM's server. Errors: 409."""
        brand = str(mapping(vm.vm).get("brand") or mapping(vm.payload).get("brand") or "lx")
        format_ = "qcow2" if brand in HVM_BRANDS else "ext4"
        if row.format not in ("", format_):
            kinds = {
                "ext4": "a file system, for containers",
                "qcow2": "a disk, for virtual machines",
            }
            raise conflict(
                f"volume {row.uuid} is {kinds[row.format]}; VM {vm.uuid} takes {kinds[format_]}"
            )
        if row.server_uuid is None:
            await self._make(row, vm.server_uuid, format_, row.source)
            await self._set(row.uuid, server_uuid=vm.server_uuid, format=format_)
        elif row.server_uuid != vm.server_uuid:
            await self._move(row, vm.server_uuid, format_)

    async def _move(self, row: StoredRow, target: str, format_: str) -> None:
        """Bring a volume to another server: through a backup, which goes afterwards."""
        async with self.database.read() as tx:
            mine = volume_copies.c.volume_uuid == row.uuid
            query = select(volume_copies.c.uuid).where(mine & (volume_copies.c.kind == SNAPSHOT))
            if (await tx.execute(query)).first() is not None:
                raise conflict(
                    f"volume {row.uuid} is on server {row.server_uuid} and has snapshots there:"
                    f" remove them before it is attached to a VM on server {target}"
                )
        copy = str(uuids.uuid5(uuids.UUID(row.uuid), f"to {target}"))
        await self.copy(BACKUP, copy, row, "moving")
        await self._make(row, target, format_, {"kind": BACKUP, "uuid": copy})
        await self._set(row.uuid, server_uuid=target)
        try:
            await self._task(row.server_uuid, "volume_delete", {"volume_uuid": row.uuid})
        except Fault as error:
            log.warning("moved_volume_stays", volume=row.uuid, error=str(error))
        await self.remove_copy(await self.find_copy(BACKUP, copy, None))

    async def detach(self, row: StoredRow, vm_uuid: str = "", made_by: str | None = None) -> Volume:
        """Take a volume from the VM that has it; from another one than ``vm_uuid``: nothing.

        With a maker: nothing either when another one attached it.
        """
        if row.vm_uuid is None or vm_uuid not in ("", row.vm_uuid):
            return volume_view(row)
        if made_by not in (None, row.made_by):
            return volume_view(row)
        if await lose_if_given_up(self.database, row):
            return volume_view(await self.find(row.uuid, None))
        if row.format != BOOT and row.server_uuid:
            params = {"uuid": row.vm_uuid, "volume_uuid": row.uuid}
            await self._task(row.server_uuid, "volume_detach", params)
        return volume_view(await self._set(row.uuid, vm_uuid=None, device=""))

    # Snapshots and backups

    async def copy(self, kind: str, uuid: str, row: StoredRow, name: str) -> VolumeCopy:
        """Take a snapshot or make a backup of a volume, in use or not. Errors: 409."""
        if row.format == BOOT:
            raise conflict(f"volume {row.uuid} is a root disk: take a snapshot of its VM instead")
        refuse_lost(row)
        async with self.database.transaction() as tx:
            query = select(volume_copies).where(volume_copies.c.uuid == uuid)
            known = (await tx.execute(query)).first()
            if known is not None and (known.volume_uuid, known.kind) != (row.uuid, kind):
                raise conflict(f"the uuid {uuid} is taken: choose another one")
            if known is None:
                await tx.execute(
                    insert(volume_copies).values(
                        uuid=uuid,
                        kind=kind,
                        owner_uuid=row.owner_uuid,
                        volume_uuid=row.uuid,
                        name=name,
                        size_gib=row.size_gib,
                        format=row.format,
                        state="creating",
                        reason="",
                        server_uuid=row.server_uuid,
                        bytes=0,
                        created=self.database.clock.now(),
                    )
                )
        if known is not None and known.state == "available":
            return copy_view(known)
        try:
            if row.server_uuid is None:
                raise conflict(
                    f"volume {row.uuid} was never attached: there is nothing in it to copy"
                )
            named = "snapshot_uuid" if kind == SNAPSHOT else "backup_uuid"
            params = {"volume_uuid": row.uuid, named: uuid, **_vm_of(row)}
            result = await self._task(row.server_uuid, f"volume_{kind}", params)
        except Fault as error:
            await self._set_copy(uuid, state="failed", reason=error.message[:2000])
            raise
        size = result.get("size")
        made = {"bytes": size} if isinstance(size, int) else {}
        return copy_view(await self._set_copy(uuid, state="available", reason="", **made))

    async def remove_copy(self, row: StoredRow) -> None:
        """Remove a snapshot or a backup."""
        here = row.kind == SNAPSHOT and row.server_uuid
        if here and not await lose_if_given_up(self.database, row):
            params = {"volume_uuid": row.volume_uuid, "snapshot_uuid": row.uuid}
            await self._task(row.server_uuid, "volume_delete_snapshot", params)
        await self.blobs.remove(file_name(row.uuid))
        async with self.database.transaction() as tx:
            await tx.execute(delete(volume_copies).where(volume_copies.c.uuid == row.uuid))

    async def restore(self, backup: StoredRow, row: StoredRow) -> Volume:
        """Replace what a detached volume holds by a backup. Errors: 409."""
        if row.vm_uuid:
            raise conflict(f"volume {row.uuid} is attached to VM {row.vm_uuid}: detach it first")
        if backup.state != "available":
            raise conflict(f"volume backup {backup.uuid} is {backup.state}: {backup.reason}")
        if backup.size_gib > row.size_gib or row.format not in ("", backup.format):
            raise conflict(
                f"volume {row.uuid} ({row.size_gib} GiB {row.format}) cannot take a backup of"
                f" {backup.size_gib} GiB {backup.format}"
            )
        source = {"kind": BACKUP, "uuid": backup.uuid, "volume_uuid": backup.volume_uuid}
        if row.state == LOST_STATE:
            # It is made where it is attached next; what the lost server has is deleted when it returns.
            row = await self._set(row.uuid, state="available", reason="", server_uuid=None)
        if row.server_uuid:
            await self._task(row.server_uuid, "volume_delete", {"volume_uuid": row.uuid})
        made = await self._set(row.uuid, source=source, format=backup.format)
        if row.server_uuid:
            await self._make(made, row.server_uuid, backup.format, source)
        return volume_view(made)

    async def fetch(self, row: StoredRow) -> Path:
        """The path of a backup's file on this machine. Errors: those of `BlobStore.fetch`."""
        return await self.blobs.fetch(file_name(row.uuid), sha256=row.sha256)

    async def files(self) -> list[str]:
        """The files of all complete backups: the store must have them."""
        query = select(volume_copies.c.uuid).where(
            volume_copies.c.kind == BACKUP, volume_copies.c.sha256.is_not(None)
        )
        async with self.database.read() as tx:
            return [file_name(row.uuid) for row in await tx.execute(query)]

    async def take_file(self, backup: str, path: Path, sha256: str, size: int) -> None:
        """Keep the file of a backup."""
        await self.blobs.adopt(path, file_name(backup), sha256=sha256)
        await self._set_copy(backup, sha256=sha256, bytes=size)

    # Work of nodes

    async def _task(self, server: str, task: str, params: Record) -> Record:
        """Run a stored task of a node to its end. Errors: 404, 409 and 500 with the node's words."""
        async with self.database.read() as tx:
            what = f"volume {params['volume_uuid']}"
            agent = await self.servers.agent(tx, server, what)
        id_ = await self.work.start(agent, task, params)
        ended = await self.work.wait(id_, _TASK_SECONDS)
        if ended.status == "complete":
            return mapping(ended.result)
        if ended.status == "active":
            raise internal_error(f"{task} has not ended after an hour; task {id_} continues")
        details = mapping(mapping(ended.result).get("details"))
        code = str(details.get("restCode") or "")
        if code == "VolumeNotFound":
            if task in ("volume_detach", "volume_delete_snapshot"):
                return {}
            await lose_gone(self.database, server, str(params["volume_uuid"]))
        message = ended.error or f"{task} failed"
        if code in _STATUS:
            raise Fault(message, status=_STATUS[code], type_=code)
        raise internal_error(message, details)

    async def _set(self, uuid: str, **values: object) -> StoredRow:
        async with self.database.transaction() as tx:
            await tx.execute(update(volumes).where(volumes.c.uuid == uuid).values(**values))
        return await self.find(uuid, None)

    async def _set_copy(self, uuid: str, **values: object) -> StoredRow:
        async with self.database.transaction() as tx:
            mine = volume_copies.c.uuid == uuid
            await tx.execute(update(volume_copies).where(mine).values(**values))
        return await self._find(volume_copies, uuid, None, "copy")


def _vm_of(row: StoredRow) -> Record:
    """The VM whose lock a task on a volume needs."""
    return {"uuid": row.vm_uuid} if row.vm_uuid else {}


def file_name(backup: str) -> str:
    """The name of a backup's file in the store of backups."""
    return backup + BLOB_SUFFIXES["volume-backups"]
