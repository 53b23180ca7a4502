"""Metrics of an engine pool: how many of its workers are busy."""

from __future__ import annotations

from vetro.http import counter, gauge

_KINDS = "`deployments`, or `calls` for static actions and schemas."
WORKERS = gauge(
    "vetro_engine_workers",
    "Workers of this service by state.",
    kind=_KINDS,
    state="`busy` or `idle` (ready for a task).",
)
LIMIT = gauge(
    "vetro_engine_workers_limit", "The greatest number of workers (`engine.workers`).", kind=_KINDS
)
DEATHS = counter("vetro_engine_worker_deaths", "Workers that ended unexpectedly during a task.")


def show_workers(kind: str, busy: int, limit: int) -> None:
    """Set the gauges of the workers of one kind."""
    WORKERS.labels(kind, "busy").set(busy)
    WORKERS.labels(kind, "idle").set(limit - busy)
    LIMIT.labels(kind).set(limit)
