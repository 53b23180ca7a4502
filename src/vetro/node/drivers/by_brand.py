"""The hypervisors of one node: each VM goes to the one that serves its brand."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from vetro.node.drivers.hypervisor import Changed, Hypervisor
from vetro.node.vm_objects import MachineStore
from vetro.node.vm_records import Vm


class Hypervisors:
    """One hypervisor or several. The first one's name is the node's; brands must not overlap."""

    def __init__(self, store: MachineStore, *hypervisors: Hypervisor) -> None:
        self._store = store
        self._all = hypervisors
        self._by_brand = {brand: one for one in hypervisors for brand in one.brands}
        self.name = hypervisors[0].name
        self.brands: Sequence[str] = tuple(self._by_brand)
        self.features: Sequence[str] = tuple(
            dict.fromkeys(name for one in hypervisors for name in one.features)
        )

    def of(self, vm: Mapping[str, object]) -> Hypervisor:
        """The hypervisor of a VM; of one without a brand the first."""
        return self._by_brand.get(str(vm.get("brand")), self._all[0])

    async def open(self, vms: Sequence[Vm], ended: Changed, changed: Changed) -> None:
        """Open all of them, each with its VMs."""
        async with contextlib.AsyncExitStack() as opened:
            for one in self._all:
                await one.open([vm for vm in vms if self.of(vm) is one], ended, changed)
                opened.push_async_callback(one.close)
            opened.pop_all()

    async def close(self) -> None:
        """Close all of them."""
        async with contextlib.AsyncExitStack() as stack:
            for one in self._all:
                stack.push_async_callback(one.close)

    def about(self) -> dict[str, object]:
        """The facts that all of them report."""
        return {name: value for one in self._all for name, value in one.about().items()}

    async def remove(self, uuid: str) -> None:
        """Remove a VM; if it has no record, every hypervisor is asked to remove it."""
        record = self._store.get(uuid) or {}
        for one in (self.of(record),) if "brand" in record else self._all:
            await one.remove(uuid)
