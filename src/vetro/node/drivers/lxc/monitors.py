"""LXC's monitor processes: one for each running container, followed by descriptors.

A monitor lives as long as its container and outlives the agent. So the end of a container is an
event, and reading a state starts no program.
"""

from __future__ import annotations

import asyncio
import re
from functools import partial
from pathlib import Path

from vetro.node.commands import run
from vetro.node.errors import DriverError
from vetro.node.processes import (
    FollowedProcess,
    FollowedVms,
    end_all,
    first_child,
    processes_by_pid,
)
from vetro.node.vm_objects import MachineStore


class Monitors(FollowedVms):
    """The monitors of the containers below one LXC path; ``lxc-start`` writes their process ids."""

    def __init__(self, store: MachineStore, lxc_path: Path) -> None:
        super().__init__(lambda uuid: store.path(uuid) / "monitor.pid", self._is_monitor)
        self._path = str(lxc_path)

    def _is_monitor(self, uuid: str, argv: list[str]) -> bool:
        """LXC renames its monitor; before that it is the ``lxc-start`` we gave these arguments."""
        words = " ".join(argv).split()
        return self._path in words and uuid in words and "lxc" in words[0]

    def _on_end(self, uuid: str) -> None:
        self.pid_file(uuid).unlink(missing_ok=True)
        super()._on_end(uuid)

    async def end(self, uuid: str) -> None:
        """Kill the container, whatever state LXC is in. Errors: ``DriverError``."""
        monitor = self.follow(uuid)
        if monitor is not None:
            await run("lxc-stop", "-P", self._path, "-n", uuid, "-k", check=False, timeout=30)
            if await monitor.wait(5):
                return
        # Or it has no known monitor: lxc-start of a killed agent, which forks while we look.
        for _ in range(10):
            strays = [
                pid
                for pid, argv in await asyncio.to_thread(processes_by_pid)
                if argv and self._is_monitor(uuid, argv)
            ]
            if not strays:
                return
            for pid in strays:
                await self._end_stray(uuid, pid)
        raise DriverError(f"VM {uuid}: its processes do not end")

    async def _end_stray(self, uuid: str, pid: int) -> None:
        monitor = FollowedProcess.attach(pid, partial(self._is_monitor, uuid), lambda: None)
        if monitor is None:
            return
        # LXC arranges that the container dies with its monitor; ensure it, and wait for it.
        child = first_child(pid)
        init = FollowedProcess.attach(child, lambda _argv: True, lambda: None) if child else None
        await end_all(uuid, (monitor, init))


def errors_of(log_file: Path) -> str:
    """The errors LXC wrote, without its times and source places."""
    try:
        lines = log_file.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    errors = [line.partition(" ERROR ")[2] for line in lines if " ERROR " in line]
    words = [re.sub(r"^\s*\S+ - \S+ - ", "", text) for text in errors]
    return "; ".join(dict.fromkeys(words[:4]))
