"""The two protocols: what tasks need from a driver, and what a driver needs from a hypervisor.

A hypervisor inherits ``BasicHypervisor`` (``vetro.node.drivers.basic``), which refuses every
optional part, and lists in ``features`` what it supports:
``container``, ``isolation``, ``network``, ``exec``, ``reprovision``, ``snapshots``, ``files`` (its files
can be read and written from the host: copy, image creation, migration of a stopped VM),
``stats``, ``hotplug`` (interfaces of a running VM), ``console`` (VNC, serial console, screenshots),
``live-migration``, ``volumes`` (storage of its own life, attached while a VM runs),
``cpu-cap`` (``cpu_cap`` and ``cpu_shares`` are enforced and can change at run
time).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from vetro.node.guest.root import GuestRoot
from vetro.node.vm_records import Vm

Changed = Callable[[str], None]
Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class RunState:
    """A VM's state as its hypervisor reports it.

    ``zone_state``: installed (stopped), ready (starting), running, shutting_down. ``pid`` is the
    guest's first process on the host, ``boot_timestamp`` ISO time. ``frozen``: why a running VM is
    frozen (``disk-full``, ``io-error``, ``paused``, ``watchdog``).
    """

    zone_state: str
    pid: int | None = None
    boot_timestamp: str | None = None
    frozen: str | None = None


@dataclass(frozen=True)
class ExecResult:
    """The result of a command that ran in a guest."""

    exit_code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class ExecRequest:
    """A command to run inside a VM. ``user``: name, uid, ``user:group`` or '' for root.

    ``directory``: the working directory, '' for the guest's root; ``tty``: allocate a terminal.
    """

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    user: str = ""
    directory: str = ""
    tty: bool = False


@dataclass(frozen=True)
class HostCommand:
    """The command on this machine that runs an ``ExecRequest`` in the VM.

    ``relays_terminal``: it puts its terminal into raw mode, discards earlier input, and relays
    everything else.
    """

    argv: Sequence[str]
    environment: Mapping[str, str] | None = None
    directory: Path | None = None
    relays_terminal: bool = False


@dataclass(frozen=True)
class DiskUse:
    """Bytes of a VM's storage: ``used`` in the pool; ``disks_used``, ``disks_size`` of its disks."""

    used: int
    disks_used: int = 0
    disks_size: int = 0


