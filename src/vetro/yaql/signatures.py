"""Typed signatures: the parameters of registered functions (yaql.md section 3).

A signature is read once from a Python function's annotations:

    def substring(string: str, start: int, length: int = -1) -> str        substring(string, start, length)
    def where(rt: Evaluation, collection: Iterable[Any], predicate: Lambda) -> …

- `str int float bool datetime timedelta Pattern Any`, `list tuple Sequence` (lists), `Iterable`
  (lists, sets, lazy), `dict Mapping`, `set frozenset`, and any host class (its instances);
  `X | None` also takes null; `X | Y` either.
- `Annotated[T, kinds]` with kinds of `values` says the kinds directly (the standard library does).
- `Lambda`, `Lambda2`, `LambdaAny` take the argument unevaluated: a callable of one, two, any number
  of values. `Thunk`: a callable without arguments that evaluates in the caller's scope.
- A first parameter annotated `Evaluation` is injected. `*args` takes further positional arguments,
  `**kwargs` any keyword arguments.
- Names are published in camelCase: `max_splits` is `maxSplits`; one trailing `_` is dropped.
"""

from __future__ import annotations

import collections.abc
import datetime
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

from vetro.yaql.values import Value

from .evaluation import Evaluation
from .kinds import (
    ANY,
    BOOLEAN,
    CONTEXT,
    DATETIME,
    FUNCTION,
    HOST,
    INTEGER,
    ITERABLE,
    LIST,
    MAPPING,
    NULL,
    NUMBER,
    REGEX,
    SET,
    STRING,
    TIMESPAN,
    Kind,
    describe_kinds,
)
from .values import Context, kind_of


@dataclass(frozen=True, slots=True)
class Lazy:
    """How an unevaluated argument is compiled: a callable of `arity` values.

    `arity` -1: any number of values, and keyword values. 0: none, `$` is the outer one.
    """

    arity: int
    nullable: bool = False
    """Whether a literal `null` means that no expression is given."""


Lambda: TypeAlias = Annotated[Callable[[Value], Value], Lazy(1)]
Lambda2: TypeAlias = Annotated[Callable[[Value, Value], Value], Lazy(2)]
LambdaAny: TypeAlias = Annotated[Callable[..., Value], Lazy(-1)]
Thunk: TypeAlias = Annotated[Callable[[], Value], Lazy(0)]

Text: TypeAlias = Annotated[str, STRING]
Integer: TypeAlias = Annotated[int, INTEGER]
Number: TypeAlias = Annotated[int | float, NUMBER]
Boolean: TypeAlias = Annotated[bool, BOOLEAN]
Items: TypeAlias = Annotated[Iterable[Value], ITERABLE]
"""Lists, sets and lazy sequences (in the legacy flavour mappings, too: their keys)."""
ItemList: TypeAlias = Annotated[Sequence[Value], LIST]
Dictionary: TypeAlias = Annotated[dict[Value, Value], MAPPING]
SetOfValues: TypeAlias = Annotated[frozenset[Value], SET]
RegularExpression: TypeAlias = Annotated[re.Pattern[str], REGEX]
Moment: TypeAlias = Annotated[datetime.datetime, DATETIME]
Timespan: TypeAlias = Annotated[datetime.timedelta, TIMESPAN]
Scope: TypeAlias = Annotated[Context, CONTEXT]

