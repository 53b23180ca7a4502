"""How much of the processors a virtual machine gets: a control group for each, of the agent's own.

libvirt would make them only where systemd or a delegated tree gives it one (decision 0045). QEMU is put into
its group right after its start, with all its threads; what it starts later is born there. Groups lie
at the top of the hierarchy, as LXC's do: there the agent's own service has no say over them, and a
service that is stopped with all it started leaves the VMs alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import structlog

from vetro.node.drivers.control_groups import UNIFIED, cpu_settings, hierarchies

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
        """Those of this agent; ``None`` where processor time cannot be limited.

        ``name`` tells them from other agents' on this machine. ``mounts``: as ``hierarchies`` says.
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
            log.warning("Processor time of VMs cannot be limited here", error=str(error))
            return None
        return found

    def _open(self) -> None:
        self._top.mkdir(exist_ok=True)
        if self._version == "v2":
            _hand_down(self._top)

    def group(self, uuid: str) -> Path:
        """The directory of a VM's group."""
        return self._top / uuid

    def limit(self, vm: Mapping[str, Any], pid: int) -> None:
        """Bring a VM that runs as ``pid`` to its ``cpu_cap`` and ``cpu_shares``.

        One that has just ended is left alone. What cannot be limited is logged: the VM runs.
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
            log.error("A VM's processor time is not limited", uuid=vm["uuid"], error=str(error))

    async def remove(self, uuid: str) -> None:
        """Remove the group of a VM that has ended. The kernel may need a moment to empty it."""
        for _ in range(_REMOVE_TRIES):
            try:
                self.group(uuid).rmdir()
            except FileNotFoundError:
                return
            except OSError:
                await asyncio.sleep(_REMOVE_PAUSE)
        log.warning("The control group of a VM stays", uuid=uuid)

    def sweep(self, known: Collection[str] = ()) -> None:
        """Remove the groups of VMs that do not run, and the common one when none is left."""
        with contextlib.suppress(OSError):
            for group in self._top.iterdir():
                if group.is_dir() and group.name not in known:
                    with contextlib.suppress(OSError):
                        group.rmdir()
            self._top.rmdir()


def _hand_down(group: Path) -> None:
    """Let the groups inside have limits of their own. Errors: ``OSError``."""
    control = group / "cgroup.subtree_control"
    if "cpu" not in control.read_text().split():
        control.write_text("+cpu")
