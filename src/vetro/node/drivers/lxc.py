"""System containers with LXC: unprivileged, on an overlay over the unpacked image.

``<data_dir>/vms/<uuid>/`` holds ``upper`` and ``work`` (the overlay's layers), ``monitor.pid`` and
logs. The one LXC path is ``/run/vetro/<prefix>-<hash>``: there ``<uuid>/config`` and ``<uuid>/rootfs``,
where the overlay is mounted. It is not in the data directory because LXC enters it as the
containers' root, who may not pass a private directory; all of it can be made again from the record.

LXC's monitor process lives as long as the container, outlives the agent, and is followed by a
process descriptor: the end of a container is an event.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import signal
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from vetro.node import instance_files
from vetro.node.commands import run
from vetro.node.drivers import lxc_config
from vetro.node.drivers.basic import BasicHypervisor
from vetro.node.drivers.followed import (
    FollowedProcess,
    first_child,
    processes_by_pid,
    started_at,
)
from vetro.node.drivers.protocol import Changed, DiskUse, ExecResult, RunState
from vetro.node.errors import CommandFailed, DriverError, NodeError
from vetro.node.files import remove_tree, tree_bytes, write_bytes
from vetro.node.guest_root import GuestRoot
from vetro.node.image_store import ImageStore
from vetro.node.machines import CONTAINER_BRANDS, MachineStore, Vm, timestamp
from vetro.node.mounts import mount_overlay, mount_points, unmount
from vetro.node.network.announce import announce
from vetro.node.network.names import bridge_name

log = structlog.get_logger(__name__)

_RUN = Path("/run/vetro")


class LxcHypervisor(BasicHypervisor):
    """Containers of one agent."""

    name = "lxc"
    brands: Sequence[str] = CONTAINER_BRANDS
    features: Sequence[str] = ("container", "isolation", "network", "exec", "reprovision")

    def __init__(
        self,
        host: lxc_config.ContainerHost,
        store: MachineStore,
        images: ImageStore,
        guest_archive: Path | None,
    ) -> None:
        self._host = host
        self._store = store
        self._images = images
        self._guest_archive = guest_archive
        label = hashlib.sha256(str(store.directory).encode()).hexdigest()[:8]
        self._runtime = _RUN / f"{host.prefix}-{label}"
        self._path = str(self._runtime)
        self._monitors: dict[str, FollowedProcess] = {}
        self._stopping: set[str] = set()
        self._starting: set[str] = set()
        self._ended: Changed = lambda _uuid: None

    async def open(self, vms: Sequence[Vm], ended: Changed) -> None:
        """Restore mounts, drop those of nobody, follow the containers that run."""
        self._ended = ended
        self._runtime.mkdir(mode=0o711, parents=True, exist_ok=True)
        _RUN.chmod(0o755)
        mounted = mount_points()
        known = {vm["uuid"] for vm in vms}
        for entry in self._runtime.iterdir():
            if entry.name not in known:
                # Half made, or of a data directory that was removed while its containers ran.
                await self._end_processes(entry.name)
                await self._drop_interfaces(entry.name)
                self._drop_runtime(entry.name)
        for vm in vms:
            try:
                if str(self._root(vm["uuid"])) not in mounted:
                    self._mount(vm)
            except NodeError as error:
                # One broken VM must not keep the node from serving the others; its start says why.
                log.error("A VM has no root file system", uuid=vm["uuid"], error=str(error))
            self._follow(vm["uuid"])

    async def close(self) -> None:
        """Stop following; containers go on."""
        for monitor in self._monitors.values():
            monitor.close()
        self._monitors.clear()
        with contextlib.suppress(OSError):
            # Only when no VM is left.
            self._runtime.rmdir()

    def describe(self, vm: Vm) -> Vm:
        """Containers are made as asked."""
        for nic in vm["nics"]:
            if not nic.get("network_uuid"):
                raise DriverError(
                    f"Interface {nic['mac']} of VM {vm['uuid']} names no network (network_uuid)",
                    code="EINVAL",
                    rest_code="InvalidPayload",
                )
        return {
            **vm,
            "zfs_filesystem": str(self._store.path(vm["uuid"])),
            "zonepath": str(self._root(vm["uuid"])),
        }

    def _root(self, uuid: str) -> Path:
        return self._runtime / uuid / "rootfs"

    def _config(self, uuid: str) -> Path:
        return self._runtime / uuid / "config"

    def _drop_runtime(self, uuid: str) -> None:
        root = self._root(uuid)
        unmount(root)
        self._config(uuid).unlink(missing_ok=True)
        for directory in (root, root.parent):
            # Not a tree: if something were still mounted, its files must stay.
            with contextlib.suppress(FileNotFoundError):
                directory.rmdir()

    def _is_monitor(self, uuid: str, argv: list[str]) -> bool:
        """LXC renames its monitor; before that it is the ``lxc-start`` we gave these arguments."""
        words = " ".join(argv).split()
        return self._path in words and uuid in words and "lxc" in words[0]

    def _pid_file(self, uuid: str) -> Path:
        return self._store.path(uuid) / "monitor.pid"

    def _follow(self, uuid: str) -> FollowedProcess | None:
        known = self._monitors.get(uuid)
        if known is not None and known.running:
            return known
        try:
            pid = int(self._pid_file(uuid).read_text())
        except (FileNotFoundError, ValueError):
            return None
        return self._follow_pid(uuid, pid)

    def _follow_pid(self, uuid: str, pid: int) -> FollowedProcess | None:
        monitor = FollowedProcess.attach(
            pid, partial(self._is_monitor, uuid), partial(self._on_end, uuid)
        )
        if monitor is not None:
            self._monitors[uuid] = monitor
        return monitor

    def _on_end(self, uuid: str) -> None:
        self._monitors.pop(uuid, None)
        self._pid_file(uuid).unlink(missing_ok=True)
        self._ended(uuid)

    # Making

    def _mount(self, vm: Vm) -> None:
        uuid = vm["uuid"]
        directory = self._store.path(uuid)
        root = self._root(uuid)
        root.parent.mkdir(mode=0o711, exist_ok=True)
        root.mkdir(mode=0o755, exist_ok=True)
        mount_overlay(
            self._images.root(vm["image_uuid"]), directory / "upper", directory / "work", root
        )

    async def make(self, vm: Vm) -> None:
        """Layers, mount, files of the instance, configuration."""
        await asyncio.to_thread(self._make, vm)

    def _make(self, vm: Vm) -> None:
        directory = self._store.path(vm["uuid"])
        for name in ("upper", "work"):
            (directory / name).mkdir(mode=0o755, exist_ok=True)
        os.chown(directory / "upper", self._host.id_base, self._host.id_base)
        self._mount(vm)
        root = self._guest_root(vm["uuid"])
        init = instance_files.detect_init(root)
        instance_files.write_identity(root, vm, host_resolvers())
        with_agent = instance_files.write_guest_agent(root, vm, self._guest_archive)
        instance_files.write_init(root, init, with_agent=with_agent)

    def _guest_root(self, uuid: str) -> GuestRoot:
        return GuestRoot(self._root(uuid), self._host.id_base)

    def _write_config(self, vm: Vm) -> None:
        directory = self._store.path(vm["uuid"])
        text = lxc_config.render(
            vm,
            self._host,
            root=self._root(vm["uuid"]),
            directory=directory,
            init=instance_files.detect_init(self._guest_root(vm["uuid"])),
        )
        write_bytes(self._config(vm["uuid"]), text.encode())

    async def remake_root(self, vm: Vm) -> None:
        """An empty upper layer over the image; the files of the instance are put in again."""
        unmount(self._root(vm["uuid"]))
        directory = self._store.path(vm["uuid"])
        for name in ("upper", "work"):
            await asyncio.to_thread(remove_tree, directory / name)
        await self.make(vm)

    async def configure(self, vm: Vm) -> bool:
        """Names and limits, also of a running container; interfaces wait for the next start."""
        uuid = vm["uuid"]
        before = self._store.get(uuid) or {}

        def write() -> None:
            if any(
                vm.get(name) != before.get(name) for name in ("hostname", "dns_domain", "resolvers")
            ):
                instance_files.write_identity(self._guest_root(uuid), vm, host_resolvers())
            self._write_config(vm)

        await asyncio.to_thread(write)
        if self._follow(uuid) is None:
            return False
        old = lxc_config.limit_settings(before, self._host)
        settings = [item for item in lxc_config.limit_settings(vm, self._host) if item not in old]
        # Raising memory: swap's limit first, it may not be below memory's; lowering: the reverse.
        for _version, name, value in settings:
            try:
                await self._lxc("lxc-cgroup", uuid, name, value)
            except CommandFailed:
                await self._lxc("lxc-cgroup", uuid, *self._reordered(settings, name, value))
                await self._lxc("lxc-cgroup", uuid, name, value)
        return vm["nics"] != before.get("nics")

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

    # Running

    async def start(self, vm: Vm) -> None:
        """``lxc-start``; returns when the container runs."""
        uuid = vm["uuid"]
        for nic in vm["nics"]:
            bridge = bridge_name(self._host.prefix, str(nic["network_uuid"]))
            if not Path("/sys/class/net", bridge).exists():
                raise DriverError(
                    f"Network {nic['network_uuid']} is not on this node: apply the networks"
                    f" (network_apply) before VM {uuid} is started",
                    rest_code="NetworkNotFound",
                )
        if not os.path.ismount(self._root(uuid)):
            self._mount(vm)
        # Always anew: the record is what counts, also after an update that was interrupted.
        self._write_config(vm)
        pid_file = self._pid_file(uuid)
        log_file = self._store.path(uuid) / "lxc.log"
        log_file.unlink(missing_ok=True)
        await self._drop_interfaces(uuid)
        self._starting.add(uuid)
        try:
            await self._lxc("lxc-start", uuid, "-d", "-p", str(pid_file), timeout=120)
        except CommandFailed as error:
            await self._end_processes(uuid)
            raise DriverError(
                f"VM {uuid} did not start: {_errors_of(log_file) or error.output.strip()}"
            ) from error
        except asyncio.CancelledError:
            await self._end_processes(uuid)
            raise
        finally:
            self._starting.discard(uuid)
        if self._follow(uuid) is None:
            # It came up and ended at once: an init that cannot run.
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
        monitor = self._follow(uuid)
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
            await self._end_processes(uuid)
        finally:
            self._stopping.discard(uuid)

    async def _end_processes(self, uuid: str) -> None:
        """End the container by force, whatever state LXC is in."""
        monitor = self._follow(uuid)
        if monitor is not None:
            await run("lxc-stop", "-P", self._path, "-n", uuid, "-k", check=False, timeout=30)
            if await monitor.wait(5):
                return
        # Or without a known monitor: lxc-start of an agent that was killed. It forks while we look.
        for _ in range(10):
            strays = [
                pid
                for pid, argv in await asyncio.to_thread(processes_by_pid)
                if argv and self._is_monitor(uuid, argv)
            ]
            if not strays:
                return
            for pid in strays:
                await self._end_stray(uuid, pid)
        raise DriverError(f"VM {uuid}: its processes do not end")

    async def _end_stray(self, uuid: str, pid: int) -> None:
        monitor = FollowedProcess.attach(pid, partial(self._is_monitor, uuid), lambda: None)
        if monitor is None:
            return
        # LXC arranged that the container dies with its monitor; make it certain, and wait for it.
        child = first_child(pid)
        init = (
            FollowedProcess.attach(child, lambda _argv: True, lambda: None)
            if child is not None
            else None
        )
        for process in (monitor, init):
            if process is not None:
                process.signal(signal.SIGKILL)
        for process in (monitor, init):
            if process is not None and not await process.wait(10):
                process.close()
                raise DriverError(f"VM {uuid}: process {process.pid} does not end")

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
        """What the monitor process says."""
        if uuid in self._starting:
            return RunState("ready")
        monitor = self._follow(uuid)
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
        await self._end_processes(uuid)
        monitor = self._monitors.pop(uuid, None)
        if monitor is not None:
            monitor.close()
        await self._drop_interfaces(uuid)
        self._drop_runtime(uuid)
        _remove_control_groups(uuid)
        Path(f"/run/lxc/lock{self._path}", f".{uuid}").unlink(missing_ok=True)
        directory = self._store.path(uuid)
        await asyncio.to_thread(remove_tree, directory / "upper")
        await asyncio.to_thread(remove_tree, directory / "work")

    async def _drop_interfaces(self, uuid: str) -> None:
        """The host's ends vanish some time after the container: do not leave that to time."""
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
        return await asyncio.to_thread(_processes_in, state.pid)

    async def execute(
        self, uuid: str, command: Sequence[str], environment: Mapping[str, str], timeout: float
    ) -> ExecResult:
        """``lxc-attach``."""
        variables = [
            item for name, value in environment.items() for item in ("-v", f"{name}={value}")
        ]
        finished = await run(
            "lxc-attach", "-P", self._path, "-n", uuid, "--clear-env", *variables, "--", *command,
            check=False, timeout=timeout,
        )  # fmt: skip
        return ExecResult(finished.status, finished.output, finished.errors)

    async def usage(self, uuid: str) -> DiskUse:
        """Bytes in the upper layer."""
        return DiskUse(await tree_bytes(self._store.path(uuid) / "upper"))


