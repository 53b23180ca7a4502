"""Counters and durations of requests, for ``/metrics``."""

from __future__ import annotations

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

REQUESTS = Counter("vetro_http_requests", "Requests served", ["face", "method", "route", "status"])
DURATION = Histogram(
    "vetro_http_request_seconds",
    "Time from the request to the end of its response",
    ["face", "route"],
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0),
)
IN_PROGRESS = Gauge("vetro_http_requests_in_progress", "Requests not answered yet", ["face"])


def observe_request(face: str, method: str, route: str, status: int, seconds: float) -> None:
    """Count one request."""
    known = method if method in METHODS else "OTHER"
    REQUESTS.labels(face, known, route, str(status)).inc()
    DURATION.labels(face, route).observe(seconds)


METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def exposition() -> tuple[bytes, str]:
    """The metrics page and its content type."""
    return generate_latest(REGISTRY), CONTENT_TYPE_LATEST
