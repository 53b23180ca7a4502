"""Escapes: nothing leads from an expression to what Python is made of."""

from __future__ import annotations

import datetime
import re
import types
from collections.abc import Iterator
from typing import Any

import pytest

from vetro.yaql import (
    Context,
    FrozenDict,
    Limits,
    NoFunctionRegisteredException,
    NoMethodRegisteredException,
    ResolutionError,
    YaqlException,
    YaqlLexicalException,
    compile,
    standard_library,
)


class Secretive:
    """A host object: nothing of it may be seen."""

    secret = "hidden"

    def reveal(self) -> str:
        """Would give the secret away."""
        return self.secret

    def __str__(self) -> str:
        raise AssertionError("a host object was asked for its text")

    __repr__ = __format__ = __str__  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return 1


def numbers() -> Iterator[int]:
    """A generator, as a host may pass one."""
    yield from (1, 2)


def raised() -> Exception:
    """An exception with a traceback."""
    try:
        raise ValueError("caught")
    except ValueError as error:
        return error


TARGETS: dict[str, Any] = {
    "null": None,
    "boolean": True,
    "integer": 5,
    "float": 1.5,
    "string": "text",
    "list": [1, 2],
    "tuple": (1, 2),
    "mapping": {"k": 1},
    "frozen": FrozenDict({"k": 1}),
    "set": frozenset([1]),
    "range": range(3),
    "generator": numbers(),
    "datetime": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
    "timespan": datetime.timedelta(1),
    "regex": re.compile("a"),
    "context": Context({"x": 1}),
    "function": numbers,
    "lambda": lambda value: value,
    "builtin": len,
    "method": "text".upper,
    "class": Secretive,
    "object": Secretive(),
    "exception": raised(),
    "traceback": raised().__traceback__,
    "module": types,
    "code": numbers.__code__,
    "bytes": b"abc",
    "type": type,
}
DUNDERS = [
    *("__class__", "__mro__", "__bases__", "__base__", "__subclasses__", "__init__", "__globals__"),
    *("__dict__", "__builtins__", "__import__", "__getattribute__", "__reduce__", "__code__"),
    *("__closure__", "__traceback__", "__context__", "__self__", "__func__", "__wrapped__"),
]
ATTRIBUTES = [
    *("gi_frame", "gi_code", "gi_yieldfrom", "f_back", "f_globals", "f_locals", "f_builtins"),
    *("tb_frame", "tb_next", "co_code", "co_consts", "cr_frame", "ag_frame", "func_globals"),
    *("mro", "args", "with_traceback", "add_note", "real", "imag", "numerator", "bit_length"),
    *("to_bytes", "as_integer_ratio", "fromhex", "encode", "format_map", "translate", "maketrans"),
    *("strip", "upper", "pop", "update", "setdefault", "copy", "sort", "extend", "start", "stop"),
    *("pattern", "flags", "groups", "sub", "fullmatch", "tzinfo", "fromtimestamp", "strftime"),
    *("variables", "functions", "secret", "reveal", "send", "throw", "close", "depth"),
    *("total_seconds", "resolution", "_hash", "_seen", "_source", "_x", "modules", "system"),
]


@pytest.mark.parametrize("name", DUNDERS)
@pytest.mark.parametrize(
    "form", ["$.{}", "$?.{}", "$.{}()", "$.{}.x", "{}()", "$.select($.{})", "{{{} => 1}}", "{}"]
)
def test_names_of_python_are_no_names(name: str, form: str) -> None:
    """A name that begins with two underscores is refused before anything is evaluated."""
    with pytest.raises(YaqlLexicalException, match="cannot begin with `__`"):
        compile(form.format(name))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", DUNDERS)
def test_no_attribute_by_a_computed_name(name: str, target: str) -> None:
    """A name that is only computed reaches no attribute either."""
    for text in (
        "call($n, [], {}, $t)",
        "call($n, [$t], {})",
        "call('#property#' + $n, [$t], {})",
        "call('#operator_.', [$t, $n], {})",
        "call('#indexer', [$t, $n], {})",
        "$t[$n]",
    ):
        with pytest.raises((ResolutionError, KeyError)):
            compile(text).evaluate(None, {"n": name, "t": TARGETS[target]})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("flavour", ["current", "legacy"])
