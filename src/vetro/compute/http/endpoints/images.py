"""The built-in image service: manifests, and files in and out."""

from __future__ import annotations

import structlog

from vetro.compute.http.answers import FILE, IMAGE
from vetro.compute.http.endpoint import Access, Call, Endpoint
from vetro.compute.http.endpoints.events import LONGEST_POLL_SECONDS
from vetro.compute.values.faults import conflict, not_allowed, not_found, unavailable
from vetro.compute.values.records import Json, Record, mapping
from vetro.compute.vms.image_copies import CHANNEL, summary
from vetro.compute.wire import ImageCopies
from vetro.http import download, listed, receive_upload, shape_of
from vetro.http.parameters import (
    ANYTHING,
    BOOLEAN,
    BOOLEAN_TEXT,
    NATURAL,
    OBJECT,
    STRING,
    Param,
    as_number,
    query,
)

IMAGE_LIMIT = 32 * 2**30

log = structlog.get_logger(__name__)


async def _asked_of(call: Call, node: str, uuid: str) -> Record:
    """The manifest of the task with which a node makes an image. Errors: 403."""
    for params in await call.service.work.active("machine_create_image", node):
        manifest = mapping(params.get("manifest"))
        if str(manifest.get("uuid")).lower() == uuid.lower():
            return manifest
    raise not_allowed(f"No task of this node makes an image {uuid[:64]}")


async def list_images(call: Call) -> Json:
    """Images the project may use."""
    rows = await call.service.images.listing(call.project)
    copies = await call.service.copies.of([row["uuid"] for row in rows])
    return [{**row, "nodes": summary(copies[row["uuid"]])} for row in rows]


async def create_image(call: Call) -> Json:
    """A record for an image; its file comes next. Nodes make the images that a task asks them for."""
    if call.node is None:
        return await call.service.images.create(call.principal.project_id, call.params)
    uuid = str(call.get("uuid"))
    asked = await _asked_of(call, call.node, uuid)
    # The task says who owns it, its name and who may use it; an image of the VM's owner is private.
    given = {**call.params, **{name: asked[name] for name in ("uuid", "name", "version")}}
    given["public"] = asked.get("public") is True
    made = await call.service.images.create(str(asked["owner"]), given)
    if made["owner"] != str(asked["owner"]) or made["state"] == "active":
        raise conflict(f"there is an image {uuid} already")
    return made


async def upload(call: Call) -> Json:
    """The image's file, as the request's body."""
    uuid = str(call.get("uuid"))
    images = call.service.images
    row = await images.get(uuid)
    if call.node is not None:
        asked = await _asked_of(call, call.node, uuid)
        if row.owner_uuid != str(asked["owner"]) or row.state == "active":
            raise conflict(f"there is an image {uuid} already")
    path = await receive_upload(call.request, images.blobs.directory, IMAGE_LIMIT)
    added = await images.add_file(row.uuid, path, call.get("sha256"))
    await call.service.database.notify(CHANNEL)
    return added


async def add_tags(call: Call) -> Json:
    """Tags for an image of the caller's project, as far as it does not have them; ``replace``: all."""
    uuid, tags = str(call.get("uuid")), mapping(call.get("tags"))
    replace = call.get("replace") is True
    return await call.service.images.add_tags(
        uuid, call.principal.project_id, tags, replace=replace
    )


async def show_image(call: Call) -> Json:
    """An image, by uuid or name."""
    row = await call.service.images.get(str(call.get("uuid")), call.project)
    copies = await call.service.copies.of([row.uuid])
    return {**call.service.images.view(row), "nodes": summary(copies[row.uuid])}


async def list_copies(call: Call) -> Json:
    """Which nodes have an image; with ``version``, as soon as that has changed, or after ``timeout``."""
    row = await call.service.images.get(str(call.get("uuid")), call.project)
    seconds = as_number(call.get("timeout"))
    seconds = 0.0 if seconds is None or seconds < 0 else min(seconds, LONGEST_POLL_SECONDS)
    known = str(call.get("version") or "")
    waiting = call.service.copies.wait(row.uuid, known, seconds)
    found = await call.service.until_closing(call.request, waiting)
    if found is None:
        raise unavailable("The service is closing: ask again")
    return found


async def download_image(call: Call) -> Json:
    """The image's file, or the part of it that was asked for; 304 when the client has it already."""
    row = await call.service.images.get(str(call.get("uuid")), call.project)
    if row.state != "active":
        raise not_found(f"image {row.uuid} has no file yet")
    path = await call.service.images.fetch(row)
    return await download(call.request, path, digest=str(row.sha256))


async def delete_image(call: Call) -> Json:
    """Delete an image that no instance uses; with ``force=true`` one that some use, which run on."""
    uuid = str(call.get("uuid"))
    row = await call.service.images.get(uuid)
    users = await call.service.images.remove(row.uuid, force=call.flag("force"))
    await call.service.copies.deleted(row.uuid)
    if users:
        log.warning(
            "image_in_use_deleted",
            image=uuid,
            user=call.principal.user_id,
            project=call.principal.project_id,
            instances=users,
        )


ENDPOINTS = [
    Endpoint("ImageList", "GET", "/images", list_images, access=Access.USER, nodes=True,
             reply=listed(IMAGE)),
    Endpoint("ImageCreate", "POST", "/images", create_image, (Param("name", ANYTHING),),
             nodes=True, reply=IMAGE),
    Endpoint("ImageShow", "GET", "/images/{uuid}", show_image, access=Access.USER, nodes=True,
             reply=IMAGE),
    Endpoint("ImageUpload", "PUT", "/images/{uuid}/file", upload, query(STRING, "sha256"),
             nodes=True, upload=True, reply=IMAGE),
    Endpoint("ImageAddTags", "POST", "/images/{uuid}/tags", add_tags,
             (Param("tags", OBJECT, required=True), Param("replace", BOOLEAN)), reply=IMAGE),
    Endpoint("ImageDownload", "GET", "/images/{uuid}/file", download_image, access=Access.USER,
             any_accept=True, nodes=True, reply=FILE, errors=(416,)),
    Endpoint("ImageCopies", "GET", "/images/{uuid}/copies", list_copies,
             (*query(STRING, "version"), *query(NATURAL, "timeout")), reply=shape_of(ImageCopies)),
    Endpoint("ImageDelete", "DELETE", "/images/{uuid}", delete_image,
             query(BOOLEAN_TEXT, "force"), status=204, errors=(409,)),
]  # fmt: skip
