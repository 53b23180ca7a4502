"""What the compute service offers to forms: images, key pairs, networks, security groups,
volumes.

It serves the protocol that environments declare for their wizards, without knowing them. A source
that fails offers nothing and gives a warning.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from vetro.compute.client import NETWORKS, SECURITY_GROUPS, SUBNETS, ComputeClient, ComputeError
from vetro.compute.client import keypairs as list_keypairs
from vetro.compute.client.calls import VOLUME_SNAPSHOTS, VOLUMES
from vetro.compute.client.vm_calls import images as list_images
from vetro.http import Principal
from vetro.http.client import TransportError
from vetro.stacks.flavors import DEFAULT_FLAVORS

Items = list[dict[str, Any]]
ZONE = "nova"
"""The one availability zone: servers are chosen by allocation, not by zones."""
Found = dict[str, Items | None]
WORDS = {"security_groups": "security groups", "keypairs": "key pairs"}


class Platform(Protocol):
    """What forms choose from; ``Platform`` of the environments says what is what."""

    async def offers(
        self, kinds: Collection[str], principal: Principal, region: str | None
    ) -> tuple[Mapping[str, Sequence[Mapping[str, Any]] | None], Sequence[str]]:
        """Lists by kind, and warnings."""
        ...


def could_not_be_listed(kind: str, error: Exception) -> str:
    """The warning that a source failed."""
    return f"The {WORDS.get(kind, kind)} could not be listed: {error}"


class ComputeOffers:
    """Choices of forms from the compute service, as an operator acting for a project."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.token = token

    async def offers(
        self, kinds: Collection[str], principal: Principal, region: str | None
    ) -> tuple[Found, list[str]]:
        """Lists by kind, and warnings. There is one region: all are on one cloud (decision 0083)."""
        found: Found = {}
        warnings: list[str] = []
        project = principal.project_id
        async with ComputeClient(self.url, self.token, project_id=project) as client:
            for kind in kinds:
                source = _SOURCES.get(kind)
                try:
                    found[kind] = [] if source is None else await source(client, project)
                except (ComputeError, TransportError) as error:
                    found[kind] = []
                    warnings.append(could_not_be_listed(kind, error))
        return found, warnings


async def _flavors(_client: ComputeClient, _project_id: str) -> Items:
    return [
        {
            "value": name,
            "label": name,
            "memory": one.memory,
            "disk": one.disk,
            "vcpus": one.vcpus,
        }
        for name, one in DEFAULT_FLAVORS.items()
    ]


async def _images(client: ComputeClient, _project_id: str) -> Items:
    found: Items = []
    for one in await client.send(list_images()):
        info = one.form_info
        title = info.get("title") or one.name
        found.append(
            {
                "value": one.uuid,
                "label": title if one.state == "active" else f"{title} ({one.state})",
                "name": one.name,
                "title": title,
                "type": info.get("type") or one.os,
                "enabled": one.state == "active",
            }
        )
    return found


async def _keypairs(client: ComputeClient, project_id: str) -> Items:
    return [
        {"value": one.name, "label": one.name}
        for one in await client.send(list_keypairs(project_id))
    ]


async def _networks(client: ComputeClient, project_id: str) -> Items:
    subnets: dict[str, Items] = {}
    for one in await client.send(SUBNETS.all(project_id)):
        shown = {"id": one.uuid, "name": one.name, "cidr": one.cidr}
        subnets.setdefault(one.network_uuid, []).append(shown)
    return [
        {
            "id": one.uuid,
            "name": one.name,
            "external": one.external,
            "subnets": subnets.get(one.uuid, []),
        }
        for one in await client.send(NETWORKS.all(project_id))
    ]


async def _security_groups(client: ComputeClient, project_id: str) -> Items:
    return [
        {"value": one.name, "label": one.name}
        for one in await client.send(SECURITY_GROUPS.all(project_id))
    ]


async def _volumes(client: ComputeClient, project_id: str) -> Items:
    volumes = [(one, "volume") for one in await client.send(VOLUMES.all(project_id))]
    snapshots = [(one, "snapshot") for one in await client.send(VOLUME_SNAPSHOTS.all(project_id))]
    return [
        {"value": one.uuid, "label": f"{one.name or one.uuid} ({one.size} GiB)", "kind": kind}
        for one, kind in (*volumes, *snapshots)
        if one.state == "available"
    ]


async def _zones(_client: ComputeClient, _project_id: str) -> Items:
    return [{"value": ZONE, "label": ZONE}]


_SOURCES: dict[str, Callable[[ComputeClient, str], Awaitable[Items]]] = {
    "flavors": _flavors,
    "images": _images,
    "keypairs": _keypairs,
    "networks": _networks,
    "security_groups": _security_groups,
    "volumes": _volumes,
    "azones": _zones,
}
