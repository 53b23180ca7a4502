"""The base of every hypervisor: what the driver needs from it.

A hypervisor overrides what it supports of the optional parts, and lists it in ``features``:
``container``, ``isolation``, ``network``, ``exec``, ``reprovision``, ``snapshots``, ``files`` (its files
can be read and written from the host: copy, image creation, migration of a stopped VM),
``stats``, ``hotplug`` (interfaces of a running VM), ``console`` (VNC, serial console, screenshots),
``live-migration``, ``volumes`` (storage of its own life, attached while a VM runs),
``cpu-cap`` (``cpu_cap`` and ``cpu_shares`` are enforced and can change at run
time).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from vetro.node.errors import not_implemented
from vetro.node.guest.root import GuestRoot
from vetro.node.processes import started_at
from vetro.node.vm_objects import timestamp
from vetro.node.vm_records import Vm, VolumeEntry

Changed = Callable[[str], None]


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

    @classmethod
    def now(cls, zone_state: str, pid: int | None, frozen: str | None = None) -> RunState:
        """The state of a VM whose first process is ``pid``."""
        began = started_at(pid) if pid is not None else None
        boot = None if began is None else timestamp(datetime.fromtimestamp(began, UTC))
        return cls(zone_state, pid, boot, frozen)


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


class Hypervisor(ABC):
    """The part that differs between hypervisors: creating, running and removing one VM.

    Optional parts that a hypervisor does not override are refused with ``NotImplemented``. ``make`` and
    ``remove`` are idempotent. All state can be found again on disk or in the system after a restart of
    the agent; none is kept in memory only.
    """

    name: str
    brands: Sequence[str]
    features: Sequence[str]

    @abstractmethod
    async def open(self, vms: Sequence[Vm], ended: Changed, changed: Changed) -> None:
        """Check the host, restore mounts of ``vms``, follow running VMs.

        ``ended(uuid)`` is called when a VM has ended, ``changed(uuid)`` when it freezes or resumes.
        """

    @abstractmethod
    async def close(self) -> None:
        """Stop following."""

    def about(self) -> dict[str, object]:
        """What sysinfo says of it besides its features; may become known only after ``open``."""
        return {}

    @abstractmethod
    def describe(self, vm: Vm) -> Vm:
        """``vm`` as this hypervisor will create it (with addresses it chooses, for example)."""

    @abstractmethod
    async def make(self, vm: Vm) -> None:
        """Create what the VM needs before its first start."""

    @abstractmethod
    async def remove(self, uuid: str) -> None:
        """Stop it by force and remove everything that ``make`` and ``start`` created."""

    @abstractmethod
    async def start(self, vm: Vm) -> None:
        """Start; returns when the VM runs."""

    async def resume(self, uuid: str) -> None:
        """Resume a frozen VM (``RunState.frozen``)."""
        raise not_implemented("Resuming a VM", self.name)

    @abstractmethod
    async def stop(self, uuid: str, *, force: bool, timeout: float) -> None:
        """Stop; returns when the VM no longer runs."""

    @abstractmethod
    async def kill(self, uuid: str, signal: int) -> None:
        """Signal the first process."""

    @abstractmethod
    async def state(self, uuid: str) -> RunState:
        """The state that the hypervisor reports now."""

    @abstractmethod
    async def configure(self, before: Vm, vm: Vm) -> bool:
        """Change limits and configuration of a VM, running or not, from ``before`` to ``vm``.

        Returns true if a running VM must be restarted to match ``vm``.
        """

    async def check_start(self, vm: Vm) -> None:
        """Refuse what ``start`` would refuse and can be seen while the VM runs."""
        return

    async def check_root(self, vm: Vm) -> None:
        """Refuse what ``remake_root`` would refuse. The store still has the previous record."""
        return

    @abstractmethod
    async def remake_root(self, vm: Vm) -> None:
        """Put the root of a stopped VM aside, and make a fresh one from the image."""

    @abstractmethod
    async def restore_root(self, vm: Vm) -> None:
        """End the VM; what ``remake_root`` or ``rollback`` put aside is its root again, if something was."""

    @abstractmethod
    async def drop_former_root(self, vm: Vm) -> None:
        """Remove what ``remake_root`` or ``rollback`` put aside, if something was."""

    @abstractmethod
    async def processes(self, uuid: str) -> dict[str, object]:
        """Processes by pid."""

    @abstractmethod
    async def execute(
        self, uuid: str, command: Sequence[str], environment: Mapping[str, str], timeout: float
    ) -> ExecResult:
        """Run a command inside."""

    @abstractmethod
    async def usage(self, uuid: str) -> DiskUse:
        """Bytes on disk."""

    async def snapshot(self, vm: Vm, name: str) -> None:
        """Snapshot the disks; an unfinished snapshot of that name is replaced."""
        raise not_implemented("A snapshot of a VM", self.name)

    async def rollback(self, vm: Vm, name: str) -> None:
        """Put the disks of a stopped VM aside, and make them as they were; the snapshot stays."""
        raise not_implemented("Rolling back to a snapshot", self.name)

    async def drop_snapshot(self, vm: Vm, name: str) -> None:
        """Remove a snapshot; a missing one is not an error."""
        return

    async def exec_command(self, uuid: str, request: ExecRequest) -> HostCommand:
        """The command that runs inside with the caller's streams."""
        raise not_implemented("Running a command inside a VM", self.name)

    async def stats(self, uuid: str) -> dict[str, object]:
        """Its resource use, in the form of ``docker stats``."""
        raise not_implemented("Statistics of a VM", self.name)

    def snapshot_files(self, vm: Vm, name: str) -> AbstractAsyncContextManager[GuestRoot]:
        """The tree of a snapshot, readable until the block ends."""
        raise not_implemented("Access to the files of a VM's snapshot", self.name)

    async def files(self, vm: Vm) -> GuestRoot:
        """The root file system of a VM, running or not."""
        raise not_implemented("Access to a VM's files", self.name)

    async def limit_storage(self, vm: Vm, quota_gib: int) -> None:
        """Limit how much the VM may write; 0: no limit."""
        return

    async def info(self, vm: Vm, types: Sequence[str]) -> dict[str, object]:
        """What is known of a running VM by type (``vnc`` is ``{host, port, display}``)."""
        return {}

    async def console(self, vm: Vm) -> Path | None:
        """The socket of a running VM's serial line; ``None``: there is none."""
        return None

    async def screenshot(self, vm: Vm) -> bytes:
        """A picture of the screen (PNG)."""
        raise not_implemented("A screenshot of a VM", self.name)

    async def export(
        self, vm: Vm, target: Path, *, compression: str, max_origin_depth: int
    ) -> dict[str, object]:
        """Write a stopped VM's image to ``target``; returns manifest fields (type, origin).

        ``max_origin_depth``: how many images below it may have for an origin; 0: it is self-contained.
        That is a hint: without an ``origin`` in the result the image is self-contained.
        """
        raise not_implemented("An image of a VM", self.name)

    def volume_format(self, brand: str) -> str:
        """The format of volumes (``vetro.node.storage.volumes``) that VMs of a brand take."""
        raise not_implemented("A volume", self.name)

    async def attach_volume(self, vm: Vm, entry: VolumeEntry) -> None:
        """Give a running VM the volume ``entry`` of its record; at its next start it has it anyway."""
        raise not_implemented("A volume", self.name)

    async def detach_volume(self, vm: Vm, entry: VolumeEntry) -> None:
        """Take the volume from a VM, running or not; what was written is on disk afterwards."""
        return

    async def grow_volume(self, vm: Vm, entry: VolumeEntry, size: int) -> None:
        """Make a volume that a VM has larger (``size`` in GiB)."""
        raise not_implemented("A volume", self.name)

    def still(self, vm: Vm, entry: VolumeEntry) -> AbstractAsyncContextManager[None]:
        """Hold the VM's writing into the volume until the block ends."""
        return nullcontext()

    async def migrate_live(
        self, vm: Vm, action: str, params: Mapping[str, object]
    ) -> dict[str, object]:
        """``machine_migrate`` of a hypervisor that moves running VMs (feature ``live-migration``)."""
        raise not_implemented(f"Moving a running VM ({action})", self.name)
