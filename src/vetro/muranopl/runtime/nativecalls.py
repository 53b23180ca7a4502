"""Calls from programs into Python (muranopl.md section 25)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from vetro.muranopl.classes.native import CallContext, NativeMethod, camel_case, is_injected
from vetro.muranopl.classes.objects import CastView, MuranoObject, unwrap
from vetro.muranopl.syntax.names import argument_name
from vetro.muranopl.threads.scheduler import wait
from vetro.muranopl.values.containers import Map, Value, freeze, is_iterator, materialise, thaw
from vetro.yaql.comparing import afford
from vetro.yaql.errors import NoMatchingFunctionException, NoMatchingMethodException
from vetro.yaql.values import Budget

from .budgets import enter_call
from .traces import calling_type

if TYPE_CHECKING:
    from vetro.muranopl.classes.objects import ObjectRun
    from vetro.muranopl.classes.types import MuranoType

    from .run import Run

_EMPTY = inspect.Parameter.empty


class NativeCall:
    """A Python function prepared for calls with a program's values.

    Calling it binds positional and named arguments by the names programs use, gives it lists and
    dicts of its own, injects the `CallContext` and waits for coroutines.
    """

    __slots__ = (
        "_by_name",
        "_context_at",
        "_defaults",
        "_function",
        "_keyword_context",
        "_keyword_only",
        "_method",
        "_names",
        "_placed",
        "_rest",
        "_takes_keywords",
        "title",
    )

    def __init__(self, method: NativeMethod, title: str) -> None:
        self.title = title
        self._method = method
        self._function = method.function
        self._names: list[str | None] = []
        """Python names of positional parameters in order; None stands for the context."""
        self._defaults: list[Any] = []
        self._by_name: dict[str, int] = {}
        self._keyword_only: dict[str, str] = {}
        self._placed: set[str] = set()
        """Parameters given by place only: their names are free for `**kwargs`."""
        self._rest = False
        self._takes_keywords = method.takes_keywords
        self._keyword_context: str | None = None
        parameters = list(inspect.signature(method.function).parameters.values())
        for parameter in parameters if method.kind == "static" else parameters[1:]:
            if parameter.kind is parameter.VAR_POSITIONAL:
                self._rest = True
            elif parameter.kind is parameter.KEYWORD_ONLY:
                if is_injected(parameter):
                    self._keyword_context = parameter.name
                else:
                    self._keyword_only[camel_case(parameter.name)] = parameter.name
            elif parameter.kind is not parameter.VAR_KEYWORD:
                if is_injected(parameter):
                    self._names.append(None)
                else:
                    self._by_name[camel_case(parameter.name)] = len(self._names)
                    self._names.append(parameter.name)
                    if parameter.kind is parameter.POSITIONAL_ONLY:
                        self._placed.add(camel_case(parameter.name))
                self._defaults.append(parameter.default)

    def __call__(
        self,
        run: Run,
        this: MuranoObject | None,
        holder: object,
        args: Sequence[object],
        named: Mapping[str, object],
        called: MuranoType | None = None,
    ) -> Value:
        """Call the function. `holder` is the Python instance or class; None for static functions.

        `called`: the class that a static method was called on.
        """
        context: CallContext | None = None
        if None in self._names or self._keyword_context is not None:
            called = this.type if this is not None else called
            context = CallContext(run.session, this, calling_type(2), called)
        values = self._bind(args, named, run, context)
        positional, keywords = values
        if self._method.kind != "static":
            positional.insert(0, holder)
        result = self._function(*positional, **keywords)
        if self._method.is_async or inspect.isawaitable(result):
            result = wait(cast(Any, result))
        return materialise(freeze(result), run)

    def call_with_values(
        self, run: ObjectRun, this: MuranoObject, holder: object, named: Mapping[str, object]
    ) -> None:
        """Run a constructor with values picked by name."""
        context = CallContext(run.session, this, calling_type(2), this.type)
        positional, keywords = self._bind((), named, run, context)
        result = self._function(holder, *positional, **keywords)
        if inspect.isawaitable(result):
            wait(cast(Any, result))

    def _bind(
        self,
        args: Sequence[object],
        named: Mapping[str, object],
        run: ObjectRun,
        context: CallContext | None,
    ) -> tuple[list[Value], dict[str, Value]]:
        given = [given_value(value, run) for value in args]
        positional: list[object] = []
        keywords: dict[str, object] = {}
        left = {key: given_value(value, run) for key, value in named.items()}
        taken = 0
        missing: list[str] = []
        names, defaults = self._names, self._defaults
        for index, name in enumerate(names):
            if name is None:
                positional.append(context)
                continue
            public = camel_case(name)
            if taken < len(given):
                if public in left and public not in self._placed:
                    self._fail(f"got {public} twice")
                positional.append(given[taken])
                taken += 1
            elif public in left and public not in self._placed:
                positional.append(left.pop(public))
            elif defaults[index] is not _EMPTY:
                positional.append(defaults[index])
            else:
                missing.append(public)
        if missing:
            self._fail(f"needs {', '.join(missing)}")
        if taken < len(given):
            if not self._rest:
                self._fail(f"takes at most {len(self._by_name)} arguments, {len(given)} were given")
            positional.extend(given[taken:])
        for public, name in self._keyword_only.items():
            if public in left:
                keywords[name] = left.pop(public)
        if self._keyword_context is not None:
            keywords[self._keyword_context] = context
        if left:
            if not self._takes_keywords:
                self._fail(f"has no argument {next(iter(left))}")
            keywords.update(left)
        return positional, keywords

    def _fail(self, what: str) -> None:
        signature = ", ".join([*self._by_name, *self._keyword_only])
        error = NoMatchingMethodException if "." in self.title else NoMatchingFunctionException
        raise error(f"{self.title}({signature}) {what}")


def given_value(value: object, run: Budget) -> object:
    """A program's value for Python code: plain data that it owns, objects without casts."""
    if is_iterator(value):
        value = materialise(value, run)
    kind = value.__class__
    if kind is CastView:
        return unwrap(value)
    if kind is tuple or kind is Map or kind is frozenset or kind is list or kind is dict:
        # A part that occurs several times in a value is copied each time.
        return _own(afford(value, run))
    return value


