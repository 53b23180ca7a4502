"""Virtual machines with QEMU, through the agent's own libvirt daemon.

A VM is a transient domain, created from the record; libvirt knows it while it runs. Whether it runs
is read from the QEMU process itself, followed by a process descriptor: reading a state needs no
daemon, and the end of a VM is an event. ``<data_dir>/vms/<uuid>/`` holds ``disks``, ``seed.iso``,
``console.log`` and ``run`` (sockets); ``<data_dir>/qemu`` is the daemon's.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from vetro.node.drivers.hypervisor import (
    Changed,
    DiskUse,
    ExecRequest,
    ExecResult,
    HostCommand,
    Hypervisor,
    RunState,
)
from vetro.node.drivers.lxc.config import guest_name
from vetro.node.drivers.qemu import disks, domain, interfaces
from vetro.node.drivers.qemu import plan as qemu_plan
from vetro.node.drivers.qemu import seed as qemu_seed
from vetro.node.drivers.qemu.cleaning import without_machine
from vetro.node.drivers.qemu.connection import LibvirtLink
from vetro.node.drivers.qemu.daemon import QEMU_UID, check_installed
from vetro.node.drivers.qemu.inside import Inside
from vetro.node.drivers.qemu.io_errors import FrozenVms
from vetro.node.drivers.qemu.libvirt import Libvirt
from vetro.node.drivers.qemu.limits import CpuGroups
from vetro.node.drivers.qemu.migration_steps import Moves
from vetro.node.drivers.qemu.processes import VmProcesses, ask_to_stop, name_free
from vetro.node.drivers.qemu.snapshots import RunningSnapshots
from vetro.node.drivers.qemu.volumes import VolumePlugs
from vetro.node.drivers.stats import machine_stats
from vetro.node.errors import (
    DriverError,
    NodeError,
    has_snapshots,
    no_process,
    not_implemented,
    not_running,
)
from vetro.node.files import remove_tree
from vetro.node.guest.instance_files import host_resolvers
from vetro.node.images import vm_images
from vetro.node.images.store import ImageStore
from vetro.node.network.names import host_interface_name
from vetro.node.storage.volumes import VolumeStore
from vetro.node.vm_objects import HVM_BRANDS, MachineStore
from vetro.node.vm_records import Disk, Vm, VolumeEntry, disks_of, unwritten

log = structlog.get_logger(__name__)

# Changes of these cannot be applied to a running domain: it is restarted.
_NEEDS_RESTART = ("ram", "vcpus", "disks", "nics")


class QemuHypervisor(Hypervisor):
    """Virtual machines of one agent.

    ``vnc_host``: the address that serves screens. ``prefix``: of interface names, as for
    containers.
    ``found_out()`` is called when ``about`` has new facts.
    """

    name = "qemu"
    brands: Sequence[str] = HVM_BRANDS
    features: Sequence[str] = (
        "isolation", "network", "exec", "reprovision", "snapshots", "stats", "console",
        "live-migration", "volumes",
    )  # fmt: skip

    def __init__(
        self,
        directory: Path,
        store: MachineStore,
        images: ImageStore,
        *,
        prefix: str,
        guest_archive: Path | None = None,
        vnc_host: str = "127.0.0.1",
        found_out: Callable[[], None] = lambda: None,
        volumes: VolumeStore | None = None,
    ) -> None:
        self._store = store
        self._images = images
        self._prefix = prefix
        self._guest_archive = guest_archive
        self._vnc_host = vnc_host
        self._volumes = volumes or VolumeStore(store.directory.parent / "volumes")
        self._volumes.directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        self.link = LibvirtLink(
            directory,
            {
                "vms": store.directory,
                "images": images.directory,
                "volumes": self._volumes.directory,
            },
        )
        self.daemon = self.link.daemon
        label = hashlib.sha256(str(store.directory).encode()).hexdigest()[:8]
        self._cpu = CpuGroups.find(f"{prefix}-{label}")
        if self._cpu is not None:
            self.features = (*self.features, "cpu-cap")
        self._frozen = FrozenVms()
        self.link.connected = self._frozen.attach
        self.link.found = found_out
        self._ended: Changed = lambda _uuid: None
        self._starting: set[str] = set()
        self._stopping: set[str] = set()
        self._processes = VmProcesses(self.daemon)
        self._inside = Inside(store, self.connection, self._processes)
        self._plugs = VolumePlugs(self._volumes, self.daemon, self.connection)
        self._snapshots = RunningSnapshots(store, self.daemon, self._inside, self.connection)
        self._moves = Moves(store, self.daemon, self, prefix=prefix, vnc_host=vnc_host)

    # The daemon

    async def open(self, vms: Sequence[Vm], ended: Changed, changed: Changed) -> None:
        """Check the installed programs, follow running VMs, start the daemon in the background."""
        check_installed()
        self._ended = ended
        self._processes.ended = self._on_end
        self._frozen.changed = changed
        for vm in vms:
            process = self._processes.follow(vm["uuid"])
            if process is not None and self._cpu is not None:
                self._cpu.limit(vm, process.pid)
        known = {vm["uuid"] for vm in vms}
        await self._processes.end_orphans(known)
        if self._cpu is not None:
            self._cpu.sweep(known)
        self.link.open()

    def _on_end(self, uuid: str) -> None:
        self._frozen.forget(uuid)
        self._ended(uuid)

    @property
    def accelerator(self) -> str:
        """``kvm`` or ``tcg``; ``tcg`` as long as it is not known."""
        known = self.link.accelerator
        return known.name if known is not None else "tcg"

    def about(self) -> dict[str, object]:
        """``accelerator`` (``kvm``, ``tcg``; why not KVM), once it is known."""
        known = self.link.accelerator
        if known is None:
            return {}
        reason = {"accelerator_reason": known.reason} if known.reason else {}
        return {"accelerator": known.name, **reason}

    async def connection(self) -> Libvirt:
        """libvirt, as soon as it can be used; a daemon that died is restarted."""
        return await self.link.connection()

    async def close(self) -> None:
        """Stop following and stop the daemon; VMs keep running."""
        with contextlib.suppress(NodeError):
            await self.link.settled()
        await self._moves.close()
        self._processes.close()
        await self.link.close()
        await self._frozen.close()
        if self._cpu is not None:
            self._cpu.sweep([vm["uuid"] for vm in self._store])

    # Making

    def describe(self, vm: Vm) -> Vm:
        """Add the disks; check the parts of a domain."""
        described: Vm = {**vm, "disks": disks.check(vm)}
        if int(vm.get("vnc_port") or 0) >= 0 and not vm.get("vnc_password"):
            # Without a password, everyone on the network could use the screen.
            described["vnc_password"] = secrets.token_urlsafe(6)
        domain.check(described)
        for nic in described["nics"]:
            qemu_seed.nic_addresses(nic)
            qemu_seed.primary_gateway(nic)
        described["zfs_filesystem"] = str(self._store.path(vm["uuid"]))
        return described

    async def make(self, vm: Vm) -> None:
        """Create the disks. Sizes that come from images are filled in."""
        directory = self._store.path(vm["uuid"])
        run = directory / "run"
        run.mkdir(mode=0o700, exist_ok=True)
        os.chown(run, QEMU_UID, QEMU_UID)
        await self._bring_disks(vm)

    async def _bring_disks(self, vm: Vm) -> None:
        await qemu_plan.bring_disks(vm, self._store.path(vm["uuid"]), self._images)

    async def check_start(self, vm: Vm) -> None:
        """Refuse networks that are not here."""
        interfaces.check_networks(vm, self._prefix)

    async def check_root(self, vm: Vm) -> None:
        """Refuse an image that no virtual machine can have, or that its disk cannot hold; snapshots too."""
        if vm.get("snapshots"):
            raise has_snapshots(vm["uuid"])
        uuid = str(vm["image_uuid"])
        image = vm_images.load(self._images.directory / uuid, uuid)
        disks.check_room(self._first(vm), uuid, image.virtual_size)

    @staticmethod
    def _first(vm: Vm) -> Disk:
        """The disk that comes from the image."""
        return next(disk for disk in disks_of(vm) if disk.get("image_uuid"))

    async def remake_root(self, vm: Vm) -> None:
        """Put the first disk aside, and make a fresh one; keep the others."""
        disk = self._first(vm)
        disks.put_aside(self._store.path(vm["uuid"]), disk)
        disk["image_uuid"] = vm["image_uuid"]
        await self._bring_disks(vm)

    async def restore_root(self, vm: Vm) -> None:
        """End the VM; what was put aside is its disk again, and what a rollback changed is undone."""
        await self._processes.end(vm["uuid"])
        await disks.put_back(self._store.path(vm["uuid"]), disks_of(vm))

    async def drop_former_root(self, vm: Vm) -> None:
        """Remove what was put aside, also from a running VM."""
        directory = self._store.path(vm["uuid"])
        if disks.has_former(directory):
            await self.drop_snapshot(vm, disks.BEFORE)
            disks.forget_former(directory)

    async def configure(self, before: Vm, vm: Vm) -> bool:
        """A quota is the size of the image's disk, and grows it; other changes apply at the next start.

        Returns whether a running VM needs one.
        """
        disks.check_growth(disks_of(before), disks_of(vm))
        restart = any(vm.get(name) != before.get(name) for name in _NEEDS_RESTART)
        grown = disks.follow_quota(before, vm)
        process = self._processes.follow(vm["uuid"])
        if process is None:
            await self._bring_disks(vm)
            return False
        if grown is not None:
            file = disks.file_of(self._store.path(vm["uuid"]), grown)
            await self._plugs.resize(vm, file, grown.get("size", 0) * 2**20)
        if self._cpu is not None:
            self._cpu.limit(vm, process.pid)
        return restart

    async def remove(self, uuid: str) -> None:
        """End it by force and remove its disks and libvirt's files of it."""
        await self.link.settled()
        libvirt = self.link.libvirt
        if await libvirt.alive():
            await libvirt.destroy(uuid)
        await self._processes.end(uuid)
        if await libvirt.alive():
            await name_free(await self.connection(), uuid)
        if self._cpu is not None:
            await self._cpu.remove(uuid)
        self._frozen.forget(uuid)
        self._processes.forget(uuid)
        directory = self._store.path(uuid)
        await asyncio.to_thread(disks.remove, directory)
        remove_tree(directory / "run")
        (directory / "seed.iso").unlink(missing_ok=True)
        (self.daemon.directory / "log/qemu" / f"{uuid}.log").unlink(missing_ok=True)
        self.daemon.pid_file(uuid).unlink(missing_ok=True)

    # Running

    async def prepare(self, vm: Vm) -> None:
        """Prepare what a start needs besides the domain: networks, disks as recorded, seed."""
        interfaces.check_networks(vm, self._prefix)
        directory = self._store.path(vm["uuid"])
        await self._bring_disks(vm)
        self._plugs.own(vm)
        seed = directory / "seed.iso"
        await qemu_seed.write_seed(
            seed, vm, guest_archive=self._guest_archive, resolvers=host_resolvers()
        )
        os.chown(seed, 0, QEMU_UID)
        seed.chmod(0o640)

    async def start(self, vm: Vm) -> None:
        """Start the domain; returns when QEMU runs. The guest boots after that."""
        uuid = vm["uuid"]
        self._starting.add(uuid)
        try:
            connection = await self.connection()
            await self.prepare(vm)
            plan = qemu_plan.plan_of(
                vm, self._store.path(uuid), self._images, self.daemon,
                accelerator=self.accelerator, prefix=self._prefix, vnc_host=self._vnc_host,
                volumes=self._plugs.attached(vm),
            )  # fmt: skip
            xml = domain.render(vm, plan)
            await connection.again_with_another_port(
                vm, partial(self._start_domain, connection, uuid, xml)
            )
        finally:
            self._starting.discard(uuid)
        if self._processes.follow(uuid) is None:
            raise DriverError(f"VM {uuid} ended right after its start; see console.log")
        self.arrive(vm)

    async def _start_domain(self, connection: Libvirt, uuid: str, xml: str) -> None:
        await name_free(await self.connection(), uuid)
        # A cancelled start continues in its thread, so its end is awaited all the same.
        work = asyncio.ensure_future(connection.start(xml))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            with contextlib.suppress(DriverError):
                await work
            await self._processes.end(uuid)
            raise
        except DriverError as error:
            raise DriverError(f"VM {uuid} did not start: {error}") from error

    def running(self, uuid: str) -> bool:
        """Whether a VM runs here."""
        return self._processes.follow(uuid) is not None

    def arrive(self, vm: Vm) -> None:
        """Set up what a VM that now runs here needs: its limits, and networks that know it."""
        process = self._processes.follow(vm["uuid"])
        if process is not None and self._cpu is not None:
            self._cpu.limit(vm, process.pid)
        interfaces.introduce(vm, self._prefix)

    async def stop(self, uuid: str, *, force: bool, timeout: float) -> None:
        """Press the power button, and end the VM after ``timeout`` seconds."""
        process = self._processes.follow(uuid)
        if process is None:
            return
        self._stopping.add(uuid)
        try:
            # A frozen VM ignores the button.
            if not force and timeout > 0 and self._frozen.reason(uuid) is None:
                await ask_to_stop(await self.connection(), uuid, process, timeout)
            if process.running:
                connection = await self.connection()
                await connection.destroy(uuid)
                if not await process.wait(10):
                    await self._processes.end(uuid)
            await name_free(await self.connection(), uuid)
        finally:
            self._stopping.discard(uuid)

    async def resume(self, uuid: str) -> None:
        """Resume a frozen VM; if its disk is still full, it freezes again at once."""
        connection = await self.connection()
        await connection.resume(uuid)
        await self._frozen.look(connection, uuid)

    async def kill(self, uuid: str, signal: int) -> None:
        """Signal QEMU."""
        process = self._processes.follow(uuid)
        if process is None:
            raise no_process(uuid)
        process.signal(signal)

    async def state(self, uuid: str) -> RunState:
        """The state of QEMU's process."""
        if uuid in self._starting:
            return RunState("ready")
        process = self._processes.follow(uuid)
        if process is None:
            return RunState("installed")
        state = "shutting_down" if uuid in self._stopping else "running"
        return RunState.now(state, process.pid, self._frozen.reason(uuid))

    # Volumes

    def volume_format(self, brand: str) -> str:
        """A disk."""
        return "qcow2"

    async def attach_volume(self, vm: Vm, entry: VolumeEntry) -> None:
        """Plug the disk into the running VM."""
        if self.running(vm["uuid"]):
            await self._plugs.plug(vm, entry)

    async def detach_volume(self, vm: Vm, entry: VolumeEntry) -> None:
        """Pull the disk out of the running VM; what the guest has not flushed is lost."""
        if self.running(vm["uuid"]):
            await self._plugs.unplug(vm, entry)

    async def grow_volume(self, vm: Vm, entry: VolumeEntry, size: int) -> None:
        """Grow the disk; a running guest is notified."""
        if self.running(vm["uuid"]):
            await self._plugs.grow(vm, entry, size)
        else:
            await self._volumes.grow(entry["uuid"], size)

    @contextlib.asynccontextmanager
    async def still(self, vm: Vm, entry: VolumeEntry) -> AsyncGenerator[None, None]:
        """Pause the VM: QEMU flushes what it has of the disk when it stops."""
        if not self.running(vm["uuid"]) or entry.get("read_only"):
            yield
            return
        async with self._plugs.paused(vm):
            yield

    # Snapshots

    async def snapshot(self, vm: Vm, name: str) -> None:
        """Snapshot all disks at one moment; those of a running VM are as after a power cut."""
        if self.running(vm["uuid"]):
            await self._snapshots.take(vm, name)
        else:
            await disks.snapshot(self._store.path(vm["uuid"]), disks_of(vm), name)

    async def rollback(self, vm: Vm, name: str) -> None:
        """Keep what is in the disks of a stopped VM beside, and restore what was in them."""
        await disks.rollback_kept(self._store.path(vm["uuid"]), disks_of(vm), name)

    async def drop_snapshot(self, vm: Vm, name: str) -> None:
        """Remove a snapshot, also of a running VM."""
        if self.running(vm["uuid"]):
            await self._snapshots.drop(vm, name)
        else:
            await disks.drop_snapshot(self._store.path(vm["uuid"]), disks_of(vm), name)

    # Looking inside

    async def processes(self, uuid: str) -> dict[str, object]:
        """The host cannot see the guest's processes."""
        raise not_implemented("Listing the processes of a virtual machine", self.name)

    async def execute(
        self, uuid: str, command: Sequence[str], environment: Mapping[str, str], timeout: float
    ) -> ExecResult:
        """Run a command through the guest's QEMU agent; wait for an agent that is still starting.

        ``timeout`` counts from the command's start. Errors: ``GuestAgentNotAvailable``.
        """
        return await self._inside.execute(uuid, command, environment, timeout)

    async def exec_command(self, uuid: str, request: ExecRequest) -> HostCommand:
        """Through the guest's QEMU agent: output arrives at the command's end; no input."""
        return await self._inside.exec_command(uuid, request, self.daemon.socket)

    async def stats(self, uuid: str) -> dict[str, Any]:
        """Use by QEMU's process, the host's ends of the interfaces, and the disks by path."""
        vm = self._store.get(uuid) or unwritten(uuid)
        process = self._processes.follow(uuid)
        if process is None:
            raise not_running(uuid)
        try:
            return machine_stats(
                process.pid,
                int(vm.get("max_physical_memory") or 0) * 2**20,
                {
                    guest_name(nic): host_interface_name(self._prefix, str(nic["mac"]))
                    for nic in vm.get("nics", [])
                },
                await self._inside.block_counts(
                    uuid, disks.seen_files(self._store.path(uuid), vm, self.daemon)
                ),
            )
        except ProcessLookupError as error:
            raise not_running(uuid) from error

    async def info(self, vm: Vm, types: Sequence[str]) -> dict[str, Any]:
        """What QEMU's monitor reports; ``vnc`` ``{host, port, display}``, ``serial`` ``{path}``."""
        return await self._inside.info(vm["uuid"], types)

    async def console(self, vm: Vm) -> Path:
        """The socket of the first serial line; QEMU serves one client at a time."""
        return self._inside.serial_line(vm["uuid"])

    async def screenshot(self, vm: Vm) -> bytes:
        """A picture of the screen (PNG)."""
        return await self._inside.screenshot(vm)

    async def usage(self, uuid: str) -> DiskUse:
        """Bytes of the VM's files."""
        vm = self._store.get(uuid) or {}
        return await asyncio.to_thread(disks.usage, self._store.path(uuid), vm.get("disks") or [])

    async def export(
        self, vm: Vm, target: Path, *, compression: str, max_origin_depth: int
    ) -> dict[str, object]:
        """Export the disk of the VM's image with the image's kernel; other disks are left out.

        So is what belongs to the VM alone (``former_machine``).
        """
        disk = next(one for one in disks_of(vm) if one.get("image_uuid"))
        uuid = str(disk.get("image_uuid"))
        image = vm_images.load(self._images.directory / uuid, uuid)
        path = disks.file_of(self._store.path(vm["uuid"]), disk)
        with tempfile.TemporaryDirectory(prefix=".export-", dir=target.parent) as scratch:
            clean = await without_machine(path, image, Path(scratch), self.accelerator)
            await vm_images.export(clean, image, target, compression)
        return {"type": "vm", "os": "linux"}

    async def migrate_live(
        self, vm: Vm, action: str, params: Mapping[str, object]
    ) -> dict[str, object]:
        """``receive`` a VM that is stopped here, or ``sync`` one to another node.

        ``sync`` returns when the VM is there: running if it ran, else its disks. Errors:
        ``MigrationFailed``, ``VmHasSnapshots`` for a running VM with snapshots.
        """
        if action == "receive":
            return await self._moves.receive(vm)
        if action == "sync":
            return await self._moves.send(vm, params)
        raise not_implemented(f"Moving a running VM ({action})", self.name)
