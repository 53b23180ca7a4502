"""The QEMU process of each VM, followed by descriptors: its end is an event without libvirt."""

from __future__ import annotations

import asyncio
import signal as signals
from functools import partial

from vetro.node.drivers.hypervisor import Changed
from vetro.node.drivers.qemu.daemon import LibvirtDaemon
from vetro.node.errors import DriverError
from vetro.node.processes import FollowedProcess, processes_by_pid


class VmProcesses:
    """The QEMU processes of one daemon. ``ended(uuid)`` is called when one has ended."""

    def __init__(self, daemon: LibvirtDaemon) -> None:
        self._daemon = daemon
        self.ended: Changed = lambda _uuid: None
        self._running: dict[str, FollowedProcess] = {}

    def close(self) -> None:
        """Stop following; VMs keep running."""
        for process in self._running.values():
            process.close()
        self._running.clear()

    def forget(self, uuid: str) -> None:
        """Stop following a VM."""
        process = self._running.pop(uuid, None)
        if process is not None:
            process.close()

    def _is_it(self, uuid: str, argv: list[str]) -> bool:
        return any(word.startswith(f"guest={uuid},") for word in argv)

    def follow(self, uuid: str) -> FollowedProcess | None:
        """The process of a VM; ``None`` when it does not run."""
        known = self._running.get(uuid)
        if known is not None and known.running:
            return known
        try:
            pid = int(self._daemon.pid_file(uuid).read_text())
        except (FileNotFoundError, ValueError):
            return None
        found = FollowedProcess.attach(pid, partial(self._is_it, uuid), partial(self._on_end, uuid))
        if found is not None:
            self._running[uuid] = found
        return found

    def _on_end(self, uuid: str) -> None:
        self._running.pop(uuid, None)
        self.ended(uuid)

    async def end(self, uuid: str) -> None:
        """Kill QEMU, whatever state libvirt believes."""
        process = self.follow(uuid)
        if process is None:
            for pid, argv in await asyncio.to_thread(processes_by_pid):
                if self._is_it(uuid, argv) and self._daemon.is_of(pid):
                    process = FollowedProcess.attach(pid, partial(self._is_it, uuid), lambda: None)
        if process is None:
            return
        process.signal(signals.SIGKILL)
        if not await process.wait(10):
            process.close()
            raise DriverError(f"VM {uuid}: process {process.pid} does not end")

    async def end_orphans(self, known: set[str]) -> None:
        """End VMs whose data directory was removed while they ran, or that are incomplete."""
        pids = self._daemon.directory / "run/qemu"
        for path in list(pids.glob("*.pid")) if pids.is_dir() else []:
            if path.stem not in known:
                await self.end(path.stem)
