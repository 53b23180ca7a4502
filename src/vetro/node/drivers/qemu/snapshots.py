"""Snapshots of running virtual machines, through QEMU's monitor; those of stopped ones are `disks`'."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from vetro.node.drivers.qemu import disks
from vetro.node.drivers.qemu.daemon import LibvirtDaemon
from vetro.node.drivers.qemu.inside import Inside
from vetro.node.drivers.qemu.libvirt import Libvirt
from vetro.node.vm_objects import MachineStore
from vetro.node.vm_records import Vm, disks_of


@dataclass(eq=False, repr=False)
class RunningSnapshots:
    """Takes and removes snapshots of running VMs; ``connect`` gives libvirt."""

    store: MachineStore
    daemon: LibvirtDaemon
    inside: Inside
    connect: Callable[[], Awaitable[Libvirt]]

    async def _nodes(self, vm: Vm) -> dict[str, str]:
        files = disks.seen_files(self.store.path(vm["uuid"]), vm, self.daemon)
        return await self.inside.disk_nodes(vm["uuid"], files)

    async def take(self, vm: Vm, name: str) -> None:
        """Snapshot all disks at one moment, as after a power cut; one of the same name is replaced."""
        await self.drop(vm, name)
        connection = await self.connect()
        actions = [
            {"type": "blockdev-snapshot-internal-sync", "data": {"device": node, "name": name}}
            for node in (await self._nodes(vm)).values()
        ]
        await connection.monitor(vm["uuid"], "transaction", actions=actions)

    async def drop(self, vm: Vm, name: str) -> None:
        """Remove a snapshot of the disks that have it."""
        connection = await self.connect()
        nodes = await self._nodes(vm)
        directory = self.store.path(vm["uuid"])
        for disk in disks_of(vm):
            if name in await disks.snapshot_names(disks.file_of(directory, disk)):
                await connection.monitor(
                    vm["uuid"],
                    "blockdev-snapshot-delete-internal-sync",
                    device=nodes[disk["path"]],
                    name=name,
                )
