"""Containers and virtual machines on one node: each VM goes to the hypervisor that serves its brand."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from vetro.node.drivers.protocol import (
    Changed,
    DiskUse,
    ExecRequest,
    ExecResult,
    HostCommand,
    Hypervisor,
    RunState,
)
from vetro.node.guest.root import GuestRoot
from vetro.node.vm_objects import MachineStore
from vetro.node.vm_records import Vm


class HypervisorByBrand:
    """Several hypervisors as one. The first one's name is the node's; brands must not overlap."""

    def __init__(self, store: MachineStore, hypervisors: Sequence[Hypervisor]) -> None:
        self._store = store
        self._hypervisors = list(hypervisors)
        self._by_brand = {
            brand: hypervisor for hypervisor in hypervisors for brand in hypervisor.brands
        }
        self.name = hypervisors[0].name
        self.brands: Sequence[str] = tuple(self._by_brand)
        self.features: Sequence[str] = tuple(
            dict.fromkeys(name for hypervisor in hypervisors for name in hypervisor.features)
        )

    def serving(self, vm: Mapping[str, object]) -> Hypervisor:
        """The hypervisor of a VM."""
        return self._by_brand.get(str(vm.get("brand")), self._hypervisors[0])

    def _of(self, uuid: str) -> Hypervisor:
        return self.serving(self._store.get(uuid) or {})

    async def open(self, vms: Sequence[Vm], ended: Changed, changed: Changed) -> None:
        """Open all of them, each with its VMs."""
        opened: list[Hypervisor] = []
        try:
            for hypervisor in self._hypervisors:
                mine = [vm for vm in vms if self.serving(vm) is hypervisor]
                await hypervisor.open(mine, ended, changed)
                opened.append(hypervisor)
        except BaseException:
            for hypervisor in opened:
                await hypervisor.close()
            raise

    async def close(self) -> None:
        """Close all of them."""
        async with contextlib.AsyncExitStack() as stack:
            for hypervisor in self._hypervisors:
                stack.push_async_callback(hypervisor.close)

    def about(self) -> dict[str, object]:
        """The facts that all of them report."""
        return {
            name: value
            for hypervisor in self._hypervisors
            for name, value in hypervisor.about().items()
        }

    def describe(self, vm: Vm) -> Vm:
        """Ask its hypervisor how the VM will be created."""
        return self.serving(vm).describe(vm)

    async def make(self, vm: Vm) -> None:
        """Create what the VM needs."""
        await self.serving(vm).make(vm)

    async def remove(self, uuid: str) -> None:
        """Remove it; if it has no record, every hypervisor is asked to remove it."""
        record = self._store.get(uuid) or {}
        if "brand" in record:
            await self.serving(record).remove(uuid)
            return
        for hypervisor in self._hypervisors:
            await hypervisor.remove(uuid)

    async def start(self, vm: Vm) -> None:
        """Start it."""
        await self.serving(vm).start(vm)

    async def resume(self, uuid: str) -> None:
        """Resume it."""
        await self._of(uuid).resume(uuid)

    async def stop(self, uuid: str, *, force: bool, timeout: float) -> None:
        """Stop it."""
        await self._of(uuid).stop(uuid, force=force, timeout=timeout)

    async def kill(self, uuid: str, signal: int) -> None:
        """Signal its first process."""
        await self._of(uuid).kill(uuid, signal)

    async def state(self, uuid: str) -> RunState:
        """The state its hypervisor reports."""
        return await self._of(uuid).state(uuid)

    async def configure(self, vm: Vm) -> bool:
        """Change it to match ``vm``."""
        return await self.serving(vm).configure(vm)

    async def remake_root(self, vm: Vm) -> None:
        """A fresh root from the image."""
        await self.serving(vm).remake_root(vm)

    async def processes(self, uuid: str) -> dict[str, object]:
        """Its processes."""
        return await self._of(uuid).processes(uuid)

    async def execute(
        self, uuid: str, command: Sequence[str], environment: Mapping[str, str], timeout: float
    ) -> ExecResult:
        """Run a command inside."""
        return await self._of(uuid).execute(uuid, command, environment, timeout)

    async def usage(self, uuid: str) -> DiskUse:
        """Bytes on disk."""
        return await self._of(uuid).usage(uuid)

    def snapshot_files(self, vm: Vm, name: str) -> AbstractAsyncContextManager[GuestRoot]:
        """The tree of a snapshot."""
        return self.serving(vm).snapshot_files(vm, name)

    async def snapshot(self, vm: Vm, name: str) -> None:
        """Snapshot its disks."""
        await self.serving(vm).snapshot(vm, name)

    async def rollback(self, vm: Vm, name: str) -> None:
        """Restore its disks."""
        await self.serving(vm).rollback(vm, name)

    async def drop_snapshot(self, vm: Vm, name: str) -> None:
        """Remove a snapshot."""
        await self.serving(vm).drop_snapshot(vm, name)

    async def exec_command(self, uuid: str, request: ExecRequest) -> HostCommand:
        """The command that runs inside."""
        return await self._of(uuid).exec_command(uuid, request)

    async def stats(self, uuid: str) -> dict[str, object]:
        """Its resource use."""
        return await self._of(uuid).stats(uuid)

    async def files(self, vm: Vm) -> GuestRoot:
        """Its root file system."""
        return await self.serving(vm).files(vm)

    async def info(self, vm: Vm, types: Sequence[str]) -> dict[str, object]:
        """The facts its hypervisor knows."""
        return await self.serving(vm).info(vm, types)

    async def console(self, vm: Vm) -> Path | None:
        """Its serial line."""
        return await self.serving(vm).console(vm)

    async def screenshot(self, vm: Vm) -> bytes:
        """A picture of its screen."""
        return await self.serving(vm).screenshot(vm)

    def volume_format(self, brand: str) -> str:
        """That of the brand's hypervisor."""
        return self.serving({"brand": brand}).volume_format(brand)

    async def attach_volume(self, vm: Vm, entry: Mapping[str, object]) -> None:
        """Give it a volume."""
        await self.serving(vm).attach_volume(vm, entry)

    async def detach_volume(self, vm: Vm, entry: Mapping[str, object]) -> None:
        """Take a volume from it."""
        await self.serving(vm).detach_volume(vm, entry)

    async def grow_volume(self, vm: Vm, entry: Mapping[str, object], size: int) -> None:
        """Make one of its volumes larger."""
        await self.serving(vm).grow_volume(vm, entry, size)

    def still(self, vm: Vm, entry: Mapping[str, object]) -> AbstractAsyncContextManager[None]:
        """Hold its writing into a volume."""
        return self.serving(vm).still(vm, entry)

    async def migrate_live(
        self, vm: Vm, action: str, params: Mapping[str, object]
    ) -> dict[str, object]:
        """One step of a migration."""
        return await self.serving(vm).migrate_live(vm, action, params)

    async def limit_storage(self, vm: Vm, quota_gib: int) -> None:
        """Limit what the VM may write; 0: no limit."""
        await self.serving(vm).limit_storage(vm, quota_gib)

    async def export(
        self,
        vm: Vm,
        target: Path,
        *,
        compression: str,
        incremental: bool,
        max_origin_depth: int,
    ) -> dict[str, object]:
        """Write a stopped VM's image to ``target``."""
        return await self.serving(vm).export(
            vm,
            target,
            compression=compression,
            incremental=incremental,
            max_origin_depth=max_origin_depth,
        )
