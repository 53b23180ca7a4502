"""Simulated instances: every transition and error, no process, no privileges.

For tests and for load on the control plane. A running VM is a file, so state survives the agent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import CoroutineType
from typing import Any

from vetro.node.drivers.hypervisor import Changed, DiskUse, ExecResult, Hypervisor, RunState
from vetro.node.errors import not_implemented
from vetro.node.files import read_json, write_json
from vetro.node.vm_objects import CONTAINER_BRANDS, MachineStore, timestamp
from vetro.node.vm_records import Vm


def _recorded(method: str) -> Callable[..., CoroutineType[Any, Any, None]]:
    """A method with which only the record changes."""

    async def work(self: SimulatedHypervisor, *_given: object) -> None:
        self.fail(method)

    return work


class SimulatedHypervisor(Hypervisor):
    """A hypervisor whose guests are files. ``faults``: method name → error to raise, for tests."""

    name = "simulated"
    brands: Sequence[str] = (*CONTAINER_BRANDS, "kvm", "bhyve")
    features: Sequence[str] = (
        "network", "reprovision", "snapshots", "hotplug", "volumes",
    )  # fmt: skip

    def __init__(self, store: MachineStore) -> None:
        self._store = store
        self._ended: Changed = lambda _uuid: None
        self.faults: dict[str, Exception] = {}

    def fail(self, method: str) -> None:
        """Raise the fault that a method is to have."""
        if method in self.faults:
            raise self.faults[method]

    def _file(self, uuid: str) -> Path:
        return self._store.path(uuid) / "running.json"

    async def open(self, vms: Sequence[Vm], ended: Changed, changed: Changed) -> None:
        """Nothing to restore."""
        self._ended = ended

    async def close(self) -> None:
        """Nothing is followed."""

    def describe(self, vm: Vm) -> Vm:
        """As requested."""
        return vm

    make = _recorded("make")
    check_start = _recorded("check_start")
    check_root = _recorded("check_root")
    remake_root = _recorded("remake_root")
    drop_former_root = _recorded("drop_former_root")
    attach_volume = _recorded("attach_volume")
    detach_volume = _recorded("detach_volume")
    grow_volume = _recorded("grow_volume")
    snapshot = _recorded("snapshot")
    rollback = _recorded("rollback")
    drop_snapshot = _recorded("drop_snapshot")

    async def restore_root(self, vm: Vm) -> None:
        """End it."""
        self.fail("restore_root")
        self._file(vm["uuid"]).unlink(missing_ok=True)

    async def configure(self, before: Vm, vm: Vm) -> bool:
        """Only the record changes; a running VM whose interfaces change is restarted."""
        self.fail("configure")
        return vm.get("nics") != before.get("nics")

    def volume_format(self, brand: str) -> str:
        """As a real node of that brand; only records change."""
        return "ext4" if brand in CONTAINER_BRANDS else "qcow2"

    async def start(self, vm: Vm) -> None:
        """Mark it as running."""
        self.fail("start")
        write_json(self._file(vm["uuid"]), {"since": timestamp()})

    async def stop(self, uuid: str, *, force: bool, timeout: float) -> None:
        """Mark it as stopped."""
        self.fail("stop")
        self._file(uuid).unlink(missing_ok=True)
        self._ended(uuid)

    async def kill(self, uuid: str, signal: int) -> None:
        """Every signal ends it."""
        await self.stop(uuid, force=True, timeout=0)

    async def state(self, uuid: str) -> RunState:
        """Whether the file exists."""
        record = read_json(self._file(uuid))
        if record is None:
            return RunState("installed")
        return RunState("running", None, record["since"])

    async def remove(self, uuid: str) -> None:
        """The record is removed by the driver."""
        self.fail("remove")
        self._file(uuid).unlink(missing_ok=True)

    async def processes(self, uuid: str) -> dict[str, object]:
        """One process: init."""
        return {"1": {"pid": 1, "command": ["/sbin/init"]}}

    async def execute(
        self, uuid: str, command: Sequence[str], environment: Mapping[str, str], timeout: float
    ) -> ExecResult:
        """Commands cannot run in it."""
        raise not_implemented("Running a command inside a VM", self.name)

    async def usage(self, uuid: str) -> DiskUse:
        """Zero."""
        return DiskUse(0)
