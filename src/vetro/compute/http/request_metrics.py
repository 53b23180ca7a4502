"""The request metrics of the compute API under their documented names (compute-node-api.md §5.1).

``http_requests_completed`` and ``http_request_duration_seconds`` by method, operation and status
code; besides them there are Vetro's own metrics of all faces (``vetro.http.metrics``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import REGISTRY, Metric
from prometheus_client.registry import Collector

from vetro.http import declare, histogram

_MEANINGS = {
    "method": "Method of the request.",
    "operation": "Name of the call in the compute API.",
    "status_code": "Status of the answer.",
}
LABELS = tuple(_MEANINGS)
DURATION = histogram(
    "http_request_duration_seconds",
    "Time of the compute API's requests.",
    (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 3600.0),
    **_MEANINGS,
)
declare("http_requests_completed", "untyped", "Requests of the compute API.", _MEANINGS)


class Completed(Collector):
    """A counter without the client library's suffix: the name is a contract."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def add(self, method: str, operation: str, status: str) -> None:
        """Count one request."""
        self._counts[method, operation, status] += 1

    def collect(self) -> Iterator[Metric]:
        """The current counts."""
        metric = Metric("http_requests_completed", "Requests of the compute API", "unknown")
        for key, count in sorted(self._counts.items()):
            metric.add_sample("http_requests_completed", dict(zip(LABELS, key, strict=True)), count)
        yield metric


COMPLETED = Completed()
REGISTRY.register(COMPLETED)


def completed(method: str, operation: str, status: int, seconds: float) -> None:
    """Count a request that has been answered."""
    code = str(status)
    COMPLETED.add(method, operation, code)
    DURATION.labels(method, operation, code).observe(seconds)


class Fixed:
    """The same for requests of one kind: the labels are looked up once."""

    def __init__(self, method: str, operation: str, status: int) -> None:
        self._key = (method, operation, str(status))
        self._duration = DURATION.labels(*self._key)

    def completed(self, seconds: float) -> None:
        """Count one."""
        COMPLETED.add(*self._key)
        self._duration.observe(seconds)
