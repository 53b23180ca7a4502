"""Spans by the OpenTelemetry SDK: loaded with the first span of a process, after all its forks."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from importlib.metadata import version

import structlog
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode

from vetro.tracing.settings import TracingSection

log = structlog.get_logger("vetro.tracing")

#: Spans that wait to be sent; further ones are dropped, so that work is never delayed.
MOST_WAITING = 4096
EXPORT_SECONDS = 3
_KINDS = {"internal": SpanKind.INTERNAL, "server": SpanKind.SERVER, "client": SpanKind.CLIENT}
_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


class _Exporter(SpanExporter):
    """Sends spans, and logs once when that begins to fail and once when it works again."""

    def __init__(self, section: TracingSection) -> None:
        self._endpoint = section.endpoint
        self._to = OTLPSpanExporter(endpoint=section.endpoint, timeout=EXPORT_SECONDS)
        self._fails = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; those that cannot be sent are dropped."""
        result = self._to.export(spans)
        fails = result is not SpanExportResult.SUCCESS
        if fails and not self._fails:
            log.warning(
                "traces_not_sent",
                endpoint=self._endpoint,
                effect="spans are dropped until the collector answers; nothing else is affected",
            )
        elif self._fails and not fails:
            log.info("traces_sent_again", endpoint=self._endpoint)
        self._fails = fails
        return result

    def shutdown(self) -> None:
        """Close the connections."""
        self._to.shutdown()


@lru_cache(maxsize=1)
def _provider(section: TracingSection, part: str) -> TracerProvider:
    # The library logs each failed attempt, with a traceback; `_Exporter` says it once.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    resource = Resource.create(
        {
            "service.name": section.service_name,
            "service.version": version("vetro"),
            "service.instance.id": f"{socket.gethostname()}/{os.getpid()}",
            "vetro.part": part,
        }
    )
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(section.ratio)),
        resource=resource,
        shutdown_on_exit=False,  # a collector that is away must not delay the end of a process
    )
    exporter = _Exporter(section)
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=MOST_WAITING))
    _sending.append((exporter, provider))
    return provider


#: What sends: none or one.
_sending: list[tuple[_Exporter, TracerProvider]] = []


def end() -> None:
    """Stop sending, at once: what waits is dropped, and so is a repeated attempt."""
    while _sending:
        exporter, provider = _sending.pop()
        exporter.shutdown()
        provider.shutdown()
    _provider.cache_clear()


class _Running:
    """See `vetro.tracing.Span`."""

    def __init__(self, of: trace.Span) -> None:
        self._of = of

    def name(self, name: str) -> None:
        """Give it a better name."""
        self._of.update_name(name)

    def note(self, **attributes: str | int | float | bool) -> None:
        """Add attributes."""
        # `http_response_status__code` is `http.response.status_code`.
        dotted = {
            name.replace("__", "-").replace("_", ".").replace("-", "_"): one
            for name, one in attributes.items()
        }
        self._of.set_attributes(dotted)

    def fail(self, kind: str) -> None:
        """Mark it as failed."""
        self._of.set_status(Status(StatusCode.ERROR))
        self._of.set_attribute("error.type", kind)


def begin(
    section: TracingSection,
    part: str,
    name: str,
    kind: str,
    parent: str,
    only_inside: bool,
    attributes: Mapping[str, str | int | float | bool],
) -> AbstractContextManager[_Running] | None:
    """A span that begins with a ``with`` block; see `vetro.tracing.span`."""
    above = _continued(parent)
    if only_inside and above is None and not trace.get_current_span().get_span_context().is_valid:
        return None
    return _running(_provider(section, part), name, _KINDS[kind], above, attributes)


@contextmanager
def _running(
    provider: TracerProvider,
    name: str,
    kind: SpanKind,
    above: trace.Span | None,
    attributes: Mapping[str, str | int | float | bool],
) -> Generator[_Running]:
    context = trace.set_span_in_context(above) if above is not None else None
    with provider.get_tracer("vetro").start_as_current_span(
        name,
        context=context,
        kind=kind,
        # The texts of errors may have secrets.
        record_exception=False,
        set_status_on_exception=False,
    ) as started:
        running = _Running(started)
        running.note(**attributes)
        try:
            yield running
        except asyncio.CancelledError:
            # Whoever asked gave it up: the answer came another way, or nobody wants it any more.
            running.note(vetro_outcome="cancelled")
            raise
        except BaseException as error:
            running.fail(type(error).__name__)
            raise


@contextmanager
def add_past(
    section: TracingSection,
    part: str,
    name: str,
    ago: float,
    seconds: float,
    failed: bool,
    attributes: Mapping[str, str | int | float | bool],
) -> Generator[None]:
    """A span that has ended; see `vetro.tracing.past`."""
    started = time.time_ns() - int(ago * 1e9)
    span = _provider(section, part).get_tracer("vetro").start_span(name, start_time=started)
    running = _Running(span)
    running.note(**attributes)
    if failed:
        span.set_status(Status(StatusCode.ERROR))
    with trace.use_span(span):
        yield
    span.end(started + int(seconds * 1e9))


def _continued(traceparent: str) -> trace.Span | None:
    """The span of another process; None for what is not a ``traceparent``."""
    found = _TRACEPARENT.fullmatch(traceparent.strip())
    if found is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in found.groups())
    context = SpanContext(trace_id, span_id, is_remote=True, trace_flags=trace.TraceFlags(flags))
    return NonRecordingSpan(context) if context.is_valid else None


def current() -> str:
    """The ``traceparent`` of the current span; '' without one."""
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def flush_for(section: TracingSection, part: str, seconds: float) -> None:
    """Send what waits, for at most some seconds."""
    if _provider.cache_info().currsize:
        _provider(section, part).force_flush(int(seconds * 1000))
