"""Structured logs on standard error: for people on a terminal, as JSON lines for machines."""

from __future__ import annotations

import contextlib
import logging
import sys
from typing import TextIO, cast

import structlog

from vetro.secrecy import cover_log, masked
from vetro.tracing import add_trace_id

_NOT_DATA = ("event", "exc_info", "stack_info", "exception", "level", "timestamp")
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def without_secrets(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """A structlog processor that masks values with secret names and the running task's secrets."""
    shown = {
        name: value if name in _NOT_DATA else masked(value, name) for name, value in event.items()
    }
    return {name: cover_log(v) if isinstance(v, str) else v for name, v in shown.items()}


class LogStream:
    """A stream whose reader may go away, or whose disk may be full: what cannot be written is dropped.

    A service must not fail, and must still end when it is told to, because nobody reads its log.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text if that is possible."""
        with contextlib.suppress(OSError, ValueError):  # ValueError: it is closed
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream if that is possible."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


def configure_logging(level: str = "info", style: str = "console") -> None:
    """Send structlog and the libraries' logs to standard error; ``style`` is console or json."""
    threshold = LEVELS.get(level.lower(), 20)
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if style == "json"
        # The renderer's own format of an exception takes seconds for a deep one, which blocks the
        # loop, and shows the values of variables, including keys and passwords.
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    processors: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        add_trace_id,
        without_secrets,
    ]
    if style == "json":
        processors.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", LogStream(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(
        level=max(threshold, logging.WARNING), stream=sys.stderr, format="%(name)s: %(message)s"
    )