class Driver(Protocol):
    """All operations that tasks need on VMs. All methods raise ``DriverError``."""

    name: str
    brands: Sequence[str]

    async def open(self) -> None:
        """Check the host, finish or remove what a killed agent left, follow running VMs."""
        ...

    async def close(self) -> None:
        """Stop following; VMs keep running."""
        ...

    async def autoboot(self) -> list[str]:
        """Start the stopped VMs that ask for it; returns the uuids of those that did not start."""
        ...

    async def list(self, *, include_dni: bool = False) -> list[Vm]:
        """All VM objects with their states."""
        ...

    async def load(self, uuid: str, *, include_dni: bool = True) -> Vm:
        """One VM object."""
        ...

    def exists(self, uuid: str) -> bool:
        """Whether this node has the VM."""
        ...

    async def create(self, payload: Mapping[str, object], progress: Progress) -> Vm:
        """Create a VM, and start it when ``autoboot``; after any error nothing is left."""
        ...

    async def start(self, uuid: str) -> Vm:
        """Start a stopped VM; resume a frozen one."""
        ...

    async def stop(self, uuid: str, *, force: bool = False, timeout: float = 60) -> Vm:
        """Stop it, by force after ``timeout`` seconds."""
        ...

    async def reboot(self, uuid: str, *, force: bool = False, timeout: float = 60) -> Vm:
        """Stop and start."""
        ...

    async def kill(self, uuid: str, signal: int) -> Vm:
        """Send a signal to the guest's first process."""
        ...

    async def update(self, uuid: str, changes: Mapping[str, object]) -> Vm:
        """Apply the update rules; a running VM whose interfaces change is restarted."""
        ...

    async def reprovision(self, uuid: str, image_uuid: str) -> Vm:
        """Replace the root file system, keep everything else."""
        ...

    async def create_snapshot(
        self, uuid: str, name: str | None, *, created_at: str | None = None
    ) -> Vm:
        """Snapshot the VM's disks under ``name`` (``None``: a time stamp).

        ``created_at``: when it was created, for a snapshot that comes from another node.
        """
        ...

    async def rollback_snapshot(self, uuid: str, name: str) -> Vm:
        """Restore the disks; newer snapshots are removed. A running VM is restarted."""
        ...

    async def delete_snapshot(self, uuid: str, name: str) -> Vm:
        """Remove a snapshot; a missing one is not an error."""
        ...

    async def delete(self, uuid: str) -> None:
        """Remove a VM; a missing one is not an error."""
        ...

    async def processes(self, uuid: str) -> dict[str, object]:
        """The VM's processes by pid."""
        ...

    async def info(self, uuid: str, types: Sequence[str]) -> dict[str, object]:
        """What the hypervisor knows of a running VM."""
        ...

    async def execute(
        self, uuid: str, command: Sequence[str], environment: Mapping[str, str], timeout: float
    ) -> ExecResult:
        """Run a command inside a running VM."""
        ...

    async def exec_command(self, uuid: str, request: ExecRequest) -> HostCommand:
        """The command that runs inside a running VM with the caller's streams."""
        ...

    async def stats(self, uuid: str) -> dict[str, object]:
        """A running VM's resource use, in the form of ``docker stats``."""
        ...

    def snapshot_files(self, uuid: str, name: str) -> AbstractAsyncContextManager[GuestRoot]:
        """The tree of a snapshot, readable until the block ends."""
        ...

    async def files(self, uuid: str) -> GuestRoot:
        """A VM's root file system, running or not."""
        ...

    async def console(self, uuid: str) -> Path | None:
        """The socket of a running VM's serial line; ``None``: output only (``console.log``)."""
        ...

    async def screenshot(self, uuid: str) -> bytes:
        """A picture of the screen (PNG)."""
        ...

    async def export(
        self,
        uuid: str,
        target: Path,
        *,
        compression: str,
        incremental: bool,
        max_origin_depth: int,
    ) -> dict[str, object]:
        """Write a stopped VM's image to ``target``; returns manifest fields (type, origin)."""
        ...

    async def usage(self, uuid: str) -> DiskUse:
        """Bytes on disk."""
        ...

    async def amend(self, uuid: str, fields: Mapping[str, object]) -> Vm:
        """Change the record only (used by migrations); the VM itself does not change."""
        ...

    async def limit_storage(self, uuid: str, *, limited: bool) -> None:
        """Remove the quota from the VM's storage, or set it again; the record keeps the quota."""
        ...

    async def migrate_live(
        self, uuid: str, action: str, params: Mapping[str, object]
    ) -> dict[str, object]:
        """``machine_migrate`` of a VM that moves while it runs."""
        ...

    def watch(self, changed: Changed) -> None:
        """Call ``changed(uuid)`` on every change of state or configuration."""
        ...

    def unwatch(self, changed: Changed) -> None:
        """Stop calling it."""
        ...

    def capabilities(self) -> dict[str, Any]:
        """Brands, limits and features."""
        ...


