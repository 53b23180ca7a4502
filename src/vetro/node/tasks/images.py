"""Images on the node, and its networks."""

from __future__ import annotations

from collections.abc import Mapping

from vetro.node.drivers import Driver
from vetro.node.errors import TaskFailure
from vetro.node.images.store import ImageStore
from vetro.node.network import NetworkApplier
from vetro.node.tasks.parameters import array, seconds
from vetro.node.vm_objects import check_uuid
from vetro.node.vm_records import Vm
from vetro.node.work.queues import TaskContext, TaskKind

#: The progress step, in percent, at which a task's entry records an image's progress.
_PROGRESS_STEP = 10


class ImageTasks:
    """Handlers over the image store and the networks (``None``: this driver has none of its own)."""

    def __init__(self, driver: Driver, images: ImageStore, network: NetworkApplier | None) -> None:
        self._driver = driver
        self._images = images
        self._network = network

    def kinds(self) -> list[TaskKind]:
        """The kinds of tasks that this does."""
        return [
            TaskKind("image_ensure_present", "image_import_tasks", self.ensure),
            # In a queue of its own: requested images must not wait behind prefetched ones.
            TaskKind("image_prefetch", "image_prefetch", self.prefetch),
            TaskKind("image_get", "image_query", self.get, query=True, label="Image.get"),
            TaskKind("image_list", "image_query", self.list, query=True),
            TaskKind("image_delete", "image_import_tasks", self.delete),
            TaskKind("image_collect", "image_import_tasks", self.collect),
            TaskKind("network_apply", "network_tasks", self.network_apply),
        ]

    async def ensure(self, context: TaskContext) -> None:
        """Fetch and unpack an image with its origins when it is not here; ``{}``.

        ``imgapiPeers``: other nodes to ask first, as URLs or ``{ip, port}``.
        """
        peers = [peer_url(one) for one in array(context.params, "imgapiPeers")]
        uuid = str(context.params.get("image_uuid"))
        reported = -_PROGRESS_STEP

        def changed() -> None:
            nonlocal reported
            copy = self._images.copies().get(uuid) if context.entry.outcome is None else None
            if copy is not None and copy["percent"] - reported >= _PROGRESS_STEP:
                reported = copy["percent"]
                context.progress(copy["state"], reported)

        with self._images.watched(changed):
            await self._images.ensure(uuid, [peer for peer in peers if peer])

    async def prefetch(self, context: TaskContext) -> None:
        """Like ``image_ensure``, in advance, unless room is short (``NoRoomForImage``); ``{}``.

        The entry's progress shows the image's progress.
        """
        uuid = check_uuid(context.params.get("image_uuid"), "image_uuid")
        await self._images.refuse_without_room(uuid)
        await self.ensure(context)

    async def get(self, context: TaskContext) -> Mapping[str, object]:
        """The manifest of an image on this node."""
        return self._images.manifest(
            str(context.params.get("uuid") or context.params.get("image_uuid"))
        )

    async def list(self, _context: TaskContext) -> Mapping[str, object]:
        """``{images: [manifest]}``."""
        return {"images": self._images.list()}

    async def delete(self, context: TaskContext) -> None:
        """Remove an image no VM here is made from; ``{}``."""
        uuid = check_uuid(context.params.get("uuid") or context.params.get("image_uuid"))
        users = [vm["uuid"] for vm in await self._vms() if vm.get("image_uuid") == uuid]
        if users:
            raise TaskFailure(f"Image {uuid} is used by VM {', '.join(users[:5])}", "ImageInUse")
        await self._images.delete(uuid)

    async def collect(self, context: TaskContext) -> Mapping[str, object]:
        """Remove images not used or requested for ``older_than`` seconds; ``{images}``."""
        age = seconds(context.params.get("older_than"), 0, "older_than")
        return {"images": await self.collect_unused(age)}

    async def collect_unused(self, older_than_seconds: float) -> list[str]:
        """Remove unused images for the agent itself."""
        used = {str(vm.get("image_uuid")) for vm in await self._vms()}
        return await self._images.collect(used, older_than_seconds)

    async def _vms(self) -> list[Vm]:
        return await self._driver.list(include_dni=True)

    async def network_apply(self, context: TaskContext) -> Mapping[str, object]:
        """Bring the node's networks to the wanted state; ``{version, applied, kept}``."""
        if self._network is None:
            # Instances of this driver use the machine's own network.
            return {"version": context.params.get("version", 0), "applied": False, "kept": []}
        return await self._network.apply(context.params)


def peer_url(value: object) -> str:
    """The URL of another node's agent; '' if the value names none."""
    if isinstance(value, str):
        return value if value.startswith(("http://", "https://")) else ""
    if isinstance(value, dict):
        fields: dict[object, object] = value  # pyright: ignore[reportUnknownVariableType]  # JSON
        if fields.get("url"):
            return peer_url(str(fields["url"]))
        address = fields.get("ip") or fields.get("host")
        if address:
            host = f"[{address}]" if ":" in str(address) else str(address)
            return f"http://{host}:{fields.get('port') or 5309}"
    return ""
