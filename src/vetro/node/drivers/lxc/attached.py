"""The volumes of containers: mounted on the host, and shown in what runs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from vetro.node.drivers.hypervisor import RunState
from vetro.node.drivers.lxc import volumes
from vetro.node.drivers.lxc.config import ContainerHost, id_base_of
from vetro.node.drivers.lxc.roots import GIB, Roots
from vetro.node.errors import DriverError
from vetro.node.guest.root import ID_COUNT
from vetro.node.storage.idmapped import IdMapping
from vetro.node.storage.mounts import unmount
from vetro.node.storage.volumes import VolumeStore
from vetro.node.vm_records import Vm, VolumeEntry, volumes_of


@dataclass(eq=False, repr=False)
class AttachedVolumes:
    """The volumes of one agent's containers. ``state``: how a container runs."""

    host: ContainerHost
    roots: Roots
    store: VolumeStore
    state: Callable[[str], Awaitable[RunState]]

    def __post_init__(self) -> None:
        self._mappings: dict[int, IdMapping] = {}

    def close(self) -> None:
        """Close the mappings; mounts stay."""
        for mapping in self._mappings.values():
            mapping.close()
        self._mappings.clear()

    def config_lines(self, vm: Vm) -> str:
        """The lines of LXC's configuration that show the volumes in the container."""
        shown = [(self.place(vm, one), str(one["path"])) for one in volumes_of(vm)]
        return "".join(f"{line}\n" for line in volumes.mount_entries(shown))

    def place(self, vm: Vm, entry: VolumeEntry) -> Path:
        """Where the host mounts a volume of a container."""
        return self.roots.path(vm["uuid"]).parent / f"volume-{entry['uuid']}"

    async def mount(self, vm: Vm, entry: VolumeEntry) -> None:
        """Mount a volume on the host, with the owners of the container's id range."""
        base = id_base_of(vm, self.host)
        if base and base not in self._mappings:
            self._mappings[base] = IdMapping(0, base, ID_COUNT)
        target = self.place(vm, entry)
        target.parent.mkdir(mode=0o711, exist_ok=True)
        await volumes.mount_on_host(
            self.store.data(entry["uuid"]),
            target,
            read_only=bool(entry.get("read_only")),
            mapping=self._mappings.get(base),
        )

    async def attach(self, vm: Vm, entry: VolumeEntry) -> None:
        """Mount it on the host and show it in the running container."""
        state = await self.state(vm["uuid"])
        if state.pid is None:
            return
        target = self.place(vm, entry)
        own = id_base_of(vm, self.host) != 0
        if os.path.ismount(target) and not await volumes.taken_off(
            state.pid, str(entry["path"]), own_users=own
        ):
            return  # it has it, and uses it
        await self.mount(vm, entry)
        try:
            await volumes.show(target, state.pid, str(entry["path"]), own_users=own)
        except BaseException:
            unmount(target)
            raise

    async def detach(self, vm: Vm, entry: VolumeEntry) -> None:
        """Take it from the running container, and from the host."""
        target = self.place(vm, entry)
        if not target.is_dir():
            return
        state = await self.state(vm["uuid"])
        own = id_base_of(vm, self.host) != 0
        await volumes.hide(target, state.pid, str(entry["path"]), own_users=own)
        target.rmdir()

    async def grow(self, vm: Vm, entry: VolumeEntry, size: int) -> None:
        """Grow the file system while it is mounted; where that is refused, between two mounts."""
        target, state = self.place(vm, entry), await self.state(vm["uuid"])
        mounted = os.path.ismount(target)
        if mounted and await volumes.grow_mounted(self.store.data(entry["uuid"]), size * GIB):
            return
        own = id_base_of(vm, self.host) != 0
        path = str(entry["path"])
        if (
            mounted
            and state.pid is not None
            and not await volumes.taken_off(state.pid, path, own_users=own)
        ):
            raise DriverError(
                f"Volume {entry['uuid']} is in use, and this machine does not let the agent grow a"
                f" mounted file system (CAP_SYS_RESOURCE): stop what uses it in VM {vm['uuid']}",
                code="EBUSY",
                rest_code="VolumeInUse",
            )
        unmount(target)
        try:
            await self.store.grow(entry["uuid"], size)
        finally:
            await self.attach(vm, entry)

    def still(self, vm: Vm, entry: VolumeEntry) -> contextlib.AbstractAsyncContextManager[None]:
        """Freeze the file system."""
        target = self.place(vm, entry)
        if os.path.ismount(target) and not entry.get("read_only"):
            return volumes.frozen(target)
        return contextlib.nullcontext()
