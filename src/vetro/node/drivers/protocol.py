"""The two protocols: what tasks need of a driver, and what a driver needs of a hypervisor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from vetro.node.machines import Vm

Changed = Callable[[str], None]
Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class RunState:
    """A VM's state as its hypervisor has it.

    ``zone_state``: installed (stopped), ready (starting), running, shutting_down. ``pid`` is the
    guest's first process on the host, ``boot_timestamp`` ISO time.
    """

    zone_state: str
    pid: int | None = None
    boot_timestamp: str | None = None


@dataclass(frozen=True)
class ExecResult:
    """A command that ran in a guest."""

    exit_code: int
    stdout: str
    stderr: str


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
        """Start a stopped VM."""
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

    async def usage(self, uuid: str) -> int:
        """Bytes on disk."""
        ...

    def watch(self, changed: Changed) -> None:
        """Call ``changed(uuid)`` on every change of state or configuration."""
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

    async def open(self, vms: Sequence[Vm], ended: Changed) -> None:
        """Check the host, restore mounts of ``vms``, follow those that run; ``ended(uuid)``."""
        ...

    async def close(self) -> None:
        """Stop following."""
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

    async def stop(self, uuid: str, *, force: bool, timeout: float) -> None:
        """Stop; returns when it does not run any more."""
        ...

    async def kill(self, uuid: str, signal: int) -> None:
        """Signal the first process."""
        ...

    async def state(self, uuid: str) -> RunState:
        """What the hypervisor says now."""
        ...

    async def configure(self, vm: Vm) -> None:
        """Bring limits and configuration of a VM, running or not, to ``vm``."""
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

    async def usage(self, uuid: str) -> int:
        """Bytes on disk."""
        ...