def test_no_attribute_of_any_value(target: str, flavour: str) -> None:
    """Attributes and methods that Python's classes have are not those of values."""
    value = TARGETS[target]
    for name in ATTRIBUTES:
        for form in ("$.{}", "$.{}()", "[$].{}", "[$].select($.{}()).toList()"):
            text = form.format(name)
            try:
                result = compile(text, flavour=flavour).evaluate(value)
            except (ResolutionError, KeyError):
                continue
            # A mapping without the key is null in the legacy flavour; sequences map properties.
            assert flavour == "legacy" or target in {"range", "generator", "list", "tuple", "set"}
            assert result in (None, [], [None], [[]])


@pytest.mark.parametrize("target", ["object", "class", "function", "module", "exception", "code"])
@pytest.mark.parametrize(
    "text",
    [
        "$.x", "$.x()", "$[0]", "$[x]", "$ + 1", "1 + $", "-$", "$ * 2", "$ < 1", "$ in [1].x",
        "$.len()", "len($)", "$.select($)", "$.keys()", "$.get(x)", "$.toList()", "$.first()",
        "int($)", "float($)", "$.format(1)", "$.join(',')", "$.split(',')", "1 in $", "$ =~ a",
        "a =~ $", "dict([$])", "range($)", "regex($)", "datetime($)", "timespan($)", "$ -> 1",
        "$ mod 2", "abs($)", "pow($, 2)", "hex($)", "'a' * $", "[1] * $", "$.orderBy($)",
        "[$, $].orderBy($)", "[$, 1].max()", "[$, $].sum()", "$.toUpper()", "$.matches(a)",
    ],
)  # fmt: skip
def test_operations_refuse_host_values(target: str, text: str) -> None:
    """No function or operator touches a value whose kind it does not know."""
    with pytest.raises((ResolutionError, KeyError, TypeError, YaqlException)):
        compile(text).evaluate(TARGETS[target])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("str($)", "<Secretive>"),
        ("'{0}'.format($)", "<Secretive>"),
        ("format('{0:>12}', $)", " <Secretive>"),
        ("[$, 1].join('-')", "<Secretive>-1"),
        ("str([$])", "(<Secretive>,)"),
        ("str({a => $})", "{'a': <Secretive>}"),
        ("$ = $", True),
        ("$ = 1", False),
        ("$ in [1, $]", True),
        ("[$, $].distinct().len()", 1),
        ("isString($) or isList($) or isDict($) or isNumber($)", False),
        ("bool($)", True),
        ("not $", False),
    ],
)
def test_host_values_are_opaque(text: str, expected: Any) -> None:
    """A host value can be passed, compared and named; its own text is never asked for."""
    assert compile(text).evaluate(TARGETS["object"]) == expected


def test_messages_do_not_ask_host_values() -> None:
    """A failure describes a host value by its class, not by code of the host."""
    for text in ("$ + 1", "$.foo", "$.foo()", "len($)", "[$].insert($, $)", "max($, 1)"):
        with pytest.raises(YaqlException, match="Secretive"):
            compile(text).evaluate(TARGETS["object"])


@pytest.mark.parametrize(
    "template",
    [
        "{0.__class__}", "{0.secret}", "{0[secret]}", "{0[0]}", "{x.secret}", "{x[k]}", "{0!r}",
        "{0!s}", "{0!a}", "{0.__class__.__mro__}", "{.secret}", "{[0]}", "{0:{0.secret}}",
        "{0:{1}}", "{:{}}", "{0:{x}}", "{ 0}", "{0 }", "{-1}", "{0x1}", "{0;}", "{0", "0}", "{",
        "{0:1000000000}", "{0:.1000000000}", "{0:>99999999999999999999}", "{0:%s}", "{0:q}",
    ],
)  # fmt: skip
def test_templates_have_no_fields(template: str) -> None:
    """A placeholder is an index or a name with a plain format specification, nothing else."""
    with pytest.raises((YaqlException, IndexError)):
        compile("format($t, $o, 5, x => $o)").evaluate(
            None, {"t": template, "o": TARGETS["object"]}
        )


def test_functions_cannot_be_got_hold_of() -> None:
    """A lambda or a defined function is not a value: it cannot be stored, returned or inspected."""
    for text in ("def(f, 1) -> f", "def(f, 1) -> $f", "def(f, 1).f", "def(f, 1).functions"):
        try:
            result = compile(text).evaluate()
        except ResolutionError:
            continue
        assert result in (None, "f")


