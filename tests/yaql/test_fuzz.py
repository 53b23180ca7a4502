"""Any text whatever: the parser, the compiler and the evaluation end in a value or an exception
of the language, within their limits."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from tests.effort import ONE_IN, examples
from tests.tables import read_table

from vetro.yaql import (
    MURANOPL,
    STANDARD,
    Limits,
    YaqlException,
    YaqlParsingException,
    ast,
    compile,
    lint,
    parse,
)

LIMITS = Limits(
    collection_items=300, string_length=10_000, steps=20_000, seconds=None, regex_steps=20_000
)
EXPECTED = (
    *(YaqlException, KeyError, IndexError, ValueError, TypeError),
    *(ZeroDivisionError, AssertionError, OverflowError),
)
"""What an expression may fail with; anything else is a defect."""
PIECES = [
    *("$", "$x", "$1", "$.a", "a", "len", "f(", "(", ")", "[", "]", "{", "}", ",", ".", "?.", "=>"),
    *("->", "+", "-", "*", "/", "mod", "and", "or", "not", "in", "is", "=", "!=", "<", ">=", "=~"),
    *("!~", "'a'", '"b"', "`c`", "1", "2.5", "1e3", "true", "false", "null", ":", "'", '"', "`"),
    *(" ", "\n", "\t", "\\", "__x", "é", "\x00", "😀", "let(", "with(", "def(", "switch(", ".as("),
    *(
        ".where(",
        ".select(",
        ".split(",
        ".format(",
        ".toList()",
        ".len()",
        "regex(",
        "dict(",
        "set(",
    ),
    *("x => ", "range(", "sequence()", ".first()", ".orderBy(", ".groupBy(", "call(", "coalesce("),
]
common = settings(
    max_examples=examples(500),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
DATA: dict[str, Any] = {
    "a": [{"a": 1, "x": "b"}, {"a": 2, "x": None}],
    "x": "a,b",
    "n": 5,
    "d": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
}


def survives(text: str, flavour: str) -> None:
    """Compile and evaluate a text; only the expected failures are let pass."""
    try:
        tree = parse(text)
    except YaqlParsingException as error:
        assert error.position is not None
        assert 0 <= error.position <= len(text)
        str(error)
        return
    for node in ast.walk(tree):
        assert 0 <= node.start <= node.end <= len(text)
    lint(tree, variables={""})
    try:
        compile(text, flavour=flavour).evaluate(DATA, {"x": [1, 2]}, limits=LIMITS)
    except EXPECTED as error:
        str(error)


@seed(1)
@common
@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    """Any characters at all."""
    survives(text, "current")


@seed(2)
@common
@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_pieces_of_expressions(text: str) -> None:
    """Random sequences of what expressions are made of, in either grammar."""
    survives(text, "current")
    for grammar in (STANDARD, MURANOPL):
        try:
            parse(text, grammar)
        except YaqlParsingException:
            continue


def _known_texts() -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for path in sorted((Path(__file__).parent / "cases").glob("section_[1-9]_*.yaml")):
        for row in read_table(path):
            found.append((row["expression"], row.get("flavour", "current")))
    return found


def _mutated(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    action = chance.randrange(5)
    if action == 0:
        return text[:at] + text[at + 1 :]
    if action == 1:
        return text[:at] + chance.choice(PIECES) + text[at:]
    if action == 2:
        end = chance.randrange(at, len(text) + 1)
        return text[:end] + text[at:end] + text[end:]
    if action == 3:
        return text[:at] + chance.choice(PIECES) + text[at + 1 :]
    end = chance.randrange(at, len(text) + 1)
    return text[:at] + text[end:]


@pytest.mark.parametrize("round_", range(12))
def test_mutations_of_the_tables(round_: int) -> None:
    """Each expression of the case tables, changed in up to three places."""
    chance = random.Random(round_)
    for text, flavour in _known_texts()[round_ % ONE_IN :: ONE_IN]:
        for _ in range(chance.randrange(1, 4)):
            text = _mutated(text, chance)
        survives(text[:500], flavour)


@seed(3)
@common
@given(
    st.sampled_from(
        ["$ + $x", "$ < $x", "$ in $x", "$[$x]", "$.x", "len($)", "str($)", "$ = $x", "[$, $x].max()"]
    ),
    st.recursive(
        st.one_of(
            st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
            st.datetimes(), st.timedeltas(), st.binary(max_size=3), st.complex_numbers(),
            st.fractions(), st.decimals(allow_nan=False), st.dates(), st.times(), st.uuids(),
        ),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.tuples(inner, inner),
            st.dictionaries(st.text(max_size=2), inner, max_size=3),
            st.sets(st.integers(), max_size=3),
            st.frozensets(st.text(max_size=2), max_size=3),
        ),
        max_leaves=6,
    ),
    st.one_of(st.none(), st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=2)),
)  # fmt: skip
def test_any_data(text: str, value: Any, other: Any) -> None:
    """Whatever data a host hands in, operators end in a value or a failure of the language."""
    for left, right in ((value, other), (other, value)):
        try:
            compile(text).evaluate(left, {"x": right}, limits=LIMITS)
        except EXPECTED as error:
            str(error)
