"""Control groups of this machine: of version 1, of version 2, or both side by side."""

from __future__ import annotations

import contextlib
from pathlib import Path

from vetro.node.vm_records import Vm

UNIFIED = "unified"
"""The key of the version 2 hierarchy among the controllers of version 1."""

_TOP = Path("/sys/fs/cgroup")
_PERIOD = 100_000
# The kernel accepts no lower value: one percent of a core.
_LEAST_QUOTA = 1000


def hierarchies(mountinfo: str | None = None) -> dict[str, Path]:
    """Where each controller of version 1 is mounted, and ``unified``, read from ``mountinfo``."""
    if mountinfo is None:
        mountinfo = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    found: dict[str, Path] = {}
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, (kind, _source, options) = left.split(" "), [*right.split(" "), "", "", ""][:3]
        if len(fields) < 5:
            continue
        if kind == "cgroup2":
            found[UNIFIED] = Path(fields[4])
        elif kind == "cgroup":
            for option in options.split(","):
                found[option] = Path(fields[4])
    return found


def groups_of(pid: int, name: str) -> dict[str, Path]:
    """A process's control groups: controller → directory, ``unified`` for version 2.

    It may have moved deeper itself: the group that carries the limits is the one with ``name`` in
    it.
    """
    mounts = hierarchies()
    found: dict[str, Path] = {}
    try:
        text = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return {}
    for line in text.splitlines():
        _number, controllers, path = line.split(":", 2)
        parts = path.strip("/").split("/")
        depth = next((i + 1 for i, part in enumerate(parts) if name in part), len(parts))
        for controller in controllers.split(",") if controllers else [UNIFIED]:
            if controller in mounts:
                found[controller] = mounts[controller].joinpath(*parts[:depth])
    return found


def remove_groups(pattern: str) -> None:
    """Remove the groups of this name at the top of every hierarchy, with their subgroups."""
    for group in (*_TOP.glob(pattern), *_TOP.glob(f"*/{pattern}")):
        for inner in sorted(group.rglob("*/"), reverse=True):
            with contextlib.suppress(OSError):
                inner.rmdir()
        with contextlib.suppress(OSError):
            group.rmdir()


def cpu_settings(vm: Vm, version: str) -> list[tuple[str, str]]:
    """``(file, value)`` of a VM's ``cpu_cap`` (percent of a core) and ``cpu_shares``."""
    cap = vm.get("cpu_cap")
    quota = max(_LEAST_QUOTA, int(float(cap) * _PERIOD / 100)) if cap else 0
    shares = int(vm.get("cpu_shares") or 100)
    if version == "v2":
        return [
            ("cpu.max", f"{quota or 'max'} {_PERIOD}"),
            ("cpu.weight", str(max(1, min(10000, shares)))),
        ]
    return [
        ("cpu.cfs_quota_us", str(quota or -1)),
        ("cpu.shares", str(max(2, shares * 1024 // 100))),
    ]
