"""The status sample: VMs, memory and disks (compute-node-agent.md §3)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from vetro.node.drivers import DiskUse, Driver
from vetro.node.errors import DriverError
from vetro.node.files import tree_bytes
from vetro.node.reports.sysinfo import boot_time, memory
from vetro.node.storage.pool import Trees
from vetro.node.vm_objects import SUMMARY, later, timestamp
from vetro.node.vm_records import Vm

_GIB = 2**30
# Counting files is the expensive part of a sample: it is repeated at this interval, in seconds.
_USAGE_AGE = 300.0


class StatusReader:
    """Takes samples; caches disk usage for a while."""

    def __init__(self, driver: Driver, data_dir: Path, pool: str, trees: Trees) -> None:
        self._trees = trees
        self._driver = driver
        self._data_dir = data_dir
        self._pool = pool
        self._usage: dict[str, tuple[float, DiskUse]] = {}
        self._images: tuple[float, int] | None = None
        self._stamp = ""
        # A sample with a later time must show a later state: samples may overtake each other.
        self._reading = asyncio.Lock()

    def _now(self) -> str:
        """The time of a sample, later than the previous one even if the clock was set back."""
        self._stamp = later(self._stamp) if self._stamp else timestamp()
        return self._stamp

    async def sample(self) -> dict[str, object]:
        """The body of a status event."""
        async with self._reading:
            stamp = self._now()
            vms = await self._driver.list(include_dni=True)
        usage = {vm["uuid"]: await self._used(vm["uuid"]) for vm in vms}
        self._usage = {key: value for key, value in self._usage.items() if key in usage}
        stats = await self._trees.stats()
        size, free = stats.size, stats.free
        meminfo = Path("/proc/meminfo").read_text(encoding="utf-8")
        return {
            "vms": {vm["uuid"]: summary(vm) for vm in vms if not vm.get("do_not_inventory")},
            "zpoolStatus": {self._pool: {"bytes_available": free, "bytes_used": size - free}},
            "meminfo": memory(meminfo),
            "diskinfo": diskinfo(vms, usage, await self._images_used(), size, free),
            "boot_time": str(boot_time(Path("/proc/stat").read_text(encoding="utf-8"))),
            "timestamp": stamp,
        }

    async def changes(self, uuids: Collection[str]) -> dict[str, object]:
        """A partial sample: only these VMs; removed or hidden ones are not in it."""
        vms: dict[str, object] = {}
        async with self._reading:
            stamp = self._now()
            for uuid in uuids:
                try:
                    vm = await self._driver.load(uuid, include_dni=False)
                except DriverError:
                    continue
                vms[uuid] = summary(vm)
        return {"vms": vms, "partial": True, "timestamp": stamp}

    async def _used(self, uuid: str) -> DiskUse:
        known = self._usage.get(uuid)
        if known is None or time.monotonic() - known[0] > _USAGE_AGE:
            known = (time.monotonic(), await self._driver.usage(uuid))
            self._usage[uuid] = known
        return known[1]

    async def _images_used(self) -> int:
        known = self._images
        if known is None or time.monotonic() - known[0] > _USAGE_AGE:
            known = (time.monotonic(), await tree_bytes(self._data_dir / "images"))
            self._images = known
        return known[1]


def summary(vm: Vm) -> dict[str, object]:
    """The nine properties of a VM in a status event; the required ones are always present."""
    short: dict[str, object] = {name: vm.get(name) for name in SUMMARY}
    short["quota"] = short["quota"] or 0
    return short


def diskinfo(
    vms: list[Vm], usage: Mapping[str, DiskUse], images_used: int, size: int, free: int
) -> dict[str, int]:
    """How the pool's bytes are used (§3). A VM without quota counts what it uses.

    ``kvm_*`` are of brand kvm alone; everything else, bhyve included, counts as a zone, whose quota
    holds its disks.
    """
    kvm = [vm for vm in vms if vm.get("brand") == "kvm"]
    zones = [vm for vm in vms if vm.get("brand") != "kvm"]

    def used(vm: Vm) -> int:
        return usage[vm["uuid"]].used

    def quota(vm: Vm) -> int:
        return int(vm.get("quota") or 0) * _GIB or used(vm)

    zvol_used = sum(usage[vm["uuid"]].disks_used for vm in kvm)
    kvm_used = sum(max(0, used(vm) - usage[vm["uuid"]].disks_used) for vm in kvm)
    zone_used = sum(used(vm) for vm in zones)
    allocated = size - free
    return {
        "kvm_zvol_used_bytes": zvol_used,
        "kvm_zvol_volsize_bytes": sum(usage[vm["uuid"]].disks_size for vm in kvm),
        "kvm_quota_bytes": sum(quota(vm) for vm in kvm),
        "kvm_quota_used_bytes": kvm_used,
        "zone_quota_bytes": sum(quota(vm) for vm in zones),
        "zone_quota_used_bytes": zone_used,
        "cores_quota_bytes": 0,
        "cores_quota_used_bytes": 0,
        "installed_images_used_bytes": images_used,
        "pool_size_bytes": size,
        "pool_alloc_bytes": allocated,
        "system_used_bytes": max(0, allocated - zvol_used - kvm_used - zone_used - images_used),
    }
