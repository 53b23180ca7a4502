"""Traces: who did what for a request, and how long it took, across processes (OpenTelemetry).

``configure`` says where spans are sent; without it every call here does nothing and the libraries are not
loaded. A span becomes the parent of those that begin while it runs, also in tasks that it starts; another
process continues it by its ``traceparent`` (W3C Trace Context): the header of a request, or a value that is
stored with the work (decision 0478).
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, Protocol

from vetro.tracing.settings import TracingSection

Value = str | int | float | bool
Kind = Literal["internal", "server", "client"]
HEADER = "traceparent"


class Span(Protocol):
    """A part of a trace while it runs."""

    def name(self, name: str) -> None:
        """Give it a better name."""
        ...

    def note(self, **attributes: Value) -> None:
        """Add attributes; single underscores of their names become dots, double ones single. No secrets."""
        ...

    def fail(self, kind: str) -> None:
        """Mark it as failed; ``kind``: the class of the error, not its text, which may have secrets."""
        ...


class _NoSpan:
    def name(self, name: str) -> None:
        """Nothing."""

    def note(self, **attributes: Value) -> None:
        """Nothing."""

    def fail(self, kind: str) -> None:
        """Nothing."""


NO_SPAN: AbstractContextManager[Span] = nullcontext(_NoSpan())
"""What stands for a span where none are sent."""
_section = TracingSection()
_part = ""


def configure(section: TracingSection, part: str) -> None:
    """Send the spans of this process, a ``part`` of an installation, where the settings say.

    What waits to be sent elsewhere is dropped, and the thread that sends it ends.
    """
    global _section, _part
    if section != _section and "vetro.tracing.spans" in sys.modules:
        from vetro.tracing.spans import end

        end()
    _section, _part = section, part


def is_on() -> bool:
    """Whether spans are sent."""
    return bool(_section.endpoint)


def span(
    name: str,
    kind: Kind = "internal",
    *,
    parent: str = "",
    only_inside: bool = False,
    **attributes: Value,
) -> AbstractContextManager[Span]:
    """A span for the duration of a ``with`` block; an error that leaves the block marks it as failed.

    ``parent``: a ``traceparent`` that it continues, if it is one; else the span that runs now.
    ``only_inside``: nothing unless there is a parent. ``attributes``: as for `Span.note`.
    """
    if not _section.endpoint:
        return NO_SPAN
    from vetro.tracing.spans import begin

    return begin(_section, _part, name, kind, parent, only_inside, attributes) or NO_SPAN


def past(
    name: str, ago: float, seconds: float, *, failed: bool = False, **attributes: Value
) -> AbstractContextManager[object]:
    """A span within the current one that began ``ago`` seconds before now and took ``seconds``.

    For work that another program has timed and reported. Within the ``with`` block it is the current span.
    """
    if not _section.endpoint:
        return NO_SPAN
    from vetro.tracing.spans import add_past

    return add_past(_section, _part, name, ago, seconds, failed, attributes)


def traceparent() -> str:
    """What continues the current span in another process; '' without one."""
    if not _section.endpoint:
        return ""
    from vetro.tracing.spans import current

    return current()


def inject(headers: MutableMapping[str, str]) -> None:
    """Add the header that continues the current span, if there is one."""
    if _section.endpoint and (given := traceparent()):
        headers[HEADER] = given


def add_trace_id(_logger: object, _method: str, event: Any) -> Any:
    """A structlog processor: lines that are logged within a span name its trace."""
    if _section.endpoint and (given := traceparent()):
        event["trace_id"] = given.split("-")[1]
    return event


def flush(seconds: float = 2.0) -> None:
    """Send what was not sent yet, for at most some seconds: before a process ends."""
    if _section.endpoint:
        from vetro.tracing.spans import flush_for

        flush_for(_section, _part, seconds)
