"""What somebody has taken by hand from the resources of a stack; an operation puts it back."""

from __future__ import annotations

from collections.abc import Mapping

from vetro.stacks.compute_service.port import ComputePort
from vetro.stacks.flavors import Flavor
from vetro.stacks.model import Json
from vetro.stacks.resources import resource_type
from vetro.stacks.resources.base import ResourceContext
from vetro.stacks.state.records import StackRow


async def altered(
    stack: StackRow, compute: ComputePort, flavors: Mapping[str, Flavor]
) -> list[str]:
    """The names of resources from which something is missing. Touches nothing."""

    async def no_config(_physical_id: str) -> dict[str, Json] | None:
        return None

    async def no_saving(_data: dict[str, Json]) -> None:
        raise AssertionError("a look at a stack cannot change anything")

    found: list[str] = []
    for row in stack.resources:
        kind = resource_type(row.type, row.name)
        if not (kind.restores and row.current and row.status.value.endswith("_COMPLETE")):
            continue
        context = ResourceContext(
            project_id=stack.project_id,
            stack_id=stack.id,
            stack_name=stack.name,
            name=row.name,
            physical_id=row.physical_id,
            compute=compute,
            flavors=flavors,
            config=no_config,
            group=lambda _group: None,
            save=no_saving,
            data=row.data,
        )
        if await kind.lacks(context, row.properties):
            found.append(row.name)
    return found
