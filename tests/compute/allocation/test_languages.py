"""The two small languages: owner filters' expressions, and patterns in linear time."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vetro.compute.allocation.errors import ExpressionError, PatternError
from vetro.compute.allocation.expression import compile_expression
from vetro.compute.allocation.patterns import compile_pattern, glob_matches
from vetro.compute.allocation.steps import fixed2_all
from vetro.compute.allocation.wording import fixed2, json_text, number_text, truthy

SERVER: dict[str, Any] = {
    "hostname": "web-1",
    "ram": 1024,
    "setup": True,
    "traits": {"ssd": True, "rack": "A 1", "list": [1, 2]},
    "sysinfo": {"System Type": "Linux"},
    "nothing": None,
}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("server.setup", True),
        ("!server.setup", False),
        ("!!server.setup", True),
        ("server.ram >= 1024 && server.ram < 2048.5", True),
        ("server.ram > 1024 || server.hostname == 'web-1'", True),
        ("server.ram == 1024 && server.setup == false", False),
        ('server.traits.rack === "A 1"', True),
        ("server['sysinfo'][\"System Type\"] !== 'SunOS'", True),
        ("server.traits.list[1] == 2", True),
        ("server.traits.list.length == 2", True),
        ("server.traits.list[5] == undefined", True),
        ("server.hostname.length == 5", True),
        ("server.absent == undefined", True),
        ("server.absent == null", True),
        ("server.absent === null", False),
        ("server.nothing == null", True),
        ("server.absent", False),
        ("server.hostname > 'web-0'", True),
        ("server.ram == '1024'", False),
        ("server.setup == 1", False),
        ("server.ram > -1", True),
        ("true || server.absent.deeper", True),
        ("false && server.absent.deeper", False),
        ("(server.ram == 1 || server.setup) && !false", True),
        (r"server.hostname != 'a\'b\n'", True),
        ("true", True),
    ],
)
def test_expressions(text: str, answer: bool) -> None:
    """Comparison, logic, literals and access mean what they look like."""
    assert compile_expression(text)(SERVER) is answer


@pytest.mark.parametrize(
    "text",
    [
        "", "server.", "server.ram >", "(server.ram", "server.ram == 1)", "ram == 1",
        "server.toString()", "server.ram = 1", "a" * 5000, "(" * 100 + "1" + ")" * 100,
        "server['x'", "'open", "server.ram + 1", "-server.ram", "1 2",
    ],
)  # fmt: skip
def test_what_is_not_an_expression_is_refused(text: str) -> None:
    """There are no calls, no arithmetic, no assignment, no other names; nothing nests endlessly."""
    with pytest.raises(ExpressionError):
        compile_expression(text)


@pytest.mark.parametrize(
    "text",
    ["server.absent.deeper == 1", "server.ram < 'x'", "server.absent < 1", "server.ram.x == 1"],
)
def test_expressions_without_an_answer_fail(text: str) -> None:
    """Members of nothing and order without order are errors, not guesses."""
    with pytest.raises(ExpressionError):
        compile_expression(text)(SERVER)


PATTERNS = [
    "", "a", "ab*c", "a+b?", "(ab|c)+", "^a", "b$", "^$", "[a-c]x", "[^a-c]", "a{2}", "a{1,3}b",
    "a{2,}", r"\d+", r"\w\W", r"\ba", r"a\b", r"[\d-]a", "a.c", "(?:a|b)*c", "x|", "(a*)*b",
    r"\.", r"[\]]", "a{,2}", r"a\Bb", "a*?b", "((a|b)c)?d",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
@given(text=st.text(alphabet="abcdx1 .-_]{},", max_size=12))
def test_patterns_match_what_they_always_matched(pattern: str, text: str) -> None:
    """Found or not, as the standard library's engine says."""
    # There a $ also matches before a last line break, and {,2} is a repetition.
    twin = re.compile(pattern.replace("$", r"\Z").replace("{,2}", r"\{,2\}"), re.ASCII)
    assert compile_pattern(pattern)(text) is (twin.search(text) is not None)


@pytest.mark.parametrize(
    "pattern",
    ["(", "a)", "*a", "[a", "(?=a)", r"(a)\1", "a{201}", "a{3,2}", "[b-a]", "\\", "(" * 60,
     "((a{100}){100}){100}"],
)  # fmt: skip
def test_patterns_that_cannot_be_read_are_refused(pattern: str) -> None:
    """Broken ones, ones that would need going back, and ones that are too large."""
    with pytest.raises(PatternError):
        compile_pattern(pattern)


def test_no_pattern_goes_back() -> None:
    """The pattern that takes others ages takes steps in proportion to the text."""
    assert not compile_pattern("^(a+)+(a|a)*$")("a" * 300 + "!")


@given(glob=st.text(alphabet="ab*", max_size=8), text=st.text(alphabet="ab", max_size=10))
def test_globs(glob: str, text: str) -> None:
    """A star stands for any text, everything else for itself; the whole text must match."""
    twin = re.compile(".*".join(re.escape(part) for part in glob.split("*")), re.S)
    assert glob_matches(glob, text) is (twin.fullmatch(text) is not None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (50, "50"), (50.0, "50"), (100 / 3, "33.333333333333336"), (0.5, "0.5"), (-2.0, "-2"),
        (1e21, "1e+21"), (1e-6, "0.000001"), (1.5e-6, "0.0000015"), (1e-7, "1e-7"),
        (None, "null"), (float("nan"), "NaN"), (float("-inf"), "-Infinity"),
    ],
)  # fmt: skip
def test_numbers_are_as_short_as_can_be(value: Any, text: str) -> None:
    """Shortest decimals, whole numbers without a point."""
    assert number_text(value) == text


def test_json_and_truth() -> None:
    """JSON is compact and keeps the order of keys; empty objects are true, empty text is not."""
    assert json_text({"b": 1.0, "a": [True, None, "é"]}) == '{"b":1,"a":[true,null,"é"]}'
    assert [truthy(one) for one in ({}, [], "0", 1)] == [True] * 4
    assert [truthy(one) for one in (None, False, 0, 0.0, "", float("nan"))] == [False] * 6


def test_many_numbers_read_like_each_of_them() -> None:
    """Two decimals of a whole column: also where the next cent is as near, and beyond the table."""
    chance = np.random.Generator(np.random.PCG64(1))
    ties = np.arange(0, 80) / 8
    near = np.concatenate([np.nextafter(ties, 0), np.nextafter(ties, 99)])
    columns = [
        ties, near, np.arange(0, 1000) / 200, chance.random(2000) * 5, chance.random(50) * 1e6,
        np.array([-1.005, 2.0]), np.array([19.989, 19.991]), np.zeros(0),
    ]  # fmt: skip
    for column in columns:
        assert fixed2_all(column) == [fixed2(value) for value in column.tolist()]
