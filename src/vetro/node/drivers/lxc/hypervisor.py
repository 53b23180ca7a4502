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
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from vetro.node.commands import run
from vetro.node.drivers.basic import BasicHypervisor
from vetro.node.drivers.control_groups import groups_of, remove_groups
from vetro.node.drivers.lxc import config as lxc_config
from vetro.node.drivers.lxc import export, interfaces
from vetro.node.drivers.lxc import volumes as lxc_volumes
from vetro.node.drivers.lxc.inside import find_user, processes_in
from vetro.node.drivers.lxc.monitors import Monitors
from vetro.node.drivers.protocol import (
    Changed,
    DiskUse,
    ExecRequest,
    ExecResult,
    HostCommand,
    RunState,
)
from vetro.node.drivers.stats import group_stats
from vetro.node.errors import CommandFailed, DriverError, NodeError
from vetro.node.files import write_bytes
from vetro.node.guest import instance_files
from vetro.node.guest.root import GuestRoot
from vetro.node.images.store import ImageStore
from vetro.node.network.announce import announce
from vetro.node.network.names import bridge_name, host_interface_name
from vetro.node.processes import first_child, started_at
from vetro.node.storage.directory import DirectoryPool, DirectoryTrees
from vetro.node.storage.idmapped import IdMapping
from vetro.node.storage.mounts import mount_points, unmount
from vetro.node.storage.pool import Pool
from vetro.node.storage.volumes import VolumeStore
from vetro.node.vm_objects import CONTAINER_BRANDS, MachineStore, Vm, timestamp, volumes_of

log = structlog.get_logger(__name__)

_RUN = Path("/run/vetro")
_GIB = 2**30


