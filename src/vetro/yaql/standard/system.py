"""Contexts, assertions, calls by name (yaql.md section 6). `let`, `with`, `def`, `switch`,
`coalesce` and similar names are special forms: see `forms`."""

from vetro.yaql.dynamic import call_by_name
from vetro.yaql.errors import MappingTranslationException
from vetro.yaql.evaluation import Evaluation
from vetro.yaql.kinds import LAZY
from vetro.yaql.registry import Registry
from vetro.yaql.runtime import make_context
from vetro.yaql.scopes import positional_name
from vetro.yaql.signatures import Dictionary, ItemList, Items, Lambda, Text
from vetro.yaql.text import to_text
from vetro.yaql.values import Context, Memorized, Value, collect, kind_of

registry = Registry()
_NO_RECEIVER = object()


@registry.function("let")
def let(*values: object, **named: object) -> Context:
    variables = {positional_name(index): value for index, value in enumerate(values)}
    return make_context({**variables, **named})


@registry.function("with")
def with_values(*values: object) -> Context:
    return make_context({positional_name(index): value for index, value in enumerate(values)})


@registry.method()
def unpack(rt: Evaluation, sequence: Items, *names: Text) -> Context:
    values = collect(sequence, rt)
    if not names:
        return make_context({positional_name(index): value for index, value in enumerate(values)})
    if len(names) != len(values):
        raise ValueError(f"Cannot unpack {len(values)} elements into {len(names)}")
    return make_context(dict(zip(names, values, strict=True)))


@registry.method("assert")
def assert_that(
    rt: Evaluation, obj: Value, condition: Lambda, message: object = "Assertion failed"
) -> object:
    if kind_of[type(obj)] == LAZY:
        obj = Memorized(obj)
    if not condition(obj):
        raise AssertionError(to_text(rt, message))
    return obj


@registry.function("call")
def call(
    rt: Evaluation, name: Text, args: ItemList, kwargs: Dictionary, receiver: Value = _NO_RECEIVER
) -> Value:
    for key in kwargs:
        if type(key) is not str:
            raise MappingTranslationException("the keys of call's third argument must be names")
    return call_by_name(rt, name, args, kwargs, None if receiver is _NO_RECEIVER else (receiver,))
