"""How long a plan and each of its scripts took, for a sender that traces (docs/guest-agent.md)."""

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MOST = 100
"""Runs of scripts that are reported; later ones are not."""
_LONGEST_NAME = 100


class Timings:
    """Measures from its creation on."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._scripts: "list[tuple[str, float, float, bool]]" = []

    def measure(self, name: str, work: "Callable[[], object]") -> "Any":
        """The value of `work()`, the run of a script; its duration is kept."""
        started = time.monotonic()
        failed = True
        try:
            value = work()
            failed = False
            return value
        finally:
            if len(self._scripts) < MOST:
                self._scripts.append((name[:_LONGEST_NAME], started, time.monotonic(), failed))

    def ended(self) -> "dict[str, Any]":
        """`Seconds` of the whole, and of each run of a script `Ago`, the seconds since it began."""
        now = time.monotonic()
        scripts: "list[dict[str, object]]" = []
        for name, started, ended, failed in self._scripts:
            one: "dict[str, object]" = {
                "Name": name,
                "Ago": round(now - started, 6),
                "Seconds": round(ended - started, 6),
            }
            if failed:
                one["Failed"] = True
            scripts.append(one)
        return {"Seconds": round(now - self._started, 6), "Scripts": scripts}
