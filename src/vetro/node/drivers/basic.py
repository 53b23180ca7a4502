"""The optional parts of the hypervisor protocol: each refuses by default."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from vetro.node.drivers.protocol import ExecRequest, HostCommand
from vetro.node.errors import not_implemented
from vetro.node.guest.root import GuestRoot
from vetro.node.vm_records import Vm


class BasicHypervisor:
    """The base of every hypervisor: what it does not override is refused with ``NotImplemented``."""

    name = "basic"

    def about(self) -> dict[str, object]:
        """Nothing besides its features."""
        return {}

    async def resume(self, uuid: str) -> None:
        """VMs are never frozen."""
        raise not_implemented("Resuming a VM", self.name)

    async def snapshot(self, vm: Vm, name: str) -> None:
        """No snapshots."""
        raise not_implemented("A snapshot of a VM", self.name)

    async def rollback(self, vm: Vm, name: str) -> None:
        """No snapshots."""
        raise not_implemented("Rolling back to a snapshot", self.name)

    async def drop_snapshot(self, vm: Vm, name: str) -> None:
        """No snapshots: there is none to drop."""

    def snapshot_files(self, vm: Vm, name: str) -> AbstractAsyncContextManager[GuestRoot]:
        """No snapshots whose files could be read."""
        raise not_implemented("Access to the files of a VM's snapshot", self.name)

    async def exec_command(self, uuid: str, request: ExecRequest) -> HostCommand:
        """Commands cannot be run inside from the host."""
        raise not_implemented("Running a command inside a VM", self.name)

    async def stats(self, uuid: str) -> dict[str, object]:
        """Nothing is measured."""
        raise not_implemented("Statistics of a VM", self.name)

    async def files(self, vm: Vm) -> GuestRoot:
        """The host cannot access the guest's files."""
        raise not_implemented("Access to a VM's files", self.name)

    async def limit_storage(self, vm: Vm, quota_gib: int) -> None:
        """No limit is set."""

    async def info(self, vm: Vm, types: Sequence[str]) -> dict[str, object]:
        """Nothing besides ``status``, which every driver reports."""
        return {}

    async def console(self, vm: Vm) -> Path | None:
        """Console output goes into the VM's ``console.log`` only."""
        return None

    async def screenshot(self, vm: Vm) -> bytes:
        """There is no screen."""
        raise not_implemented("A screenshot of a VM", self.name)

    async def export(
        self,
        vm: Vm,
        target: Path,
        *,
        compression: str,
        incremental: bool,
        max_origin_depth: int,
    ) -> dict[str, object]:
        """Images cannot be created."""
        raise not_implemented("An image of a VM", self.name)

    def volume_format(self, brand: str) -> str:
        """No volumes."""
        raise not_implemented("A volume", self.name)

    async def attach_volume(self, vm: Vm, entry: Mapping[str, object]) -> None:
        """No volumes."""
        raise not_implemented("A volume", self.name)

    async def detach_volume(self, vm: Vm, entry: Mapping[str, object]) -> None:
        """No volumes: the VM has none."""

    async def grow_volume(self, vm: Vm, entry: Mapping[str, object], size: int) -> None:
        """No volumes."""
        raise not_implemented("A volume", self.name)

    def still(self, vm: Vm, entry: Mapping[str, object]) -> AbstractAsyncContextManager[None]:
        """Nothing writes into volumes."""
        return contextlib.nullcontext()

    async def migrate_live(
        self, vm: Vm, action: str, params: Mapping[str, object]
    ) -> dict[str, object]:
        """Running VMs cannot be moved."""
        raise not_implemented(f"Moving a running VM ({action})", self.name)
