"""Calls whose name is computed at run time (yaql.md sections 3 and 6: `call`).

Everything in the language is a function with a name. Operators, indexers, literals and the special
forms (`switchCase`, `coalesce`, `def`, …) are compiled in place, so the library has no entry for
them; this module supplies them for `call`, except the dot: a computed name cannot read a property.
Functions that a host has registered under such a name take precedence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vetro.yaql.values import Value

from . import operators, runtime
from .evaluation import Evaluation
from .inline_caches import Site, function_site, method_site, operator_site
from .kinds import HOST
from .library import Library
from .values import kind_of


def call_by_name(
    rt: Evaluation,
    name: str,
    arguments: Sequence[object],
    keywords: dict[str, object],
    receiver: tuple[object] | None = None,
) -> object:
    """A call whose name is computed at run time (`call(name, args, kwargs, receiver)`).

    Lazy parameters get a callable that returns the given value.
    """
    library = rt.library
    method = receiver is not None
    values: list[object] = list(arguments)
    offset = 1 if method else 0
    for index, value in enumerate(values):
        if library.laziness(name, method, index + offset) is not None:
            values[index] = _constant(value)
    named = {
        key: _constant(value) if library.laziness(name, method, -1, key) is not None else value
        for key, value in keywords.items()
    }
    shape = ("",) * len(values) + tuple(named)
    if receiver is None:
        site = _built_in(library, name, shape) or function_site(library, name, shape, 0)
        return site(rt, *values, *named.values())
    if kind_of[type(receiver[0])] == HOST and rt.is_host_method_receiver(receiver[0]):
        return rt.host_method(receiver[0], name, list(arguments), keywords)
    if name == "switchCase" and not named and not library.has(name, True):
        return runtime.case_at(receiver[0], *map(_constant, values))
    return method_site(library, name, shape, (), 0)(rt, receiver[0], None, *values, *named.values())


def _constant(value: object) -> Callable[..., object]:
    return lambda *_args, **_kwargs: value


def _built_in(library: Library, name: str, shape: tuple[str, ...]) -> Site | None:
    """The built-in meaning that the compiler uses for `name`; None when the library knows it."""
    entry = _OPERATORS.get((name, len(shape)))
    if entry is not None and not any(shape):
        return operator_site(library, name, shape, entry, 0)
    if library.has(name, False) or any(shape):
        return None
    return _FORMS.get(name)


def _not(_rt: Evaluation, value: object) -> bool:
    return not value


def _and(_rt: Evaluation, left: object, right: object) -> object:
    return left and right


def _or(_rt: Evaluation, left: object, right: object) -> object:
    return left or right


def _index(rt: Evaluation, target: object, key: object) -> object:
    if rt.library.is_legacy:
        return operators.legacy_index(rt, target, None, _constant(key))
    return operators.index(rt, target, key)


_OPERATORS: dict[tuple[str, int], Site] = {
    ("#operator_+", 2): operators.add,
    ("#operator_-", 2): operators.subtract,
    ("#operator_*", 2): operators.multiply,
    ("#operator_/", 2): operators.divide,
    ("#operator_mod", 2): operators.modulo,
    ("#operator_<", 2): operators.less,
    ("#operator_<=", 2): operators.less_or_equal,
    ("#operator_>", 2): operators.greater,
    ("#operator_>=", 2): operators.greater_or_equal,
    ("#operator_=", 2): operators.equals,
    ("#operator_!=", 2): operators.not_equals,
    ("*equal", 2): operators.equals,
    ("*not_equal", 2): operators.not_equals,
    ("#operator_in", 2): operators.contains,
    ("#operator_=~", 2): operators.matches,
    ("#operator_!~", 2): operators.matches_not,
    ("#operator_and", 2): _and,
    ("#operator_or", 2): _or,
    ("#unary_operator_-", 1): operators.negate,
    ("#unary_operator_+", 1): operators.plus,
    ("#unary_operator_not", 1): _not,
    ("#indexer", 2): _index,
    ("#indexer", 3): operators.index_or_default,
}
"""Name and number of operands."""


def _list(rt: Evaluation, *items: object) -> list[object]:
    rt.check_items(len(items))
    return list(items)


def _define(rt: Evaluation, *arguments: Value) -> object:
    if len(arguments) != 2 or type(arguments[0]) is not str:
        runtime.no_evaluation(rt, "def")
    name, value = arguments
    return runtime.define_function(rt, runtime.make_context({}), name, _constant(value))


def _switch(rt: Evaluation, *arguments: object) -> object:
    return runtime.no_evaluation(rt, "switch") if arguments else None


def _of_values(form: Callable[..., object]) -> Site:
    def call(_rt: Evaluation, *values: Value) -> Value:
        return form(*map(_constant, values))

    return call


_FORMS: dict[str, Site] = {
    "#list": _list,
    "coalesce": _of_values(runtime.first_value),
    "selectCase": _of_values(runtime.first_true_case),
    "selectAllCases": _of_values(runtime.true_cases),
    "examine": _of_values(runtime.examine_cases),
    "def": _define,
    "switch": _switch,
}
