"""The QEMU process of each VM, followed by descriptors: its end is an event without libvirt."""

from __future__ import annotations

import asyncio
from functools import partial

from vetro.node.drivers.qemu.daemon import LibvirtDaemon
from vetro.node.processes import FollowedProcess, FollowedVms, end_all, processes_by_pid


class VmProcesses(FollowedVms):
    """The QEMU processes of one daemon."""

    def __init__(self, daemon: LibvirtDaemon) -> None:
        super().__init__(daemon.pid_file, self._is_it)
        self._daemon = daemon

    def _is_it(self, uuid: str, argv: list[str]) -> bool:
        return any(word.startswith(f"guest={uuid},") for word in argv)

    async def end(self, uuid: str) -> None:
        """Kill QEMU, whatever state libvirt believes."""
        process = self.follow(uuid)
        if process is None:
            for pid, argv in await asyncio.to_thread(processes_by_pid):
                if self._is_it(uuid, argv) and self._daemon.is_of(pid):
                    process = FollowedProcess.attach(pid, partial(self._is_it, uuid), lambda: None)
        await end_all(uuid, (process,))

    async def end_orphans(self, known: set[str]) -> None:
        """End VMs whose data directory was removed while they ran, or that are incomplete."""
        pids = self._daemon.directory / "run/qemu"
        for path in list(pids.glob("*.pid")) if pids.is_dir() else []:
            if path.stem not in known:
                await self.end(path.stem)
