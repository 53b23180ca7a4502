"""The root file systems of containers: where they are mounted, with whose owners, and their snapshots."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

from vetro.node.drivers.lxc.config import ContainerHost, id_base_of
from vetro.node.guest.root import ID_COUNT, GuestRoot
from vetro.node.images.store import ImageStore
from vetro.node.storage.idmapped import IdMapping
from vetro.node.storage.mounts import unmount
from vetro.node.storage.pool import Pool
from vetro.node.vm_objects import MachineStore
from vetro.node.vm_records import Vm

GIB = 2**30


@dataclass(eq=False, repr=False)
class Roots:
    """The roots of one agent's containers, below ``runtime`` (see ``hypervisor``)."""

    host: ContainerHost
    store: MachineStore
    images: ImageStore
    pool: Pool
    runtime: Path

    def __post_init__(self) -> None:
        self._mappings: dict[int, IdMapping] = {}

    def close(self) -> None:
        """Close the mappings; mounts stay."""
        for mapping in self._mappings.values():
            mapping.close()
        self._mappings.clear()

    def path(self, uuid: str) -> Path:
        """Where a container's root is mounted."""
        return self.runtime / uuid / "rootfs"

    def config(self, uuid: str) -> Path:
        """LXC's configuration of a container."""
        return self.runtime / uuid / "config"

    def drop(self, uuid: str) -> None:
        """Unmount all of a container, and remove its directory from the runtime."""
        root = self.path(uuid)
        unmount(root)
        self.drop_view(uuid)
        for volume in root.parent.glob("volume-*"):
            unmount(volume)
            volume.rmdir()
        self.config(uuid).unlink(missing_ok=True)
        for directory in (root, root.parent):
            # Not a recursive removal: if something were still mounted, its files must stay.
            with contextlib.suppress(FileNotFoundError):
                directory.rmdir()

    async def mount(self, vm: Vm) -> None:
        """Mount a container's root."""
        uuid = vm["uuid"]
        root = self.path(uuid)
        root.parent.mkdir(mode=0o711, exist_ok=True)
        root.mkdir(mode=0o755, exist_ok=True)
        await self.pool.mount_root(self.store.path(uuid), self.layers(vm), root, self._mapping(vm))

    def layers(self, vm: Vm) -> list[Path]:
        """The trees of the image below a container's root. Errors: ``ImageError``."""
        return self.images.layers(str(vm["image_uuid"]))

    def _mapping(self, vm: Vm) -> IdMapping | None:
        """From the images' owners to the container's; ``None`` where they are the same."""
        base = id_base_of(vm, self.host)
        if base == self.host.id_base:
            return None
        if base not in self._mappings:
            self._mappings[base] = IdMapping(self.host.id_base, base, ID_COUNT)
        return self._mappings[base]

    async def create(self, vm: Vm) -> None:
        """Create the storage of a container, and mount its root."""
        await self.pool.create_root(
            self.store.path(vm["uuid"]),
            self.layers(vm),
            owner=id_base_of(vm, self.host),
            quota_bytes=int(vm.get("quota") or 0) * GIB,
        )
        await self.mount(vm)

    def guest_root(self, vm: Vm) -> GuestRoot:
        """The mounted root, as the agent reads and writes it."""
        path, own = self.pool.seen_by_host(self.store.path(vm["uuid"]), self.path(vm["uuid"]))
        return self._owned(vm, path, own)

    def _owned(self, vm: Vm, path: Path, own: bool) -> GuestRoot:
        return GuestRoot(path, id_base_of(vm, self.host) if own else self.host.id_base)

    async def rollback(self, vm: Vm, name: str) -> None:
        """Put the root of a stopped container aside, and make one of the snapshot."""
        directory = self.store.path(vm["uuid"])
        unmount(self.path(vm["uuid"]))
        await self.pool.rollback(directory, name)
        await self.pool.trees.limit(directory / self.pool.writable, int(vm.get("quota") or 0) * GIB)
        await self.mount(vm)

    async def put_aside(self, vm: Vm) -> None:
        """Unmount the root of a stopped container, and keep it beside."""
        unmount(self.path(vm["uuid"]))
        await self.pool.put_aside(self.store.path(vm["uuid"]))

    async def put_back(self, vm: Vm) -> None:
        """What was put aside is the root again."""
        unmount(self.path(vm["uuid"]))
        await self.pool.put_back(self.store.path(vm["uuid"]))
        await self.mount(vm)

    @contextlib.asynccontextmanager
    async def snapshot_files(self, vm: Vm, name: str) -> AsyncGenerator[GuestRoot, None]:
        """The whole tree of a snapshot, for reading."""
        view = self._view(vm["uuid"])
        view.parent.mkdir(mode=0o711, exist_ok=True)
        view.mkdir(mode=0o700, exist_ok=True)
        try:
            path, own = await self.pool.show_snapshot(
                self.store.path(vm["uuid"]), name, self.layers(vm), view, self._mapping(vm)
            )
            yield self._owned(vm, path, own)
        finally:
            self.drop_view(vm["uuid"])

    def _view(self, uuid: str) -> Path:
        return self.runtime / uuid / "snapshot"

    def drop_view(self, uuid: str) -> None:
        """Unmount the snapshot that is shown, if there is one."""
        view = self._view(uuid)
        unmount(view)
        with contextlib.suppress(FileNotFoundError):
            view.rmdir()
