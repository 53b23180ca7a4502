"""Block storage: volumes and their attachments. Only for compute services that have it."""

from __future__ import annotations

from collections.abc import Mapping

from vetro.compute.client.calls import VOLUMES
from vetro.compute.wire import NewVolume, VolumeSource
from vetro.stacks.compute_service.port import BLOCK_STORAGE
from vetro.stacks.errors import ResourceFailure
from vetro.stacks.resources.base import (
    ComputeObject,
    Json,
    Property,
    Relation,
    ResourceContext,
    Shown,
    entries,
    flag,
    is_uuid,
    not_served,
    text,
    unknown_in,
)

#: What a volume is made of: the property that names it, and what the service calls it.
_SOURCES = {
    "image": "image",
    "snapshot_id": "snapshot",
    "backup_id": "backup",
    "source_volid": "volume",
}


async def _image(context: ResourceContext, wanted: Json, made: bool) -> Json:
    """The uuid of the image that a volume is made of."""
    volume = await context.compute.find(VOLUMES, context.physical_id) if made else None
    source = volume.source if volume is not None else None
    if source is not None and source.kind == "image" and is_uuid(source.uuid):
        return source.uuid
    return (await context.compute.image(context.project_id, text(wanted))).uuid


class Volume(ComputeObject):
    """`OS::Cinder::Volume`."""

    name = "OS::Cinder::Volume"
    kind = VOLUMES
    needs = BLOCK_STORAGE
    properties = {
        "size": Property("integer", update=True),
        "name": Property(update=True),
        "description": Property(ignored="it is kept in the template"),
        "metadata": Property("map", update=True),
        "availability_zone": Property(ignored="all nodes are one zone"),
        "image": Property(),
        "snapshot_id": Property(),
        "backup_id": Property(),
        "source_volid": Property(),
        "read_only": Property("boolean", update=True),
        "volume_type": Property(ignored="there is one kind of volume"),
        "scheduler_hints": Property("map", ignored="a volume is where it is attached first"),
    }
    properties |= not_served("imageRef", "multiattach")
    required = (("size",),)
    named = {("image",): _image}
    attributes = frozenset({"attachments_list", "attachments", "size", "status", "name"})

    async def look(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await super().look(context, properties)
        source = properties.get("source_volid")
        known = source and not unknown_in(source)
        if known and await context.compute.find(VOLUMES, text(source)) is None:
            raise ResourceFailure(f"There is no volume {text(source)!r}")

    async def new(self, context: ResourceContext, properties: Mapping[str, Json]) -> NewVolume:
        return NewVolume(
            uuid=context.physical_id,
            project_id=context.project_id,
            name=text(properties.get("name"), context.name),
            size=int(properties["size"]),
            source=_source(properties),
            metadata={key: text(one) for key, one in entries(properties.get("metadata")).items()},
            read_only=flag(properties.get("read_only"), False),
        )

    async def shown(self, context: ResourceContext, properties: Mapping[str, Json]) -> Shown:
        found = await context.compute.find(VOLUMES, context.physical_id)
        if found is None:
            return None
        attachments: list[dict[str, str]] = []
        if found.vm_uuid:
            place = {"server_id": found.vm_uuid, "device": found.device}
            attachments.append({**place, "volume_id": context.physical_id})
        return {
            "id": context.physical_id,
            "name": found.name,
            "size": found.size,
            "status": "in-use" if attachments else "available",
            "attachments": attachments,
            "attachments_list": attachments,
        }


class VolumeAttachment(Relation):
    """`OS::Cinder::VolumeAttachment`: gives a volume to a server; refused when one has it already."""

    name = "OS::Cinder::VolumeAttachment"
    needs = BLOCK_STORAGE
    properties = {
        "instance_uuid": Property(),
        "volume_id": Property(),
        "mountpoint": Property(),
    }
    required = (("instance_uuid",), ("volume_id",))
    restores = True

    def takes(self, properties: Mapping[str, Json]) -> tuple[str, ...]:
        return "volume", text(properties["volume_id"])

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await context.compute.attach_volume(
            text(properties["volume_id"]),
            server=text(properties["instance_uuid"]),
            device=text(properties.get("mountpoint")),
            made_by=context.claim,
        )

    async def lacks(self, context: ResourceContext, properties: Mapping[str, Json]) -> bool:
        """A server that was made again has its volumes no more."""
        found = await context.compute.find(VOLUMES, text(properties["volume_id"]))
        return found is not None and found.vm_uuid != text(properties["instance_uuid"])

    async def restore(self, context: ResourceContext, properties: Mapping[str, Json]) -> str | None:
        if await self.lacks(context, properties):
            await self.create(context, properties)
        return None

    async def delete(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await context.compute.detach_volume(
            text(properties["volume_id"]),
            server=text(properties["instance_uuid"]),
            made_by=context.claim,
        )


def _source(properties: Mapping[str, Json]) -> VolumeSource | None:
    for key, kind in _SOURCES.items():
        if properties.get(key):
            return VolumeSource(kind=kind, uuid=text(properties[key]))
    return None
