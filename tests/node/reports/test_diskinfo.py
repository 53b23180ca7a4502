"""Status samples: where a pool's bytes went, and when they were taken."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import vetro.node.vm_objects
from vetro.node.drivers import DiskUse
from vetro.node.reports.status import StatusReader, diskinfo
from vetro.node.storage.directory import DirectoryTrees

GIB = 2**30


def test_kvm_disks_are_counted_apart_and_bhyve_as_zones() -> None:
    """Disks of kvm VMs are zvols; a bhyve VM's quota holds its disks; no quota counts the usage."""
    vms = [
        {"uuid": "k", "brand": "kvm", "quota": 10},
        {"uuid": "b", "brand": "bhyve", "quota": 20},
        {"uuid": "c", "brand": "lx", "quota": 0},
    ]
    usage = {
        "k": DiskUse(5 * GIB, disks_used=4 * GIB, disks_size=8 * GIB),
        "b": DiskUse(3 * GIB, disks_used=3 * GIB, disks_size=9 * GIB),
        "c": DiskUse(2 * GIB),
    }
    info = diskinfo(vms, usage, images_used=GIB, size=100 * GIB, free=80 * GIB)
    in_gib = {name: value // GIB for name, value in info.items()}
    assert in_gib == {
        "kvm_zvol_used_bytes": 4,
        "kvm_zvol_volsize_bytes": 8,
        "kvm_quota_bytes": 10,
        "kvm_quota_used_bytes": 1,
        "zone_quota_bytes": 22,
        "zone_quota_used_bytes": 5,
        "cores_quota_bytes": 0,
        "cores_quota_used_bytes": 0,
        "installed_images_used_bytes": 1,
        "pool_size_bytes": 100,
        "pool_alloc_bytes": 20,
        "system_used_bytes": 9,
    }


async def test_samples_follow_each_other_when_the_clock_is_put_back(
    simulation: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service ignores older ones: without this a node would be silent for an hour."""
    clock = SimpleNamespace(now="2026-01-01T12:00:00.000Z")
    real = vetro.node.vm_objects.timestamp
    monkeypatch.setattr(
        "vetro.node.vm_objects.timestamp", lambda at=None: clock.now if at is None else real(at)
    )
    monkeypatch.setattr("vetro.node.reports.status.timestamp", lambda: clock.now)
    reader = StatusReader(simulation.driver, tmp_path, "zones", DirectoryTrees(tmp_path))
    first = (await reader.changes([]))["timestamp"]
    clock.now = "2026-01-01T11:00:00.000Z"
    second = (await reader.changes([]))["timestamp"]
    third = (await reader.changes([]))["timestamp"]
    assert first < second < third < "2026-01-01T12:00:01.000Z"
    clock.now = "2026-01-01T13:00:00.000Z"
    assert (await reader.changes([]))["timestamp"] == clock.now


async def test_who_has_the_later_time_has_seen_the_later_state(
    simulation: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole sample that was begun first does not look newer than a partial one read after it."""
    listing, go_on = asyncio.Event(), asyncio.Event()
    driver = simulation.driver

    class Slow:
        async def list(self, *, include_dni: bool) -> list[Any]:
            listing.set()
            found = await driver.list(include_dni=include_dni)
            await go_on.wait()
            return list(found)

        async def load(self, uuid: str, *, include_dni: bool) -> Any:
            return {"uuid": uuid}

    reader = StatusReader(cast("Any", Slow()), tmp_path, "zones", DirectoryTrees(tmp_path))
    async with asyncio.TaskGroup() as group:
        whole = group.create_task(reader.sample())
        await listing.wait()
        partial = group.create_task(reader.changes(["a"]))
        go_on.set()
    assert whole.result()["timestamp"] < partial.result()["timestamp"]
