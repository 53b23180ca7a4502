"""Volumes of virtual machines: disks that are plugged into a running VM and pulled out of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

from vetro.node.drivers.qemu import domain
from vetro.node.drivers.qemu.daemon import QEMU_UID, LibvirtDaemon
from vetro.node.drivers.qemu.libvirt import Libvirt
from vetro.node.storage.volumes import VolumeStore
from vetro.node.vm_records import Vm, VolumeEntry, volumes_of


class VolumePlugs:
    """Plugs the volumes of one node into its running VMs; ``connect`` gives libvirt."""

    def __init__(
        self, volumes: VolumeStore, daemon: LibvirtDaemon, connect: Callable[[], Awaitable[Libvirt]]
    ) -> None:
        self._volumes = volumes
        self._daemon = daemon
        self._connect = connect

    def own(self, vm: Vm) -> None:
        """Give QEMU the files of a VM's volumes."""
        for entry in volumes_of(vm):
            self._own(entry)

    def _own(self, entry: VolumeEntry) -> None:
        data = self._volumes.data(entry["uuid"])
        os.chown(data, QEMU_UID, QEMU_UID)
        data.chmod(0o600)

    def attached(self, vm: Vm) -> list[domain.DomainVolume]:
        """The volumes of the record: each stays at the unit that it has."""
        return [self._attachment(one) for one in volumes_of(vm)]

    def _attachment(self, entry: VolumeEntry) -> domain.DomainVolume:
        uuid = str(entry["uuid"])
        return domain.DomainVolume(
            uuid,
            self._daemon.seen(self._volumes.data(uuid)),
            int(entry.get("slot") or 0),
            bool(entry.get("read_only")),
        )

    async def plug(self, vm: Vm, entry: VolumeEntry) -> None:
        """Plug a volume in."""
        self._own(entry)
        connection = await self._connect()
        await connection.plug(
            vm["uuid"], domain.volume_xml(self._attachment(entry)), str(entry["uuid"])
        )

    async def unplug(self, vm: Vm, entry: VolumeEntry) -> None:
        """Pull a volume out; what the guest has not flushed is lost."""
        await (await self._connect()).unplug(vm["uuid"], str(entry["uuid"]))

    async def grow(self, vm: Vm, entry: VolumeEntry, size: int) -> None:
        """Grow a volume to ``size`` GiB and notify the guest."""
        await self.resize(vm, self._volumes.data(entry["uuid"]), size * 2**30)

    async def resize(self, vm: Vm, file: Path, size: int) -> None:
        """Grow the disk that a running VM has in ``file`` to ``size`` bytes; the guest is told."""
        path = self._daemon.seen(file)
        connection = await self._connect()
        await connection.with_domain(
            vm["uuid"],
            lambda found: found.blockResize(
                path, size, connection.library.VIR_DOMAIN_BLOCK_RESIZE_BYTES
            ),
        )

    @contextlib.asynccontextmanager
    async def paused(self, vm: Vm) -> AsyncGenerator[None, None]:
        """Pause a VM; it is resumed afterwards in any case."""
        connection = await self._connect()
        await connection.with_domain(vm["uuid"], lambda found: found.suspend())
        try:
            yield
        finally:
            await connection.resume(vm["uuid"])
