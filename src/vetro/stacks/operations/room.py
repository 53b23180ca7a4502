"""Room for the machines that an update makes, asked for before others go for them (decision 0849).

The compute service is asked as for a placement that holds nothing. What goes before them counts no more, and
each of them counts for those after it. So all machines of an update have room together, or none goes.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from vetro.stacks.compute_service.port import ComputePort, ServerSpec
from vetro.stacks.errors import PlacementFailure, ResourceFailure
from vetro.stacks.model import Json
from vetro.stacks.resources.base import PlacementGroup, ResourceContext, unknown_in
from vetro.stacks.resources.machines import Machine, locality_of

NOTHING_CHANGED = "Nothing was changed"
KEPT = "The machine that is there was kept"


@dataclass(frozen=True, slots=True)
class _Wanted:
    spec: ServerSpec
    group: PlacementGroup | None


@dataclass(eq=False, repr=False)
class Room:
    """What machines ask for, and where they would be."""

    compute: ComputePort
    without: Collection[str]
    """The uuids of the servers that go first."""
    kept: str
    """What a refusal says of what is there."""
    _wanted: dict[str, _Wanted] = field(default_factory=dict[str, _Wanted])
    _beside: list[tuple[str, ServerSpec]] = field(default_factory=list[tuple[str, ServerSpec]])

    async def want(
        self, name: str, kind: Machine, context: ResourceContext, properties: Mapping[str, Json]
    ) -> None:
        """Note what a machine asks for; one whose flavor or image is not known yet asks for nothing.

        Raises `ResourceFailure`."""
        spec = await kind.asks(context, properties)
        if spec is not None:
            known = unknown_in(properties.get("scheduler_hints")) is None
            group = kind.group(context, properties) if known else None
            self._wanted[name] = _Wanted(replace(spec, uuid=str(uuid.uuid4())), group)

    def names(self) -> list[str]:
        """The machines, the largest first: for small ones there is room more often."""
        return sorted(self._wanted, key=lambda name: -self._wanted[name].spec.memory)

    async def take(self, name: str) -> None:
        """Count a machine in where it would be. Raises `PlacementFailure` with the allocator's steps when no
        node takes it, `ResourceFailure` when a quota refuses it; both say what to do."""
        wanted = self._wanted[name]
        spec = wanted.spec
        if wanted.group is not None:
            others = [one for one in wanted.group.placed() if one not in self.without]
            others += self._in_group(wanted.group)
            spec = replace(spec, locality=locality_of(wanted.group.policy, others))
        size = f"{spec.memory / 1024:g} GiB of memory, {spec.cpu / 100:g} cores"
        try:
            host = await self.compute.would_place(spec, without=self.without, beside=self._beside)
        except PlacementFailure as error:
            raise PlacementFailure(
                f"No node takes the machine {spec.name} ({size}): {error}. {self.kept}: choose a smaller"
                " flavor, or make room on a node",
                details=error.details,
            ) from error
        except ResourceFailure as error:
            raise ResourceFailure(
                f"The machine {spec.name} ({size}) would get no place: {error}. {self.kept}",
                details=error.details,
                uncertain=error.uncertain,
            ) from error
        self._beside.append((host, spec))

    def _in_group(self, group: PlacementGroup) -> list[str]:
        """The machines of a group that would have their place."""
        placed = {spec.uuid for _, spec in self._beside}
        same = [one for one in self._wanted.values() if one.group and one.group.lock is group.lock]
        return [one.spec.uuid for one in same if one.spec.uuid in placed]
