"""The request metrics of the compute API under their documented names (compute-node-api.md §5.1).

``http_requests_completed`` and ``http_request_duration_seconds`` by method, operation and status code;
beside them are Vetro's own of all faces (``vetro.http.metrics``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import REGISTRY, Histogram, Metric
from prometheus_client.registry import Collector

LABELS = ("method", "operation", "status_code")
DURATION = Histogram(
    "http_request_duration_seconds",
    "Time of the compute API's requests",
    LABELS,
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 3600.0),
)


class Completed(Collector):
    """A counter without the ending that the client library gives to counters: the name is a contract."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def add(self, method: str, operation: str, status: str) -> None:
        """Count one request."""
        self._counts[method, operation, status] += 1

    def collect(self) -> Iterator[Metric]:
        """What is counted so far."""
        metric = Metric("http_requests_completed", "Requests of the compute API", "unknown")
        for key, count in sorted(self._counts.items()):
            metric.add_sample("http_requests_completed", dict(zip(LABELS, key, strict=True)), count)
        yield metric


COMPLETED = Completed()
REGISTRY.register(COMPLETED)


def completed(method: str, operation: str, status: int, seconds: float) -> None:
    """Count a request that was answered."""
    code = str(status)
    COMPLETED.add(method, operation, code)
    DURATION.labels(method, operation, code).observe(seconds)


class Fixed:
    """The same for requests that are always alike: the labels are looked up once."""

    def __init__(self, method: str, operation: str, status: int) -> None:
        self._key = (method, operation, str(status))
        self._duration = DURATION.labels(*self._key)

    def completed(self, seconds: float) -> None:
        """Count one."""
        COMPLETED.add(*self._key)
        self._duration.observe(seconds)
