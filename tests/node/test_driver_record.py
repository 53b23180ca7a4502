"""Which driver a data directory is of, and which drivers may have it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vetro.node import ConfigurationError, refuse_other_driver
from vetro.node.driver_record import keep_driver
from vetro.node.storage.volumes import VolumeStore

DRIVERS = ("lxc", "qemu", "lxc+qemu", "process", "simulated")
ALL = " ".join(DRIVERS)
#: The driver that was kept ('': by a version that kept none), brand and traces of each machine, who starts.
TABLE: list[tuple[str, list[str], str]] = [
    ("lxc", [], ALL),
    ("lxc", ["lx"], "lxc lxc+qemu"),
    ("qemu", ["kvm"], "qemu lxc+qemu"),
    ("qemu", ["bhyve"], "qemu lxc+qemu"),
    ("lxc+qemu", ["lx"], "lxc lxc+qemu"),
    ("lxc+qemu", ["kvm"], "qemu lxc+qemu"),
    ("lxc+qemu", ["lx", "kvm"], "lxc+qemu"),
    ("process", ["lx"], "process"),
    ("simulated", ["lx", "kvm"], "simulated"),
    ("", [], ALL),
    ("", ["lx", "kvm"], ALL),
    ("", ["lx lxc.log"], "lxc lxc+qemu"),
    ("", ["kvm disks"], "qemu lxc+qemu"),
    ("", ["lx lxc.log", "kvm disks"], "lxc+qemu"),
    ("", ["kvm disks", "lx lxc.log"], "lxc+qemu"),
    ("", ["lx lxc.log", "kvm"], "lxc lxc+qemu"),
    ("", ["lx", "kvm disks"], "qemu lxc+qemu"),
    ("", ["lx agent.pid", "lx"], "process"),
    ("", ["kvm running.json"], "simulated"),
    ("", ["lx running.json", "kvm"], "simulated"),
    # No driver runs both; that version ran with either.
    ("", ["lx running.json", "lx lxc.log"], ALL),
]


def keep(data_dir: Path, before: str, machines: list[str]) -> None:
    """Make a data directory with machines."""
    if before:
        keep_driver(data_dir, before)
    for number, machine in enumerate(machines):
        brand, *traces = machine.split()
        uuid = f"5f0f3a7e-5a1b-4d8a-9a55-93a0b5c0a0{number:02}"
        (data_dir / "vms" / uuid).mkdir(parents=True)
        for trace in traces:
            (data_dir / "vms" / uuid / trace).touch()
        (data_dir / "vms" / uuid / "vm.json").write_text(
            json.dumps({"uuid": uuid, "brand": brand, "alias": brand})
        )


@pytest.mark.parametrize(("before", "machines", "starting"), TABLE)
def test_a_driver_takes_over_only_what_it_can_run(
    tmp_path: Path, before: str, machines: list[str], starting: str
) -> None:
    """Machines decide, by their brand or their traces; a directory without any is for every driver."""
    keep(tmp_path, before, machines)
    started: list[str] = []
    for driver in DRIVERS:
        try:
            refuse_other_driver(tmp_path, driver)
            started.append(driver)
        except ConfigurationError as error:
            advised = str(error).partition("--driver ")[2].partition(",")[0]
            # The advice does not lead to the next refusal.
            refuse_other_driver(tmp_path, advised)
    assert started == starting.split()


def test_only_what_the_driver_cannot_run_is_named(tmp_path: Path) -> None:
    """Containers and VMs of a version without a record are told apart, and the driver of both is advised."""
    keep(tmp_path, "", ["lx lxc.log", "kvm disks"])
    with pytest.raises(
        ConfigurationError, match=r"what it has: kvm \([^,]*\)\. .*--driver lxc\+qemu,"
    ):
        refuse_other_driver(tmp_path, "lxc")


async def test_volumes_are_not_taken_for_those_of_another_kind(tmp_path: Path) -> None:
    """Pretended ones hold nothing; a node that stores them cannot use them, nor the other way round."""
    keep_driver(tmp_path, "simulated")
    volumes = VolumeStore(tmp_path / "volumes", pretend=True)
    await volumes.create("5f0f3a7e-5a1b-4d8a-9a55-93a0b5c0a0ff", "ext4", 1)
    with pytest.raises(ConfigurationError, match="volume 5f0f3a7e"):
        refuse_other_driver(tmp_path, "lxc")
