"""Records of VMs as tasks see them: looked up, refused when half made, shown with their state."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from vetro.node.drivers.by_brand import Hypervisors
from vetro.node.errors import DriverError, vm_not_found
from vetro.node.vm_objects import MachineStore, check_uuid
from vetro.node.vm_records import Vm

_STATES = {
    "installed": "stopped",
    "ready": "ready",
    "running": "running",
    "shutting_down": "stopping",
}


class Records:
    """The records of one node and the states that the hypervisors report."""

    def __init__(self, hypervisors: Hypervisors, store: MachineStore) -> None:
        self._hypervisors = hypervisors
        self._store = store

    def find(self, uuid: str) -> Vm:
        """A VM's record. Errors: ``VmNotFound``."""
        vm = self._store.get(check_uuid(uuid))
        if vm is None:
            raise vm_not_found(uuid)
        return vm

    def usable(self, uuid: str) -> Vm:
        """The record of a whole VM. Errors: ``VmNotFound``, ``VmNotUsable``."""
        vm = self.find(uuid)
        if vm.get("former_state"):
            raise DriverError(
                f"The root of VM {uuid} was being replaced, and the one before could not be put back: see the"
                " node's log, mend what it says, and start the node's agent again",
                code="ESTATE",
                rest_code="VmNotUsable",
            )
        if mark := vm.get("mark"):
            raise DriverError(
                f"VM {uuid} is {mark}; destroy it and create it again",
                code="ESTATE",
                rest_code="VmNotUsable",
            )
        return vm

    async def present(self, vm: Vm) -> Vm:
        """The VM object of a record: with its state, without its mark."""
        shown = vm.copy()
        mark = shown.pop("mark", None)
        shown.pop("former_state", None)
        if mark:
            shown["state"] = mark
            shown["zone_state"] = "incomplete"
            return shown
        now = await self._hypervisors.of(vm).state(vm["uuid"])
        shown["zone_state"] = now.zone_state
        shown["state"] = _STATES[now.zone_state]
        if now.pid is not None:
            shown["pid"] = now.pid
        if now.boot_timestamp is not None:
            shown["boot_timestamp"] = now.boot_timestamp
        if now.frozen is not None:
            shown["frozen"] = True
            shown["frozen_reason"] = now.frozen
        return shown


_SNAPSHOT = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def no_snapshot(uuid: str, name: str) -> DriverError:
    """``SnapshotNotFound``."""
    return DriverError(
        f"VM {uuid} has no snapshot {name}", code="ENOENT", rest_code="SnapshotNotFound"
    )


def check_snapshot_name(name: str) -> None:
    """Errors: ``InvalidPayload``."""
    if not _SNAPSHOT.fullmatch(name) or name in (".", ".."):
        raise DriverError(
            f"'{name}' is not a snapshot name: 1 to 64 letters, digits, '_', '.', '-'",
            code="EINVAL",
            rest_code="InvalidPayload",
        )


def free_name(taken: set[str]) -> str:
    """The current time, with a number when several snapshots are taken within one second."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    name, number = stamp, 1
    while name in taken:
        number += 1
        name = f"{stamp}-{number}"
    return name
