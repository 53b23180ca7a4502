"""Virtual machines that stand still, and why: QEMU stops one whose disk cannot be written.

libvirt tells of it by an event. An event is a hint only: what is so is asked of libvirt then, and of all
VMs whenever a connection is new. So nothing is missed while no agent runs.
"""

from __future__ import annotations

import asyncio

import structlog

from vetro.node.drivers.protocol import Changed
from vetro.node.drivers.qemu_libvirt import Libvirt
from vetro.node.errors import DriverError

log = structlog.get_logger(__name__)


class FrozenVms:
    """Those of one agent. ``changed(uuid)`` is called when one stops to run or goes on."""

    def __init__(self) -> None:
        self.changed: Changed = lambda _uuid: None
        self._reasons: dict[str, str] = {}
        self._looks: set[asyncio.Task[None]] = set()
        self._one_at_a_time = asyncio.Lock()

    def reason(self, uuid: str) -> str | None:
        """``disk-full``, ``io-error``, ``paused`` or ``watchdog``; ``None``: it does not stand still."""
        return self._reasons.get(uuid)

    async def attach(self, libvirt: Libvirt) -> None:
        """Listen to a new connection, and look at everything once."""
        loop = asyncio.get_running_loop()

        def hint(uuid: str) -> None:
            # In libvirt's thread.
            loop.call_soon_threadsafe(begin, uuid)

        def begin(uuid: str) -> None:
            task = asyncio.create_task(self.look(libvirt, uuid), name="look at a VM")
            self._looks.add(task)
            task.add_done_callback(self._looks.discard)

        await libvirt.listen(hint)
        for uuid in await libvirt.running():
            await self.look(libvirt, uuid)

    async def look(self, libvirt: Libvirt, uuid: str) -> None:
        """Bring what is known of a VM up to date."""
        async with self._one_at_a_time:
            try:
                reason = await libvirt.paused_reason(uuid)
            except DriverError as error:
                # The next connection looks again.
                log.info("libvirt does not say how a VM is", uuid=uuid, error=str(error))
                return
            before = self._reasons.pop(uuid, None)
            if reason is not None:
                self._reasons[uuid] = reason
        if reason != before:
            if reason is not None:
                log.warning("A VM stands still", uuid=uuid, reason=reason)
            self.changed(uuid)

    def forget(self, uuid: str) -> None:
        """It has ended."""
        self._reasons.pop(uuid, None)

    async def close(self) -> None:
        """Wait for the looks on their way."""
        await asyncio.gather(*self._looks, return_exceptions=True)
