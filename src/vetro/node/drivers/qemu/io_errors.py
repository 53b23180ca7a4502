"""Frozen virtual machines and the reason: QEMU stops a VM whose disk cannot be written.

libvirt reports it by an event. An event is only a hint: the agent then asks libvirt for the actual
state, and does so for all VMs on every new connection. So nothing is missed while no agent runs.
"""

from __future__ import annotations

import asyncio

import structlog

from vetro.node.drivers.hypervisor import Changed
from vetro.node.drivers.qemu.libvirt import Libvirt
from vetro.node.errors import DriverError

log = structlog.get_logger(__name__)


class FrozenVms:
    """The frozen VMs of one agent. ``changed(uuid)`` is called when a VM freezes or resumes."""

    def __init__(self) -> None:
        self.changed: Changed = lambda _uuid: None
        self._reasons: dict[str, str] = {}
        self._looks: set[asyncio.Task[None]] = set()
        self._one_at_a_time = asyncio.Lock()

    def reason(self, uuid: str) -> str | None:
        """``disk-full``, ``io-error``, ``paused`` or ``watchdog``; ``None``: it is not frozen."""
        return self._reasons.get(uuid)

    async def attach(self, libvirt: Libvirt) -> None:
        """Listen on a new connection, and check every VM once."""
        loop = asyncio.get_running_loop()

        def hint(uuid: str) -> None:
            # Runs in libvirt's thread.
            loop.call_soon_threadsafe(begin, uuid)

        def begin(uuid: str) -> None:
            task = asyncio.create_task(self.look(libvirt, uuid), name="look at a VM")
            self._looks.add(task)
            task.add_done_callback(self._looks.discard)

        await libvirt.listen(hint)
        for uuid in await libvirt.running():
            await self.look(libvirt, uuid)

    async def look(self, libvirt: Libvirt, uuid: str) -> None:
        """Update what is known of a VM."""
        async with self._one_at_a_time:
            try:
                reason = await libvirt.paused_reason(uuid)
            except DriverError as error:
                # The next connection checks again.
                log.info("vm_state_unknown", uuid=uuid, error=str(error))
                return
            before = self._reasons.pop(uuid, None)
            if reason is not None:
                self._reasons[uuid] = reason
        if reason != before:
            if reason is not None:
                log.warning("vm_paused_by_error", uuid=uuid, reason=reason)
            self.changed(uuid)

    def forget(self, uuid: str) -> None:
        """Forget a VM that has ended."""
        self._reasons.pop(uuid, None)

    async def close(self) -> None:
        """Wait for the checks in progress."""
        await asyncio.gather(*self._looks, return_exceptions=True)
