"""Calls about VMs, their images, and the work of nodes (compute-node-api.md §7, §8; images: ours)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from vetro.compute.client.calls import Call
from vetro.compute.wire import (
    Allocated,
    Allocation,
    Image,
    ImageCopies,
    NewImage,
    NewTicket,
    NewVm,
    Task,
    TaskStarted,
    Ticket,
    Vm,
    VmImage,
    VmUpdate,
)

#: In the place of a server's uuid: the one that has the VM.
ANY_SERVER = "default"
_WAIT_SECONDS = 50
_NEWS_SECONDS = 60.0


def allocate(wanted: Allocation) -> Call[Allocated]:
    """Choose a server with room for a VM. Errors: 409 with a `NoAllocation`."""
    return Call("POST", "/allocate", Allocated, wanted)


def queue_up(server: str, new: NewTicket) -> Call[Ticket]:
    """Take a ticket on a server."""
    return Call("POST", f"{_server(server)}/tickets", Ticket, new)


def wait_ticket(uuid: str) -> Call[Ticket | None]:
    """A ticket as soon as it is not queued any more; nothing for one that has expired."""
    answer: Any = Ticket | None
    return Call("GET", f"/tickets/{quote(uuid, safe='')}/wait", answer, seconds=3600.0)


def release_ticket(uuid: str) -> Call[None]:
    """Give a turn back. Errors: 404."""
    return Call("PUT", f"/tickets/{quote(uuid, safe='')}/release", type(None))


def vm(uuid: str, server: str = ANY_SERVER) -> Call[Vm]:
    """A VM as its node sees it now. Errors: 404."""
    return Call("GET", _vm(uuid, server), Vm)


def vm_as_told(uuid: str, server: str = ANY_SERVER) -> Call[dict[str, Any]]:
    """A VM with all that its node tells of it."""
    return Call("GET", _vm(uuid, server), dict[str, Any])


def create_vm(server: str, new: NewVm) -> Call[TaskStarted]:
    """Create and start a VM; for one that exists the same answer."""
    return Call("POST", f"{_server(server)}/vms", TaskStarted, new)


def update_vm(uuid: str, change: VmUpdate) -> Call[TaskStarted]:
    """Change a VM in place."""
    return Call("POST", f"{_vm(uuid)}/update", TaskStarted, change)


def act_on_vm(
    uuid: str, action: str, body: dict[str, Any] | None = None, server: str = ANY_SERVER
) -> Call[TaskStarted]:
    """``action``: ``start``, ``stop`` or ``reboot``."""
    return Call("POST", f"{_vm(uuid, server)}/{action}", TaskStarted, body or {})


def destroy_vm(uuid: str, server: str = ANY_SERVER) -> Call[TaskStarted]:
    """Destroy a VM and its disks. Errors: 404."""
    return Call("DELETE", _vm(uuid, server), TaskStarted)


def image_of_vm(uuid: str, new: VmImage, server: str = ANY_SERVER) -> Call[TaskStarted]:
    """Make an image of a stopped VM."""
    return Call("POST", f"{_vm(uuid, server)}/images", TaskStarted, new)


def task(id_: str) -> Call[Task]:
    """A task of a node. Errors: 404."""
    return Call("GET", _task(id_), Task)


def wait_task(id_: str, seconds: int = _WAIT_SECONDS) -> Call[Task]:
    """A task when it has ended, or as it is after ``seconds``."""
    params = {"timeout": seconds}
    return Call("GET", f"{_task(id_)}/wait", Task, params=params, seconds=seconds + 40.0)


def images() -> Call[list[Image]]:
    """The images that the caller may use."""
    return Call("GET", "/images", list[Image])


def image(name_or_uuid: str) -> Call[Image]:
    """An image by its uuid, or the newest active one of a name. Errors: 404."""
    return Call("GET", f"/images/{quote(name_or_uuid, safe='')}", Image)


def new_image(new: NewImage) -> Call[Image]:
    """A record for an image, whose file comes next."""
    return Call("POST", "/images", Image, new)


def remove_image(uuid: str, *, force: bool = False) -> Call[None]:
    """Delete an image. Errors: 404; 409 when VMs use it, unless ``force``."""
    params = {"force": "true"} if force else {}
    return Call("DELETE", f"/images/{quote(uuid, safe='')}", type(None), params=params)


def image_copies(uuid: str, version: str = "", seconds: int = 0) -> Call[ImageCopies]:
    """Which nodes have an image; as soon as that is not ``version`` any more, or after ``seconds``."""
    params = {"version": version, "timeout": seconds}
    path = f"/images/{quote(uuid, safe='')}/copies"
    return Call("GET", path, ImageCopies, params=params, seconds=_NEWS_SECONDS)


def ensure_image(server: str, image_uuid: str) -> Call[TaskStarted]:
    """Have an image on a server."""
    body = {"image_uuid": image_uuid}
    return Call("POST", f"{_server(server)}/ensure-image", TaskStarted, body)


def _server(uuid: str) -> str:
    return f"/servers/{quote(uuid, safe='')}"


def _vm(uuid: str, server: str = ANY_SERVER) -> str:
    return f"{_server(server)}/vms/{quote(uuid, safe='')}"


def _task(id_: str) -> str:
    return f"/tasks/{quote(id_, safe='')}"
