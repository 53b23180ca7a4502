"""Metrics for ``/metrics``: declared once, with what they mean; docs/metrics.md is written from that.

Every label has few values, independent of callers and of what is stored: states, kinds and outcomes, never
an id or a name that a user chose. Gauges of what the database holds are read again at a scrape, but not
more often than every few seconds (``Readings``).
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

import structlog
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

log = structlog.get_logger("vetro.http")

OTHER = "other"
"""The value of a label for what is none of the known ones."""


@dataclass(frozen=True)
class Declared:
    """A metric: its name as scraped, its kind, what it means, and what its labels say.

    ``stored``: it is read from the database, so that every service on that database shows the same.
    ``module``: who declares it.
    """

    name: str
    kind: str
    text: str
    labels: Mapping[str, str]
    stored: bool = False
    module: str = ""


DECLARED: dict[str, Declared] = {}
_STORED: dict[str, Gauge] = {}


def _declarer() -> str:
    """The module that is being imported, which declares a metric."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return str(frame.f_globals["__name__"]) if frame is not None else ""


def declare(
    name: str, kind: str, text: str, labels: Mapping[str, str], *, stored: bool = False
) -> None:
    """Say what a metric means; for those that ``counter`` and its kin cannot make."""
    DECLARED[name] = Declared(name, kind, text, dict(labels), stored, _declarer())


def counter(name: str, text: str, /, **labels: str) -> Counter:
    """A counter ``name`` (scraped with ``_total``); ``labels``: name and what the values are."""
    declare(f"{name}_total", "counter", text, labels)
    return Counter(name, text, list(labels))


def gauge(name: str, text: str, /, **labels: str) -> Gauge:
    """A gauge of this process."""
    declare(name, "gauge", text, labels)
    return Gauge(name, text, list(labels))


def stored_gauge(name: str, text: str, /, **labels: str) -> Gauge:
    """A gauge of what is in the database."""
    declare(name, "gauge", text, labels, stored=True)
    made = Gauge(name, text, list(labels))
    _STORED[name] = made
    return made


def histogram(name: str, text: str, buckets: Iterable[float], /, **labels: str) -> Histogram:
    """A histogram of seconds."""
    declare(name, "histogram", text, labels)
    return Histogram(name, text, list(labels), buckets=tuple(buckets))


def show_counts(shown: Gauge, found: Mapping[str, float], known: Iterable[str]) -> None:
    """Set a gauge with one label: every known value, and the sum of the others as ``other``."""
    names = list(known)
    shown.clear()
    for name in names:
        shown.labels(name).set(found.get(name, 0))
    rest = sum(number for name, number in found.items() if name not in names)
    if rest:
        shown.labels(OTHER).set(rest)


REQUESTS = counter(
    "vetro_http_requests",
    "Requests served.",
    face="Part of the API.",
    method="Method of the request; `OTHER` for methods that HTTP does not define.",
    route="Path with `{names}` for its variable parts; `(none)` where there is no route.",
    status="Status code; 499: the client went away.",
)
DURATION = histogram(
    "vetro_http_request_seconds",
    "Time from the request to the end of its response.",
    (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0),
    face="Part of the API.",
    route="Path with `{names}` for its variable parts.",
)
IN_PROGRESS = gauge(
    "vetro_http_requests_in_progress", "Requests in progress.", face="Part of the API."
)
DATABASE_UP = stored_gauge(
    "vetro_database_up",
    "1 when the database answered the last reading, else 0; stored figures are then not shown.",
)


def observe_request(face: str, method: str, route: str, status: int, seconds: float) -> None:
    """Count one request."""
    counted, timed = _series(face, method if method in METHODS else "OTHER", route, status)
    counted.inc()
    timed.observe(seconds)


@functools.lru_cache(4096)
def _series(face: str, method: str, route: str, status: int) -> tuple[Counter, Histogram]:
    """The series of one kind of request: looking them up takes longer than counting."""
    return REQUESTS.labels(face, method, route, str(status)), DURATION.labels(face, route)


METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

FRESH_SECONDS = 5.0
"""How old a reading of the database may be that a scrape shows."""
READING_SECONDS = 4.0
"""How long a scrape waits for a reading: Prometheus itself gives up after ten."""


class InProgress:
    """How many requests of a face are in progress: a number that a scrape reads, without a lock."""

    def __init__(self, face: str) -> None:
        self.number = 0
        IN_PROGRESS.labels(face).set_function(lambda: self.number)


@functools.cache
def in_progress(face: str) -> InProgress:
    """The one of a face in this process."""
    return InProgress(face)


class Readings:
    """Reads the stored gauges again for each scrape; simultaneous scrapes share one reading."""

    def __init__(
        self, read: Callable[[], Awaitable[None]], *, fresh_seconds: float = FRESH_SECONDS
    ) -> None:
        self._read = read
        self._fresh_seconds = fresh_seconds
        self._last = -math.inf
        self._turn = asyncio.Lock()

    async def refresh(self) -> None:
        """Read, unless that was done just now. A database that does not answer is a value of its own."""
        async with self._turn:
            if time.monotonic() - self._last < self._fresh_seconds:
                return
            try:
                async with asyncio.timeout(READING_SECONDS):
                    await self._read()
                DATABASE_UP.set(1)
            except Exception as error:  # noqa: BLE001 - a page with less on it is better than none
                # What was true before may not be any more.
                _forget_stored()
                DATABASE_UP.set(0)
                log.warning("metrics_not_read", error=str(error) or type(error).__name__)
            self._last = time.monotonic()


def _forget_stored() -> None:
    for name, shown in _STORED.items():
        if DECLARED[name].labels:
            shown.clear()
        else:
            shown.set(math.nan)


def exposition() -> tuple[bytes, str]:
    """The metrics page and its content type."""
    return generate_latest(REGISTRY), CONTENT_TYPE_LATEST
