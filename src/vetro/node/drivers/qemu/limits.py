"""Processor limits of virtual machines: the agent creates a control group for each.

libvirt would create them only where systemd or a delegated tree provides one (decision 0045). QEMU,
with all its threads, is moved into its group right after it starts; threads it starts later belong
to the group. Groups are at the top of the hierarchy, as LXC's are: the limits of the agent's own
service do not apply there, and stopping that service with all its processes does not affect the
VMs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from pathlib import Path

import structlog

from vetro.node.drivers.control_groups import UNIFIED, cpu_settings, hierarchies
from vetro.node.vm_records import Vm

log = structlog.get_logger(__name__)

_REMOVE_TRIES = 100
_REMOVE_PAUSE = 0.02


class CpuGroups:
    """The groups below ``top``, of version ``v1`` or ``v2``."""

    def __init__(self, top: Path, version: str) -> None:
        self._top = top
        self._version = version

    @classmethod
    def find(cls, name: str, mounts: Mapping[str, Path] | None = None) -> CpuGroups | None:
        """The groups of this agent; ``None`` where processor time cannot be limited.

        ``name`` distinguishes agents on this machine. ``mounts``: as ``hierarchies`` returns them.
        """
        mounts = hierarchies() if mounts is None else mounts
        if "cpu" in mounts:
            top, version = mounts["cpu"], "v1"
        elif UNIFIED in mounts:
            top, version = mounts[UNIFIED], "v2"
        else:
            return None
        found = cls(top / f"vetro.{name}", version)
        try:
            if version == "v2":
                if "cpu" not in (top / "cgroup.controllers").read_text().split():
                    return None
                _hand_down(top)
            found._open()
        except OSError as error:
            log.warning("cpu_limits_unavailable", error=str(error))
            return None
        return found

    def _open(self) -> None:
        self._top.mkdir(exist_ok=True)
        if self._version == "v2":
            _hand_down(self._top)

    def group(self, uuid: str) -> Path:
        """The directory of a VM's group."""
        return self._top / uuid

    def limit(self, vm: Vm, pid: int) -> None:
        """Apply ``cpu_cap`` and ``cpu_shares`` to a VM that runs as ``pid``.

        A VM that has just ended is ignored. A limit that cannot be set is logged: the VM runs.
        """
        group = self.group(vm["uuid"])
        try:
            self._open()
            group.mkdir(exist_ok=True)
            for name, value in cpu_settings(vm, self._version):
                (group / name).write_text(value)
            (group / "cgroup.procs").write_text(str(pid))
        except ProcessLookupError:
            return
        except OSError as error:
            log.error("cpu_limit_not_set", uuid=vm["uuid"], error=str(error))

    async def remove(self, uuid: str) -> None:
        """Remove the group of a VM that has ended. The kernel may need a moment to empty it."""
        for _ in range(_REMOVE_TRIES):
            try:
                self.group(uuid).rmdir()
            except FileNotFoundError:
                return
            except OSError:
                await asyncio.sleep(_REMOVE_PAUSE)
        log.warning("control_group_not_removed", uuid=uuid)

    def sweep(self, known: Collection[str] = ()) -> None:
        """Remove the groups of VMs that do not run, and the parent group when it is empty."""
        with contextlib.suppress(OSError):
            for group in self._top.iterdir():
                if group.is_dir() and group.name not in known:
                    with contextlib.suppress(OSError):
                        group.rmdir()
            self._top.rmdir()


def _hand_down(group: Path) -> None:
    """Enable limits for the groups inside. Errors: ``OSError``."""
    control = group / "cgroup.subtree_control"
    if "cpu" not in control.read_text().split():
        control.write_text("+cpu")
