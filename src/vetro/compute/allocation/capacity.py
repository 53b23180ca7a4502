"""How much of a server is unreserved (allocation.md §5.5).

Numbers are computed VM by VM in stored order, for compatibility: with ratios that are not powers of
two, the last bit, and so the floor, depends on that order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from vetro.compute.allocation.defaults import Defaults
from vetro.compute.allocation.record import GIB, MIB, POOL_SHARE, Record, cores_of, number

RESERVATION_RATIO = 0.15
#: Columns are 64-bit; values beyond this limit fit no machine.
LIMIT = 2**40


@dataclass(frozen=True)
class CapacityRule:
    """The inputs of the formula besides the server; ``ratios`` None means the server's own."""

    ratios: tuple[float, float, float] | None
    kvm_disk_overhead_gib: float
    cpu_uncapped_policy: Literal["in_order", "zero_final"]

    @classmethod
    def of(cls, defaults: Defaults, ratios: tuple[float, float, float] | None) -> CapacityRule:
        """The rule under ``defaults``."""
        return cls(ratios, defaults.kvm_disk_overhead_gib, defaults.cpu_uncapped_policy)


def unreserved(record: Record, rule: CapacityRule) -> tuple[int, int, int]:
    """CPU (100 a core), memory and disk (MiB) that are left; may be negative."""
    server = record.server
    if not isinstance(server.get("sysinfo"), dict):
        return (0, 0, 0)
    cpu_ratio, ram_ratio, disk_ratio = rule.ratios or own_ratios(record)
    cpu: float = 100 * cores_of(record.sysinfo)
    share = server.get("reservation_ratio")
    kept = RESERVATION_RATIO if share is None else number(share)
    ram: float = number(server.get("memory_total_bytes")) / MIB * (1 - kept)
    ram -= number(server.get("reserved_memory_mib"))
    cpu_ratio, ram_ratio = cpu_ratio or 1, ram_ratio or 1
    kvm = 0
    uncapped = False
    for vm in record.vms.values():
        failed = vm.get("state") == "failed"
        brand = vm.get("brand")
        if brand == "kvm":
            kvm += 1
        cap = number(vm.get("cpu_cap"))
        if not cap:
            cpu = 0
            uncapped = True
        elif not failed:
            cpu -= cap / cpu_ratio
        if not failed:
            ram -= number(vm.get("max_physical_memory")) / (
                1 if brand in ("kvm", "bhyve") else ram_ratio
            )
    if uncapped and rule.cpu_uncapped_policy == "zero_final":
        cpu = 0
    disk = _disk(record, disk_ratio or 1, kvm * rule.kvm_disk_overhead_gib * GIB)
    return (_floor(cpu), _floor(ram), _floor(disk / MIB))


def own_ratios(record: Record) -> tuple[float, float, float]:
    """The server's own ratios: CPU, memory, disk."""
    ratios = record.server.get("overprovision_ratios")
    if not isinstance(ratios, dict):
        return (4.0, 1.0, 1.0)
    return (
        number(ratios.get("cpu")),
        number(ratios.get("ram")),
        number(ratios.get("disk")),
    )


def _disk(record: Record, ratio: float, overhead: float) -> float:
    server = record.server
    pool = number(server.get("disk_pool_size_bytes")) * POOL_SHARE
    volumes = number(server.get("disk_kvm_zvol_volsize_bytes")) + overhead
    used = number(server.get("disk_zone_quota_used_bytes"))
    free = number(server.get("disk_zone_quota_bytes")) - used
    left = (
        pool
        - number(server.get("disk_system_used_bytes"))
        - number(server.get("disk_installed_images_used_bytes"))
        - number(server.get("disk_cores_quota_used_bytes"))
        - volumes
        - (used + free / ratio)
    )
    return min(left, pool - number(server.get("disk_pool_alloc_bytes")))


def _floor(value: float) -> int:
    # In this order, NaN (infinite minus infinite) gives the lowest value.
    return math.floor(max(-LIMIT, min(value, LIMIT)))


def warnings(record: Record) -> list[str]:
    """The missing values that the formula counts as 0."""
    found: list[str] = []
    if "disk_zone_quota_used_bytes" not in record.server:
        found.append("disk_zone_quota_used_bytes is missing: counted as 0")
    for uuid, vm in record.vms.items():
        found += [
            f"{name} of VM {uuid} is missing: counted as 0"
            for name in ("max_physical_memory", "quota")
            if vm.get(name) is None
        ]
    return found
