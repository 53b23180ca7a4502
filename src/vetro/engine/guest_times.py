"""Spans of guests: made from the times that come with a result (guest-agent.md §5.5).

A guest cannot reach the collector, and nobody outside may write into a trace: an agent that is asked reports
durations only, and the engine that waits for the result makes the spans.
"""

from __future__ import annotations

import math
from typing import cast

from vetro import tracing

MOST_SCRIPTS = 100
LONGEST_NAME = 100
_LONGEST_SECONDS = 7 * 86400.0


def trace_guest(result: object, queue: str) -> None:
    """Take the times out of a result and make spans of them within the current one.

    Values from the guest that are not times are ignored: it is the tenant's machine.
    """
    if not isinstance(result, dict):
        return
    times = cast("dict[str, object]", result).pop("Timings", None)
    if not tracing.is_on() or not isinstance(times, dict):
        return
    given = cast("dict[str, object]", times)
    whole = _seconds(given.get("Seconds"))
    if whole is None:
        return
    failed = bool(cast("dict[str, object]", result).get("ErrorCode"))
    with tracing.past("guest plan", whole, whole, failed=failed, vetro_guest=queue):
        scripts = given.get("Scripts")
        if isinstance(scripts, list):
            for script in cast("list[object]", scripts)[:MOST_SCRIPTS]:
                _trace_script(script, whole, queue)


def _trace_script(given: object, whole: float, queue: str) -> None:
    if not isinstance(given, dict):
        return
    script = cast("dict[str, object]", given)
    name, ago, seconds = script.get("Name"), _seconds(script.get("Ago")), None
    if isinstance(name, str) and ago is not None and ago <= whole:
        seconds = _seconds(script.get("Seconds"))
    if seconds is None or ago is None or seconds > ago:
        return
    text = "".join(one if one.isprintable() else "?" for one in str(name)[:LONGEST_NAME])
    failed = script.get("Failed") is True
    with tracing.past(f"guest script {text}", ago, seconds, failed=failed, vetro_guest=queue):
        pass


def _seconds(value: object) -> float | None:
    """A time that a guest gives; ``None`` for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    good = 0 <= value <= _LONGEST_SECONDS and math.isfinite(value)
    return float(value) if good else None
