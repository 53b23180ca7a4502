"""Control groups of version 2 are files in a directory here: most machines mount one version only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vetro.node.drivers.control_groups import cpu_settings, hierarchies
from vetro.node.drivers.qemu.limits import CpuGroups

UUID = "11111111-1111-4111-8111-111111111111"


def unified(directory: Path, controllers: str = "cpuset cpu io memory pids") -> dict[str, Path]:
    """The top of version 2's hierarchy, as the kernel shows it."""
    (directory / "cgroup.controllers").write_text(f"{controllers}\n")
    (directory / "cgroup.subtree_control").write_text("memory pids\n")
    return {"unified": directory}


def test_mounts_are_found() -> None:
    """Every controller of version 1 by its name, also those that share a mount, and version 2's."""
    mountinfo = (
        "25 20 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
        "30 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
        "31 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        "short line\n"
    )
    found = hierarchies(mountinfo)
    assert found["cpu"] == found["cpuacct"] == Path("/sys/fs/cgroup/cpu,cpuacct")
    assert found["unified"] == Path("/sys/fs/cgroup/unified")
    assert Path("/sys/fs/cgroup") not in found.values()


@pytest.mark.parametrize(
    ("vm", "version", "settings"),
    [
        ({"cpu_cap": 150}, "v1", ["cpu.cfs_quota_us 150000", "cpu.shares 1024"]),
        ({"cpu_cap": 150, "cpu_shares": 50}, "v2", ["cpu.max 150000 100000", "cpu.weight 50"]),
        ({}, "v1", ["cpu.cfs_quota_us -1", "cpu.shares 1024"]),
        ({"cpu_cap": 0}, "v2", ["cpu.max max 100000", "cpu.weight 100"]),
        # The kernel's own bounds.
        ({"cpu_cap": 0.2, "cpu_shares": 0.1}, "v1", ["cpu.cfs_quota_us 1000", "cpu.shares 2"]),
        ({"cpu_shares": 20000}, "v2", ["cpu.max max 100000", "cpu.weight 10000"]),
    ],
)
def test_caps_and_shares(vm: dict[str, Any], version: str, settings: list[str]) -> None:
    """A cap is in percent of a core, shares are 100 for an ordinary VM."""
    assert [f"{name} {value}" for name, value in cpu_settings(vm, version)] == settings


def test_limits_of_version_2_are_written(tmp_path: Path) -> None:
    """The controller is handed down, and the VM's group has cap, shares and process."""
    mounts = unified(tmp_path)
    # The kernel makes this file in every group.
    (tmp_path / "vetro.vt-abc").mkdir()
    (tmp_path / "vetro.vt-abc/cgroup.subtree_control").write_text("cpu\n")
    groups = CpuGroups.find("vt-abc", mounts)
    assert groups is not None
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu"
    groups.limit({"uuid": UUID, "cpu_cap": 50}, 4321)
    group = tmp_path / "vetro.vt-abc" / UUID
    assert {path.name: path.read_text() for path in group.iterdir()} == {
        "cpu.max": "50000 100000",
        "cpu.weight": "100",
        "cgroup.procs": "4321",
    }


@pytest.mark.parametrize("mounts", ["none", "without"])
def test_a_machine_that_cannot_limit_says_so(tmp_path: Path, mounts: str) -> None:
    """No hierarchy at all, or one without the controller: there are no groups, and no feature."""
    given = {} if mounts == "none" else unified(tmp_path, "memory pids")
    assert CpuGroups.find("vt-abc", given) is None
    assert not (tmp_path / "vetro.vt-abc").exists()


def test_a_hierarchy_that_refuses_is_no_hierarchy(tmp_path: Path) -> None:
    """In a container the top may have processes of its own: then nothing can be handed down."""
    mounts = unified(tmp_path)
    (tmp_path / "cgroup.subtree_control").unlink()
    (tmp_path / "cgroup.subtree_control").mkdir()
    assert CpuGroups.find("vt-abc", mounts) is None


async def test_groups_that_nobody_uses_are_swept(tmp_path: Path) -> None:
    """A killed agent's groups are removed; a known VM's group stays, with the common one."""
    for name in (UUID, "22222222-2222-4222-8222-222222222222"):
        (tmp_path / "vetro.vt-abc" / name).mkdir(parents=True)
    groups = CpuGroups.find("vt-abc", {"cpu": tmp_path})
    assert groups is not None
    groups.sweep([UUID])
    assert [path.name for path in (tmp_path / "vetro.vt-abc").iterdir()] == [UUID]
    await groups.remove(UUID)
    await groups.remove(UUID)
    groups.sweep()
    assert list(tmp_path.iterdir()) == []
