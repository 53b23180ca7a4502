"""Images: manifests in the database, files in a directory, checked by their SHA-256."""

from __future__ import annotations

import hashlib
import uuid as uuids
from pathlib import Path
from typing import Any

from sqlalchemy import Row, delete, insert, select, update

from vetro.compute.fabric import text
from vetro.compute.faults import conflict, invalid_parameters, not_found
from vetro.compute.records import api_time
from vetro.compute.tables import images
from vetro.http import Fault
from vetro.storage import Database

Body = dict[str, Any]


class ImageStore:
    """The images of the service."""

    def __init__(self, database: Database, directory: Path) -> None:
        self.database = database
        self.directory = directory

    def path(self, uuid: str) -> Path:
        """Where an image's file is."""
        return self.directory / f"{uuid}.image"

    def view(self, row: Row[Any]) -> Body:
        """An image as the API shows it."""
        return {
            **row.manifest,
            "uuid": row.uuid,
            "name": row.name,
            "version": row.version,
            "owner": row.owner_uuid,
            "public": row.public,
            "type": row.type,
            "os": row.os,
            "state": row.state,
            "size": row.size,
            "sha256": row.sha256,
            "published_at": api_time(row.created),
            "files": [{"size": row.size, "sha256": row.sha256}] if row.state == "active" else [],
        }

    async def create(self, owner: str, body: Body) -> Body:
        """A record without a file. Errors: 500 InvalidParameters."""
        uuid = str(body.get("uuid") or uuids.uuid4())
        try:
            uuid = str(uuids.UUID(uuid))
        except ValueError as error:
            raise invalid_parameters({"uuid": "value was not a uuid"}) from error
        values = {
            "name": text(body, "name"),
            "version": text(body, "version", "1", limit=64),
            "owner_uuid": owner,
            "public": body.get("public", True) is not False,
            "type": text(body, "type", "lxc-rootfs", limit=32),
            "os": text(body, "os", "linux", limit=32),
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

    async def get(self, wanted: str, owner: str | None = None) -> Row[Any]:
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

    async def find(self, uuid: str, owner: str | None = None) -> Row[Any] | None:
        """An image by uuid or name; ``None`` when it is not known here, or not for this owner."""
        try:
            return await self.get(uuid, owner)
        except Fault:
            return None

    async def listing(self, owner: str | None) -> list[Body]:
        """Images a project may use, by name."""
        query = select(images).order_by(images.c.name, images.c.created)
        if owner is not None:
            query = query.where(images.c.public | (images.c.owner_uuid == owner))
        async with self.database.read() as tx:
            return [self.view(row) for row in await tx.execute(query)]

    async def add_file(self, uuid: str, file: Path, sha256: str | None) -> Body:
        """Take a file (moved into the store) as the image's. Errors: 404, 409 wrong checksum."""
        row = await self.get(uuid)
        hasher = hashlib.sha256()
        with file.open("rb") as opened:
            while chunk := opened.read(1 << 20):
                hasher.update(chunk)
        digest = hasher.hexdigest()
        if sha256 and sha256 != digest:
            file.unlink()
            raise conflict(f"the file's SHA-256 is {digest}, not {sha256}: send it again")
        size = file.stat().st_size
        file.replace(self.path(row.uuid))
        async with self.database.transaction() as tx:
            await tx.execute(
                update(images)
                .where(images.c.uuid == row.uuid)
                .values(state="active", size=size, sha256=digest)
            )
        return self.view(await self.get(row.uuid))

    async def remove(self, uuid: str) -> None:
        """Delete an image; instances made of it keep running. Errors: 404."""
        row = await self.get(uuid)
        async with self.database.transaction() as tx:
            await tx.execute(delete(images).where(images.c.uuid == row.uuid))
        self.path(row.uuid).unlink(missing_ok=True)
