"""Times as the catalog API writes them (catalog-api.md §3)."""

from __future__ import annotations

from datetime import UTC, datetime


def api_time(moment: datetime) -> str:
    """UTC, whole seconds, no zone suffix."""
    # Not strftime: a list of a thousand environments spent a third of its time there.
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat(timespec="seconds")[:19]


def api_time_or_none(moment: datetime | None) -> str | None:
    """The same for a time that may be unset."""
    return None if moment is None else api_time(moment)
