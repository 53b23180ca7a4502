"""Which driver the machines in a data directory are of (ours; compute-node-agent.md §1 names the drivers).

Each driver keeps machines in its own way, and none can run those of another. So a data directory knows its
driver, and an agent with another one does not start while there are machines, or volumes of another kind.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from vetro.json_values import JsonObject
from vetro.node.errors import ConfigurationError
from vetro.node.files import read_json, write_json
from vetro.node.storage.volumes import VolumeStore
from vetro.node.vm_objects import HVM_BRANDS, MachineStore
from vetro.node.vm_records import Vm

REAL_DRIVERS = ("lxc", "qemu", "lxc+qemu")
"""Drivers with images and networks of their own; of the others nothing is fetched."""
_KEPT = "driver.json"
#: Files by which the machines of versions are known that kept no record.
_TRACES = {
    "running.json": "simulated",
    "agent.pid": "process",
    "lxc.log": "lxc",
    "disks": "qemu",
}
_NAMED = 3


def refuse_other_driver(data_dir: Path, driver: str) -> str:
    """The driver of a data directory; '' for a new one.

    Errors: ``ConfigurationError``: it has machines or volumes that ``driver`` cannot run.
    """
    vms = list(MachineStore.stored(data_dir / "vms"))
    known = cast("JsonObject", read_json(data_dir / _KEPT) or {})
    before = str(known.get("driver") or "")
    makers = [_maker(before, vm) if before else _by_traces(data_dir / "vms", vm) for vm in vms]
    before = before or _running_all({*makers} - {""})
    if not before or before == driver:
        return before
    left = [
        f"{vm.get('alias') or 'VM'} ({vm['uuid']})"
        for vm, maker in zip(vms, makers, strict=True)
        if maker and maker not in driver.split("+")
    ]
    if (before in REAL_DRIVERS) != (driver in REAL_DRIVERS):
        left += [f"volume {one.uuid}" for one in VolumeStore(data_dir / "volumes")]
    if left:
        more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
        raise ConfigurationError(
            f"{data_dir} is of the driver {before}, and {driver} cannot run what it has:"
            f" {', '.join(left[:_NAMED])}{more}. Start it with --driver {before}, and delete that first;"
            " or choose another directory with --data-dir"
        )
    return before


def keep_driver(data_dir: Path, driver: str) -> None:
    """Keep which driver a data directory is of."""
    write_json(data_dir / _KEPT, {"driver": driver})


def _maker(driver: str, vm: Vm) -> str:
    """The part of a driver that runs a machine."""
    if driver != "lxc+qemu":
        return driver
    return "qemu" if vm.get("brand") in HVM_BRANDS else "lxc"


def _by_traces(directory: Path, vm: Vm) -> str:
    """The same without a record of the driver; '' for a machine that left no trace of it."""
    for name, maker in _TRACES.items():
        if (directory / vm["uuid"] / name).exists():
            return maker
    return ""


def _running_all(makers: set[str]) -> str:
    """The driver that runs what these have made; '' if none does, as it could be without a record."""
    if not makers:
        return ""
    return next((one for one in (*REAL_DRIVERS, *makers) if makers <= {*one.split("+")}), "")
