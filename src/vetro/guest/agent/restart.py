"""Restarting the machine before a result is sent (guest-agent.md §4: `RebootOnCompletion`).

The result waits in the plan's folder as `after-restart.json`, with what distinguishes this start of the
machine from the next one. An agent that finds it on a machine that was started since sends it; one that finds
it on the same start restarts the machine, once.
"""

import json
import os
import time

from . import log
from .documents import is_map, read_json
from .spool import write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMMAND = ["shutdown", "-r", "now"]
PATIENCE_SECONDS = 300.0
"""How long a machine may take to go down."""


def leave_result(folder: str, result: bytes) -> None:
    """Leave a result in a plan's folder, to be sent after the restart."""
    import base64  # as below: most agents never restart their machine

    kept = {"Start": start_of_machine(), "Result": base64.b64encode(result).decode("ascii")}
    write_file(_path(folder), json.dumps(kept).encode("utf-8"))


def start_of_machine() -> str:
    """A text that differs after every start of this machine, or of this container."""
    parts: "list[str]" = []
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            parts.append(stream.read().strip())
        with open("/proc/1/stat", encoding="ascii", errors="replace") as stream:
            # A container keeps the boot id of its host; its first process is a new one.
            parts.append(stream.read().rpartition(")")[2].split()[19])
    except (OSError, IndexError) as error:
        log.warning("The start of the machine is not known: %s" % error)
    return "/".join(parts)


class Restarts:
    """The restart that a plan waits for, if there is one."""

    def __init__(self) -> None:
        self.until = 0.0
        """The `time.monotonic()` up to which the machine is expected to go down."""
        self._asked = ""

    def result_of(self, folder: str) -> "bytes | None":
        """The result to send now; None when there is none or the machine is about to restart.

        Raises OSError when the machine does not restart.
        """
        import base64
        import subprocess

        kept = _read(folder)
        if kept is None:
            return None
        if kept["Start"] != start_of_machine():
            return base64.b64decode(kept["Result"])
        if self._asked == folder:
            raise OSError("the machine was told to restart, and has not in %g s" % PATIENCE_SECONDS)
        log.info("Restarting the machine, as the plan asks; its result is sent afterwards")
        code = subprocess.call(COMMAND, stdin=subprocess.DEVNULL)
        if code != 0:
            raise OSError("%s ended with code %d" % (" ".join(COMMAND), code))
        self._asked = folder
        self.until = time.monotonic() + PATIENCE_SECONDS
        return None

    @staticmethod
    def is_due(folder: str) -> bool:
        """Whether a plan has left its result for after a restart."""
        return os.path.exists(_path(folder))


def _path(folder: str) -> str:
    return os.path.join(folder, "after-restart.json")


def _read(folder: str) -> "dict[str, Any] | None":
    try:
        with open(_path(folder), "rb") as stream:
            kept = read_json(stream.read())
    except (FileNotFoundError, ValueError):
        return None
    return kept if is_map(kept) and "Start" in kept and "Result" in kept else None
