"""Structured logs on standard error: for people on a terminal, as JSON or logfmt lines for machines.

What libraries log by Python's `logging` is written in the same form, one line each, with the same masks:
whoever reads a log line by line need not know which part of the program wrote it.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import json
import logging
import os
import re
import sys
import time
from collections import deque
from datetime import UTC, datetime
from typing import TextIO, cast

import msgspec
import structlog

from vetro import log_context, tracing
from vetro.secrecy import Public, cover_of_logs, is_secret, masked, without_credentials
from vetro.tracing import add_trace_id

_NOT_DATA = frozenset(("event", "exc_info", "stack_info", "exception", "level", "timestamp"))
_PLAIN_KINDS = frozenset((str, int, float, bool, Public))
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_LEVEL_NAMES = {"warn": "warning", "exception": "error"}

_FIRST = ("timestamp", "level", "event")
_PLAIN = re.compile(r'[^\s"=\\\x00-\x1f\x7f-\x9f]+')
_NO_KEY = re.compile(r'[\s"=\x00-\x1f\x7f]')


def utc_text() -> str:
    """The time as text, in UTC: with microseconds, without a zone.

    ``datetime.isoformat`` takes 2.6 µs, this 0.4. A change writes three to five times.
    """
    nanoseconds = str(time.time_ns())
    return f"{_second_text(nanoseconds[:-9])}.{nanoseconds[-9:-3]}"


@functools.lru_cache(2)
def _second_text(second: str) -> str:
    return datetime.fromtimestamp(int(second), UTC).isoformat()[:19]


def completed(
    _logger: object, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """A structlog processor that adds what every line has: what it was written for, its level and time.

    The time is in UTC with microseconds.
    """
    for name, value in log_context.said().items():
        event.setdefault(name, value)
    event["level"] = _LEVEL_NAMES.get(method, method)
    event["timestamp"] = f"{utc_text()}Z"
    return add_trace_id(_logger, method, event) if tracing.is_on() else event


def without_secrets(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """A structlog processor that masks values with secret names and the running task's secrets."""
    # Most have an innocent name, and nothing inside.
    if _secret_ones(tuple(event)) or not _PLAIN_KINDS.issuperset(map(type, event.values())):
        event = {
            name: value if name in _NOT_DATA else masked(value, name)
            for name, value in event.items()
        }
    cover = cover_of_logs()
    for name, value in event.items():
        if isinstance(value, str) and (cover is not None or "://" in value or "?" in value):
            event[name] = without_credentials(cover(value) if cover is not None else value)
    return event


# Each place that writes a line gives it the same names every time.
@functools.lru_cache(1024)
def _secret_ones(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name not in _NOT_DATA and is_secret(name)]


@functools.lru_cache(1024)
def _own_ones(names: tuple[str, ...]) -> list[str]:
    return sorted(name for name in names if name not in _FIRST)


def as_logfmt(_logger: object, _method: str, event: structlog.typing.EventDict) -> str:
    """The last structlog processor of the form logfmt: `name=value` pairs in one line.

    Values with spaces, quotes, `=` or control characters are written as JSON texts, lists and maps as the
    JSON text of their JSON; null is an empty value.
    """
    names = [name for name in _FIRST if name in event]
    names += [name for name in event if name not in _FIRST]
    return " ".join(f"{_NO_KEY.sub('_', name)}={_logfmt_value(event[name])}" for name in names)


_QUOTED = re.compile(r"""[ \t=\r\n"']""")
_COLUMNS = frozenset(("logger", "logger_name", "stack", "exception", "exc_info"))
#: The renderer's own format of an exception takes seconds for a deep one, which blocks the loop, and
#: shows the values of variables, including keys and passwords.
_WITH_EXCEPTIONS = structlog.dev.ConsoleRenderer(
    colors=False, exception_formatter=structlog.dev.plain_traceback
)


