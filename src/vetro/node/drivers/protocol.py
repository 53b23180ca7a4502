"""The two protocols: what tasks need of a driver, and what a driver needs of a hypervisor.

A hypervisor inherits ``BasicHypervisor`` (``vetro.node.drivers.basic``), which answers "not supported"
for every optional part, and says in ``features`` what it has:

``container``, ``isolation``, ``network``, ``exec``, ``reprovision``, ``snapshots``, ``files`` (its files
can be read and written from the host: copy, image creation, migration of a stopped VM),
``stats``, ``hotplug`` (interfaces of a running VM), ``console`` (VNC, serial console, screenshots),
``live-migration``, ``cpu-cap`` (``cpu_cap`` and ``cpu_shares`` are enforced, and change while it runs).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from vetro.node.guest_root import GuestRoot
from vetro.node.machines import Vm

Changed = Callable[[str], None]
Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class RunState:
    """A VM's state as its hypervisor has it.

    ``zone_state``: installed (stopped), ready (starting), running, shutting_down. ``pid`` is the
    guest's first process on the host, ``boot_timestamp`` ISO time. ``frozen``: why a VM that runs stands
    still (``disk-full``, ``io-error``, ``paused``, ``watchdog``).
    """

    zone_state: str
    pid: int | None = None
    boot_timestamp: str | None = None
    frozen: str | None = None


@dataclass(frozen=True)
class ExecResult:
    """A command that ran in a guest."""

    exit_code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class ExecRequest:
    """A command for inside a VM. ``user``: name, uid, ``user:group`` or '' for root.

    ``directory``: where it runs, '' for the guest's root; ``tty``: give it a terminal.
    """

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    user: str = ""
    directory: str = ""
    tty: bool = False


@dataclass(frozen=True)
class HostCommand:
    """What this machine runs so that an ``ExecRequest`` runs in the VM.

    ``relays_terminal``: it puts the terminal it is given into raw mode, throwing away what was typed
    before, and passes everything on.
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
    """Everything tasks do with VMs. All methods raise ``DriverError``."""

    name: str
    brands: Sequence[str]

    async def open(self) -> None:
        """Check the host, finish or remove what a killed agent left, follow running VMs."""
        ...

    async def close(self) -> None:
        """Stop following; VMs go on."""
        ...

    async def autoboot(self) -> list[str]:
        """Start the stopped VMs that ask for it; the uuids of those that did not start."""
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

    async def create(self, payload: Mapping[str, Any], progress: Progress) -> Vm:
        """Create, and start when ``autoboot``; on any error nothing is left."""
        ...

    async def start(self, uuid: str) -> Vm:
        """Start a stopped VM; let one that stands still go on."""
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

    async def update(self, uuid: str, changes: Mapping[str, Any]) -> Vm:
        """Apply the update rules; a running VM whose interfaces change is started again."""
        ...

    async def reprovision(self, uuid: str, image_uuid: str) -> Vm:
        """Replace the root file system, keep everything else."""
        ...

    async def create_snapshot(
        self, uuid: str, name: str | None, *, created_at: str | None = None
    ) -> Vm:
        """Keep the VM's disks as they are now under ``name`` (``None``: a time stamp).

        ``created_at``: when it was made, for one that comes from another node.
        """
        ...

    async def rollback_snapshot(self, uuid: str, name: str) -> Vm:
        """Take the disks back; newer snapshots go. A VM that ran is stopped and started again."""
        ...

    async def delete_snapshot(self, uuid: str, name: str) -> Vm:
        """Forget a snapshot; one that is not there is forgotten already."""
        ...

    async def delete(self, uuid: str) -> None:
        """Remove it; one that is not there is removed already."""
        ...

    async def processes(self, uuid: str) -> dict[str, Any]:
        """The VM's processes by pid."""
        ...

    async def info(self, uuid: str, types: Sequence[str]) -> dict[str, Any]:
        """What the hypervisor knows of a running VM."""
        ...

    async def execute(
        self, uuid: str, command: Sequence[str], environment: Mapping[str, str], timeout: float
    ) -> ExecResult:
        """Run a command inside a running VM."""
        ...

    async def exec_command(self, uuid: str, request: ExecRequest) -> HostCommand:
        """How to start a command inside a running VM with streams of the caller's."""
        ...

    async def stats(self, uuid: str) -> dict[str, Any]:
        """A running VM's use of the machine, in the form of ``docker stats``."""
        ...

    def snapshot_files(self, uuid: str, name: str) -> AbstractAsyncContextManager[GuestRoot]:
        """The tree of a snapshot, for reading, until the block ends."""
        ...

    async def files(self, uuid: str) -> GuestRoot:
        """A VM's root file system, running or not."""
        ...

    async def console(self, uuid: str) -> Path | None:
        """The socket of a running VM's serial line; ``None``: it only prints (``console.log``)."""
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
    ) -> dict[str, Any]:
        """Write a stopped VM's image to ``target``; what its manifest says beside (type, origin)."""
        ...

    async def usage(self, uuid: str) -> DiskUse:
        """Bytes on disk."""
        ...

    async def amend(self, uuid: str, fields: Mapping[str, Any]) -> Vm:
        """Change the record alone (a migration's business); nothing of the VM itself changes."""
        ...

    async def limit_storage(self, uuid: str, *, limited: bool) -> None:
        """Take the quota off the VM's storage, or put it on again; the record keeps it."""
        ...

    async def migrate_live(
        self, uuid: str, action: str, params: Mapping[str, Any]
    ) -> dict[str, Any]:
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
    """The part that differs: making, running and removing one VM.

    ``make`` and ``remove`` are idempotent. Nothing is kept in memory that cannot be found again on
    disk or in the system after a restart of the agent.
    """

    name: str
    brands: Sequence[str]
    features: Sequence[str]

    async def open(self, vms: Sequence[Vm], ended: Changed, changed: Changed) -> None:
        """Check the host, restore mounts of ``vms``, follow those that run.

        ``ended(uuid)`` is called when one has ended, ``changed(uuid)`` when it stands still or goes on.
        """
        ...

    async def close(self) -> None:
        """Stop following."""
        ...

    def about(self) -> dict[str, Any]:
        """What sysinfo says of it beside its features; may become known after ``open`` only."""
        ...

    def describe(self, vm: Vm) -> Vm:
        """``vm`` as this hypervisor will make it (addresses it decides itself, for example)."""
        ...

    async def make(self, vm: Vm) -> None:
        """Make what the VM needs before its first start."""
        ...

    async def remove(self, uuid: str) -> None:
        """Stop by force and remove everything ``make`` and ``start`` made."""
        ...

    async def start(self, vm: Vm) -> None:
        """Start; returns when the VM runs."""
        ...

    async def resume(self, uuid: str) -> None:
        """Let a VM that stands still (``RunState.frozen``) go on."""
        ...

    async def stop(self, uuid: str, *, force: bool, timeout: float) -> None:
        """Stop; returns when it does not run any more."""
        ...

    async def kill(self, uuid: str, signal: int) -> None:
        """Signal the first process."""
        ...

    async def state(self, uuid: str) -> RunState:
        """What the hypervisor says now."""
        ...

    async def configure(self, vm: Vm) -> bool:
        """Bring limits and configuration of a VM, running or not, to ``vm``.

        True: a running VM has to be started again before it is as ``vm`` says. The record of how
        it was is still in the store.
        """
        ...

    async def remake_root(self, vm: Vm) -> None:
        """A fresh root file system from the image."""
        ...

    async def processes(self, uuid: str) -> dict[str, Any]:
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
        """Keep the disks as they are now; an unfinished snapshot of that name is replaced."""
        ...

    async def rollback(self, vm: Vm, name: str) -> None:
        """Take the disks of a stopped VM back; the snapshot stays."""
        ...

    async def drop_snapshot(self, vm: Vm, name: str) -> None:
        """Remove a snapshot; one that is not there is removed already."""
        ...

    async def exec_command(self, uuid: str, request: ExecRequest) -> HostCommand:
        """How to start a command inside with streams of the caller's."""
        ...

    async def stats(self, uuid: str) -> dict[str, Any]:
        """Use of the machine, in the form of ``docker stats``."""
        ...

    def snapshot_files(self, vm: Vm, name: str) -> AbstractAsyncContextManager[GuestRoot]:
        """The tree of a snapshot, for reading, until the block ends."""
        ...

    async def files(self, vm: Vm) -> GuestRoot:
        """The root file system of a VM, running or not."""
        ...

    async def limit_storage(self, vm: Vm, quota_gib: int) -> None:
        """Limit what the VM may write; 0 is no limit."""
        ...

    async def info(self, vm: Vm, types: Sequence[str]) -> dict[str, Any]:
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
    ) -> dict[str, Any]:
        """Write a stopped VM's image to ``target``; what its manifest says beside (type, origin).

        ``incremental`` is a wish: without an ``origin`` in the answer the image stands alone.
        """
        ...

    async def migrate_live(self, vm: Vm, action: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """``machine_migrate`` of a hypervisor that moves running VMs (feature ``live-migration``)."""
        ...
