"""The owner of a stack: a process, named so that others on its machine can notice its death.

A hold has a time limit, after which the stack of a dead machine can be taken over. The death of a
process on this machine is noticed at once, without waiting.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from vetro.digits import is_number

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def process_owner() -> str:
    """A name for an operation of this process: boot, pid, start time, and a random part."""
    pid = os.getpid()
    return f"{_boot_id()}:{pid}:{_start_time(pid) or 0}:{secrets.token_hex(4)}"


def is_gone(owner: str) -> bool:
    """True if the owner was a process of this machine and does not run any more."""
    parts = owner.split(":")
    if len(parts) != 4 or not is_number(parts[1]):
        return False
    boot, pid, started, _ = parts
    if boot != _boot_id():
        return False  # another machine, or this one before a reboot: its time limit decides
    return str(_start_time(int(pid)) or 0) != started


def _boot_id() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return "unknown"


def _start_time(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    # A zombie does no more work.
    return None if fields[0] == "Z" else int(fields[19])
