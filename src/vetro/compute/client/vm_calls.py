"""Calls about VMs, their images, and the work of nodes (compute-node-api.md §7, §8; images: ours)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from vetro.compute.client.calls import Call
from vetro.compute.client.servers import path_of
from vetro.compute.wire import (
    Allocated,
    Allocation,
    Document,
    Image,
    ImageCopies,
    Incarnation,
    JobStarted,
    NewImage,
    NewInterfaces,
    NewTicket,
    NewVm,
    Screen,
    Stream,
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
    return Call("POST", f"{path_of(server)}/tickets", Ticket, new)


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


def incarnations(project: str) -> Call[list[Incarnation]]:
    """Which root disk each VM of a project has. Errors: 403."""
    return Call("GET", "/incarnations", list[Incarnation], params={"project_id": project})


def create_vm(server: str, new: NewVm) -> Call[TaskStarted]:
    """Create and start a VM; for one that exists the same answer."""
    return Call("POST", f"{path_of(server)}/vms", TaskStarted, new)


def update_vm(uuid: str, change: VmUpdate) -> Call[TaskStarted]:
    """Change a VM in place."""
    return Call("POST", f"{_vm(uuid)}/update", TaskStarted, change)


def act_on_vm(
    uuid: str, action: str, body: Document | None = None, server: str = ANY_SERVER
) -> Call[TaskStarted]:
    """``action``: ``start``, ``stop`` or ``reboot``."""
    return Call("POST", f"{_vm(uuid, server)}/{action}", TaskStarted, body or {})


def destroy_vm(uuid: str, server: str = ANY_SERVER) -> Call[TaskStarted]:
    """Destroy a VM and its disks. Errors: 404."""
    return Call("DELETE", _vm(uuid, server), TaskStarted)


def add_interfaces(uuid: str, ports: list[str], server: str = ANY_SERVER) -> Call[TaskStarted]:
    """Give a VM an interface for each port (uuids). No task when it has them. Errors: 404, 409."""
    return Call("POST", _interfaces(uuid, server), TaskStarted, NewInterfaces(ports=ports))


def remove_interface(uuid: str, mac: str, server: str = ANY_SERVER) -> Call[TaskStarted]:
    """Take an interface from a VM; its port is free then. Errors: 404, 409."""
    return Call("DELETE", f"{_interfaces(uuid, server)}/{quote(mac, safe='')}", TaskStarted)


def take_snapshot(uuid: str, name: str, server: str = ANY_SERVER) -> Call[TaskStarted]:
    """Take a snapshot of a VM's disks; '' names it by the time."""
    body = {"snapshot_name": name} if name else {}
    return Call("PUT", f"{_vm(uuid, server)}/snapshots", TaskStarted, body)


def roll_back(uuid: str, snapshot: str, server: str = ANY_SERVER) -> Call[TaskStarted]:
    """Return a VM's disks to a snapshot; newer snapshots are removed."""
    return Call("PUT", f"{_snapshot(uuid, snapshot, server)}/rollback", TaskStarted, {})


def remove_snapshot(uuid: str, snapshot: str, server: str = ANY_SERVER) -> Call[TaskStarted]:
    """Remove a snapshot of a VM."""
    return Call("DELETE", _snapshot(uuid, snapshot, server), TaskStarted)


def move_vm(uuid: str, target: str | None, server: str = ANY_SERVER) -> Call[JobStarted]:
    """Move a VM to another server: ``target``, or one that has room."""
    body = {} if target is None else {"target_server_uuid": target}
    return Call("POST", f"{_vm(uuid, server)}/move", JobStarted, body)


def open_stream(uuid: str, command: Document, server: str = ANY_SERVER) -> Call[Stream]:
    """Run a command in a VM, or open its console: where its node serves the stream."""
    body = {"command": command}
    return Call("POST", f"{_vm(uuid, server)}/docker-exec", Stream, body)


def screen(uuid: str, server: str = ANY_SERVER) -> Call[Screen]:
    """Where a node serves the screen of a virtual machine."""
    return Call("GET", f"{_vm(uuid, server)}/vnc", Screen)


def screenshot_path(uuid: str, server: str = ANY_SERVER) -> str:
    """The path of a picture (PNG) of the screen of a virtual machine."""
    return f"{_vm(uuid, server)}/screenshot"


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


def add_image_tags(uuid: str, tags: dict[str, str]) -> Call[Image]:
    """Add the tags that an image of the caller's project lacks. Errors: 403 for another's; 404."""
    return Call("POST", f"/images/{quote(uuid, safe='')}/tags", Image, {"tags": tags})


def remove_image(uuid: str, *, force: bool = False) -> Call[None]:
    """Delete an image. Errors: 404; 409 when VMs use it, unless ``force``."""
    params = {"force": str(force).lower()}
    return Call("DELETE", f"/images/{quote(uuid, safe='')}", type(None), params=params)


def image_copies(uuid: str, version: str = "", seconds: int = 0) -> Call[ImageCopies]:
    """Which nodes have an image; as soon as that is not ``version`` any more, or after ``seconds``."""
    params = {"version": version, "timeout": seconds}
    path = f"/images/{quote(uuid, safe='')}/copies"
    return Call("GET", path, ImageCopies, params=params, seconds=_NEWS_SECONDS)


def image_file_path(uuid: str) -> str:
    """The path of an image's file."""
    return f"/images/{quote(uuid, safe='')}/file"


def ensure_image(server: str, image_uuid: str) -> Call[TaskStarted]:
    """Have an image on a server."""
    body = {"image_uuid": image_uuid}
    return Call("POST", f"{path_of(server)}/ensure-image", TaskStarted, body)


def _vm(uuid: str, server: str = ANY_SERVER) -> str:
    return f"{path_of(server)}/vms/{quote(uuid, safe='')}"


def _interfaces(uuid: str, server: str) -> str:
    return f"{_vm(uuid, server)}/interfaces"


def _snapshot(uuid: str, name: str, server: str) -> str:
    return f"{_vm(uuid, server)}/snapshots/{quote(name, safe='')}"


def _task(id_: str) -> str:
    return f"/tasks/{quote(id_, safe='')}"
