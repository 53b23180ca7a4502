"""Calls and indexes compiled in place do what the function of the library does."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import pytest

from vetro.yaql import (
    Evaluation,
    Expression,
    Limits,
    MemoryQuotaExceededException,
    YaqlException,
    inlining,
    operators,
    parse,
    standard_library,
)

VALUES: list[Any] = [
    None,
    True,
    0,
    2,
    -1,
    7,
    10**12,
    1.5,
    "",
    "a",
    "b-a-c",
    " Ab 12\n",
    "é{0}'\"\\",
    "ab" * 3000,
    "-42",
    "7" * 150,
    [],
    ["a", "b", 3],
    {"a": 1, "b": None},
]
CALLS = [
    "str($x)",
    "len($x)",
    "int($x)",
    "int($x.trim()) + 1",
    "int(str($x))",
    "bool($x)",
    "list($x, 1)",
    "regex('a+').matches($x)",
    "regex('(')",
    "[1 = 1, 1 = true, 1 != 1.0, a = 'a', null = null, null != 1, 1 = null, '' = false]",
    "format('{0}|{1}', $x, $y)",
    "format('{}{}\\n', $y, 'q\\'\"{}')",
    "format('{1}{1}{{}}', 1, $x)",
    "format('{0}', $x, $y)",
    "format('{1}', $x)",
    "format('{0.real}', $x)",
    "'{0}|{1}'.format($x, $y)",
    "'{}'.format()",
    "format(str('{}{}'), str('a'), $x)",
    "regex(str('a')).matches(str('')) or regex(str(b)).matches(str($x))",
    "$x =~ str('a')",
    "$x.matches(str('a'))",
    "$x.format(1)",
    "format('{0:>5}', $x)",
    "$x.len()",
    "$x.get($y)",
    "$x.get(a, 5)",
    "$x.containsKey(a)",
    "$x.toUpper()",
    "$x.toLower()",
    "$x.trim()",
    "$x.trim('ab')",
    "$x.trimLeft('a')",
    "$x.trimRight('c')",
    "$x.startsWith(a, b)",
    "$x.endsWith('-c')",
    "$x.indexOf(a)",
    "$x.split()",
    "$x.split(a)",
    "$x.split('')",
    "$x.replace(a, bc)",
    "$x.join('-')",
    "$x.select(1).join('-')",
    "$x.where(true).join('')",
    "$x.matches('b.*c')",
    "$x.matches('(')",
    "$x.substring(1)",
    "$x.substring($y)",
    "$x.substring(1, $y)",
    "$x.substring($y, 2)",
    "$x.substring($y + 1, $y)",
]


def outcome(expression: Expression, x: Any, y: Any) -> tuple[Any, ...]:
    """The result with its type, or all that a failure says."""
    try:
        result = expression.evaluate(None, {"x": x, "y": y})
    except Exception as error:
        notes = getattr(error, "__notes__", [])
        return type(error), str(error), notes, getattr(error, "hint", None)
    return type(result), result


@pytest.mark.parametrize("flavour", ["current", "legacy"])
@pytest.mark.parametrize("text", CALLS)
def test_in_place_as_by_site(text: str, flavour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call written in place gives the result, or the failure, of its site for any values."""
    library = standard_library("legacy" if flavour == "legacy" else "current")
    pairs = list(itertools.product(VALUES, VALUES if "$y" in text else [None]))
    in_place = Expression(text, parse(text), library)
    found = [outcome(in_place, x, y) for x, y in pairs]
    monkeypatch.setattr(inlining, "_FUNCTIONS", {})
    monkeypatch.setattr(inlining, "_METHODS", {})
    by_site = Expression(text, parse(text), library)
    assert found == [outcome(by_site, x, y) for x, y in pairs]


@pytest.mark.parametrize(
    ("text", "key_of"),
    [
        ("$x[$y]", lambda y: y),
        ("$x[0]", lambda _y: 0),
        ("$x[a]", lambda _y: "a"),
        ("[$x][0][coalesce($y)]", lambda y: y),
    ],
)
def test_index_in_place(text: str, key_of: Any) -> None:
    """An index compiled in place is the operator's, for any target and key."""
    expression = Expression(text, parse(text), standard_library())
    rt = Evaluation(standard_library())
    for x, y in itertools.product(VALUES, VALUES):
        try:
            expected: Any = operators.index(rt, x, key_of(y))
        except Exception as error:
            with pytest.raises(type(error)) as failure:
                expression.evaluate(None, {"x": x, "y": y})
            assert failure.value.args == error.args
        else:
            assert expression.evaluate(None, {"x": x, "y": y}) == expected


def test_evaluated_once_in_order() -> None:
    """Arguments written in place are evaluated once each, from left to right."""
    library = standard_library().child()
    seen: list[Any] = []

    @library.function
    def note(value: object) -> Any:
        seen.append(value)
        return value

    for text, order in (
        ("note('abc').substring(note(1), note(2))", ["abc", 1, 2]),
        ("format('{1}{0}{1}', note(a), note(5))", ["a", 5]),
        ("note(a).get(note(b), note(2))", ["a", "b", 2]),
        ("note([1, 2])[note(1)]", [(1, 2), 1]),
        ("note(a)[note(1)]", ["a", 1]),
    ):
        seen.clear()
        with contextlib.suppress(YaqlException):
            Expression(text, parse(text), library).evaluate()
        assert seen == order


def test_format_of_long_texts_within_limits() -> None:
    """A short template of long texts is refused before the result is built."""
    expression = Expression(
        f"format('{'{0}' * 50}', $x)", parse(f"format('{'{0}' * 50}', $x)"), standard_library()
    )
    with pytest.raises(MemoryQuotaExceededException, match="the limit is 10000"):
        expression.evaluate(None, {"x": "y" * 4000}, limits=Limits(string_length=10_000))
    with pytest.raises(MemoryQuotaExceededException, match="the limit is 10000"):
        expression.evaluate(None, {"x": "y" * 9000}, limits=Limits(string_length=10_000))
