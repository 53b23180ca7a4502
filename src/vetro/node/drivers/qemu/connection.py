"""The libvirt daemon and a connection to it, both kept up while the agent runs.

The daemon starts in the background with the agent. Meanwhile the agent finds out whether KVM works
and what QEMU supports; the first VM waits for that. A daemon that dies is restarted: at once if it
had worked, else when it is next needed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import structlog

from vetro.node.drivers.qemu import accel
from vetro.node.drivers.qemu.accel import Accelerator
from vetro.node.drivers.qemu.daemon import LibvirtDaemon
from vetro.node.drivers.qemu.libvirt import Libvirt
from vetro.node.errors import NodeError

log = structlog.get_logger(__name__)

# A daemon that dies sooner would only die again.
_WORKED_SECONDS = 10.0


async def _nobody(_libvirt: Libvirt) -> None:
    """No callback for new connections."""


class LibvirtLink:
    """The daemon in ``directory`` and the connection to it (``shared``: see ``LibvirtDaemon``).

    ``connected(libvirt)`` is awaited for each new connection; ``found()`` is called when the
    machine's capabilities are known and ``accelerator`` is set. Before, ``accelerator`` is
    ``None``.
    """

    def __init__(self, directory: Path, shared: Mapping[str, Path]) -> None:
        self.daemon = LibvirtDaemon(directory, shared, self._died)
        self.libvirt = Libvirt()
        self.accelerator: Accelerator | None = None
        self.connected: Callable[[Libvirt], Awaitable[None]] = _nobody
        self.found: Callable[[], None] = lambda: None
        self.worked_seconds = _WORKED_SECONDS
        self._ready: asyncio.Task[None] | None = None
        self._revival: asyncio.Task[None] | None = None
        self._bringing_up = asyncio.Lock()
        self._since = 0.0

    def open(self) -> None:
        """Begin to start the daemon."""
        self._ready = asyncio.create_task(self._first(), name="libvirt")

    async def _first(self) -> None:
        try:
            self.daemon.directory.mkdir(mode=0o711, parents=True, exist_ok=True)
            self.accelerator = await accel.choose(self.daemon.directory)
            self.found()
            await self._bring_up(self.accelerator)
        except NodeError as error:
            log.error("vms_unavailable", error=str(error))
            return
        log.info("vms_available", accelerator=self.accelerator.name)

    async def _bring_up(self, accelerator: Accelerator) -> None:
        await self.daemon.start(accelerator.name)
        self._since = asyncio.get_running_loop().time()
        await self.libvirt.open(self.daemon.socket)
        await self.connected(self.libvirt)

    async def settled(self) -> None:
        """Wait until the first attempt has ended."""
        if self._ready is not None:
            await asyncio.shield(self._ready)

    async def connection(self) -> Libvirt:
        """libvirt, as soon as it can be used; a daemon that died is restarted."""
        await self.settled()
        async with self._bringing_up:
            if not (self.daemon.running and await self.libvirt.alive()):
                log.warning("libvirtd_restarted")
                await self.libvirt.close()
                if self.accelerator is None:
                    self.accelerator = await accel.choose(self.daemon.directory)
                    self.found()
                await self._bring_up(self.accelerator)
        return self.libvirt

    def _died(self) -> None:
        if asyncio.get_running_loop().time() - self._since < self.worked_seconds:
            log.error("libvirtd_ended_early", effect="it is started again when it is needed")
            return
        if self._revival is None or self._revival.done():
            self._revival = asyncio.create_task(self._revive(), name="libvirt revival")

    async def _revive(self) -> None:
        try:
            await self.connection()
        except NodeError as error:
            log.error("libvirtd_not_started", error=str(error))

    async def close(self) -> None:
        """Stop the daemon; VMs keep running."""
        ready, self._ready = self._ready, None
        if ready is not None:
            with contextlib.suppress(NodeError):
                await ready
        revival, self._revival = self._revival, None
        if revival is not None:
            await revival
        await self.libvirt.close()
        await self.daemon.stop()
        self.libvirt.shut()
