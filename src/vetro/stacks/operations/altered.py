"""What somebody has taken by hand from the resources of a stack; an operation puts it back."""

from __future__ import annotations

from collections.abc import Mapping

from vetro.stacks.compute_service.port import ComputePort
from vetro.stacks.flavors import Flavor
from vetro.stacks.operations.planning import looking
from vetro.stacks.resources import resource_type
from vetro.stacks.state.records import StackRow


async def altered(
    stack: StackRow, compute: ComputePort, flavors: Mapping[str, Flavor]
) -> list[str]:
    """The names of resources from which something is missing. Touches nothing."""
    found: list[str] = []
    for row in stack.resources:
        kind = resource_type(row.type, row.name)
        if not (kind.restores and row.current and row.status.value.endswith("_COMPLETE")):
            continue
        context = looking(
            row,
            compute,
            flavors,
            project_id=stack.project_id,
            stack_id=stack.id,
            stack_name=stack.name,
        )
        if await kind.lacks(context, row.properties):
            found.append(row.name)
    return found