class Hypervisor(Protocol):
    """The part that differs between hypervisors: creating, running and removing one VM.

    ``make`` and ``remove`` are idempotent. All state can be found again on disk or in the system
    after a restart of the agent; none is kept in memory only.
    """

    name: str
    brands: Sequence[str]
    features: Sequence[str]

    async def open(self, vms: Sequence[Vm], ended: Changed, changed: Changed) -> None:
        """Check the host, restore mounts of ``vms``, follow running VMs.

        ``ended(uuid)`` is called when a VM has ended, ``changed(uuid)`` when it freezes or resumes.
        """
        ...

    async def close(self) -> None:
        """Stop following."""
        ...

    def about(self) -> dict[str, object]:
        """What sysinfo says of it besides its features; may become known only after ``open``."""
        ...

    def describe(self, vm: Vm) -> Vm:
        """``vm`` as this hypervisor will create it (with addresses it chooses, for example)."""
        ...

    async def make(self, vm: Vm) -> None:
        """Create what the VM needs before its first start."""
        ...

    async def remove(self, uuid: str) -> None:
        """Stop it by force and remove everything that ``make`` and ``start`` created."""
        ...

    async def start(self, vm: Vm) -> None:
        """Start; returns when the VM runs."""
        ...

    async def resume(self, uuid: str) -> None:
        """Resume a frozen VM (``RunState.frozen``)."""
        ...

    async def stop(self, uuid: str, *, force: bool, timeout: float) -> None:
        """Stop; returns when the VM no longer runs."""
        ...

    async def kill(self, uuid: str, signal: int) -> None:
        """Signal the first process."""
        ...

    async def state(self, uuid: str) -> RunState:
        """The state that the hypervisor reports now."""
        ...

    async def configure(self, vm: Vm) -> bool:
        """Change limits and configuration of a VM, running or not, to match ``vm``.

        Returns true if a running VM must be restarted to match ``vm``. The store still has the
        previous record.
        """
        ...

    async def remake_root(self, vm: Vm) -> None:
        """Replace the root file system by a fresh one from the image."""
        ...

    async def processes(self, uuid: str) -> dict[str, object]:
        """Processes by pid."""
        ...

    async def execute(
        self, uuid: str, command: Sequence[str], environment: Mapping[str, str], timeout: float
    ) -> ExecResult:
        """Run a command inside."""
        ...

    async def usage(self, uuid: str) -> DiskUse:
        """Bytes on disk."""
        ...

    async def snapshot(self, vm: Vm, name: str) -> None:
        """Snapshot the disks; an unfinished snapshot of that name is replaced."""
        ...

    async def rollback(self, vm: Vm, name: str) -> None:
        """Restore the disks of a stopped VM; the snapshot stays."""
        ...

    async def drop_snapshot(self, vm: Vm, name: str) -> None:
        """Remove a snapshot; a missing one is not an error."""
        ...

    async def exec_command(self, uuid: str, request: ExecRequest) -> HostCommand:
        """The command that runs inside with the caller's streams."""
        ...

    async def stats(self, uuid: str) -> dict[str, object]:
        """Its resource use, in the form of ``docker stats``."""
        ...

    def snapshot_files(self, vm: Vm, name: str) -> AbstractAsyncContextManager[GuestRoot]:
        """The tree of a snapshot, readable until the block ends."""
        ...

    async def files(self, vm: Vm) -> GuestRoot:
        """The root file system of a VM, running or not."""
        ...

    async def limit_storage(self, vm: Vm, quota_gib: int) -> None:
        """Limit how much the VM may write; 0: no limit."""
        ...

    async def info(self, vm: Vm, types: Sequence[str]) -> dict[str, object]:
        """What is known of a running VM by type (``vnc`` is ``{host, port, display}``)."""
        ...

    async def console(self, vm: Vm) -> Path | None:
        """The socket of a running VM's serial line; ``None``: there is none."""
        ...

    async def screenshot(self, vm: Vm) -> bytes:
        """A picture of the screen (PNG)."""
        ...

    async def export(
        self,
        vm: Vm,
        target: Path,
        *,
        compression: str,
        incremental: bool,
        max_origin_depth: int,
    ) -> dict[str, object]:
        """Write a stopped VM's image to ``target``; returns manifest fields (type, origin).

        ``incremental`` is a hint: without an ``origin`` in the result the image is self-contained.
        """
        ...

    def volume_format(self, brand: str) -> str:
        """The format of volumes (``vetro.node.storage.volumes``) that VMs of a brand take."""
        ...

    async def attach_volume(self, vm: Vm, entry: Mapping[str, object]) -> None:
        """Give a running VM the volume ``entry`` of its record; at its next start it has it anyway."""
        ...

    async def detach_volume(self, vm: Vm, entry: Mapping[str, object]) -> None:
        """Take the volume from a VM, running or not; what was written is on disk afterwards."""
        ...

    async def grow_volume(self, vm: Vm, entry: Mapping[str, object], size: int) -> None:
        """Make a volume that a VM has larger (``size`` in GiB)."""
        ...

    def still(self, vm: Vm, entry: Mapping[str, object]) -> AbstractAsyncContextManager[None]:
        """Hold the VM's writing into the volume until the block ends."""
        ...

    async def migrate_live(
        self, vm: Vm, action: str, params: Mapping[str, object]
    ) -> dict[str, object]:
        """``machine_migrate`` of a hypervisor that moves running VMs (feature ``live-migration``)."""
        ...
