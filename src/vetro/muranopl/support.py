"""What generated methods call: loops, exceptions, parallel branches."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from vetro.yaql import errors as yaql_errors

from . import traces
from .errors import LimitExceeded, MuranoError, RunAborted, StackFrame
from .objects import MuranoObject, unset_property, unwrap
from .values import Map, empty_map, freeze, is_iterator, materialise, preview, thaw

if TYPE_CHECKING:
    from .run import Run

_BINDING = re.compile(r"m_(\S+)\(\) (takes|got|missing) (.*)")


# -- loops ---------------------------------------------------------------------------------------


def paid_elements(run: Run, value: Any) -> Iterable[Any]:
    """What `For` goes over, its turns paid in advance. TypeError for what has no elements."""
    if value.__class__ is not tuple:
        value = iterable_value(value)
    run.fuel -= len(value)
    if run.fuel < 0:
        run.refuel()
    return value


def paid_turns(run: Run, count: Any) -> Iterable[Any]:
    """The turns of `Repeat`, paid in advance, many of them in parts."""
    if count.__class__ is int and 0 <= count <= _PART:
        run.fuel -= count
        if run.fuel < 0:
            run.refuel()
        return range(count)
    turns = repeat_count(count)
    if turns <= _PART:
        run.charge(turns)
        return range(turns)
    return _in_parts(run, turns)


def _in_parts(run: Run, turns: int) -> Iterable[int]:
    for first in range(0, turns, _PART):
        part = range(first, min(first + _PART, turns))
        run.charge(len(part))
        yield from part


_PART = 1000


def iterable_value(value: Any) -> Collection[Any]:
    """What `For` goes over. TypeError for what has no elements."""
    if isinstance(value, (tuple, Mapping, frozenset)):
        return cast(Collection[Any], value)
    raise TypeError(f"For cannot go over {preview(value)}: it is no list, map or set")


def repeat_count(value: Any) -> int:
    """How often `Repeat` turns. TypeError for what is no number."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return max(int(value), 0)
    raise TypeError(f"Repeat takes a number, not {preview(value)}")


def match_key(value: Any) -> tuple[bool, Any]:
    """A key of `Match`: equal numbers are equal, a boolean is no number."""
    return value.__class__ is bool, value


# -- parallel branches ---------------------------------------------------------------------------


def run_parallel(run: Run, branches: Sequence[Callable[[], Any]], limit: Any) -> Any:
    """Run branches; the first failure in list order is raised after all have ended.

    A branch returns None, or what its `Return`, `Break` or `Continue` says; the first of these in
    list order is the result.
    """
    width: int | None = None
    if limit is not None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ValueError(f"Limit of Parallel is a positive integer, not {preview(limit)}")
        width = limit
    threads = run.scheduler.join_all(branches, width)
    for thread in threads:
        if thread.error is not None:
            raise thread.error
    for thread in threads:
        if thread.finished is not None:
            return thread.finished
    return None


# -- exceptions ----------------------------------------------------------------------------------


def names_of(error: BaseException) -> tuple[str, ...]:
    """Every name under which a `Catch` finds an error, most specific first (section 11)."""
    error = in_own_words(error)
    if isinstance(error, MuranoError):
        return error.names
    names: dict[str, None] = {}
    if binding_failure(error) is not None:
        names.update(dict.fromkeys(yaql_errors.NoMatchingMethodException("").legacy_names))
        names["yaql.language.exceptions.NoMatchingMethodException"] = None
    of_class = _names_of_class(type(error))
    return (*names, *of_class) if names else of_class


