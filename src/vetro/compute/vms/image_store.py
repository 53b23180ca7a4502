"""Images: manifests in the database, files in a store of files, checked by their SHA-256."""

from __future__ import annotations

import asyncio
import uuid as uuids
from pathlib import Path
from typing import Any, cast

import msgspec
import structlog
from msgspec import UNSET
from sqlalchemy import delete, insert, select, update

from vetro.blobs import BLOB_SUFFIXES, BlobStore, digest_of
from vetro.compute.placement.disk_sizes import IMAGE_SIZE
from vetro.compute.tables import images, vms
from vetro.compute.values.faults import conflict, invalid_parameters, not_allowed, not_found
from vetro.compute.values.records import Record, api_time, struct_of, without
from vetro.compute.vms.disk_files import disk_mib
from vetro.compute.wire import HVM_BRANDS, Image, ImageFile
from vetro.compute.wire.vms import brand_of
from vetro.http import Fault
from vetro.storage import Database, StoredRow

log = structlog.get_logger(__name__)
#: The number of instances that an error names; it counts the others.
NAMED_USERS = 5


class ImageStore:
    """The images of the service."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self.database = database
        self.blobs = blobs

    async def fetch(self, row: StoredRow) -> Path:
        """The path of an image's file on this machine. Errors: those of `BlobStore.fetch`."""
        return await self.blobs.fetch(file_name(row.uuid), sha256=row.sha256)

    async def files(self, most: int | None = 100) -> list[str]:
        """The files that the store must have: of some images, or of all (``most`` is None)."""
        query = select(images.c.uuid).where(images.c.state == "active").limit(most)
        async with self.database.read() as tx:
            return [file_name(row.uuid) for row in await tx.execute(query)]

    def view(self, row: StoredRow) -> Record:
        """An image as the API shows it."""
        file = ImageFile(size=row.size, sha256=row.sha256)
        image = struct_of(
            Image,
            row,
            owner=row.owner_uuid,
            published_at=api_time(row.created),
            files=[file] if row.state == "active" else [],
            tags=row.manifest.get("tags", UNSET),
            image_size=row.manifest.get(IMAGE_SIZE, UNSET),
        )
        return {**row.manifest, **msgspec.to_builtins(image)}

    async def create(self, owner: str, body: Record) -> Record:
        """A record without a file. Errors: 500 InvalidParameters."""
        uuid = str(body.get("uuid") or uuids.uuid4())
        try:
            uuid = str(uuids.UUID(uuid))
        except ValueError as error:
            raise invalid_parameters({"uuid": "value was not a uuid"}) from error
        if not isinstance(body.get("tags", {}), dict):
            raise invalid_parameters({"tags": "value was not an object"})
        values = {
            "name": _text(body, "name"),
            "version": _text(body, "version", "1", limit=64),
            "owner_uuid": owner,
            "public": body.get("public", True) is not False,
            "type": _text(body, "type", "lxc-rootfs", limit=32),
            "os": _text(body, "os", "linux", limit=32),
            "state": "unactivated",
            "size": 0,
            "manifest": {
                k: v
                for k, v in body.items()
                if k in ("description", "requirements", "tags", "origin")
            },
            "created": self.database.clock.now(),
        }
        async with self.database.transaction() as tx:
            row = (await tx.execute(select(images).where(images.c.uuid == uuid))).first()
            if row is None:
                await tx.execute(insert(images).values(uuid=uuid, **values))
                row = (await tx.execute(select(images).where(images.c.uuid == uuid))).one()
        return self.view(row)

    async def add_tags(
        self, uuid: str, owner: str, tags: Record, *, replace: bool = False
    ) -> Record:
        """Add the tags that an image of ``owner`` does not have; those that it has stay as they are.

        ``replace``: tags that it has get the new text, and those without one (``None``) are removed.
        Errors: 403 for an image of another project, 404, 500 InvalidParameters.
        """
        removed = {name for name, text in tags.items() if text is None and replace}
        wrong = [n for n, text in tags.items() if n not in removed and not isinstance(text, str)]
        if wrong:
            raise invalid_parameters({"tags": f"value of {wrong[0]} was not a string"})
        async with self.database.transaction() as tx:
            query = select(images).where(images.c.uuid == uuid).with_for_update()
            row = (await tx.execute(query)).first()
            if row is None:
                raise not_found(f"image {uuid} not found")
            if row.owner_uuid != owner:
                raise not_allowed(f"image {row.name} ({uuid}) belongs to another project")
            known = row.manifest.get("tags", {})
            given = {**known, **tags} if replace else {**tags, **known}
            kept = {name: text for name, text in given.items() if name not in removed}
            manifest = {**row.manifest, "tags": kept}
            changed = update(images).where(images.c.uuid == uuid).values(manifest=manifest)
            await tx.execute(changed)
        return self.view(await self.get(uuid))

    async def get(self, wanted: str, owner: str | None = None) -> StoredRow:
        """An image by uuid, or the newest active one of a name. Errors: 404."""
        if len(wanted) > 255 or "\0" in wanted:
            raise not_found("there is no such image")
        query = select(images).where((images.c.uuid == wanted) | (images.c.name == wanted))
        if owner is not None:
            query = query.where(images.c.public | (images.c.owner_uuid == owner))
        async with self.database.read() as tx:
            rows = list(await tx.execute(query.order_by(images.c.created.desc())))
        active = [row for row in rows if row.state == "active" or row.uuid == wanted]
        if not active:
            raise not_found(f"image {wanted} not found")
        return active[0]

    async def find(self, uuid: str, owner: str | None = None) -> StoredRow | None:
        """An image by uuid or name; ``None`` when it is not known here, or not for this owner."""
        try:
            return await self.get(uuid, owner)
        except Fault:
            return None

    async def listing(self, owner: str | None) -> list[Record]:
        """Images a project may use, by name."""
        query = select(images).order_by(images.c.name, images.c.created)
        if owner is not None:
            query = query.where(images.c.public | (images.c.owner_uuid == owner))
        async with self.database.read() as tx:
            return [self.view(row) for row in await tx.execute(query)]

    async def add_file(self, uuid: str, file: Path, sha256: str | None) -> Record:
        """Take a file (moved into the store) as the image's; its record says how large the disk in it is.

        Errors: 404, 409 wrong checksum.
        """
        row = await self.get(uuid)
        digest = await asyncio.to_thread(digest_of, file)
        if sha256 and sha256 != digest:
            file.unlink()
            raise conflict(f"the file's SHA-256 is {digest}, not {sha256}: send it again")
        size = file.stat().st_size
        hvm = brand_of(row.type) in HVM_BRANDS
        mib = await asyncio.to_thread(disk_mib, file) if hvm else None
        try:
            await self.blobs.adopt(file, file_name(row.uuid), sha256=digest)
        finally:
            file.unlink(missing_ok=True)
        await self._keep_once(row.uuid, digest)
        async with self.database.transaction() as tx:
            query = select(images.c.manifest).where(images.c.uuid == row.uuid).with_for_update()
            known = (await tx.execute(query)).first()
            manifest = without(known.manifest, IMAGE_SIZE) if known is not None else {}
            if mib is not None:
                manifest[IMAGE_SIZE] = mib
            await tx.execute(
                update(images)
                .where(images.c.uuid == row.uuid)
                .values(state="active", size=size, sha256=digest, manifest=manifest)
            )
        return self.view(await self.get(row.uuid))

    async def _keep_once(self, uuid: str, digest: str) -> None:
        """Let the file take no room of its own, if another image has the same bytes."""
        query = select(images.c.uuid).where(
            images.c.sha256 == digest, images.c.state == "active", images.c.uuid != uuid
        )
        async with self.database.read() as tx:
            same = (await tx.execute(query.limit(1))).first()
        if same is not None and not self.blobs.share(file_name(uuid), file_name(same.uuid)):
            log.info("image_kept_twice", image=uuid, other=same.uuid)

    async def remove(self, uuid: str, *, force: bool = False) -> list[str]:
        """Delete an image; returns the instances created from it (none without ``force``).

        Those keep running, but cannot be recreated. Errors: 404, 409 (in use).
        """
        row = await self.get(uuid)
        async with self.database.transaction() as tx:
            query = select(vms.c.uuid, vms.c.alias, vms.c.vm, vms.c.payload).order_by(vms.c.uuid)
            users = [
                one
                for one in await tx.execute(query)
                if row.uuid in images_in(one.payload) | images_in(one.vm)
            ]
            if users and not force:
                raise _in_use(row, users)
            await tx.execute(delete(images).where(images.c.uuid == row.uuid))
        await self.blobs.remove(file_name(row.uuid))
        return [one.uuid for one in users]


