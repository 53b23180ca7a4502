"""The allocator: a pipeline over a fleet, as a pure function (allocation.md §1, §2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vetro.compute.allocation import affinity, filters, locality, owners, resources, scoring
from vetro.compute.allocation.capacity import warnings
from vetro.compute.allocation.columns import Mask
from vetro.compute.allocation.defaults import Defaults
from vetro.compute.allocation.description import (
    CAPACITY_DESCRIPTION,
    default_description,
    parse_description,
)
from vetro.compute.allocation.fleet import Fleet
from vetro.compute.allocation.run import Plugin, Ports, Run, Tickets
from vetro.compute.allocation.steps import Outcome
from vetro.compute.allocation.validation import AllocationRequest

#: Every filter, tool and scorer by its name in descriptions.
PLUGINS: dict[str, Plugin] = {
    **filters.PLUGINS,
    **resources.PLUGINS,
    **owners.PLUGINS,
    **locality.PLUGINS,
    **affinity.PLUGINS,
    **scoring.PLUGINS,
}
_CAPACITY = parse_description(CAPACITY_DESCRIPTION, PLUGINS)


@dataclass(frozen=True)
class CapacityOutcome:
    """The free resources per server (``cpu`` 100 a core, ``ram`` and ``disk`` MiB), or why it is unknown.

    ``warnings`` lists missing values that were counted as 0.
    """

    capacities: dict[str, dict[str, int]]
    errors: dict[str, str]
    ratios: Mapping[str, float] | None
    warnings: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


class Allocator:
    """A pipeline with its defaults. Errors at construction: ``DescriptionError``."""

    def __init__(
        self, defaults: Defaults | None = None, description: Sequence[object] | None = None
    ) -> None:
        self.defaults = defaults or Defaults()
        if description is None:
            description = default_description(min_disk=self.defaults.filter_min_disk)
        self.description = description
        self._expression = parse_description(description, PLUGINS)

    def allocate(
        self,
        fleet: Fleet,
        request: AllocationRequest,
        *,
        tickets: Tickets | None = None,
        candidates: Mask | None = None,
        shuffle: bool = False,
        random: np.random.Generator | None = None,
        ports: Ports | None = None,
    ) -> Outcome:
        """Choose a server for ``request``, which is modified.

        ``candidates`` limits the servers to consider; ``shuffle`` puts them into random order
        first, so that equals are treated alike. The same inputs and the same state of ``random``
        give the same answer.
        """
        order = None
        if shuffle:
            random = random or np.random.Generator(np.random.PCG64())
            order = random.permutation(len(fleet))
        run = Run(
            fleet,
            request,
            self.defaults,
            tickets=tickets,
            ports=ports,
            random=random,
            candidates=candidates,
            order=order,
        )
        if run.count:
            run.execute(self._expression, PLUGINS)
        return run.outcome()

    def capacity(self, fleet: Fleet, candidates: Mask | None = None) -> CapacityOutcome:
        """The free resources of each server, by the fixed pipeline of POST /capacity (§1.2)."""
        request = AllocationRequest(vm={"brand": "joyent"})
        run = Run(fleet, request, self.defaults, candidates=candidates)
        if run.count:
            run.execute(_CAPACITY, PLUGINS)
        errors: dict[str, str] = {}
        for before, step in zip(run.steps, run.steps[1:], strict=False):
            gone = before.alive & ~step.alive
            if gone.any():
                texts = step.texts()
                for at in np.flatnonzero(gone).tolist():
                    uuid = str(fleet.uuids[at])
                    errors[uuid] = texts.get(uuid) or f"not among: {step.title}"
        capacities: dict[str, dict[str, int]] = {}
        noted: dict[str, list[str]] = {}
        if run.count and run.computed is not None:
            room = run.computed
            for at in run.positions():
                uuid = str(fleet.uuids[at])
                capacities[uuid] = {
                    "cpu": int(room.cpu[at]),
                    "ram": int(room.ram[at]),
                    "disk": int(room.disk[at]),
                }
                missing = warnings(fleet.records[at])
                if missing:
                    noted[uuid] = missing
        ratios: dict[str, float] | None = None
        if run.forced_ratios is not None:
            cpu, ram, disk = run.forced_ratios
            ratios = {"cpu": cpu, "ram": ram, "disk": disk}
        return CapacityOutcome(capacities, errors, ratios, noted)


def candidates_of(fleet: Fleet, *, headnodes: bool, servers: Iterable[str] | None = None) -> Mask:
    """Servers to consider: set up, not reserved, no headnode; of ``servers`` if given (§1.1)."""

    def flagged(name: str) -> Mask:
        return fleet.columns[name].judge("flag", lambda flag: None if flag else "").mask

    mask = flagged("setup") & ~flagged("reserved")
    if not headnodes:
        mask &= ~flagged("headnode")
    return mask if servers is None else mask & named(fleet, servers)


def named(fleet: Fleet, servers: Iterable[str]) -> Mask:
    """A mask of the servers with these uuids; unknown ones are ignored."""
    mask = np.zeros(len(fleet), np.bool_)
    places = [fleet.position[uuid] for uuid in servers if uuid in fleet.position]
    mask[places] = True
    return mask


def seeded(seed: object) -> np.random.Generator:
    """The random generator for a seed: an integer of any size and sign, or any text."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        seed = int.from_bytes(str(seed).encode("utf-8", "surrogatepass"), "big")
    return np.random.Generator(np.random.PCG64([int(seed < 0), abs(seed)]))
