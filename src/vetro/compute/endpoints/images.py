"""The built-in image service: manifests, and files in and out."""

from __future__ import annotations

from litestar.response import File

from vetro.compute.calls import Access, Call, Endpoint
from vetro.compute.faults import not_found
from vetro.compute.parameters import ANYTHING, Param
from vetro.compute.records import Json


def _owner(call: Call) -> str | None:
    """Whose images the caller sees; ``None``: all."""
    if call.is_operator or "node" in call.principal.roles:
        return None
    return call.principal.project_id


async def list_images(call: Call) -> Json:
    """Images the project may use."""
    return await call.service.images.listing(_owner(call))


async def create_image(call: Call) -> Json:
    """A record for an image; its file comes next."""
    return await call.service.images.create(call.principal.project_id, call.params)


async def show_image(call: Call) -> Json:
    """An image, by uuid or name."""
    row = await call.service.images.get(str(call.get("uuid")), _owner(call))
    return call.service.images.view(row)


async def download(call: Call) -> Json:
    """The image's file."""
    row = await call.service.images.get(str(call.get("uuid")), _owner(call))
    if row.state != "active":
        raise not_found(f"image {row.uuid} has no file yet")
    return File(call.service.images.path(row.uuid), media_type="application/octet-stream")


async def delete_image(call: Call) -> Json:
    """Delete an image; instances made of it keep running."""
    await call.service.images.remove(str(call.get("uuid")))


ENDPOINTS = [
    Endpoint("ImageList", "GET", "/images", list_images, access=Access.USER),
    Endpoint("ImageCreate", "POST", "/images", create_image, (Param("name", ANYTHING),)),
    Endpoint("ImageShow", "GET", "/images/{uuid}", show_image, access=Access.USER),
    Endpoint("ImageDownload", "GET", "/images/{uuid}/file", download, access=Access.USER,
             any_accept=True),
    Endpoint("ImageDelete", "DELETE", "/images/{uuid}", delete_image, status=204),
]  # fmt: skip