def file_name(uuid: str) -> str:
    """The name of an image's file in the store of images."""
    return uuid + BLOB_SUFFIXES["images"]


def _text(body: Record, name: str, default: str | None = None, *, limit: int = 255) -> str:
    """A text field that fits a column of ``limit`` characters. Errors: 500 InvalidParameters."""
    value = body.get(name, default)
    if not isinstance(value, str) or (not value and default is None):
        raise invalid_parameters({name: "value was not a string"})
    if "\0" in value:
        raise invalid_parameters({name: "value has a NUL character"})
    if len(value) > limit:
        raise invalid_parameters({name: f"value is longer than {limit} characters"})
    return value


def images_in(vm: object) -> set[str]:
    """The images that a VM (its payload, or the object a node reports) is made of."""
    given = cast("Record", vm) if isinstance(vm, dict) else {}
    disks = cast("list[Any]", given.get("disks")) if isinstance(given.get("disks"), list) else []
    parts = [given, *(cast("Record", disk) for disk in disks if isinstance(disk, dict))]
    return {str(part["image_uuid"]) for part in parts if part.get("image_uuid")}


def _in_use(image: StoredRow, users: list[StoredRow]) -> Fault:
    named = [f"{one.alias} ({one.uuid})" if one.alias else str(one.uuid) for one in users]
    if len(named) > NAMED_USERS:
        named = [*named[:NAMED_USERS], f"{len(users) - NAMED_USERS} more"]
    return conflict(
        f"image {image.name} ({image.uuid}) is used by instances: {', '.join(named)}."
        " Destroy them first; with force=true it is deleted, and they cannot be created again"
        " (no evacuation, no second start from the image)"
    )
