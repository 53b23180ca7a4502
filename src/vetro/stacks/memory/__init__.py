"""In-memory twins: a store, a compute service, and stacks on both.

For tests of code that uses stacks: `MemoryStacks()` behaves as the native back end does (the same
templates, graph, changes and operations), without a database or machines. `MemoryCompute` can
simulate failures: `fail["create_server"] = ResourceFailure("…")`.
"""

from __future__ import annotations

from vetro.stacks.doors import Doors
from vetro.stacks.memory.compute import EXTERNAL_NETWORK, MemoryCompute
from vetro.stacks.memory.guests import DOOR, MemoryGuests, MemorySignal, MemorySignals
from vetro.stacks.memory.store import MemoryStore
from vetro.stacks.native import NativeSettings, StackEngine


class MemoryStacks(StackEngine):
    """`Stacks` wholly in memory; `compute` shows what the stacks have made."""

    def __init__(
        self,
        compute: MemoryCompute | None = None,
        *,
        settings: NativeSettings | None = None,
    ) -> None:
        self.compute = compute or MemoryCompute()
        self.store = MemoryStore()
        self.signals = MemorySignals()
        self.guests = MemoryGuests()
        doors = Doors(signals=self.signals, guests=self.guests, url=DOOR)
        super().__init__(self.store, self.compute, settings=settings, doors=doors)
