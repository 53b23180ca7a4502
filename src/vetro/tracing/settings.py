"""The settings ``[tracing]``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TracingSection:
    """Traces of requests and deployments, for OpenTelemetry ([operating.md](operating.md#traces))."""

    endpoint: str = ""
    """Where spans are sent by OTLP over HTTP, such as `http://collector:4318/v1/traces`; empty: nowhere."""
    service_name: str = "vetro"
    """The name of this installation's service in traces."""
    ratio: float = 1.0
    """The share of traces that begin here and are kept, from 0 to 1; a trace that another program began is
    kept if that program keeps it.
    """
