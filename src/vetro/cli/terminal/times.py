"""Times for people: in the zone of the machine, which they name, with their age beside them.

The service says times in UTC, those of the catalog's API without a zone (catalog-api.md §1).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?\Z")
# The first unit that a span has two of; below two minutes seconds.
_UNITS = ((86_400, "days"), (3600, "h"), (60, "min"))


def moment(text: object) -> datetime | None:
    """The moment that a text of a service is; ``None`` for any other value."""
    if not isinstance(text, str) or not _MOMENT.match(text):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def zone(when: datetime) -> str:
    """``UTC``, or the offset from it: ``+01:00``. ``when`` has its zone."""
    offset = when.strftime("%z")[:5]
    return "UTC" if offset in ("+0000", "-0000") else f"{offset[:3]}:{offset[3:]}"


def span(seconds: float) -> str:
    """A duration in its largest fitting unit: ``45 s``, ``3 min``, ``5 h``, ``12 days``."""
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def spoken(when: datetime, now: datetime | None = None) -> str:
    """``2026-11-22 17:21:47 +01:00 (3 min ago)``, in the zone of this machine."""
    here = when.astimezone()
    seconds = ((now or datetime.now(UTC)) - when).total_seconds()
    age = f"{span(seconds)} ago" if seconds >= 0 else f"in {span(-seconds)}"
    return f"{here:%Y-%m-%d %H:%M:%S} {zone(here)} ({age})"


def clock(text: object) -> str:
    """The time of day of a report, with its zone: ``17:21:47 +01:00``."""
    when = moment(text)
    if when is None:
        return str(text or "")
    here = when.astimezone()
    return f"{here:%H:%M:%S} {zone(here)}"


def took(begun: object, ended: object) -> str:
    """The duration of something; up to now, when it has not ended."""
    first = moment(begun)
    if first is None:
        return ""
    last = moment(ended)
    seconds = max(0.0, ((last or datetime.now(UTC)) - first).total_seconds())
    return span(seconds) if last else f"{span(seconds)} so far"
