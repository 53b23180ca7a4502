"""Volumes of VMs: attach, detach, grow and copy, whatever the hypervisor.

The VM's record names its volumes (``volumes``: ``uuid``, ``path``, ``read_only``, ``slot``), and the
volume's record names its VM. The VM's is written first: what a killed agent left half done is finished
by the same task again.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

from vetro.node.drivers.by_brand import Hypervisors
from vetro.node.errors import DriverError, vm_not_found
from vetro.node.storage.volumes import VolumeRecord, VolumeStore, in_use
from vetro.node.vm_objects import MachineStore
from vetro.node.vm_records import Vm, VolumeEntry, volumes_of


class VolumeWork:
    """The volumes of one node and the VMs that have them."""

    def __init__(self, hypervisors: Hypervisors, vms: MachineStore, volumes: VolumeStore) -> None:
        self._hypervisors = hypervisors
        self._vms = vms
        self.store = volumes

    def _vm(self, uuid: str) -> Vm:
        vm = self._vms.get(uuid)
        if vm is None or vm.get("mark"):
            raise vm_not_found(uuid)
        return vm

    def format_for(self, brand: str) -> str:
        """The format of volumes for VMs of a brand. Errors: ``NotImplemented``."""
        return self._hypervisors.of({"brand": brand}).volume_format(brand)

    async def create(
        self, uuid: str, format_: str, size: int, source: Path | None = None
    ) -> VolumeRecord:
        """Make a volume; one that exists is kept."""
        async with self.store.locked(uuid):
            return await self.store.create(uuid, format_, size, source)

    async def delete(self, uuid: str) -> None:
        """Remove a volume that no VM has; a missing one is not an error."""
        async with self.store.locked(uuid):
            await self.store.delete(uuid)

    async def attach(self, vm_uuid: str, uuid: str, path: str, *, read_only: bool) -> None:
        """Give a volume to a VM, at once if it runs. Again: nothing.

        Errors: ``VolumeInUse``, ``VolumeNotFound``, ``VmNotFound``, ``InvalidPayload``.
        """
        async with self.store.locked(uuid):
            record, vm = self.store.need(uuid), self._vm(vm_uuid)
            if record.vm not in ("", vm_uuid):
                raise in_use(record)
            wanted = self.format_for(str(vm.get("brand")))
            if record.format != wanted:
                raise DriverError(
                    f"Volume {uuid} is {_WORDS[record.format]}, and VM {vm_uuid} takes"
                    f" {_WORDS[wanted]}",
                    code="EINVAL",
                    rest_code="InvalidPayload",
                )
            others = [one for one in volumes_of(vm) if one["uuid"] != uuid]
            taken = {one["slot"] for one in others}
            slot = next(number for number in range(_SLOTS) if number not in taken)
            entry: VolumeEntry = {"uuid": uuid, "path": path, "read_only": read_only, "slot": slot}
            if len(others) >= _SLOTS - 1:
                raise DriverError(
                    f"VM {vm_uuid} has {len(others)} volumes; it cannot have more",
                    rest_code="ResourceExhausted",
                )
            if any(one["path"] == path for one in others):
                raise DriverError(
                    f"VM {vm_uuid} has another volume at {path}",
                    code="EEXIST",
                    rest_code="InvalidPayload",
                )
            vm["volumes"] = [*others, entry]
            self._vms.save(vm)
            record.vm = vm_uuid
            self.store.save(record)
            try:
                await self._hypervisors.of(vm).attach_volume(vm, entry)
            except BaseException:
                vm["volumes"] = others
                self._vms.save(vm)
                record.vm = ""
                self.store.save(record)
                raise

    async def detach(self, vm_uuid: str, uuid: str) -> None:
        """Take a volume from a VM, at once if it runs; without an error if the VM does not have it."""
        async with self.store.locked(uuid):
            vm = self._vms.get(vm_uuid)
            entry = next(
                (one for one in (volumes_of(vm) if vm else []) if one["uuid"] == uuid), None
            )
            if vm is not None and entry is not None:
                await self._hypervisors.of(vm).detach_volume(vm, entry)
                left = [one for one in volumes_of(vm) if one["uuid"] != uuid]
                vm["volumes"] = left
                self._vms.save(vm)
            record = self.store.find(uuid)
            if record is not None and record.vm == vm_uuid:
                record.vm = ""
                self.store.save(record)

    async def grow(self, uuid: str, size: int) -> None:
        """Make a volume larger, also while a VM uses it."""
        async with self.store.locked(uuid):
            record = self.store.need(uuid)
            if not record.vm:
                await self.store.grow(uuid, size)
                return
            self.store.check_growth(record, size)
            vm = self._vm(record.vm)
            await self._hypervisors.of(vm).grow_volume(vm, _entry(vm, uuid), size)
            record.size = size
            self.store.save(record)

    async def snapshot(self, uuid: str, name: str) -> None:
        """Copy a volume at one moment, also while a VM uses it."""
        async with self.store.locked(uuid), self._still(self.store.need(uuid)):
            await self.store.take(uuid, name)

    async def drop_snapshot(self, uuid: str, name: str) -> None:
        """Remove a snapshot; a missing one is not an error."""
        async with self.store.locked(uuid):
            await self.store.drop(uuid, name)

    async def pack(self, uuid: str, target: Path) -> VolumeRecord:
        """Write a volume, as it is at one moment, compressed into ``target``."""
        name = f"for-{target.name}"
        await self.snapshot(uuid, name)
        try:
            await self.store.pack(self.store.snapshot(uuid, name), target)
        finally:
            await self.drop_snapshot(uuid, name)
        return self.store.need(uuid)

    @contextlib.asynccontextmanager
    async def _still(self, record: VolumeRecord) -> AsyncGenerator[None, None]:
        if not record.vm:
            yield
            return
        vm = self._vm(record.vm)
        async with self._hypervisors.of(vm).still(vm, _entry(vm, record.uuid)):
            yield


#: How many volumes a VM can have: the room on the controller of a virtual machine.
_SLOTS = 128
_WORDS = {"ext4": "a file system, for containers", "qcow2": "a disk, for virtual machines"}


def _entry(vm: Vm, uuid: str) -> VolumeEntry:
    missing: VolumeEntry = {"uuid": uuid, "path": "", "slot": 0}
    return next((one for one in volumes_of(vm) if one["uuid"] == uuid), missing)
