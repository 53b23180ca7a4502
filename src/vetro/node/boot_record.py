"""Whether the machine has booted since the agent last started its VMs (compute-node-agent.md §6).

VMs that are wanted start when the *machine* boots. A restart of the agent alone starts none: one that has
ended in the meantime was ended by somebody.
"""

from __future__ import annotations

from pathlib import Path

from vetro.node.files import read_json, write_json
from vetro.node.processes import boot_id

_KEPT = "boot.json"


def machine_boot() -> str:
    """What is another one after each boot, of the machine or of a container that the agent lives in."""
    return f"{boot_id()}:{_first_process()}"


def is_first_since_boot(data_dir: Path, *, inhabited: bool) -> bool:
    """Whether no agent of this data directory has started the VMs since the boot.

    ``inhabited``: a VM runs. A version that kept no record may have started it: so nothing is started.
    """
    kept = read_json(data_dir / _KEPT)
    if kept is None:
        return not inhabited
    return kept.get("boot") != machine_boot()


def keep_boot(data_dir: Path) -> None:
    """Note that the VMs that are wanted have been started."""
    write_json(data_dir / _KEPT, {"boot": machine_boot()})


def _first_process() -> str:
    """When process 1 started, in clock ticks after the kernel; '' when it is not to be seen."""
    try:
        return Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