def host_resolvers() -> list[str]:
    """The machine's name servers that a container can reach: not those on its loopback."""
    for name in ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"):
        try:
            text = Path(name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            continue
        found: list[str] = re.findall(r"^\s*nameserver\s+([0-9.]+)\s*$", text, re.MULTILINE)
        reachable = [address for address in found if not address.startswith("127.")]
        if reachable:
            return reachable
    return []


def _errors_of(log_file: Path) -> str:
    """The errors LXC wrote, without its times and source places."""
    try:
        lines = log_file.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    errors = [line.partition(" ERROR ")[2] for line in lines if " ERROR " in line]
    words = [re.sub(r"^\s*\S+ - \S+ - ", "", text) for text in errors]
    return "; ".join(dict.fromkeys(words[:4]))


def _remove_control_groups(uuid: str) -> None:
    """What a monitor that was killed could not remove."""
    top = Path("/sys/fs/cgroup")
    for group in (*top.glob(f"lxc.*.{uuid}*"), *top.glob(f"*/lxc.*.{uuid}*")):
        for inner in sorted(group.rglob("*/"), reverse=True):
            with contextlib.suppress(OSError):
                inner.rmdir()
        with contextlib.suppress(OSError):
            group.rmdir()


def _processes_in(init: int) -> dict[str, Any]:
    try:
        namespace = os.readlink(f"/proc/{init}/ns/pid")
    except FileNotFoundError:
        return {}
    found: dict[str, Any] = {}
    for pid, argv in processes_by_pid():
        try:
            if os.readlink(f"/proc/{pid}/ns/pid") != namespace:
                continue
            status = Path(f"/proc/{pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            # Gone meanwhile, or a process of the machine that has more rights than we.
            continue
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        inner = fields["NSpid"].split()[-1]
        found[inner] = {
            "pid": int(inner),
            "host_pid": pid,
            "command": argv or [fields["Name"].strip()],
            "state": fields["State"].split()[0],
            "rss_bytes": int(fields.get("VmRSS", "0").split()[0]) * 1024,
        }
    return found