class LxcHypervisor(BasicHypervisor):
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
        self._mappings: dict[int, IdMapping] = {}
        self._volumes = volumes or VolumeStore(store.directory.parent / "volumes")
        self._volume_mappings: dict[int, IdMapping] = {}
        self._guest_archive = guest_archive
        label = hashlib.sha256(str(store.directory).encode()).hexdigest()[:8]
        self._runtime = _RUN / f"{host.prefix}-{label}"
        self._path = str(self._runtime)
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
                self._drop_runtime(entry.name)
        for vm in vms:
            # Left by an agent that was killed while it sent a snapshot.
            self._drop_view(vm["uuid"])
            try:
                if str(self._root(vm["uuid"])) not in mounted:
                    await self._mount(vm)
            except NodeError as error:
                # One broken VM must not stop the node from serving the others; starting it reports
                # the error.
                log.error("vm_root_missing", uuid=vm["uuid"], error=str(error))
            self._monitors.follow(vm["uuid"])

    async def close(self) -> None:
        """Stop following; containers go on."""
        self._monitors.close()
        for mapping in (*self._mappings.values(), *self._volume_mappings.values()):
            mapping.close()
        self._mappings.clear()
        self._volume_mappings.clear()
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
        return {
            **vm,
            "id_base": vm["id_base"] if "id_base" in vm else self._id_base(vm),
            "zfs_filesystem": str(self._store.path(vm["uuid"])),
            "zonepath": str(self._root(vm["uuid"])),
        }

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

    def _root(self, uuid: str) -> Path:
        return self._runtime / uuid / "rootfs"

    def _config(self, uuid: str) -> Path:
        return self._runtime / uuid / "config"

    def _drop_runtime(self, uuid: str) -> None:
        root = self._root(uuid)
        unmount(root)
        self._drop_view(uuid)
        for volume in root.parent.glob("volume-*"):
            unmount(volume)
            volume.rmdir()
        self._config(uuid).unlink(missing_ok=True)
        for directory in (root, root.parent):
            # Not a recursive removal: if something were still mounted, its files must stay.
            with contextlib.suppress(FileNotFoundError):
                directory.rmdir()

    # Making

    async def _mount(self, vm: Vm) -> None:
        uuid = vm["uuid"]
        root = self._root(uuid)
        root.parent.mkdir(mode=0o711, exist_ok=True)
        root.mkdir(mode=0o755, exist_ok=True)
        await self._pool.mount_root(
            self._store.path(uuid), self._layers(vm), root, self._mapping(vm)
        )

    def _layers(self, vm: Vm) -> list[Path]:
        return self._images.layers(vm["image_uuid"])

    def _mapping(self, vm: Vm) -> IdMapping | None:
        """From the images' owners to the container's; ``None`` where they are the same."""
        base = lxc_config.id_base_of(vm, self._host)
        if base == self._host.id_base:
            return None
        if base not in self._mappings:
            self._mappings[base] = IdMapping(self._host.id_base, base, self._host.id_count)
        return self._mappings[base]

    async def make(self, vm: Vm) -> None:
        """Create storage, mount, files of the instance, configuration."""
        await self._pool.create_root(
            self._store.path(vm["uuid"]),
            self._layers(vm),
            owner=lxc_config.id_base_of(vm, self._host),
            quota_bytes=int(vm.get("quota") or 0) * _GIB,
        )
        await self._mount(vm)
        await asyncio.to_thread(self._furnish, vm)

    def _furnish(self, vm: Vm) -> None:
        root = self._guest_root(vm)
        init = instance_files.detect_init(root)
        instance_files.write_identity(root, vm, instance_files.host_resolvers())
        with_agent = instance_files.write_guest_agent(root, vm, self._guest_archive)
        instance_files.write_init(root, init, with_agent=with_agent)

    def _guest_root(self, vm: Vm) -> GuestRoot:
        path, own = self._pool.seen_by_host(self._store.path(vm["uuid"]), self._root(vm["uuid"]))
        return self._owned(vm, path, own)

    def _owned(self, vm: Vm, path: Path, own: bool) -> GuestRoot:
        return GuestRoot(path, lxc_config.id_base_of(vm, self._host) if own else self._host.id_base)

    def _write_config(self, vm: Vm) -> None:
        directory = self._store.path(vm["uuid"])
        text = lxc_config.render(
            vm,
            self._host,
            root=self._root(vm["uuid"]),
            directory=directory,
            init=instance_files.detect_init(self._guest_root(vm)),
        )
        shown = [(self._volume(vm, one), str(one["path"])) for one in volumes_of(vm)]
        text += "".join(f"{line}\n" for line in lxc_volumes.mount_entries(shown))
        write_bytes(self._config(vm["uuid"]), text.encode())

    async def remake_root(self, vm: Vm) -> None:
        """Replace the root by a fresh one over the image; write the instance's files again."""
        unmount(self._root(vm["uuid"]))
        await self.make(vm)

    async def configure(self, vm: Vm) -> bool:
        """Apply names, limits, quota and interfaces, also to a running container."""
        uuid = vm["uuid"]
        before = self._store.get(uuid) or {}
        if vm.get("quota") != before.get("quota"):
            await self._pool.resize_root(self._store.path(uuid), int(vm.get("quota") or 0) * _GIB)

        def write() -> None:
            if any(
                vm.get(name) != before.get(name)
                for name in ("hostname", "dns_domain", "resolvers", "nics")
            ):
                instance_files.write_identity(
                    self._guest_root(vm), vm, instance_files.host_resolvers()
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
        """Restore the root of a stopped container."""
        unmount(self._root(vm["uuid"]))
        try:
            await self._pool.rollback(self._store.path(vm["uuid"]), name)
        finally:
            await self._mount(vm)

    @contextlib.asynccontextmanager
    async def snapshot_files(self, vm: Vm, name: str) -> AsyncGenerator[GuestRoot, None]:
        """The whole tree of a snapshot, for reading."""
        view = self._view(vm["uuid"])
        view.parent.mkdir(mode=0o711, exist_ok=True)
        view.mkdir(mode=0o700, exist_ok=True)
        try:
            path, own = await self._pool.show_snapshot(
                self._store.path(vm["uuid"]), name, self._layers(vm), view, self._mapping(vm)
            )
            yield self._owned(vm, path, own)
        finally:
            self._drop_view(vm["uuid"])

    def _view(self, uuid: str) -> Path:
        return self._runtime / uuid / "snapshot"

    def _drop_view(self, uuid: str) -> None:
        view = self._view(uuid)
        unmount(view)
        with contextlib.suppress(FileNotFoundError):
            view.rmdir()

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

    def _volume(self, vm: Vm, entry: Mapping[str, Any]) -> Path:
        return self._root(vm["uuid"]).parent / f"volume-{entry['uuid']}"

    async def _mount_volume(self, vm: Vm, entry: Mapping[str, Any]) -> None:
        base = lxc_config.id_base_of(vm, self._host)
        if base and base not in self._volume_mappings:
            self._volume_mappings[base] = IdMapping(0, base, self._host.id_count)
        target = self._volume(vm, entry)
        target.parent.mkdir(mode=0o711, exist_ok=True)
        await lxc_volumes.mount_on_host(
            self._volumes.data(entry["uuid"]),
            target,
            read_only=bool(entry.get("read_only")),
            mapping=self._volume_mappings.get(base),
        )

    async def attach_volume(self, vm: Vm, entry: Mapping[str, Any]) -> None:
        """Mount it on the host and show it in the running container."""
        state = await self.state(vm["uuid"])
        if state.pid is None:
            return
        target = self._volume(vm, entry)
        own = lxc_config.id_base_of(vm, self._host) != 0
        if os.path.ismount(target) and not await lxc_volumes.taken_off(
            state.pid, str(entry["path"]), own_users=own
        ):
            return  # it has it, and uses it
        await self._mount_volume(vm, entry)
        try:
            await lxc_volumes.show(target, state.pid, str(entry["path"]), own_users=own)
        except BaseException:
            unmount(target)
            raise

    async def detach_volume(self, vm: Vm, entry: Mapping[str, Any]) -> None:
        """Take it from the running container, and from the host."""
        target = self._volume(vm, entry)
        if not target.is_dir():
            return
        state = await self.state(vm["uuid"])
        own = lxc_config.id_base_of(vm, self._host) != 0
        await lxc_volumes.hide(target, state.pid, str(entry["path"]), own_users=own)
        target.rmdir()

    async def grow_volume(self, vm: Vm, entry: Mapping[str, Any], size: int) -> None:
        """Grow the file system while it is mounted; where that is refused, between two mounts."""
        target, state = self._volume(vm, entry), await self.state(vm["uuid"])
        mounted = os.path.ismount(target)
        if mounted and await lxc_volumes.grow_mounted(
            self._volumes.data(entry["uuid"]), size * _GIB
        ):
            return
        own = lxc_config.id_base_of(vm, self._host) != 0
        path = str(entry["path"])
        if (
            mounted
            and state.pid is not None
            and not await lxc_volumes.taken_off(state.pid, path, own_users=own)
        ):
            raise DriverError(
                f"Volume {entry['uuid']} is in use, and this machine does not let the agent grow a"
                f" mounted file system (CAP_SYS_RESOURCE): stop what uses it in VM {vm['uuid']}",
                code="EBUSY",
                rest_code="VolumeInUse",
            )
        unmount(target)
        try:
            await self._volumes.grow(entry["uuid"], size)
        finally:
            await self.attach_volume(vm, entry)

    def still(
        self, vm: Vm, entry: Mapping[str, Any]
    ) -> contextlib.AbstractAsyncContextManager[None]:
        """Freeze the file system."""
        target = self._volume(vm, entry)
        if os.path.ismount(target) and not entry.get("read_only"):
            return lxc_volumes.frozen(target)
        return contextlib.nullcontext()

    # Running

    async def start(self, vm: Vm) -> None:
        """``lxc-start``; returns when the container runs."""
        uuid = vm["uuid"]
        interfaces.check_bridges(vm["nics"], self._host.prefix, uuid)
        if not os.path.ismount(self._root(uuid)):
            await self._mount(vm)
        for entry in volumes_of(vm):
            await self._mount_volume(vm, entry)
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
                f"VM {uuid} did not start: {_errors_of(log_file) or error.output.strip()}"
            ) from error
        except asyncio.CancelledError:
            await self._monitors.end(uuid)
            raise
        finally:
            self._starting.discard(uuid)
        if self._monitors.follow(uuid) is None:
            # It started and ended at once: an init that cannot run.
            raise DriverError(
                f"VM {uuid} ended right after its start: {_errors_of(log_file) or 'see console.log'}"
            )
        for nic in vm["nics"]:
            address = instance_files.address_of(nic)
            if address is not None:
                announce(
                    bridge_name(self._host.prefix, str(nic["network_uuid"])), nic["mac"], address
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
            raise DriverError(f"VM {uuid} has no process", code="ESRCH", rest_code="VmNotRunning")
        try:
            os.kill(state.pid, signal)
        except ProcessLookupError as error:
            raise DriverError(
                f"VM {uuid} has no process", code="ESRCH", rest_code="VmNotRunning"
            ) from error

    async def state(self, uuid: str) -> RunState:
        """The state that the monitor process shows."""
        if uuid in self._starting:
            return RunState("ready")
        monitor = self._monitors.follow(uuid)
        if monitor is None:
            return RunState("installed")
        init = first_child(monitor.pid)
        began = started_at(init) if init is not None else None
        return RunState(
            "shutting_down" if uuid in self._stopping else "running",
            init,
            timestamp(datetime.fromtimestamp(began, UTC)) if began is not None else None,
        )

    async def remove(self, uuid: str) -> None:
        """Stop by force; remove mount, interfaces, control groups, locks and layers."""
        await self._monitors.end(uuid)
        self._monitors.forget(uuid)
        await self._drop_interfaces(uuid)
        self._drop_runtime(uuid)
        # What a killed monitor could not remove.
        remove_groups(f"lxc.*.{uuid}*")
        Path(f"/run/lxc/lock{self._path}", f".{uuid}").unlink(missing_ok=True)
        await self._pool.destroy_root(self._store.path(uuid))

    async def _drop_interfaces(self, uuid: str) -> None:
        """Remove the host's ends now: they vanish only some time after the container."""
        try:
            config = self._config(uuid).read_text(encoding="utf-8")
        except FileNotFoundError:
            return
        for name in re.findall(r"^lxc\.net\.\d+\.veth\.pair = (\S+)$", config, re.MULTILINE):
            if Path("/sys/class/net", name).exists():
                await run("ip", "link", "delete", name, check=False)

    # Looking inside

    async def processes(self, uuid: str) -> dict[str, Any]:
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
        vm = self._store.get(uuid) or {"uuid": uuid}
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

    async def stats(self, uuid: str) -> dict[str, Any]:
        """From the container's control groups and the host's ends of its interfaces."""
        state = await self.state(uuid)
        vm = self._store.get(uuid) or {}
        if state.pid is None:
            raise DriverError(f"VM {uuid} has no process", code="ESRCH", rest_code="VmNotRunning")
        return group_stats(
            groups_of(state.pid, uuid),
            {
                lxc_config.guest_name(nic): host_interface_name(self._host.prefix, nic["mac"])
                for nic in vm.get("nics", [])
            },
        )

    async def files(self, vm: Vm) -> GuestRoot:
        """The container's root file system, without what the container mounts in it."""
        if not os.path.ismount(self._root(vm["uuid"])):
            await self._mount(vm)
        return self._guest_root(vm)

    async def limit_storage(self, vm: Vm, quota_gib: int) -> None:
        """The quota of the container's storage."""
        await self._pool.resize_root(self._store.path(vm["uuid"]), quota_gib * _GIB)

    async def export(
        self,
        vm: Vm,
        target: Path,
        *,
        compression: str,
        incremental: bool,
        max_origin_depth: int,
    ) -> dict[str, Any]:
        """A tar of the root, or of what differs from the image where the pool keeps that apart."""
        root = await self.files(vm)
        origin = str(vm["image_uuid"])
        depth = len(self._images.layers(origin)) if self._pool.layered else 0
        if not incremental or not self._pool.layered or depth >= max_origin_depth:
            return await export.write_image(
                root, target, compression=compression, id_count=self._host.id_count
            )
        return await export.write_layer(
            self._store.path(vm["uuid"]), root, origin, target,
            compression=compression, id_count=self._host.id_count,
        )  # fmt: skip

    async def usage(self, uuid: str) -> DiskUse:
        """Bytes of the container and its snapshots, without the image's."""
        return DiskUse(await self._pool.used(self._store.path(uuid)))


def _errors_of(log_file: Path) -> str:
    """The errors LXC wrote, without its times and source places."""
    try:
        lines = log_file.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    errors = [line.partition(" ERROR ")[2] for line in lines if " ERROR " in line]
    words = [re.sub(r"^\s*\S+ - \S+ - ", "", text) for text in errors]
    return "; ".join(dict.fromkeys(words[:4]))