def _own(value: object) -> object:
    """`thaw`, looking through casts."""
    kind = value.__class__
    if kind is Map or kind is dict:
        return {key: _own(item) for key, item in cast("Mapping[object, object]", value).items()}
    if kind is tuple or kind is list:
        return [_own(item) for item in cast("Sequence[object]", value)]
    if kind is CastView:
        return unwrap(value)
    return thaw(value)


def instance_function(
    call: NativeCall, owner: MuranoType, method: NativeMethod, name: str
) -> Callable[..., object]:
    """The `m_NAME` of a native instance method."""
    if not method.lock:

        def unlocked(this: MuranoObject, run: Run, *args: object, **named: object) -> object:
            return call(run, this, this.native_part(owner), args, _names(named))

        return unlocked

    def locked(this: MuranoObject, run: Run, *args: object, **named: object) -> object:
        held = enter_call(run, (this, call), name) if run.floor > 1 else None
        try:
            return call(run, this, this.native_part(owner), args, _names(named))
        finally:
            if held is not None:
                run.locks.release(held)

    return locked


def static_function(
    call: NativeCall, owner: MuranoType, python_class: type[object] | None, name: str
) -> Callable[..., object]:
    """The `m_NAME` of a native static or class method."""

    def static(
        run: Run,
        *args: object,
        this: MuranoObject | None = None,
        called: MuranoType = owner,
        **named: object,
    ) -> object:
        return call(run, this, python_class, args, _names(named), called)

    static.__name__ = f"m_{name}"
    static.__qualname__ = f"{owner.name}.{name}"
    return static


class StaticAttribute:
    """A native static method as an attribute: it receives the object or class it is called on."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function

    def __get__(
        self, holder: MuranoObject | None, owner: type | None = None
    ) -> Callable[..., object]:
        if holder is None:
            called = getattr(owner, "type", None)
            return (
                self.function if called is None else functools.partial(self.function, called=called)
            )
        return functools.partial(self.function, this=holder)


def _names(named: Mapping[str, object]) -> dict[str, object]:
    return {argument_name(key): value for key, value in named.items()}
