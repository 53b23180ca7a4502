"""The `io.murano.Exception` objects that `Catch` gives to programs (muranopl.md section 11).

Programs often catch exceptions but rarely inspect them: trace, cause and native parts are made when
they are first read.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vetro.muranopl.classes.objects import MuranoObject
from vetro.muranopl.values.containers import Map, Value, empty_map, freeze
from vetro.muranopl.values.errors import MuranoError, StackFrame

from . import traces
from .throwing import message_of, names_of

if TYPE_CHECKING:
    from types import TracebackType

    from vetro.muranopl.classes.objects import ObjectRun


class CaughtException(MuranoObject):
    """A base of the Python class of exception objects, with values made when first read.

    Ordinary objects have no `__getattr__`, which would disable Python's attribute caches.
    """

    caught_error: BaseException
    """The caught error."""
    inner: TracebackType | None
    """The traceback from the catching method to the origin of the error."""
    outer: list[traces.Place]
    """The places of the catching method's callers."""
    p_name: str
    p_message: str
    p_extra: Mapping[str, Value]
    p_nativeException: None

    def __getattr__(self, attribute: str) -> object:
        made: object
        # Only for a complete object: `inner` is set last.
        if "inner" not in self.__dict__:
            made = _MISSING
        elif attribute == "p_stackTrace":
            made = trace_object(self.run, traces.joined(self.outer, self.inner))
        elif attribute == "p_cause":
            error = self.caught_error
            behind = error.cause if isinstance(error, MuranoError) else error.__cause__
            made = None if behind is None else exception_object(self.run, behind, None)
        elif attribute == "natives":
            made = _native_parts(type(self))
        else:
            made = _MISSING
        if made is _MISSING:
            raise AttributeError(attribute, name=attribute, obj=self)
        self.__dict__[attribute] = made
        return made


_MISSING: object = object()


def exception_object(run: ObjectRun, error: BaseException, name: str | None) -> MuranoObject:
    """The `io.murano.Exception` object of a caught error."""
    outer = traces.outer_places(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
    inner = error.__traceback__
    if isinstance(error, MuranoError):
        error.set_trace_source(lambda: traces.joined(outer, inner))
    return _made(run, error, name, outer)


def exception_without_trace(run: ObjectRun, error: BaseException, name: str | None) -> MuranoObject:
    """The same for a program that does not read the trace: the callers are not recorded."""
    return _made(run, error, name, [])


def _made(
    run: ObjectRun, error: BaseException, name: str | None, outer: list[traces.Place]
) -> MuranoObject:
    """Make the object without publishing it: it has no id look-up and lives while referenced."""
    python_class = run.session.runtime.exception_class
    made = python_class.__new__(python_class)
    made.run = run
    made.id = run.new_id()
    made.owner = None
    made.initialised = True
    made.caught_error = error
    if isinstance(error, MuranoError):
        made.p_name = error.names[0] if name is None else name
        made.p_message = error.message
        made.p_extra = error.frozen_extra()
    else:
        made.p_name = names_of(error)[0] if name is None else name
        made.p_message = message_of(error)
        # Native exceptions may carry one as well (an agent's error map).
        extra: Value = getattr(error, "extra", None)
        made.p_extra = freeze(extra) if extra and isinstance(extra, Mapping) else empty_map()
    made.p_nativeException = None
    made.outer = outer
    made.inner = error.__traceback__
    return made


def _native_parts(python_class: type[MuranoObject]) -> dict[Any, Any]:
    """Python instances made without a constructor; the caller sets their values."""
    return {part: object.__new__(native) for part, native in python_class.type.native_parts}


def trace_object(run: ObjectRun, frames: Sequence[StackFrame]) -> MuranoObject:
    """The `io.murano.StackTrace` object of some frames."""
    python_class = run.session.runtime.stack_trace_type.python_class
    made = python_class(run, run.new_id(), None)
    made.initialised = True
    made.natives = _native_parts(python_class)
    made.__dict__["p_frames"] = tuple(Map(frame.as_map()) for frame in frames)
    made.__dict__["frames"] = list(frames)
    return made
