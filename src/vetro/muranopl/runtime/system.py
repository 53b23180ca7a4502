"""Native classes that belong to the language itself: GC, Logger, Exception, StackTrace."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from vetro.muranopl.classes.native import CallContext, native
from vetro.muranopl.classes.objects import CastView
from vetro.muranopl.values.containers import Value
from vetro.muranopl.values.errors import MuranoError, NoMethodFound, RunAborted
from vetro.yaql.dynamic import call_by_name
from vetro.yaql.errors import LimitException

if TYPE_CHECKING:
    from vetro.muranopl.classes.objects import MuranoObject

TRACE = 5
logging.addLevelName(TRACE, "TRACE")


def _target(item: MuranoObject | CastView) -> MuranoObject:
    return item.target if isinstance(item, CastView) else item


class GarbageCollector:
    """Which objects are about to be destroyed, and who wants to know (muranopl.md section 21)."""

    @staticmethod
    def subscribe_destruction(
        ctx: CallContext,
        publisher: MuranoObject,
        subscriber: MuranoObject,
        handler: str | None = None,
    ) -> None:
        ctx.session.collector.subscribe(publisher, subscriber, handler)

    @staticmethod
    def unsubscribe_destruction(
        ctx: CallContext,
        publisher: MuranoObject,
        subscriber: MuranoObject,
        handler: str | None = None,
    ) -> None:
        ctx.session.collector.unsubscribe(publisher, subscriber, handler)

    @staticmethod
    def collect(ctx: CallContext) -> None:
        ctx.session.collector.collect()

    @staticmethod
    @native(name=["isDoomed"])
    def is_doomed(ctx: CallContext, object_: MuranoObject | CastView) -> bool:
        return ctx.session.collector.is_doomed(_target(object_))

    @staticmethod
    @native(name=["isDestroyed"])
    def is_destroyed(ctx: CallContext, object_: MuranoObject | CastView) -> bool:
        return _target(object_).destroyed


class SystemLogger:
    """Messages for the log of the service: they go to the Python logger `applications.NAME`."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"applications.{name}")

    def trace(self, ctx: CallContext, message: object, /, *args: object, **kwargs: object) -> None:
        self._log(ctx, TRACE, message, args, kwargs)

    def debug(self, ctx: CallContext, message: object, /, *args: object, **kwargs: object) -> None:
        self._log(ctx, logging.DEBUG, message, args, kwargs)

    def info(self, ctx: CallContext, message: Value, /, *args: object, **kwargs: object) -> None:
        self._log(ctx, logging.INFO, message, args, kwargs)

    def warning(self, ctx: CallContext, message: Value, /, *args: object, **kwargs: object) -> None:
        self._log(ctx, logging.WARNING, message, args, kwargs)

    def error(self, ctx: CallContext, message: Value, /, *args: object, **kwargs: object) -> None:
        self._log(ctx, logging.ERROR, message, args, kwargs)

    def critical(
        self, ctx: CallContext, message: object, /, *args: object, **kwargs: object
    ) -> None:
        self._log(ctx, logging.CRITICAL, message, args, kwargs)

    def exception(
        self, ctx: CallContext, exc: object, message: object, /, *args: object, **kwargs: object
    ) -> None:
        text = self._text(ctx, message, args, kwargs)
        self._logger.error("%s\n%s", text, describe_exception(exc))

    def _log(
        self, ctx: CallContext, level: int, message: object, args: object, kwargs: dict[str, object]
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "%s", self._text(ctx, message, args, kwargs))

    def _text(self, ctx: CallContext, message: Value, args: Value, kwargs: dict[str, Value]) -> str:
        text = str(message)
        if not args and not kwargs:
            return text
        try:
            return str(call_by_name(ctx.session.run, "format", [text, *args], kwargs))
        except (RunAborted, LimitException):
            raise
        except Exception as error:  # noqa: BLE001 - a log line never ends a deployment
            self._logger.warning("Can not format string: %s (%s)", text, error)
            return text


class TracedException:
    """An error of a program: name, message, extra values, cause. `Catch` binds it."""

    @native(lock=False)
    def to_string(self, ctx: CallContext) -> str:
        return describe_exception(ctx.this)


class Trace:
    """Where a program was when an error was thrown."""

    def __init__(self, ctx: CallContext, include_native_frames: bool = True) -> None:
        from vetro.muranopl.values.containers import freeze

        from .traces import current_stack

        frames = current_stack()
        this = ctx.this
        if this is not None:
            this.__dict__["frames"] = frames
            this.__dict__["p_frames"] = freeze([frame.as_map() for frame in frames])

    @native(lock=False)
    def to_string(self, ctx: CallContext, prefix: str = "") -> str:
        this = ctx.this
        assert this is not None
        return "\n".join(prefix + str(frame) for frame in this.__dict__.get("frames", ()))


def describe_exception(exc: object) -> str:
    """Name, message, trace and causes of an exception object (section 11)."""
    from vetro.muranopl.classes.objects import MuranoObject

    if not isinstance(exc, MuranoObject) or not exc.is_a("io.murano.Exception"):
        return repr(exc)
    lines: list[str] = []
    lead = ""
    current: object = exc
    while isinstance(current, MuranoObject):
        lines.append(f"{lead}{current.get('name')}: {current.get('message')}")
        trace = getattr(current, "p_stackTrace", None)
        frames = trace.__dict__.get("frames", ()) if isinstance(trace, MuranoObject) else ()
        if frames:
            lines.append("Traceback (most recent call last):")
            lines.extend(str(frame) for frame in frames)
        try:
            current = current["cause"]
        except MuranoError:
            break
        lead = "Caused by "
    return "\n".join(lines)


__all__ = ["TRACE", "GarbageCollector", "NoMethodFound", "SystemLogger", "Trace", "TracedException"]