@functools.cache
def _names_of_class(python_class: type[BaseException]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for cls in python_class.__mro__:
        if cls is object or cls is BaseException:
            continue
        names.update(dict.fromkeys(cls.__dict__.get("murano_names", ())))
        names.update(dict.fromkeys(cls.__dict__.get("legacy_names", ())))
        if cls.__module__ == "builtins":
            names[cls.__name__] = None
        elif not cls.__module__.startswith("vetro.yaql"):
            names[f"{cls.__module__}.{cls.__qualname__}"] = None
    return tuple(names)


def in_own_words(error: BaseException) -> BaseException:
    """The error of the language that a Python error of generated code stands for, or itself."""
    if isinstance(error, AttributeError):
        return unset_property(error) or error
    return error


def binding_failure(error: BaseException) -> str | None:
    """What was wrong with the arguments of a MuranoPL method, when that is what a TypeError says."""
    if not isinstance(error, TypeError):
        return None
    match = _BINDING.match(str(error))
    if match is None:
        return None
    name, verb, rest = match.groups()
    rest = re.sub(r"'a_(\w+)'", r"'\1'", rest)
    counts = re.match(r"(?:from \d+ to )?(\d+) positional arguments? but (\d+)", rest)
    if counts is not None:
        wanted, given = (int(text) - 2 for text in counts.groups())
        return f"method {name!r} takes at most {wanted} positional arguments, {given} were given"
    rest = rest.replace("an unexpected keyword argument", "no argument")
    return f"method {name!r} {'has' if 'no argument' in rest else verb} {rest}"


def message_of(error: BaseException) -> str:
    """The text of an error, without its names."""
    error = in_own_words(error)
    if isinstance(error, MuranoError):
        return error.message
    if isinstance(error, yaql_errors.YaqlException):
        return error.message
    if isinstance(error, KeyError) and len(error.args) == 1:
        return str(error.args[0])
    return binding_failure(error) or str(error)


def match_handler(
    error: Any, table: Sequence[Sequence[str] | None]
) -> tuple[int, str | None] | None:
    """The first handler for an error, and the name that matched; None lets it pass."""
    if error.__class__ is MuranoError:
        names: tuple[str, ...] = error.names
    else:
        if isinstance(error, (RunAborted, yaql_errors.LimitException)):
            return None
        if isinstance(error, RecursionError):
            raise LimitExceeded("calls are nested too deep", limit="depth") from error
        names = names_of(error)
    for index, wanted in enumerate(table):
        if wanted is None:
            return index, names[0]
        for name in names:
            if name in wanted:
                return index, name
    return None


def thrown(
    run: Run,
    names: Sequence[str],
    message: Any,
    extra: Any,
    cause: Any,
    current: BaseException | None,
) -> MuranoError:
    """The exception of a `Throw`."""
    text = "" if message is None else message if isinstance(message, str) else str(message)
    details: Any = None if extra is None else thaw(extra)
    if details is not None and not isinstance(details, dict):
        raise TypeError(f"Extra of Throw is a map, not {preview(extra)}")
    behind = current
    if cause is not None:
        behind = error_behind(cause)
        if behind is None:
            raise TypeError(f"Cause of Throw is a caught exception, not {preview(cause)}")
    return MuranoError(
        text,
        names=names,
        extra=cast("dict[str, Any] | None", details),
        cause=behind,
        from_program=True,
    )


def error_behind(value: Any) -> BaseException | None:
    """The Python exception that an exception object of a program stands for."""
    value = unwrap(value)
    if isinstance(value, MuranoObject):
        return cast("BaseException | None", value.__dict__.get("caught_error"))
    return None


def exception_object(run: Run, error: BaseException, name: str | None) -> MuranoObject:
    """The `io.murano.Exception` object of a caught error (section 11)."""
    outer = traces.outer_places(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
    inner = error.__traceback__
    if isinstance(error, MuranoError):
        error.set_trace_source(lambda: traces.joined(outer, inner))
    return _exception(run, error, name, outer)


def exception_without_trace(run: Run, error: BaseException, name: str | None) -> MuranoObject:
    """The same for a program that reads no trace: where its callers stand is not looked up."""
    return _exception(run, error, name, [])


def _exception(
    run: Run, error: BaseException, name: str | None, outer: list[traces.Place]
) -> MuranoObject:
    """It is in no table of objects: nobody finds it by id, and nobody but its holders keeps it."""
    made = _unconstructed(run, run.session.runtime.exception_class)
    inner = error.__traceback__
    is_ours = isinstance(error, MuranoError)
    # Native exceptions may carry one as well (an agent's error map).
    extra: Any = getattr(error, "extra", None)
    values = made.__dict__
    values["caught_error"] = error
    values["p_name"] = name if name is not None else names_of(error)[0]
    values["p_message"] = error.message if is_ours else message_of(error)
    values["p_extra"] = freeze(extra) if extra and isinstance(extra, Mapping) else empty_map()
    values["p_nativeException"] = None

    def cause() -> MuranoObject | None:
        behind = error.cause if isinstance(error, MuranoError) else error.__cause__
        return None if behind is None else exception_object(run, behind, None)

    values["lazy"] = {
        "p_stackTrace": lambda: trace_object(run, traces.joined(outer, inner)),
        "p_cause": cause,
    }
    return made


def _unconstructed(run: Run, python_class: type[MuranoObject]) -> MuranoObject:
    """An object whose values are set by the caller."""
    made = python_class(run, run.new_id(), None)
    made.initialised = True
    made.natives = {part: object.__new__(native) for part, native in python_class.type.native_parts}
    return made


def trace_object(run: Run, frames: Sequence[StackFrame]) -> MuranoObject:
    """The `io.murano.StackTrace` object of some frames."""
    made = _unconstructed(run, run.session.runtime.stack_trace_type.python_class)
    made.__dict__["p_frames"] = tuple(Map(frame.as_map()) for frame in frames)
    made.__dict__["frames"] = list(frames)
    return made


def to_host(error: BaseException, run: Run) -> MuranoError:
    """The one exception a host meets, whatever ended a program."""
    inner = error.__traceback__
    error = in_own_words(error)
    if isinstance(error, MuranoError):
        error.set_trace_source(lambda: traces.joined([], inner))
        return error
    if isinstance(error, RecursionError):
        failure: MuranoError = LimitExceeded("calls are nested too deep", limit="depth")
    elif isinstance(error, yaql_errors.LimitException):
        failure = LimitExceeded(error.message, limit=type(error).__name__)
        failure.names = (*failure.names, *names_of(error))
    else:
        hint = error.hint if isinstance(error, yaql_errors.YaqlException) else None
        failure = MuranoError(
            message_of(error),
            names=names_of(error),
            native=error,
            cause=error.__cause__,
            hint=hint,
        )
    failure.set_trace_source(lambda: traces.joined([], inner))
    return failure


def settled(value: Any, run: Run) -> Any:
    """A value that may be stored: iterators become lists."""
    return materialise(value, run) if is_iterator(value) else freeze(value)