_KINDS: dict[object, Kind] = {
    Any: ANY,
    object: ANY,
    inspect.Parameter.empty: ANY,
    None: NULL,
    type(None): NULL,
    bool: BOOLEAN,
    int: INTEGER,
    float: NUMBER,
    str: STRING,
    list: LIST,
    tuple: LIST,
    collections.abc.Sequence: LIST,
    collections.abc.Iterable: ITERABLE,
    collections.abc.Iterator: ITERABLE,
    dict: MAPPING,
    collections.abc.Mapping: MAPPING,
    set: SET,
    frozenset: SET,
    collections.abc.Set: SET,
    datetime.datetime: DATETIME,
    datetime.timedelta: TIMESPAN,
    re.Pattern: REGEX,
    Context: CONTEXT,
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: the kinds and host classes that it takes, or its form of laziness."""

    name: str
    """The name that programs write."""
    python_name: str
    kinds: Kind
    classes: tuple[type, ...] = ()
    lazy: Lazy | None = None
    required: bool = True
    keyword_only: bool = False
    default: Value = None
    """The value of an omitted argument."""
    positional_only: bool = False
    """True if the name as a keyword goes to `keywords`: `format('{template}', template => 1)`."""

    def accepts(self, value: object) -> bool:
        """Whether it accepts a value; lazy parameters accept callables."""
        kind = kind_of[type(value)]
        if kind == HOST and self.classes:
            return isinstance(value, self.classes)
        return bool(kind & self.kinds)

    def __str__(self) -> str:
        if self.lazy is not None:
            text = "expression"
        else:
            parts = [cls.__name__ for cls in self.classes]
            if self.kinds & ~HOST or not parts:
                parts.insert(0, describe_kinds(self.kinds & ~HOST if parts else self.kinds))
            text = " or ".join(parts)
        return f"{self.name}: {text}{'' if self.required else '?'}"


@dataclass(frozen=True, slots=True)
class Overload:
    """One implementation registered under a name."""

    name: str
    implementation: Callable[..., object]
    parameters: tuple[Parameter, ...]
    rest: Parameter | None = None
    """`*args`"""
    keywords: Parameter | None = None
    """`**kwargs`"""
    takes_evaluation: bool = False
    is_function: bool = True
    is_method: bool = False
    flavours: frozenset[str] = frozenset(["current", "legacy"])

    def named(self, keyword: str) -> Parameter | None:
        """The parameter of a keyword argument."""
        for parameter in self.parameters:
            if parameter.name == keyword and not parameter.positional_only:
                return parameter
        return self.keywords

    def lazy_at(self, index: int, keyword: str) -> Lazy | None:
        """The laziness of the parameter at a position (or of a keyword); None if it is not lazy."""
        if keyword:
            found = self.named(keyword)
        elif index < len(self.parameters) and not self.parameters[index].keyword_only:
            found = self.parameters[index]
        else:
            found = self.rest
        return found.lazy if found is not None else None

    def __str__(self) -> str:
        parts = [str(parameter) for parameter in self.parameters]
        if self.rest is not None:
            parts.append(f"*{self.rest}")
        if self.keywords is not None:
            parts.append("name => value…")
        if self.is_method and not self.is_function and parts:
            return f"{parts[0].partition(':')[2].strip()}.{self.name}({', '.join(parts[1:])})"
        return f"{self.name}({', '.join(parts)})"


def camel_case(name: str) -> str:
    """`max_splits` → `maxSplits`, `as_` → `as`."""
    head, *tail = name.rstrip("_").split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in tail)


def read_signature(
    implementation: Callable[..., object],
    name: str | None = None,
    *,
    function: bool = True,
    method: bool = False,
    flavours: Iterable[str] = ("current", "legacy"),
) -> Overload:
    """The `Overload` of a Python function; raises `TypeError` for what cannot be registered."""
    parameters: list[Parameter] = []
    rest: Parameter | None = None
    keywords: Parameter | None = None
    takes_evaluation = False
    for number, (python_name, annotation, kind, required, default) in enumerate(
        _members(implementation)
    ):
        if number == 0 and _is_evaluation(annotation):
            takes_evaluation = True
            continue
        kinds, classes, lazy = _read_annotation(annotation, python_name, implementation)
        parameter = Parameter(
            camel_case(python_name),
            python_name,
            kinds,
            classes,
            lazy,
            required,
            kind == "keyword",
            default,
            kind == "place",
        )
        if kind == "rest":
            rest = parameter
        elif kind == "keywords":
            keywords = parameter
        else:
            parameters.append(parameter)
    if method and not parameters and rest is None:
        raise TypeError(f"{implementation!r} takes no receiver, so it cannot be a method")
    own_name: str = name or camel_case(getattr(implementation, "__name__", ""))
    if not own_name:
        raise TypeError(f"{implementation!r} has no name: give one")
    return Overload(
        own_name,
        implementation,
        tuple(parameters),
        rest,
        keywords,
        takes_evaluation,
        function,
        method,
        frozenset(flavours),
    )


def _is_evaluation(annotation: object) -> bool:
    if isinstance(annotation, str):
        return annotation.rpartition(".")[2] == "Evaluation"
    return isinstance(annotation, type) and issubclass(annotation, Evaluation)


_Member: TypeAlias = tuple[str, Any, str, bool, Any]


def _members(function: Callable[..., object]) -> Iterable[_Member]:
    """Name, annotation, sort, whether required, and default of each parameter."""
    if isinstance(function, types.FunctionType) and not hasattr(function, "__wrapped__"):
        yield from _members_of_code(function)
        return
    hints: dict[str, object] = {}
    if not isinstance(function, type):
        hints = typing.get_type_hints(function, include_extras=True)
    sorts = {
        inspect.Parameter.VAR_POSITIONAL: "rest",
        inspect.Parameter.VAR_KEYWORD: "keywords",
        inspect.Parameter.KEYWORD_ONLY: "keyword",
        inspect.Parameter.POSITIONAL_ONLY: "place",
    }
    for parameter in inspect.signature(function).parameters.values():
        yield (
            parameter.name,
            hints.get(parameter.name, parameter.annotation),
            sorts.get(parameter.kind, "plain"),
            parameter.default is inspect.Parameter.empty,
            parameter.default,
        )


def _members_of_code(function: types.FunctionType) -> Iterable[_Member]:
    # Done by hand: inspect.signature takes twenty times as long, and there are 300 functions.
    annotations: dict[str, object] = function.__annotations__
    if any(isinstance(value, str) for value in annotations.values()):
        annotations = typing.get_type_hints(function, include_extras=True)
    code = function.__code__
    names = code.co_varnames
    count, keyword_count = code.co_argcount, code.co_kwonlyargcount
    defaults: tuple[object, ...] = function.__defaults__ or ()
    first_default = count - len(defaults)
    keyword_defaults: dict[str, object] = function.__kwdefaults__ or {}
    for number in range(count):
        name = names[number]
        required = number < first_default
        default = None if required else defaults[number - first_default]
        sort = "place" if number < code.co_posonlyargcount else "plain"
        yield name, annotations.get(name, Any), sort, required, default
    at = count + keyword_count
    if code.co_flags & inspect.CO_VARARGS:
        yield names[at], annotations.get(names[at], Any), "rest", False, None
        at += 1
    for name in names[count : count + keyword_count]:
        required = name not in keyword_defaults
        yield name, annotations.get(name, Any), "keyword", required, keyword_defaults.get(name)
    if code.co_flags & inspect.CO_VARKEYWORDS:
        yield names[at], annotations.get(names[at], Any), "keywords", False, None


def _read_annotation(
    annotation: object, name: str, function: Callable[..., object]
) -> tuple[Kind, tuple[type, ...], Lazy | None]:
    kinds = _KINDS.get(annotation) if isinstance(annotation, collections.abc.Hashable) else None
    if kinds is not None:
        return kinds, (), None
    origin = get_origin(annotation)
    if origin is Annotated:
        plain, *extras = get_args(annotation)
        for extra in extras:
            if isinstance(extra, Lazy):
                return FUNCTION, (), extra
            if isinstance(extra, int):
                return extra, (), None
        return _read_annotation(plain, name, function)
    if origin is Union or origin is types.UnionType:
        total: Kind = 0
        classes: tuple[type, ...] = ()
        lazy: Lazy | None = None
        for member in get_args(annotation):
            more, more_classes, more_lazy = _read_annotation(member, name, function)
            total |= more
            classes += more_classes
            lazy = lazy or more_lazy
        if lazy is not None and total & NULL:
            lazy = Lazy(lazy.arity, True)
        return total, classes, lazy
    if origin is collections.abc.Callable:
        return FUNCTION, (), Lazy(-1)
    if origin is not None:
        return _read_annotation(origin, name, function)
    if isinstance(annotation, type):
        return HOST, (annotation,), None
    if isinstance(annotation, typing.TypeVar):
        return ANY, (), None
    raise TypeError(f"{function!r}: parameter {name} has an annotation that has no meaning here")
