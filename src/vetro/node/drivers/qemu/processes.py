"""The QEMU process of each VM, followed by descriptors: its end is an event without libvirt.

A VM ends by its power button, and its name is free when libvirt has noticed that.
"""

from __future__ import annotations

import asyncio
from functools import partial

import structlog

from vetro.node.drivers.qemu.daemon import LibvirtDaemon
from vetro.node.drivers.qemu.libvirt import Libvirt
from vetro.node.errors import DriverError
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


log = structlog.get_logger(__name__)

# A guest that is still starting ignores its power button, so it is pressed again.
_PRESS_SECONDS = 3.0
_NOTICE_POLL_SECONDS = 0.01


async def ask_to_stop(
    connection: Libvirt, uuid: str, process: FollowedProcess, timeout: float
) -> None:
    """Press the power button until the VM ends or ``timeout`` seconds have passed."""
    deadline = asyncio.get_running_loop().time() + timeout
    while (left := deadline - asyncio.get_running_loop().time()) > 0:
        try:
            await connection.press_power_button(uuid)
        except DriverError as error:
            if process.running:
                log.info("power_button_failed", uuid=uuid, error=str(error))
        if await process.wait(min(_PRESS_SECONDS, left)):
            return


async def name_free(connection: Libvirt, uuid: str) -> None:
    """Wait until libvirt has noticed the end of a VM: until then the name is in use."""
    async with asyncio.timeout(20):
        # libvirt has an event for it, but that needs a thread of its own for a few
        # milliseconds.
        while await connection.exists(uuid):  # noqa: ASYNC110
            await asyncio.sleep(_NOTICE_POLL_SECONDS)
