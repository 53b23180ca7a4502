"""What somebody, or a node that fails, has taken from the resources of a stack; an operation puts it back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from vetro.stacks.compute_service.port import ComputePort
from vetro.stacks.errors import ResourceFailure
from vetro.stacks.flavors import Flavor
from vetro.stacks.operations.planning import looking
from vetro.stacks.resources import resource_type
from vetro.stacks.state.records import ResourceRow, StackRow

_log = structlog.get_logger(__name__)
_AT_ONCE = 16


async def altered(
    stack: StackRow, compute: ComputePort, flavors: Mapping[str, Flavor]
) -> list[str]:
    """The names of resources from which something is missing. Touches nothing."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def is_altered(row: ResourceRow) -> bool:
        kind = resource_type(row.type, row.name)
        if not (kind.restores and row.current and row.status.value.endswith("_COMPLETE")):
            return False
        context = looking(
            row,
            compute,
            flavors,
            project_id=stack.project_id,
            stack_id=stack.id,
            stack_name=stack.name,
        )
        try:
            async with slots:
                return await kind.lacks(context, row.properties)
        except ResourceFailure as error:
            # An agent that is just being restarted is no reason to change anything.
            said = {"stack": stack.name, "resource": row.name, "error": str(error)}
            _log.warning("resource_not_looked_at", **said)
            return False

    looked = await asyncio.gather(*(is_altered(row) for row in stack.resources))
    return [row.name for row, it_is in zip(stack.resources, looked, strict=True) if it_is]
