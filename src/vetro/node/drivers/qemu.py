"""Virtual machines with QEMU, through a libvirt daemon of the agent's own.

A VM is a transient domain: libvirt knows it while it runs, the record is what it is made from. Whether
it runs is asked of the QEMU process itself, followed by a process descriptor, so that a state needs no
daemon and the end of a VM is an event. ``<data_dir>/vms/<uuid>/`` holds ``disks``, ``seed.iso``,
``console.log`` and ``run`` (sockets); ``<data_dir>/qemu`` is the daemon's.

The daemon comes up in the background when the agent starts: whether KVM works and what QEMU can is
found out meanwhile, and the first VM waits for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from vetro.node import vm_images
from vetro.node.drivers import qemu_accel, qemu_disks, qemu_domain, qemu_seed
from vetro.node.drivers.basic import BasicHypervisor
from vetro.node.drivers.followed import FollowedProcess, started_at
from vetro.node.drivers.lxc import host_resolvers
from vetro.node.drivers.protocol import (
    Changed,
    DiskUse,
    ExecRequest,
    ExecResult,
    HostCommand,
    RunState,
)
from vetro.node.drivers.qemu_daemon import QEMU_UID, LibvirtDaemon, check_installed
from vetro.node.drivers.qemu_inside import Inside
from vetro.node.drivers.qemu_libvirt import Libvirt
from vetro.node.drivers.qemu_moves import Moves
from vetro.node.drivers.qemu_processes import VmProcesses
from vetro.node.errors import DriverError, NodeError, not_implemented
from vetro.node.files import remove_tree
from vetro.node.image_store import ImageStore
from vetro.node.instance_files import address_of
from vetro.node.machines import HVM_BRANDS, MachineStore, Vm, timestamp
from vetro.node.network.announce import announce
from vetro.node.network.names import bridge_name, host_interface_name

log = structlog.get_logger(__name__)

# A guest that is still starting does not hear its power button: it is pressed again.
_PRESS_SECONDS = 3.0
_NOTICE_POLL_SECONDS = 0.01
# What a running domain cannot change: it is started again.
_NEEDS_RESTART = ("ram", "vcpus", "disks", "nics")


class QemuHypervisor(BasicHypervisor):
    """Virtual machines of one agent.

    ``vnc_host``: the address screens are served at. ``prefix``: of interface names, as for containers.
    """

    name = "qemu"
    brands: Sequence[str] = HVM_BRANDS
    features: Sequence[str] = (
        "isolation", "network", "exec", "reprovision", "snapshots", "console", "live-migration",
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
    ) -> None:
        self._store = store
        self._images = images
        self._prefix = prefix
        self._guest_archive = guest_archive
        self._vnc_host = vnc_host
        self.daemon = LibvirtDaemon(directory, {"vms": store.directory, "images": images.directory})
        self.libvirt = Libvirt()
        self.accelerator = "tcg"
        self._ready: asyncio.Task[None] | None = None
        self._bringing_up = asyncio.Lock()
        self._starting: set[str] = set()
        self._stopping: set[str] = set()
        self._processes = VmProcesses(self.daemon)
        self._inside = Inside(store, self.connection, self._processes)
        self._moves = Moves(store, self.daemon, self, prefix=prefix, vnc_host=vnc_host)

    # The daemon

    async def open(self, vms: Sequence[Vm], ended: Changed) -> None:
        """Check what is installed, follow the VMs that run, bring the daemon up meanwhile."""
        check_installed()
        self._processes.ended = ended
        known = {vm["uuid"] for vm in vms}
        for uuid in known:
            self._processes.follow(uuid)
        await self._processes.end_orphans(known)
        self._ready = asyncio.create_task(self._bring_up(), name="libvirt")

    async def _bring_up(self) -> None:
        try:
            self.daemon.directory.mkdir(mode=0o711, parents=True, exist_ok=True)
            self.accelerator = await qemu_accel.choose(self.daemon.directory)
            await self.daemon.start(self.accelerator)
            await self.libvirt.open(self.daemon.address)
        except NodeError as error:
            log.error("Virtual machines cannot be started", error=str(error))
            return
        log.info("Virtual machines can be started", accelerator=self.accelerator)

    async def connection(self) -> Libvirt:
        """libvirt, as soon as it can be used; a daemon that died is started again."""
        if self._ready is not None:
            await asyncio.shield(self._ready)
        async with self._bringing_up:
            if not (self.daemon.running and await self.libvirt.alive()):
                log.warning("libvirtd is gone; starting it again")
                await self.libvirt.close()
                await self.daemon.start(self.accelerator)
                await self.libvirt.open(self.daemon.address)
        return self.libvirt

    async def close(self) -> None:
        """Stop following and stop the daemon; VMs go on."""
        if self._ready is not None:
            with contextlib.suppress(NodeError):
                await self._ready
            self._ready = None
        await self._moves.close()
        self._processes.close()
        await self.libvirt.close()
        await self.daemon.stop()
        self.libvirt.shut()

    async def _forgotten(self, uuid: str) -> None:
        """Wait until libvirt has noticed an end: until then the name is taken."""
        connection = await self.connection()
        async with asyncio.timeout(20):
            # libvirt has an event for it, which needs a thread of its own for a few milliseconds.
            while await connection.exists(uuid):  # noqa: ASYNC110
                await asyncio.sleep(_NOTICE_POLL_SECONDS)

    # Making

    def describe(self, vm: Vm) -> Vm:
        """With its disks; the parts of a domain are checked."""
        described = {**vm, "disks": qemu_disks.check(vm)}
        if int(vm.get("vnc_port") or 0) >= 0 and not vm.get("vnc_password"):
            # VNC without one is a terminal for everybody on the network.
            described["vnc_password"] = secrets.token_urlsafe(6)
        qemu_domain.check(described)
        for nic in described["nics"]:
            qemu_seed.nic_addresses(nic)
            qemu_seed.primary_gateway(nic)
        described["zfs_filesystem"] = str(self._store.path(vm["uuid"]))
        return described

    async def make(self, vm: Vm) -> None:
        """The disks. Sizes that come from images are filled in."""
        directory = self._store.path(vm["uuid"])
        run = directory / "run"
        run.mkdir(mode=0o700, exist_ok=True)
        os.chown(run, QEMU_UID, QEMU_UID)
        await self._bring_disks(vm)

    async def _bring_disks(self, vm: Vm) -> None:
        images: dict[str, tuple[Path, int]] = {}
        for disk in vm["disks"]:
            uuid = disk.get("image_uuid")
            if uuid and uuid not in images:
                await self._images.ensure(uuid)
                image = vm_images.load(self._images.directory / uuid, uuid)
                images[uuid] = (image.disk, image.virtual_size)
        # Whoever gave no size of a disk gave that of the whole VM, in GiB.
        default = int(vm.get("quota") or 0) * 1024 or qemu_disks.DEFAULT_SIZE
        await qemu_disks.bring_to(self._store.path(vm["uuid"]), vm["disks"], images, default)

    async def remake_root(self, vm: Vm) -> None:
        """A fresh first disk from the image; the others stay. Its snapshots go with it."""
        if vm.get("snapshots"):
            raise DriverError(
                f"VM {vm['uuid']} has snapshots: delete them before its image is replaced",
                rest_code="VmHasSnapshots",
            )
        for disk in vm["disks"]:
            if disk.get("image_uuid"):
                disk["image_uuid"] = vm["image_uuid"]
                qemu_disks.file_of(self._store.path(vm["uuid"]), disk).unlink(missing_ok=True)
                break
        await self._bring_disks(vm)

    async def configure(self, vm: Vm) -> bool:
        """Everything is read at the next start; whether a running VM needs one."""
        before = self._store.get(vm["uuid"]) or {}
        qemu_disks.check_growth(before.get("disks", []), vm["disks"])
        if self._processes.follow(vm["uuid"]) is None:
            await self._bring_disks(vm)
            return False
        return any(vm.get(name) != before.get(name) for name in _NEEDS_RESTART)

    async def remove(self, uuid: str) -> None:
        """End it by force and remove its disks and what libvirt kept of it."""
        if self._ready is not None:
            await asyncio.shield(self._ready)
        if await self.libvirt.alive():
            await self.libvirt.destroy(uuid)
        await self._processes.end(uuid)
        if await self.libvirt.alive():
            await self._forgotten(uuid)
        self._processes.forget(uuid)
        directory = self._store.path(uuid)
        await asyncio.to_thread(qemu_disks.remove, directory)
        remove_tree(directory / "run")
        (directory / "seed.iso").unlink(missing_ok=True)
        (self.daemon.directory / "log/qemu" / f"{uuid}.log").unlink(missing_ok=True)
        self.daemon.pid_file(uuid).unlink(missing_ok=True)

    # Running

    async def domain_xml(self, vm: Vm) -> str:
        """The domain of a VM whose disks are made."""
        directory = self._store.path(vm["uuid"])
        first = next(disk["image_uuid"] for disk in vm["disks"] if disk.get("image_uuid"))
        image = vm_images.load(self._images.directory / first, first)
        seen = self.daemon.seen
        disks: list[qemu_domain.DomainDisk] = []
        for disk in vm["disks"]:
            backing = None
            if disk.get("image_uuid"):
                source = vm_images.load(
                    self._images.directory / disk["image_uuid"], disk["image_uuid"]
                )
                backing = seen(source.disk)
            disks.append(
                qemu_domain.DomainDisk(
                    seen(qemu_disks.file_of(directory, disk)),
                    backing,
                    qemu_domain.disk_model(vm, disk),
                    bool(disk.get("boot")),
                )
            )
        return qemu_domain.render(
            vm,
            qemu_domain.DomainPlan(
                accelerator=self.accelerator,
                prefix=self._prefix,
                disks=disks,
                seed=seen(directory / "seed.iso"),
                run=seen(directory / "run"),
                console_log=seen(directory / "console.log"),
                vnc_host=self._vnc_host,
                emulator=shutil.which(qemu_accel.EMULATOR) or qemu_domain.DEFAULT_EMULATOR,
                kernel=seen(image.kernel) if image.kernel is not None else None,
                initrd=seen(image.initrd) if image.initrd is not None else None,
                arguments=image.arguments,
            ),
        )

    async def prepare(self, vm: Vm) -> None:
        """Everything a start needs beside the domain: networks, disks as recorded, the seed."""
        for nic in vm["nics"]:
            bridge = bridge_name(self._prefix, str(nic["network_uuid"]))
            if not Path("/sys/class/net", bridge).exists():
                raise DriverError(
                    f"Network {nic['network_uuid']} is not on this node: apply the networks"
                    f" (network_apply) before VM {vm['uuid']} is started",
                    rest_code="NetworkNotFound",
                )
        directory = self._store.path(vm["uuid"])
        await self._bring_disks(vm)
        seed = directory / "seed.iso"
        await qemu_seed.write_seed(
            seed, vm, guest_archive=self._guest_archive, resolvers=host_resolvers()
        )
        os.chown(seed, 0, QEMU_UID)
        seed.chmod(0o640)

    async def start(self, vm: Vm) -> None:
        """Start the domain; returns when QEMU runs it. The guest starts from then on."""
        uuid = vm["uuid"]
        self._starting.add(uuid)
        try:
            connection = await self.connection()
            await self.prepare(vm)
            await self._forgotten(uuid)
            xml = await self.domain_xml(vm)
            # A start that is given up goes on in its thread: its end is waited for all the same.
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
        finally:
            self._starting.discard(uuid)
        if self._processes.follow(uuid) is None:
            raise DriverError(f"VM {uuid} ended right after its start; see console.log")
        self.arrive(vm)

    def running(self, uuid: str) -> bool:
        """Whether a VM runs here."""
        return self._processes.follow(uuid) is not None

    def arrive(self, vm: Vm) -> None:
        """Tell the networks that a VM is here now."""
        for nic in vm["nics"]:
            # An instance that calls its own floating address gets its packets back.
            hairpin = Path(
                "/sys/class/net", host_interface_name(self._prefix, str(nic["mac"])),
                "brport/hairpin_mode",
            )  # fmt: skip
            with contextlib.suppress(FileNotFoundError):
                hairpin.write_text("1")
            address = address_of(nic)
            if address is not None:
                announce(bridge_name(self._prefix, str(nic["network_uuid"])), nic["mac"], address)

    async def stop(self, uuid: str, *, force: bool, timeout: float) -> None:
        """Press the power button, and end the VM after ``timeout`` seconds."""
        process = self._processes.follow(uuid)
        if process is None:
            return
        self._stopping.add(uuid)
        try:
            if not force and timeout > 0:
                await self._ask_to_stop(uuid, process, timeout)
            if process.running:
                connection = await self.connection()
                await connection.destroy(uuid)
                if not await process.wait(10):
                    await self._processes.end(uuid)
            await self._forgotten(uuid)
        finally:
            self._stopping.discard(uuid)

    async def _ask_to_stop(self, uuid: str, process: FollowedProcess, timeout: float) -> None:
        connection = await self.connection()
        deadline = asyncio.get_running_loop().time() + timeout
        while (left := deadline - asyncio.get_running_loop().time()) > 0:
            try:
                await connection.press_power_button(uuid)
            except DriverError as error:
                if process.running:
                    log.info("A power button cannot be pressed", uuid=uuid, error=str(error))
            if await process.wait(min(_PRESS_SECONDS, left)):
                return

    async def kill(self, uuid: str, signal: int) -> None:
        """Signal QEMU."""
        process = self._processes.follow(uuid)
        if process is None:
            raise DriverError(f"VM {uuid} has no process", code="ESRCH", rest_code="VmNotRunning")
        process.signal(signal)

    async def state(self, uuid: str) -> RunState:
        """What QEMU's process says."""
        if uuid in self._starting:
            return RunState("ready")
        process = self._processes.follow(uuid)
        if process is None:
            return RunState("installed")
        began = started_at(process.pid)
        return RunState(
            "shutting_down" if uuid in self._stopping else "running",
            process.pid,
            timestamp(datetime.fromtimestamp(began, UTC)) if began is not None else None,
        )

    # Snapshots

    async def snapshot(self, vm: Vm, name: str) -> None:
        """Keep all disks as they are at one moment, of a running VM as after a power cut."""
        directory = self._store.path(vm["uuid"])
        if self._processes.follow(vm["uuid"]) is None:
            await qemu_disks.snapshot(directory, vm["disks"], name)
            return
        await self.drop_snapshot(vm, name)
        connection = await self.connection()
        actions = [
            {"type": "blockdev-snapshot-internal-sync", "data": {"device": node, "name": name}}
            for node in (await self._nodes(vm)).values()
        ]
        await connection.monitor(vm["uuid"], "transaction", actions=actions)

    async def _nodes(self, vm: Vm) -> dict[str, str]:
        directory = self._store.path(vm["uuid"])
        files = {
            str(disk["path"]): self.daemon.seen(qemu_disks.file_of(directory, disk))
            for disk in vm["disks"]
        }
        return await self._inside.disk_nodes(vm["uuid"], files)

    async def rollback(self, vm: Vm, name: str) -> None:
        """Take the disks of a stopped VM back."""
        await qemu_disks.rollback(self._store.path(vm["uuid"]), vm["disks"], name)

    async def drop_snapshot(self, vm: Vm, name: str) -> None:
        """Remove a snapshot, of a running VM as well."""
        directory = self._store.path(vm["uuid"])
        if self._processes.follow(vm["uuid"]) is None:
            await qemu_disks.drop_snapshot(directory, vm["disks"], name)
            return
        connection = await self.connection()
        nodes = await self._nodes(vm)
        for disk in vm["disks"]:
            if name in await qemu_disks.snapshot_names(qemu_disks.file_of(directory, disk)):
                await connection.monitor(
                    vm["uuid"],
                    "blockdev-snapshot-delete-internal-sync",
                    device=nodes[disk["path"]],
                    name=name,
                )

    # Looking inside

    async def processes(self, uuid: str) -> dict[str, Any]:
        """The guest's processes are its own."""
        raise not_implemented("Listing the processes of a virtual machine", self.name)

    async def execute(
        self, uuid: str, command: Sequence[str], environment: Mapping[str, str], timeout: float
    ) -> ExecResult:
        """Through the guest's QEMU agent; one that is still starting is waited for.

        ``timeout`` counts from the command's start. Errors: ``GuestAgentNotAvailable``.
        """
        return await self._inside.execute(uuid, command, environment, timeout)

    async def exec_command(self, uuid: str, request: ExecRequest) -> HostCommand:
        """Through the guest's QEMU agent: its output comes at its end, nothing goes in."""
        return await self._inside.exec_command(uuid, request, self.daemon.address)

    async def info(self, vm: Vm, types: Sequence[str]) -> dict[str, Any]:
        """What QEMU's monitor knows; ``vnc`` ``{host, port, display}``, ``serial`` ``{path}``."""
        return await self._inside.info(vm["uuid"], types)

    async def console(self, vm: Vm) -> Path:
        """The socket of the first serial line; QEMU serves one client of it at a time."""
        return self._inside.serial_line(vm["uuid"])

    async def screenshot(self, vm: Vm) -> bytes:
        """A picture of the screen (PNG)."""
        return await self._inside.screenshot(vm)

    async def usage(self, uuid: str) -> DiskUse:
        """Bytes of the VM's files."""
        vm = self._store.get(uuid) or {}
        return await asyncio.to_thread(
            qemu_disks.usage, self._store.path(uuid), vm.get("disks") or []
        )

    async def export(
        self,
        vm: Vm,
        target: Path,
        *,
        compression: str,
        incremental: bool,
        max_origin_depth: int,
    ) -> dict[str, Any]:
        """The disk of the VM's image as it is now, with the image's kernel; other disks are left out."""
        disk = next(one for one in vm["disks"] if one.get("image_uuid"))
        uuid = str(disk["image_uuid"])
        image = vm_images.load(self._images.directory / uuid, uuid)
        path = qemu_disks.file_of(self._store.path(vm["uuid"]), disk)
        await vm_images.export(path, image, target, compression)
        return {"type": "vm", "os": "linux"}

    async def migrate_live(self, vm: Vm, action: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """``receive`` a VM that is stopped here, or ``sync`` one to another node.

        ``sync`` answers when the VM is there: running if it ran, else its disks. Errors:
        ``MigrationFailed``, ``VmHasSnapshots`` for a running VM with snapshots.
        """
        if action == "receive":
            return await self._moves.receive(vm)
        if action == "sync":
            return await self._moves.send(vm, params)
        raise not_implemented(f"Moving a running VM ({action})", self.name)
