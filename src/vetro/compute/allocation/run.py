"""One pass of servers through a pipeline (allocation.md §2).

A run keeps the remaining servers as a mask over the fleet and, separately, the order of the list:
most filters are then one ``and`` of two masks, and only sorting has the cost of the order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vetro.compute.allocation.capacity import CapacityRule
from vetro.compute.allocation.columns import Floats, Indices, Mask, Verdict
from vetro.compute.allocation.defaults import Defaults, Ratios
from vetro.compute.allocation.description import Expression
from vetro.compute.allocation.fleet import Fleet, Room
from vetro.compute.allocation.record import Vm
from vetro.compute.allocation.steps import Dropped, Outcome, Reasons, Step
from vetro.compute.allocation.validation import AllocationRequest

Object = dict[str, Any]
Tickets = Mapping[str, Sequence[Mapping[str, Any]]]
#: A server's VMs from elsewhere, for services that do not store them in the record.
VmSource = Callable[[str], Mapping[str, Vm]]
#: A VM's record by its uuid, from elsewhere.
VmLookup = Callable[[str], Vm]


@dataclass(frozen=True)
class Ports:
    """What a run may query besides its inputs; by default nothing."""

    load_vms: VmSource | None = None
    find_vm: VmLookup | None = None


class Run:
    """The state that plugins read and change."""

    def __init__(
        self,
        fleet: Fleet,
        request: AllocationRequest,
        defaults: Defaults,
        *,
        tickets: Tickets | None = None,
        ports: Ports | None = None,
        random: np.random.Generator | None = None,
        candidates: Mask | None = None,
        order: Indices | None = None,
    ) -> None:
        self.fleet = fleet
        self.vm: Object = request.vm
        self.image: Object = request.image
        self.package = request.package
        self.defaults = defaults
        self.tickets: Tickets = tickets or {}
        self.ports = ports or Ports()
        self._random = random
        self.order: Indices = np.arange(len(fleet), dtype=np.int64) if order is None else order
        self.alive: Mask = fleet.everyone() if candidates is None else candidates
        self.count = int(np.count_nonzero(self.alive))
        self.scores: Floats = np.zeros(len(fleet), np.float64)
        #: The enforced ratios, or None while the servers' own apply.
        self.forced_ratios: Ratios | None = None
        #: The result of calculate-server-unreserved.
        self.computed: Room | None = None
        #: The soft rules of an affinity that also has hard ones.
        self.soft_locality: Object | None = None
        self.steps: list[Step] = []
        self._left: tuple[Mask, Indices, Indices] | None = None
        self._note("Received by DAPI", "", None)

    @property
    def random(self) -> np.random.Generator:
        """The run's random generator."""
        if self._random is None:
            self._random = np.random.Generator(np.random.PCG64())
        return self._random

    @property
    def brand(self) -> str:
        """The brand of the requested VM."""
        return str(self.vm.get("brand"))

    @property
    def owner(self) -> str:
        """The owner of the requested VM."""
        return str(self.vm.get("owner_uuid"))

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The VM's internal metadata."""
        return self.vm.get("internal_metadata") or {}

    def left(self) -> Indices:
        """Positions of the remaining servers, in list order."""
        known = self._left
        if known is None or known[0] is not self.alive or known[1] is not self.order:
            known = (self.alive, self.order, self.order[self.alive[self.order]])
            self._left = known
        return known[2]

    def positions(self) -> list[int]:
        """Positions of the remaining servers, as plain integers."""
        found: list[int] = self.left().tolist()
        return found

    def room(self) -> Room:
        """Unreserved resources: as computed by the pipeline, or the current ones."""
        if self.computed is None:
            return self.compute_room()
        return self.computed

    def compute_room(self) -> Room:
        """Unreserved resources with the current ratios and VMs."""
        return self.fleet.room(CapacityRule.of(self.defaults, self.forced_ratios))

    # --- narrowing -------------------------------------------------------------------------

    def keep(
        self, mask: Mask, text_of: Callable[[int], str | None] | None = None
    ) -> Reasons | None:
        """Drop the servers outside ``mask``; ``text_of`` returns the reason for a position."""
        before, order = self.alive, self.order
        after = before & mask
        count = int(np.count_nonzero(after))
        if count == self.count:
            return None
        self.alive, self.count = after, count
        if text_of is None:
            return None
        return Dropped(lambda: order[(before & ~after)[order]], text_of)

    def keep_only(self, positions: Sequence[int]) -> None:
        """Drop every server but these."""
        mask = np.zeros(len(self.fleet), np.bool_)
        mask[list(positions)] = True
        self.keep(mask)

    def drop_all(self) -> None:
        """Drop all servers."""
        self.alive = np.zeros(len(self.fleet), np.bool_)
        self.count = 0

    def judge(self, column: str, key: Hashable, verdict: Verdict) -> Reasons | None:
        """Drop servers by a facet: see ``Column.judge``."""
        judged = self.fleet.columns[column].judge(key, verdict)
        return self.keep(judged.mask, judged.text_of)

    def positions_mask(self, positions: Sequence[int]) -> Mask:
        """A mask of these positions."""
        mask = np.zeros(len(self.fleet), np.bool_)
        if positions:
            mask[list(positions)] = True
        return mask

    # --- the pipeline ----------------------------------------------------------------------

    def execute(self, expression: Expression, plugins: Mapping[str, Plugin]) -> None:
        """Run an expression; the remaining servers are in ``alive`` and ``order``."""
        if expression.command == "pipe":
            for element in expression.elements:
                self._element(element, plugins)
                if not self.count:
                    return
            return
        before = self.alive, self.order, self.count
        for element in expression.elements:
            self.alive, self.order, self.count = before
            self._element(element, plugins)
            if self.count:
                return

    def _element(self, element: str | Expression, plugins: Mapping[str, Plugin]) -> None:
        if not isinstance(element, str):
            self.execute(element, plugins)
            return
        plugin = plugins[element]
        reasons = plugin.apply(self)
        self._note(plugin.title, element, reasons)

    def _note(self, title: str, plugin: str, reasons: Reasons | None) -> None:
        self.steps.append(
            Step(title, self.alive, self.order, self.count, self.fleet.names, reasons, plugin)
        )

    def outcome(self) -> Outcome:
        """The chosen server: the best score; among equals the one latest in the list (§2)."""
        if not self.count:
            return Outcome(None, self.steps)
        left = self.left()
        values = self.scores[left]
        best = len(values) - 1 - int(np.argmax(values[::-1]))
        at = int(left[best])
        uuids, room, forced, scores = self.fleet.uuids, self.computed, self.forced_ratios, values

        def scored() -> dict[str, float]:
            return dict(zip(uuids[left].tolist(), scores.tolist(), strict=True))

        def properties() -> dict[str, Any]:
            found: dict[str, object] = {"score": float(scores[best])}
            if room is not None:
                found["unreserved_cpu"] = int(room.cpu[at])
                found["unreserved_ram"] = int(room.ram[at])
                found["unreserved_disk"] = int(room.disk[at])
            if forced is not None:
                found["overprovision_ratios"] = dict(
                    zip(("cpu", "ram", "disk"), forced, strict=True)
                )
            return found

        return Outcome(str(uuids[at]), self.steps, scored, properties)


@dataclass(frozen=True)
class Plugin:
    """A step of a pipeline: its title in ``steps`` and what it does to a run."""

    title: str
    apply: Callable[[Run], Reasons | None]
