"""Server groups: which servers should share a host, and which must not."""

from __future__ import annotations

from collections.abc import Mapping

from vetro.stacks.errors import InvalidProperty
from vetro.stacks.resources.base import (
    Json,
    Property,
    ResourceContext,
    StackOnly,
    items,
    not_served,
    text,
)

_POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")


class ServerGroup(StackOnly):
    """`OS::Nova::ServerGroup`: it lives in the stack's rows; placement reads it from there."""

    name = "OS::Nova::ServerGroup"
    properties = {
        "name": Property(update=True),
        "policies": Property("list"),
        **not_served("rules"),
    }

    def check(self, resource: str, properties: Mapping[str, Json]) -> None:
        super().check(resource, properties)
        wrong = [one for one in items(properties.get("policies")) if text(one) not in _POLICIES]
        if wrong:
            raise InvalidProperty(
                f"the policy {wrong[0]!r} does not exist; use one of {', '.join(_POLICIES)}",
                resource=resource,
            )

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        policies = items(properties.get("policies")) or ["anti-affinity"]
        await context.save({"policy": text(policies[0])})