def as_line(logger: object, method: str, event: structlog.typing.EventDict) -> str:
    """The last structlog processor of the form console without colours: structlog's own line, but with
    lists and maps as JSON, which other programs read.

    structlog takes three times as long for it, and every change has at least one line.
    """
    if not _COLUMNS.isdisjoint(event):
        return _WITH_EXCEPTIONS(logger, method, event)
    parts = [f"{event['timestamp']} [{event['level']:<9}] {event['event']!s:<30}"]
    for name in _own_ones(tuple(event)):
        value = event[name]
        if isinstance(value, dict | list):
            parts.append(f"{name}={_line_of_json(cast('object', value))}")
            continue
        plain = type(value) is str and (value.isalnum() or not _QUOTED.search(value))
        parts.append(f"{name}={value if plain else repr(value)}")
    return " ".join(parts).rstrip(" ")


def _line_of_json(value: object) -> str:
    """A value as JSON. In a seventh of the time of ``repr``, which an audit event took 20 µs for."""
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return repr(value)
    # Control characters that JSON does not escape would reach a terminal.
    return text if text.isprintable() else repr(value)


def _logfmt_value(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list | tuple):
        value = json.dumps(value, ensure_ascii=False, default=str)
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


class LogStream:
    """A stream whose reader may go away, or whose disk may be full: what cannot be written is dropped.

    A service must not fail, and must still end when it is told to, because nobody reads its log.

    Lines that are written on an event loop go out together when the loop has its next turn: each write
    wakes the reader, which takes longer than making the line, and a change has at least two. Lines that are
    written elsewhere go out at once, with those that wait.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._waiting: deque[str] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        """Whose next turn writes what waits."""

    def line(self, text: str) -> None:
        """Write a line."""
        self._waiting.append(f"{text}\n")
        self.flush()

    # As structlog calls it.
    debug = info = warning = error = critical = line

    def write(self, text: str) -> int:
        """Write a text, with `flush`."""
        self._waiting.append(text)
        return len(text)

    def flush(self) -> None:
        """Write what waits: soon where a loop runs, else now."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.write_out()
            return
        if self._loop is not loop:
            self._loop = loop
            loop.call_soon(self.write_out)

    def write_out(self) -> None:
        """Write what waits now, if that is possible."""
        self._loop = None
        waiting = self._waiting
        lines: list[str] = []
        # Piece by piece: another thread may write meanwhile.
        with contextlib.suppress(IndexError):
            while True:
                lines.append(waiting.popleft())
        if lines:
            with contextlib.suppress(OSError, ValueError):  # ValueError: it is closed
                self._stream.write("".join(lines))
                self._stream.flush()


_streams: list[LogStream] = []
"""The stream of the log, once it is configured."""


def write_out_logs() -> None:
    """Write the lines of the log that wait for the loop: before a process ends without its exit handlers."""
    for stream in _streams:
        stream.write_out()


atexit.register(write_out_logs)
# A process that is forked would write them once more.
os.register_at_fork(before=write_out_logs)


def configure_logging(level: str = "info", style: str = "console") -> None:
    """Send structlog's and the libraries' logs to standard error.

    ``style``: console, json or logfmt, as the setting `server.log_format`.
    """
    threshold = LEVELS.get(level.lower(), 20)
    renderer = _renderer(style)
    processors: list[structlog.typing.Processor] = [
        completed,
        # Before the masks: what failed is quoted by its traceback.
        structlog.processors.format_exc_info,
        without_secrets,
    ]
    stream = LogStream(sys.stderr)
    _streams[:] = [stream]
    structlog.configure(
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=lambda *_named: stream,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(cast("TextIO", stream))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *processors],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(level=max(threshold, logging.WARNING), handlers=[handler])


def _renderer(style: str) -> structlog.typing.Processor:
    if style == "json":
        return structlog.processors.JSONRenderer()
    if style == "logfmt":
        return as_logfmt
    if not sys.stderr.isatty():
        return as_line
    return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
