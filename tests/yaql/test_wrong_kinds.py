"""Values of a wrong kind: every function answers in the language's terms, never in Python's."""

import datetime
import itertools
import re

import pytest

from vetro.yaql import Evaluation, Limits, YaqlException, compile, standard_library
from vetro.yaql.values import FINAL_TYPES

PYTHON = re.compile(
    r"object is not|has no attribute|NoneType|not subscriptable|unsupported operand|positional arg"
    r"|must be \w+, not|' object|<class|<function|<vetro|0x[0-9a-f]{5}|__|builtin|vetro\.|FrozenDict"
    r"|unexpected keyword|unhashable|datetime\.(datetime|timedelta)|cannot convert|could not"
    r"|argument of type|values to unpack|invalid literal|must be real|bytes-like|integer is required"
    r"|not supported between|empty separator|negative shift|string indices|can only concatenate"
    r"|not callable|takes (no keyword|exactly|from \d|\d+ pos)|<lambda>|bad operand"
)
VALUES = [None, True, 1, -1, 1.5, "abc", "", [1, "a"], [[1]], {"a": 1}, [{"a": 1}]]
FEW = [None, 1, "abc", [1, "a"], {"a": 1}]
LIMITS = Limits(steps=20_000, collection_items=200, seconds=None)
FORMS = [
    "{}(let(1))", "(let(1)).{}()", "{}($.i, let(1))", "$.l.{}(let(1))", "$.l.{}($ + 1)", "$.s.{}($ + 1)",
    "$.ml.{}($.a + 1)", "$.l.{}(null)", "$.l.{}(1)", "$.ll.{}($.a)", "$.l.{}($1 + $2, $3)",
    "$.l.{}($, $.zz, $)", "$.m.{}($, $)", "{}($ => 1)", "$.s.{}(zz => 1)",
]  # fmt: skip
DATA = {"i": 1, "l": [1, "a"], "ll": [[1]], "ml": [{"a": 1}], "m": {"a": 1}, "s": "abc"}
HOST_VALUES = (re.Pattern, datetime.timedelta)


def is_of_language(value):
    return type(value) in FINAL_TYPES or isinstance(value, (list, dict, *HOST_VALUES))


def leaks(compiled, library, data):
    """What an evaluation says or gives that is not the language's; None when all is well."""
    try:
        value = compiled.run(Evaluation(library, LIMITS), data)
    except (
        YaqlException,
        ArithmeticError,
        AssertionError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        return str(error) if PYTHON.search(str(error)) else None
    return None if is_of_language(value) else repr(value)


@pytest.mark.parametrize("flavour", ["current", "legacy"])
def test_no_function_speaks_python(flavour):
    """Whatever is given to a function or method, the error and the result are the language's."""
    library = standard_library(flavour)
    found = []
    names = {*library.names(False), *library.names(True), "let", "with", "def", "call"}
    for name in sorted(name for name in names if name.isidentifier()):
        texts = [(form.format(name), [DATA]) for form in FORMS]
        for count in range(4):
            values = VALUES if count < 2 else FEW if count == 2 else [None, 1, "abc"]
            data = [
                dict(zip("abc", row, strict=False))
                for row in itertools.product(values, repeat=count)
            ]
            given = [f"$.{word}" for word in "abc"[:count]]
            texts.append((f"{name}({', '.join(given)})", data))
            if given:
                texts.append((f"{given[0]}.{name}({', '.join(given[1:])})", data))
        for text, rows in texts:
            try:
                compiled = compile(text, flavour=flavour)
            except YaqlException as error:
                found.extend([(text, str(error))] if PYTHON.search(str(error)) else [])
                continue
            said = [(text, row, leaks(compiled, library, row)) for row in rows]
            found.extend(item for item in said if item[-1] is not None)
    assert not found, "\n".join(map(str, found[:40]))


UNKNOWN = [
    "nosuch($.tell())",
    "nosuch(x => $.tell())",
    "let(1) -> nosuch($.tell())",
    "[$].select(nosuch($.tell()))",
    "def(f, $) -> nosuch($.tell())",
]


@pytest.mark.parametrize("text", UNKNOWN)
def test_an_unknown_function_is_found_before_its_arguments_run(text):
    """The error about the name comes first, and the arguments have no effect."""
    told = []

    class Host(Evaluation):
        def host_method(self, receiver, name, args, kwargs):
            told.append(name)
            return 1

    with pytest.raises(YaqlException, match='Unknown function "nosuch"'):
        compile(text).run(Host(standard_library()), object())
    assert told == []


def test_a_function_of_a_context_is_found_before_its_arguments_run():
    """What `def` has defined counts as known."""
    assert compile("def(f, $ * 2) -> f($ + 1)").evaluate(4) == 10


@pytest.mark.parametrize(
    "text", ["let(1)", "[let(1)]", "{a => with(1)}", "def(f, 1)", "[1].select(let($))"]
)
def test_a_context_is_not_a_value(text):
    """What stands on the left of `->` cannot be returned or kept."""
    with pytest.raises(YaqlException, match="is not a value"):
        compile(text).evaluate({})
