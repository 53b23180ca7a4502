"""Machines: how one is made, looked at, made again when it is not there any more, and removed.

A node may lose what it had: its disk fails, after a restore it has another data directory, somebody
destroys a machine by hand. An operation looks, and makes what is missing again with its id and its ports.
Of what a silent node had nothing is known: it may run, so it is not made a second time (decision 0801).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace

from vetro.compute.client.calls import PORTS
from vetro.compute.wire import Locality, Vm
from vetro.stacks.compute_service.port import ServerSpec
from vetro.stacks.errors import ResourceFailure
from vetro.stacks.resources.base import (
    Json,
    PlacementGroup,
    ResourceContext,
    ResourceType,
    entries,
    items,
    text,
)

UNKNOWN = "unknown"
"""The state of a server while its node is silent: it may run."""
_IMAGE = "image_uuid"
_NOT_THERE = ("missing", "failed", "destroyed", "incomplete", "allocated", "creating")
"""States of a server that was made and has to be made again, or whose making goes on."""


class Machine(ResourceType):
    """A server, which its node can lose."""

    delete_first = True
    restores = whole_first = True

    async def specify(self, context: ResourceContext, properties: Mapping[str, Json]) -> ServerSpec:
        """The server the properties describe; its own ports are made."""
        raise NotImplementedError

    async def asks(
        self, context: ResourceContext, properties: Mapping[str, Json]
    ) -> ServerSpec | None:
        """What it would ask a node for, as far as that is known: nothing is made. None: its size or its
        image is not known. `properties` may hold `Unknown` values. Raises `ResourceFailure`."""
        raise NotImplementedError

    def group(
        self, context: ResourceContext, properties: Mapping[str, Json]
    ) -> PlacementGroup | None:
        """The group that says where it is with regard to others."""
        return None

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        spec = await self.specify(context, properties)
        await make(context, spec, self.group(context, properties))

    async def lacks(self, context: ResourceContext, properties: Mapping[str, Json]) -> bool:
        """Whether it is not there. One of which nothing is known counts: it cannot be relied on."""
        state = _state(await context.compute.server(context.physical_id))
        return state == UNKNOWN or state in _NOT_THERE

    async def restore(self, context: ResourceContext, properties: Mapping[str, Json]) -> str | None:
        """Make it again when it is not there. Raises `ResourceFailure` while nothing is known of it."""
        found = await context.compute.server(context.physical_id)
        label = label_of(context, properties)
        if found is not None and found.state == UNKNOWN:
            node = found.server_uuid
            raise ResourceFailure(
                f"Nothing is known of the machine {label}: its node {node} is silent. Wait until that is"
                " back. If it is gone, an operator makes sure that it is off, and runs"
                f" 'vetro server evacuate {node} --fenced'"
            )
        if _state(found) not in _NOT_THERE:
            return None
        context.say(f"the machine {label}, which was not there any more and is made again")
        await self.create(context, properties)
        return (
            f"The machine {label} was not there any more and was made again: what was on its disk is lost,"
            " it began as its image"
        )


async def image_named(context: ResourceContext, wanted: Json, made: bool) -> Json:
    """The uuid of an image, or of that which a machine was made of: its name may have become another
    image's (`ResourceType.named`). Raises `ResourceFailure`, also for a machine of an earlier release, of
    which nobody noted it."""
    if not made:
        return (await context.compute.image(context.project_id, text(wanted))).uuid
    if not (noted := context.data.get(_IMAGE)):
        raise ResourceFailure(f"Nobody noted which image {text(wanted)} was when it was used")
    return noted


def _state(found: Vm | None) -> str:
    """The state of a machine that was made; one that nobody knows any more is missing."""
    return (found.state or "") if found is not None else "missing"


def label_of(context: ResourceContext, properties: Mapping[str, Json]) -> str:
    """What a machine is called, by its template or as it is made."""
    return text(properties.get("name"), f"{context.stack_name}-{context.name}")


async def make(
    context: ResourceContext, spec: ServerSpec, group: PlacementGroup | None = None
) -> None:
    """Make a machine where there is room for it; returns when it runs. Raises `ResourceFailure`."""
    compute = context.compute
    if context.data.get("host"):  # a creation that was cut off may have come to its end
        existing = await compute.server(spec.uuid)
        if existing is not None and existing.state == "running":
            await compute.release(spec.uuid)
            return
    context.say("a server with enough free resources")
    async with group.lock if group is not None else contextlib.nullcontext():
        if group is not None:
            spec = replace(spec, locality=locality_of(group.policy, group.placed()))
        placement = await compute.place(spec)
        noted: dict[str, Json] = {
            "host": placement.host,
            "host_name": placement.host_name,
            _IMAGE: spec.image.uuid,
        }
        if {**context.data, **noted} != context.data:
            await context.save({**context.data, **noted})
    where = placement.host_name or placement.host
    try:
        context.say(f"its turn on {where}")
        await compute.wait_turn(placement)
        awaited = f"the image {spec.image.name} on {where}"
        context.say(awaited)
        await compute.ensure_image(
            placement, spec.image, lambda percent: context.say(f"{awaited}: {percent} %")
        )
        context.say(f"the instance on {where}")
        await compute.create_server(placement, spec)
    finally:
        await compute.release(spec.uuid)


async def remove(context: ResourceContext) -> None:
    """Destroy a machine, and remove the ports that only it has. Raises `ResourceFailure`."""
    compute = context.compute
    await compute.release(context.physical_id)
    await compute.delete_server(context.physical_id)
    for port in items(context.data.get("own_ports")):
        await compute.remove(PORTS, text(port))


def locality_of(policy: str, others: list[str]) -> Locality | None:
    """Where to put a server with regard to others of its group, in the allocator's words."""
    if not others:
        return None
    apart = policy.endswith("anti-affinity")
    return Locality(
        strict=not policy.startswith("soft-"),
        near=None if apart else others,
        far=others if apart else None,
    )


def group_of(context: ResourceContext, properties: Mapping[str, Json]) -> PlacementGroup | None:
    """The server group of the stack that a machine names. Raises `ResourceFailure`."""
    wanted = entries(properties.get("scheduler_hints")).get("group")
    if not wanted:
        return None
    group = context.group(text(wanted))
    if group is None:
        raise ResourceFailure(f"There is no server group {text(wanted)!r} in the stack")
    return group
