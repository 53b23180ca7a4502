"""Times as the catalog API writes them (catalog-api.md §3)."""

from __future__ import annotations

from datetime import UTC, datetime


def api_time(moment: datetime) -> str:
    """UTC, whole seconds, no zone suffix."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")


def api_time_or_none(moment: datetime | None) -> str | None:
    """The same for a time that may be unset."""
    return None if moment is None else api_time(moment)
