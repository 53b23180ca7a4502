"""Exceptions in the language: `Throw`, the choice of a `Catch`, errors for the host.

Python errors of generated code and of native classes pass through programs unchanged; this module
gives them their names and texts in the language (muranopl.md section 11).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from vetro.muranopl.classes.objects import MuranoObject, unset_property, unwrap
from vetro.muranopl.syntax.names import argument_name
from vetro.muranopl.values.containers import Map, Value, preview
from vetro.muranopl.values.errors import LimitExceeded, MuranoError, RunAborted, describe_causes_by
from vetro.yaql import errors as yaql_errors
from vetro.yaql.comparing import afford

from . import traces

if TYPE_CHECKING:
    from .run import Run

_BINDING = re.compile(r"(m_)?(\S+)\(\) (takes|got|missing) (.*)")


def names_of(error: BaseException) -> tuple[str, ...]:
    """Every name under which a `Catch` finds an error, most specific first (section 11)."""
    error = in_own_words(error)
    if isinstance(error, MuranoError):
        return error.names
    names: dict[str, None] = {}
    failure = binding_failure(error)
    if failure is not None:
        wrong: yaql_errors.YaqlException = yaql_errors.NoMatchingMethodException("")
        if "()" in failure:
            wrong = yaql_errors.NoMatchingFunctionException("")
        names.update(dict.fromkeys(yaql_errors.legacy_names(wrong)))
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
    """The language's error for a Python error of generated code, or the error itself."""
    if isinstance(error, AttributeError):
        return unset_property(error) or error
    return error


def binding_failure(error: BaseException) -> str | None:
    """The message for a TypeError about arguments of a MuranoPL method; None for other errors."""
    if not isinstance(error, TypeError):
        return None
    match = _BINDING.match(str(error))
    if match is None:
        return None
    is_method, name, verb, rest = match.groups()
    if not is_method:
        return _function_failure(name, rest)
    rest = re.sub(r"'([ab]_\w+)'", lambda slot: repr(argument_name(slot[1])), rest)
    counts = re.match(r"(?:from \d+ to )?(\d+) positional arguments? but (\d+)", rest)
    if counts is not None:
        wanted, given = (int(text) - 2 for text in counts.groups())
        return f"method {name!r} takes at most {wanted} positional arguments, {given} were given"
    rest = rest.replace("an unexpected keyword argument", "no argument")
    return f"method {name!r} {'has' if 'no argument' in rest else verb} {rest}"


def _function_failure(python_name: str, rest: str) -> str | None:
    """The same for a function that takes the calling class (`functions`)."""
    from .inline_caches import SCOPED_FUNCTIONS, SCOPED_METHODS

    table = (*SCOPED_FUNCTIONS.items(), *SCOPED_METHODS.items())
    names = [name for name, scoped in table if scoped.function.__name__ == python_name]
    if not names:
        return None
    name = names[0]
    if "required positional argument" in rest:
        words = cast("list[str]", re.findall(r"'(\w+)'", rest))
        missing = [_OTHER_WORDS.get(word, word) for word in words]
        return f"{name}() needs {', '.join(missing)}"
    counts = re.match(r"(?:from \d+ to )?(\d+) positional arguments? but (\d+)", rest)
    if counts is not None:
        wanted, given = (int(text) - _HIDDEN for text in counts.groups())
        return f"{name}() takes at most {wanted} arguments, {given} were given"
    word = re.search(r"'(\w+)'", rest)
    shown = "" if word is None else f" {_OTHER_WORDS.get(word[1], word[1])!r}"
    if "unexpected keyword" in rest:
        return f"{name}() has no argument{shown}"
    return f"{name}() got several values for its argument{shown}"


_OTHER_WORDS = {"what": "type", "type_": "type", "each": "lambda"}
"""Parameters whose Python names differ from their names in the language."""
_HIDDEN = 3
"""The number of hidden arguments of such a function: run, class, object."""


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


_CONTEXT = 16
"""The length at which `shorten` cuts a chain of `__context__`."""


def shorten(error: BaseException) -> None:
    """Cut the chain of exceptions that were being handled when an error was raised.

    Python walks the whole chain whenever an exception is raised: recursion in `Finally` or `Catch`
    would take time quadratic in its calls. The causes that programs see are kept elsewhere.
    """
    behind = error.__context__
    left = _CONTEXT
    while behind is not None:
        left -= 1
        if not left:
            behind.__context__ = None
            return
        behind = behind.__context__


def used_up(error: RecursionError | MemoryError) -> LimitExceeded:
    """What the process has no more of; programs cannot catch it."""
    if isinstance(error, MemoryError):
        return LimitExceeded("there is not enough memory", limit="memory")
    return LimitExceeded("calls are nested too deep", limit="depth")


def match_handler(
    error: Value, table: Sequence[Sequence[str] | None]
) -> tuple[int, str | None] | None:
    """The first handler for an error, and the name that matched; None lets it pass."""
    if error.__context__ is not None:
        shorten(error)
    if error.__class__ is MuranoError:
        names: tuple[str, ...] = error.names
    else:
        if isinstance(error, (RunAborted, yaql_errors.LimitException)):
            return None
        if isinstance(error, (RecursionError, MemoryError)):
            raise used_up(error) from error
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
    names: tuple[str, ...],
    message: Value,
    extra: Value,
    cause: object,
    current: BaseException | None,
) -> MuranoError:
    """The exception of a `Throw`."""
    if message.__class__ is not str:
        message = "" if message is None else str(afford(message, run))
    if extra is not None and extra.__class__ is not Map:
        raise TypeError(f"Extra of Throw must be a map, not {preview(extra)}")
    if extra:
        # Reports and hosts get a copy of it with all parts.
        afford(extra, run)
    if cause is not None:
        current = error_behind(cause)
        if current is None:
            raise TypeError(f"Cause of Throw must be a caught exception, not {preview(cause)}")
    return MuranoError.of_program(message, names, extra, current)


def error_behind(value: object) -> BaseException | None:
    """The Python exception behind a program's exception object."""
    value = unwrap(value)
    if isinstance(value, MuranoObject):
        return cast("BaseException | None", value.__dict__.get("caught_error"))
    return None


def to_host(error: BaseException, run: Run) -> MuranoError:
    """The exception that the host gets, whatever error ended a program."""
    inner = error.__traceback__
    error = in_own_words(error)
    if isinstance(error, MuranoError):
        error.set_trace_source(lambda: traces.joined([], inner))
        return error
    if isinstance(error, (RecursionError, MemoryError)):
        failure: MuranoError = used_up(error)
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


describe_causes_by(lambda error: f"{names_of(error)[0]}: {message_of(error)}")
