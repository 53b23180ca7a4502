"""System containers with LXC: unprivileged, on an overlay over the unpacked image or a clone of it.

``<data_dir>/vms/<uuid>/`` holds the container's storage (``vetro.node.storage``), ``monitor.pid`` and
logs. The one LXC path is ``/run/vetro/<prefix>-<hash>``: there ``<uuid>/config`` and ``<uuid>/rootfs``,
where the root is mounted with the owners of the project's id range. It is not in the data directory
because LXC enters it as the containers' root, who may not pass a private directory; all of it can be
made again from the record. Whether a container runs its monitor process says (``lxc_monitors``).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from vetro.node.commands import run
from vetro.node.drivers.control_groups import groups_of, remove_groups
from vetro.node.drivers.hypervisor import (
    Changed,
    DiskUse,
    ExecRequest,
    ExecResult,
    HostCommand,
    Hypervisor,
    RunState,
)
from vetro.node.drivers.lxc import config as lxc_config
from vetro.node.drivers.lxc import interfaces
from vetro.node.drivers.lxc.attached import AttachedVolumes
from vetro.node.drivers.lxc.inside import find_user, processes_in
from vetro.node.drivers.lxc.monitors import Monitors, errors_of
from vetro.node.drivers.lxc.roots import GIB, Roots
from vetro.node.drivers.stats import group_stats
from vetro.node.errors import CommandFailed, DriverError, NodeError, has_snapshots, no_process
from vetro.node.files import write_bytes
from vetro.node.guest import instance_files
from vetro.node.guest.former_machine import forget_former
from vetro.node.guest.root import GuestRoot
from vetro.node.images.archive import write_image, write_layer
from vetro.node.images.store import ImageStore
from vetro.node.network.announce import announce
from vetro.node.network.names import bridge_name, host_interface_name
from vetro.node.processes import first_child
from vetro.node.storage.directory import DirectoryPool, DirectoryTrees
from vetro.node.storage.mounts import mount_points
from vetro.node.storage.pool import Pool
from vetro.node.storage.volumes import VolumeStore
from vetro.node.vm_objects import CONTAINER_BRANDS, MachineStore
from vetro.node.vm_records import Vm, VolumeEntry, unwritten, volumes_of

log = structlog.get_logger(__name__)

_RUN = Path("/run/vetro")


class LxcHypervisor(Hypervisor):
    """Containers of one agent."""

    name = "lxc"
    brands: Sequence[str] = CONTAINER_BRANDS
    features: Sequence[str] = (
        "container", "isolation", "network", "exec", "reprovision", "snapshots", "files", "stats",
        "hotplug", "volumes",
    )  # fmt: skip

    def __init__(
        self,
        host: lxc_config.ContainerHost,
        store: MachineStore,
        images: ImageStore,
        guest_archive: Path | None,
        pool: Pool | None = None,
        volumes: VolumeStore | None = None,
    ) -> None:
        self._host = host
        if "cpu" in host.limits:
            self.features = (*self.features, "cpu-cap")
        self._store = store
        self._images = images
        self._pool: Pool = pool or DirectoryPool(DirectoryTrees(store.directory))
        self._guest_archive = guest_archive
        label = hashlib.sha256(str(store.directory).encode()).hexdigest()[:8]
        self._runtime = _RUN / f"{host.prefix}-{label}"
        self._path = str(self._runtime)
        self._roots = Roots(host, store, images, self._pool, self._runtime)
        self._volumes = AttachedVolumes(
            host,
            self._roots,
            volumes or VolumeStore(store.directory.parent / "volumes"),
            self.state,
        )
        self._monitors = Monitors(store, self._runtime)
        self._stopping: set[str] = set()
        self._starting: set[str] = set()

    async def open(self, vms: Sequence[Vm], ended: Changed, changed: Changed) -> None:
        """Restore mounts, remove those without a VM, follow the running containers."""
        self._monitors.ended = ended
        self._runtime.mkdir(mode=0o711, parents=True, exist_ok=True)
        _RUN.chmod(0o755)
        mounted = mount_points()
        known = {vm["uuid"] for vm in vms}
        for entry in self._runtime.iterdir():
            if entry.name not in known:
                # Incomplete, or its data directory was removed while the container ran.
                await self._monitors.end(entry.name)
                await self._drop_interfaces(entry.name)
                self._roots.drop(entry.name)
        for vm in vms:
            # Left by an agent that was killed while it sent a snapshot.
            self._roots.drop_view(vm["uuid"])
            try:
                if str(self._roots.path(vm["uuid"])) not in mounted:
                    await self._roots.mount(vm)
            except NodeError as error:
                # One broken VM must not stop the node from serving the others; starting it reports
                # the error.
                log.error("vm_root_missing", uuid=vm["uuid"], error=str(error))
            self._monitors.follow(vm["uuid"])

    async def close(self) -> None:
        """Stop following; containers keep running."""
        self._monitors.close()
        self._roots.close()
        self._volumes.close()
        with contextlib.suppress(OSError):
            # Only when no VM is left.
            self._runtime.rmdir()

    def describe(self, vm: Vm) -> Vm:
        """Containers are created as requested, with the id range of their owner at creation."""
        for nic in vm["nics"]:
            if not nic.get("network_uuid"):
                raise DriverError(
                    f"Interface {nic['mac']} of VM {vm['uuid']} names no network (network_uuid)",
                    code="EINVAL",
                    rest_code="InvalidPayload",
                )
        described: Vm = {
            **vm,
            "id_base": vm["id_base"] if "id_base" in vm else self._id_base(vm),
            "zfs_filesystem": str(self._store.path(vm["uuid"])),
            "zonepath": str(self._roots.path(vm["uuid"])),
        }
        return described

    def _id_base(self, vm: Vm) -> int:
        if vm.get("privileged"):
            if not self._host.allow_privileged:
                raise DriverError(
                    f"VM {vm['uuid']} asks to be privileged, which this node does not allow"
                    " (setting node.allow_privileged)",
                    code="EPERM",
                    rest_code="NotAuthorized",
                )
            log.warning(
                "privileged_container", effect="its root is this machine's root", uuid=vm["uuid"]
            )
            return 0
        if self._host.ids is None:
            return self._host.id_base
        return self._host.ids.of(str(vm.get("owner_uuid")))

    # Making

    async def make(self, vm: Vm) -> None:
        """Create storage, mount, files of the instance, configuration."""
        await self._roots.create(vm)
        await asyncio.to_thread(self._furnish, vm)

    def _furnish(self, vm: Vm) -> None:
        root = self._roots.guest_root(vm)
        forget_former(root)
        init = instance_files.detect_init(root)
        instance_files.write_identity(root, vm, instance_files.host_resolvers())
        with_agent = instance_files.write_guest_agent(root, vm, self._guest_archive)
        instance_files.write_init(root, init, with_agent=with_agent)

    def _write_config(self, vm: Vm) -> None:
        directory = self._store.path(vm["uuid"])
        text = lxc_config.render(
            vm,
            self._host,
            root=self._roots.path(vm["uuid"]),
            directory=directory,
            init=instance_files.detect_init(self._roots.guest_root(vm)),
        )
        text += self._volumes.config_lines(vm)
        write_bytes(self._roots.config(vm["uuid"]), text.encode())

    async def check_start(self, vm: Vm) -> None:
        """Refuse networks that are not here."""
        interfaces.check_bridges(vm["nics"], self._host.prefix, vm["uuid"])

    async def check_root(self, vm: Vm) -> None:
        """Refuse an image that no container can have, and another one below snapshots that need theirs."""
        self._roots.layers(vm)
        before = self._store.get(vm["uuid"]) or unwritten(vm["uuid"])
        other = before.get("image_uuid") != vm["image_uuid"]
        if self._pool.layered and other and vm.get("snapshots"):
            raise has_snapshots(vm["uuid"])

    async def remake_root(self, vm: Vm) -> None:
        """Put the root aside; make a fresh one over the image, with the instance's files."""
        await self._roots.put_aside(vm)
        await self.make(vm)

    async def restore_root(self, vm: Vm) -> None:
        """End the container; what was put aside is its root again."""
        await self._monitors.end(vm["uuid"])
        await self._roots.put_back(vm)

    async def drop_former_root(self, vm: Vm) -> None:
        """Remove the root that was put aside."""
        await self._pool.drop_former(self._store.path(vm["uuid"]))

    async def configure(self, before: Vm, vm: Vm) -> bool:
        """Apply names, limits, quota and interfaces, also to a running container."""
        uuid = vm["uuid"]
        if vm.get("quota") != before.get("quota"):
            await self._pool.resize_root(self._store.path(uuid), int(vm.get("quota") or 0) * GIB)

        def write() -> None:
            if any(
                vm.get(name) != before.get(name)
                for name in ("hostname", "dns_domain", "resolvers", "nics")
            ):
                instance_files.write_identity(
                    self._roots.guest_root(vm), vm, instance_files.host_resolvers()
                )
            self._write_config(vm)

        state = await self.state(uuid)
        if state.pid is not None and vm["nics"] != before.get("nics"):
            interfaces.check_bridges(vm["nics"], self._host.prefix, uuid)
            wanted = interfaces.changes(
                before.get("nics", []), vm["nics"], self._host.prefix, state.pid
            )
            await interfaces.apply(wanted, state.pid)
        await asyncio.to_thread(write)
        if state.pid is None:
            return False
        old = lxc_config.limit_settings(before, self._host)
        settings = [item for item in lxc_config.limit_settings(vm, self._host) if item not in old]
        # When memory rises, raise swap's limit first, as it may not be below memory's; else last.
        for _version, name, value in settings:
            try:
                await self._lxc("lxc-cgroup", uuid, "--", name, value)
            except CommandFailed:
                await self._lxc("lxc-cgroup", uuid, "--", *self._reordered(settings, name, value))
                await self._lxc("lxc-cgroup", uuid, "--", name, value)
        return False

    # Snapshots

    async def snapshot(self, vm: Vm, name: str) -> None:
        """Snapshot the root. Where the pool copies, the container is frozen meanwhile."""
        uuid = vm["uuid"]
        freeze = not self._pool.trees.atomic_clones and self._monitors.follow(uuid) is not None
        if freeze:
            await self._lxc("lxc-freeze", uuid)
        try:
            await self._pool.snapshot(self._store.path(uuid), name)
        finally:
            if freeze:
                await self._lxc("lxc-unfreeze", uuid)

    async def rollback(self, vm: Vm, name: str) -> None:
        """Put the root of a stopped container aside, and make one of the snapshot."""
        await self._roots.rollback(vm, name)

    def snapshot_files(
        self, vm: Vm, name: str
    ) -> contextlib.AbstractAsyncContextManager[GuestRoot]:
        """The whole tree of a snapshot, for reading."""
        return self._roots.snapshot_files(vm, name)

    async def drop_snapshot(self, vm: Vm, name: str) -> None:
        """Remove a snapshot."""
        await self._pool.drop_snapshot(self._store.path(vm["uuid"]), name)

    @staticmethod
    def _reordered(
        settings: Sequence[tuple[str, str, str]], name: str, value: str
    ) -> tuple[str, str]:
        for _version, other, wanted in settings:
            if other != name and other.startswith("memory."):
                return other, wanted
        return name, value

    async def _lxc(self, tool: str, uuid: str, *arguments: str, timeout: float = 60) -> str:
        finished = await run(tool, "-P", self._path, "-n", uuid, *arguments, timeout=timeout)
        return finished.output

    # Volumes

    def volume_format(self, brand: str) -> str:
        """A file system."""
        return "ext4"

    async def attach_volume(self, vm: Vm, entry: VolumeEntry) -> None:
        """Mount it on the host and show it in the running container."""
        await self._volumes.attach(vm, entry)

    async def detach_volume(self, vm: Vm, entry: VolumeEntry) -> None:
        """Take it from the running container, and from the host."""
        await self._volumes.detach(vm, entry)

    async def grow_volume(self, vm: Vm, entry: VolumeEntry, size: int) -> None:
        """Grow the file system while it is mounted; where that is refused, between two mounts."""
        await self._volumes.grow(vm, entry, size)

    def still(self, vm: Vm, entry: VolumeEntry) -> contextlib.AbstractAsyncContextManager[None]:
        """Freeze the file system."""
        return self._volumes.still(vm, entry)

    # Running

    async def start(self, vm: Vm) -> None:
        """``lxc-start``; returns when the container runs."""
        uuid = vm["uuid"]
        interfaces.check_bridges(vm["nics"], self._host.prefix, uuid)
        if not os.path.ismount(self._roots.path(uuid)):
            await self._roots.mount(vm)
        for entry in volumes_of(vm):
            await self._volumes.mount(vm, entry)
        # Always written again: the record is authoritative, also after an interrupted update.
        self._write_config(vm)
        pid_file = self._monitors.pid_file(uuid)
        log_file = self._store.path(uuid) / "lxc.log"
        log_file.unlink(missing_ok=True)
        log_file.touch(mode=0o600)  # LXC would make it readable for its group
        await self._drop_interfaces(uuid)
        self._starting.add(uuid)
        try:
            await self._lxc("lxc-start", uuid, "-d", "-p", str(pid_file), timeout=120)
        except CommandFailed as error:
            await self._monitors.end(uuid)
            raise DriverError(
                f"VM {uuid} did not start: {errors_of(log_file) or error.output.strip()}"
            ) from error
        except asyncio.CancelledError:
            await self._monitors.end(uuid)
            raise
        finally:
            self._starting.discard(uuid)
        if self._monitors.follow(uuid) is None:
            # It started and ended at once: an init that cannot run.
            raise DriverError(
                f"VM {uuid} ended right after its start: {errors_of(log_file) or 'see console.log'}"
            )
        for nic in vm["nics"]:
            address = instance_files.address_of(nic)
            if address is not None:
                announce(
                    bridge_name(self._host.prefix, str(nic.get("network_uuid"))),
                    nic["mac"],
                    address,
                )

    async def stop(self, uuid: str, *, force: bool, timeout: float) -> None:
        """Ask init to stop, and end the container after ``timeout`` seconds."""
        monitor = self._monitors.follow(uuid)
        if monitor is None:
            return
        self._stopping.add(uuid)
        try:
            if not force and timeout > 0:
                await run(
                    "lxc-stop", "-P", self._path, "-n", uuid, "-t", str(max(1, round(timeout))),
                    check=False, timeout=timeout + 30,
                )  # fmt: skip
                if await monitor.wait(2):
                    return
            await self._monitors.end(uuid)
        finally:
            self._stopping.discard(uuid)

    async def kill(self, uuid: str, signal: int) -> None:
        """Signal the container's init."""
        state = await self.state(uuid)
        if state.pid is None:
            raise no_process(uuid)
        try:
            os.kill(state.pid, signal)
        except ProcessLookupError as error:
            raise no_process(uuid) from error

    async def state(self, uuid: str) -> RunState:
        """The state that the monitor process shows."""
        if uuid in self._starting:
            return RunState("ready")
        monitor = self._monitors.follow(uuid)
        if monitor is None:
            return RunState("installed")
        init = first_child(monitor.pid)
        return RunState.now("shutting_down" if uuid in self._stopping else "running", init)

    async def remove(self, uuid: str) -> None:
        """Stop by force; remove mount, interfaces, control groups, locks and layers."""
        await self._monitors.end(uuid)
        self._monitors.forget(uuid)
        await self._drop_interfaces(uuid)
        self._roots.drop(uuid)
        # What a killed monitor could not remove.
        remove_groups(f"lxc.*.{uuid}*")
        Path(f"/run/lxc/lock{self._path}", f".{uuid}").unlink(missing_ok=True)
        await self._pool.destroy_root(self._store.path(uuid))

    async def _drop_interfaces(self, uuid: str) -> None:
        """Remove the host's ends now: they vanish only some time after the container."""
        try:
            config = self._roots.config(uuid).read_text(encoding="utf-8")
        except FileNotFoundError:
            return
        for name in re.findall(r"^lxc\.net\.\d+\.veth\.pair = (\S+)$", config, re.MULTILINE):
            if Path("/sys/class/net", name).exists():
                await run("ip", "link", "delete", name, check=False)

    # Looking inside

    async def processes(self, uuid: str) -> dict[str, object]:
        """Processes by pid; the container's init is pid 1."""
        state = await self.state(uuid)
        if state.pid is None:
            return {}
        return await asyncio.to_thread(processes_in, state.pid)

    async def execute(
        self, uuid: str, command: Sequence[str], environment: Mapping[str, str], timeout: float
    ) -> ExecResult:
        """Run a command with ``lxc-attach``."""
        variables = [
            item for name, value in environment.items() for item in ("-v", f"{name}={value}")
        ]
        finished = await run(
            "lxc-attach", "-P", self._path, "-n", uuid, "--clear-env", *variables, "--", *command,
            check=False, timeout=timeout,
        )  # fmt: skip
        return ExecResult(finished.status, finished.output, finished.errors)

    async def exec_command(self, uuid: str, request: ExecRequest) -> HostCommand:
        """``lxc-attach`` as the requested user, in the requested directory."""
        vm = self._store.get(uuid) or unwritten(uuid)
        uid, gid, home = find_user(await self.files(vm), request.user)
        environment = {"PATH": instance_files.PATH, "HOME": home, **request.environment}
        variables = [f"--set-var={name}={value}" for name, value in environment.items()]
        # "$0" is the directory, so the caller's text is never parsed by the shell.
        enter = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', request.directory or "/"]
        return HostCommand(
            [
                "lxc-attach", "-P", self._path, "-n", uuid, "--clear-env", *variables,
                f"--uid={uid}", f"--gid={gid}", "--", *enter, *request.command,
            ],
            relays_terminal=True,
        )  # fmt: skip

    async def stats(self, uuid: str) -> dict[str, object]:
        """From the container's control groups and the host's ends of its interfaces."""
        state = await self.state(uuid)
        vm = self._store.get(uuid) or {}
        if state.pid is None:
            raise no_process(uuid)
        return group_stats(
            groups_of(state.pid, uuid),
            {
                lxc_config.guest_name(nic): host_interface_name(self._host.prefix, nic["mac"])
                for nic in vm.get("nics", [])
            },
        )

    async def files(self, vm: Vm) -> GuestRoot:
        """The container's root file system, without what the container mounts in it."""
        if not os.path.ismount(self._roots.path(vm["uuid"])):
            await self._roots.mount(vm)
        return self._roots.guest_root(vm)

    async def limit_storage(self, vm: Vm, quota_gib: int) -> None:
        """The quota of the container's storage."""
        await self._pool.resize_root(self._store.path(vm["uuid"]), quota_gib * GIB)

    async def export(
        self, vm: Vm, target: Path, *, compression: str, max_origin_depth: int
    ) -> dict[str, object]:
        """A tar of the root, or of what differs from the image where the pool keeps that apart."""
        root = await self.files(vm)
        origin = str(vm["image_uuid"])
        depth = len(self._images.layers(origin)) if self._pool.layered else 0
        if not self._pool.layered or depth >= max_origin_depth:
            return await write_image(root, target, compression=compression)
        directory = self._store.path(vm["uuid"])
        return await write_layer(directory, root, origin, target, compression=compression)

    async def usage(self, uuid: str) -> DiskUse:
        """Bytes of the container and its snapshots, without the image's."""
        return DiskUse(await self._pool.used(self._store.path(uuid)))
