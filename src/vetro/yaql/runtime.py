"""Functions that generated code calls for constructs that are not library functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn, cast

from vetro.yaql.values import Value

from . import operators
from .comparing import hashable
from .errors import (
    MappingTranslationException,
    NoFunctionRegisteredException,
    NoMatchingFunctionException,
    NoMatchingMethodException,
    YaqlException,
    described_function,
)
from .evaluation import Evaluation
from .inline_caches import by_shape
from .kinds import CONTEXT, HOST, ITERABLE, LAZY, MAPPING
from .values import Context, FrozenDict, Memorized, collect, kind_of, missing_key, preview


def property_site(name: str, position: int | None = None) -> Callable[[Evaluation, Value], Value]:
    """`target.name` for one name; mappings first, since most targets are."""
    property_of = operators.property_of

    def read(rt: Evaluation, target: Value) -> Value:
        kind = kind_of[type(target)]
        if kind == MAPPING:
            if name in target:
                return target[name]
            if rt.library.is_legacy:
                return None
            raise missing_key(target, name)
        if kind & ITERABLE or kind != HOST:
            return property_of(rt, target, name, position)
        return operators.special_property(rt, target, name, kind)

    return read


def constant_value(value: Value) -> Value:
    """A constant described by plain data: nested tuples tagged `list`, `map`."""
    if isinstance(value, tuple):
        tag, *items = cast("tuple[Value, ...]", value)
        if tag == "map":
            return FrozenDict([(constant_value(key), constant_value(item)) for key, item in items])
        return tuple([constant_value(item) for item in items])
    return value


def make_context(values: dict[str, Value]) -> Context:
    """`let` and `with`: lazy values are memorized, so that a variable can be read repeatedly."""
    for name, value in values.items():
        if kind_of[type(value)] == LAZY and type(value) is not range:
            values[name] = Memorized(value)
    return Context(values)


def define_function(
    rt: Evaluation, context: Context, name: str, body: Callable[..., object]
) -> Context:
    """`def(name, body)`: add the function `name` to `context`."""
    if type(name) is not str:
        raise NoMatchingFunctionException(
            f'No function "def" matches supplied arguments: the name is text, not {preview(name)}',
            hint=_FORMS["def"],
        )

    def call(*args: object, **kwargs: object) -> Value:
        rt.enter()
        try:
            return body(*args, **kwargs)
        finally:
            rt.depth -= 1

    context.functions[name] = call
    return context


def call_dynamic(
    rt: Evaluation,
    contexts: tuple[Context, ...],
    name: str,
    site: Callable[..., Value],
    shape: tuple[str, ...],
    lazy: tuple[int, ...],
    outer: Any,
    *arguments: Value,
) -> object:
    """A function call on the right of `->`: a function of a context, else any other of the name."""
    for context in contexts:
        function = context.functions.get(name)
        if function is not None:
            values = [
                argument(outer) if index in lazy else argument
                for index, argument in enumerate(arguments)
            ]
            positional, keywords = by_shape(shape, values)
            return function(*positional, **keywords)
    return site(rt, *arguments)


def open_context(rt: Evaluation, value: Value) -> Context:
    """The left side of `->`."""
    if kind_of[type(value)] != CONTEXT:
        raise NoMatchingFunctionException(
            f'No operator "->" matches supplied arguments: {preview(value)} is not a context',
            hint="the left side of -> must be let(…), with(…), def(…) or unpack(…)",
        )
    return value


def no_mapping(rt: Evaluation, name: str) -> NoReturn:
    """Raise the error for `=>` with a key that is not a word, where only names are allowed."""
    if not rt.library.has(name, False) and not rt.library.has(name, True):
        raise NoFunctionRegisteredException(f'Unknown function "{name}"')
    raise MappingTranslationException(f"{name} takes names before =>, not values")


def no_evaluation(rt: Evaluation, what: str) -> NoReturn:
    """Raise the error for a construct that is grammatical but has no meaning."""
    raise NoMatchingFunctionException(
        f"No {described_function(what)} matches supplied arguments", hint=_FORMS.get(what)
    )


_FORMS = {
    "#operator_.": "a dot must be followed by a name or a call",
    "#indexer": "write [index], or [key, default] of a mapping",
    "#list": "write => inside braces: {key => value}",
    "#map": "write {key => value, …}",
    "let": "write let(value, name => value)",
    "with": "write with(value, value)",
    "def": "write def(name, expression)",
    "switch": "write switch(condition => value, …)",
    "coalesce": "write coalesce(value, value)",
}
"""Hints: the right form of such a construct."""


def unresolved_type(rt: Evaluation, name: str) -> NoReturn:
    """Raise the error for a type literal without a host that provides types."""
    raise YaqlException(f"type {name} has no meaning outside of a class")


def apply_rules(*rules: tuple[Callable[[], object], Callable[[], object]]) -> object:
    """`switch` with many rules."""
    for condition, value in rules:
        if condition():
            return value()
    return None


def first_value(*candidates: Callable[[], object]) -> object:
    """`coalesce` of many values."""
    for candidate in candidates:
        value = candidate()
        if value is not None:
            return value
    return None


def first_true_case(*cases: Callable[[], object]) -> int:
    """`selectCase`: index of the first true condition, or their number."""
    for number, case in enumerate(cases):
        if case():
            return number
    return len(cases)


def true_cases(*cases: Callable[[], object]) -> Iterator[int]:
    """`selectAllCases`."""
    for number, case in enumerate(cases):
        if case():
            yield number


def examine_cases(*cases: Callable[[], object]) -> Iterator[bool]:
    """`examine`."""
    for case in cases:
        yield bool(case())


def case_at(number: object, *cases: Callable[[], object]) -> object:
    """`switchCase`: the case of a number; the last one if out of range; null without cases."""
    if not cases:
        return None
    if type(number) is not int:
        raise NoMatchingMethodException(
            f'No method "switchCase" for receiver {preview(number)} matches supplied arguments'
        )
    if 0 <= number < len(cases):
        return cases[number]()
    return cases[-1]()


def legacy_mapping(rt: Evaluation, *pairs: Value) -> dict[object, object]:
    """`dict(pair, …)` of the legacy flavour."""
    result: dict[Value, Value] = {}
    for pair in pairs:
        if not kind_of[type(pair)] & ITERABLE:
            raise TypeError("dict takes pairs of a key and a value")
        parts = collect(pair, rt)
        if len(parts) != 2:
            raise ValueError(f"a pair has two elements, not {len(parts)}")
        result[hashable(parts[0], rt)] = parts[1]
    return result


index = operators.index
index_or_default = operators.index_or_default
legacy_index = operators.legacy_index
