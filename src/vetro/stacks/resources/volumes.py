"""Block storage: volumes and their attachments. Only for compute services that have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from vetro.stacks.compute_service.optional_parts import BLOCK_STORAGE, BlockStorage
from vetro.stacks.resources.base import (
    Json,
    Property,
    ResourceContext,
    ResourceType,
    entries,
    flag,
    text,
)


class Volume(ResourceType):
    """`OS::Cinder::Volume`."""

    name = "OS::Cinder::Volume"
    needs = BLOCK_STORAGE
    properties = {
        "size": Property("integer", update=True),
        "name": Property(update=True),
        "description": Property(ignored=True),
        "metadata": Property("map", update=True),
        "availability_zone": Property(ignored=True),
        "image": Property(),
        "snapshot_id": Property(),
        "backup_id": Property(),
        "source_volid": Property(),
        "read_only": Property("boolean", update=True),
        "volume_type": Property(ignored=True),
        "scheduler_hints": Property("map", ignored=True),
    }
    required = (("size",),)
    attributes = frozenset({"attachments_list", "attachments", "size", "status", "name"})

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await _storage(context).create_volume(
            context.physical_id,
            project_id=context.project_id,
            name=text(properties.get("name"), context.name),
            size=int(properties["size"]),
            source=_source(properties),
            metadata={key: text(one) for key, one in entries(properties.get("metadata")).items()},
            read_only=flag(properties.get("read_only"), False),
        )

    async def update(
        self, context: ResourceContext, properties: Mapping[str, Json], changed: frozenset[str]
    ) -> None:
        await _storage(context).update_volume(
            context.physical_id,
            name=text(properties.get("name"), context.name),
            size=int(properties["size"]),
            metadata={key: text(one) for key, one in entries(properties.get("metadata")).items()},
            read_only=flag(properties.get("read_only"), False),
        )

    async def delete(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await _storage(context).delete_volume(context.physical_id)

    async def attribute(
        self, context: ResourceContext, properties: Mapping[str, Json], name: str
    ) -> Json:
        found = await _storage(context).volume(context.physical_id)
        if found is None:
            return None
        attachments: list[Json] = [
            {"server_id": server, "device": device, "volume_id": context.physical_id}
            for server, device in sorted(found.attachments.items())
        ]
        shown: dict[str, Json] = {
            "id": context.physical_id,
            "name": found.name,
            "size": found.size,
            "status": "in-use" if attachments else "available",
            "attachments": attachments,
            "attachments_list": attachments,
        }
        return shown if name == "show" else shown.get(name)


class VolumeAttachment(ResourceType):
    """`OS::Cinder::VolumeAttachment`: gives a volume to a server."""

    name = "OS::Cinder::VolumeAttachment"
    needs = BLOCK_STORAGE
    properties = {
        "instance_uuid": Property(),
        "volume_id": Property(),
        "mountpoint": Property(),
    }
    required = (("instance_uuid",), ("volume_id",))
    delete_first = True

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await _storage(context).attach_volume(
            text(properties["volume_id"]),
            server=text(properties["instance_uuid"]),
            device=text(properties.get("mountpoint")),
        )

    async def delete(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await _storage(context).detach_volume(
            text(properties["volume_id"]), server=text(properties["instance_uuid"])
        )


def _storage(context: ResourceContext) -> BlockStorage:
    """The service's volumes: `needs` has made sure that it has any."""
    return cast("BlockStorage", context.compute)


def _source(properties: Mapping[str, Json]) -> tuple[str, str] | None:
    for key in ("image", "snapshot_id", "backup_id", "source_volid"):
        if properties.get(key):
            return key, text(properties[key])
    return None