def test_contexts_show_nothing() -> None:
    """A context has neither properties nor methods nor items."""
    for text in ("let(a => 1).a", "let(a => 1).variables", "let(a => 1)[a]", "let(a => 1).keys()"):
        with pytest.raises(ResolutionError):
            compile(text).evaluate()


def test_generated_code_has_no_builtins() -> None:
    """The text of an expression cannot become Python text: literals are quoted by Python itself."""
    for text in (
        "'\\'); import os; (\\''", '"\\"\\"\\""', "`\\`", "'{__import__}'", "'\\\\'", "'\\n'",
        "{'\\'] = 1; x[\\'' => 1}", "'\\x00'", "'\\u2028'", "$.get('\\'')", "let('a' => 1)",
    ):  # fmt: skip
        try:
            expression = compile(text)
            result = expression.evaluate({})
        except (YaqlException, KeyError):
            continue
        assert "import os;" not in expression.python_source.replace("'); import os; ('", "")
        assert isinstance(result, (str, dict, type(None)))


def test_names_in_calls_are_data() -> None:
    """Odd names of keyword arguments, variables and functions stay text."""
    assert compile("let(print => 1) -> $print").evaluate() == 1
    assert compile("let(rt => 1, d => 2, s0 => 3) -> [$rt, $d, $s0]").evaluate() == [1, 2, 3]
    assert compile("$import").evaluate(None, {"import": 5}) == 5
    assert compile("def(lambda, $ + 1) -> lambda(1)").evaluate() == 2
    with pytest.raises(NoFunctionRegisteredException):
        compile("exec('1')").evaluate()
    with pytest.raises(NoMethodRegisteredException):
        compile("'1'.eval()").evaluate()


def test_exposed_attributes_only() -> None:
    """A host exposes single attributes; neighbours and private ones stay out of reach."""

    class Version:
        major = 1
        _inner = 2
        other = 3

        def bump(self) -> int:
            return self.major + 1

        def reset(self) -> None:
            raise AssertionError("was not exposed")

    library = standard_library().child()
    library.expose(Version, properties=["major"], methods=["bump"])
    with pytest.raises(ValueError, match="_inner"):
        library.expose(Version, properties=["_inner"])

    def evaluate(text: str) -> Any:
        return compile(text, library=library).evaluate(Version())

    assert evaluate("$.major") == 1
    assert evaluate("$.bump()") == 2
    for text in ("$.other", "$._inner", "$.bump", "$.major()"):
        with pytest.raises(ResolutionError):
            evaluate(text)
    with pytest.raises(ResolutionError):
        evaluate("$.reset()")


def test_host_data_are_never_changed() -> None:
    """Functions that add, replace and remove leave the data they were given as they were."""
    data = {"l": [3, 1, 2], "d": {"a": {"b": 1}}, "s": {1, 2}}
    for text in (
        "$.l.append(4)", "$.l.insert(0, 9)", "$.l.delete(0)", "$.l.replace(0, 9)", "$.l.reverse()",
        "$.l.orderBy($)", "$.l + [1]", "$.d.set(a, 2)", "$.d.delete(a)", "$.set(x => 1)",
        "$.d.mergeWith({a => {c => 2}})", "$ + {l => 1}", "$.s.add(5)", "$.s.remove(1)",
        "$.d.a.set(b, 7)", "$.l.insertMany(1, [7])",
    ):  # fmt: skip
        result = compile(text).evaluate(data)
        if isinstance(result, list):
            result.clear()
    assert data == {"l": [3, 1, 2], "d": {"a": {"b": 1}}, "s": {1, 2}}


def test_results_belong_to_the_host() -> None:
    """What comes out shares no list or mapping with what went in."""
    data = {"l": [[1], [2]], "d": {"a": [1]}}
    result = compile("$").evaluate(data)
    result["l"][0].append(5)
    result["d"]["a"].append(5)
    assert data == {"l": [[1], [2]], "d": {"a": [1]}}


def test_limits_are_no_value_of_the_program() -> None:
    """No expression catches a limit: `coalesce`, `switch` and `?.` let it through."""
    for text in ("coalesce(sequence().last(), 1)", "switch(sequence().last() => 1)", "$?.a(1)"):
        with pytest.raises(YaqlException):
            compile(text).evaluate(1, limits=Limits(collection_items=100))
