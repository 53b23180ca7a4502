"""Regular expressions: the guarded matcher agrees with Python's, and every pattern ends in time."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, assume, given, seed, settings
from hypothesis import strategies as st
from tests.effort import examples

from vetro.yaql import (
    ArgumentValueException,
    Evaluation,
    Expression,
    Limits,
    MemoryQuotaExceededException,
    TimeLimitExceeded,
    compile,
    operators,
    regex,
    standard_library,
)
from vetro.yaql import parse as parse_expression
from vetro.yaql.regex import (
    AFFORDABLE,
    compile_pattern,
    essence,
    find_all,
    is_guarded,
    safe_length,
    search,
)
from vetro.yaql.regex.analysis import assess
from vetro.yaql.regex.guarded import compile_program, run
from vetro.yaql.regex.tree import character_set, character_test, parse

EVIL = [
    "(a+)+$", "(a*)*$", "(a|aa)+$", "(a|a?)+$", "([a-z]+)*$", "(.*a){20}$", "^(([a-z])+.)+[A-Z]$",
    "(a+)+b", "(a*)*b", "(?:a|a)*b", "(.*)*b", "(.+)+b", "(\\w+\\s?)*b", "(x+x+)+y", "a*a*a*a*a*a*b",
    "(?:a*a*)*b", "(a?){40}a{40}b", "(?:(?:a+)b?)+$", "(?=(a+)+$)b", "(?:.|a)*b", "(\\d+)*x",
    "^(a?a?)*b$", "(?i:(a|A)+)+b", "((a|b)*c?)*d", "[ab]*[ab]*[ab]*[ab]*[ab]*c", "(?<=a)(a+)+b",
]  # fmt: skip


def evaluation(steps: int = 300_000) -> Evaluation:
    """An evaluation with room for so many steps of a match."""
    return Evaluation(standard_library(), Limits(regex_steps=steps, seconds=None))


@pytest.mark.parametrize("pattern", EVIL)
def test_catastrophes_end(pattern: str) -> None:
    """Patterns that keep Python's engine busy for ages give an answer or are stopped by count."""
    for text in ("a" * 3000 + "!", "ab" * 1500 + "!", "aA" * 1500, "1" * 3000, "x" * 3000):
        compiled = compile_pattern(pattern)
        assert is_guarded(compiled, len(text))
        try:
            search(evaluation(), compiled, text)
        except TimeLimitExceeded as error:
            assert "300000 steps" in str(error)


@pytest.mark.parametrize(
    "pattern",
    [
        r"^\d+$", r"\w+@\w+\.com", r"[a-z]+-[0-9]+", r"^\s*#", r"(\d{4})-(\d{2})-(\d{2})", "abc",
        "a|b|c", r"\bfoo\b", "^(?:[0-9]{1,3}\\.){3}[0-9]{1,3}$", r"^[A-Za-z_]\w*$", "x*", "^.*$",
        r"(?P<name>\w+)=(?P<value>[^;]*);",
    ],
)  # fmt: skip
def test_everyday_patterns_are_not_guarded(pattern: str) -> None:
    """What people write for names, numbers and addresses runs on Python's own engine."""
    assert not is_guarded(compile_pattern(pattern), 500)


@pytest.mark.parametrize("pattern", [*EVIL, "abc", r"\d+x", "x*x*", "(ab?)*c"])
def test_safe_length_is_the_border(pattern: str) -> None:
    """The longest affordable text costs at most what is affordable, one more character more."""
    risk = assess(pattern, 0)
    length = safe_length(compile_pattern(pattern))
    if length >= 0:
        assert risk.steps(length) <= AFFORDABLE
    if length < 1 << 40:
        assert risk.steps(length + 1) > AFFORDABLE


atoms = st.sampled_from(
    ["a", "b", ".", r"\w", r"\d", r"\s", "[ab]", "[^a]", "[a-c]", r"\b", r"\B", "^", "$", r"\A", r"\Z",
     "é", r"\W", "[^\\w]", "(?:)", "\\.", "A"]
)  # fmt: skip
patterns = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,2}?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        inner.map(lambda part: f"({part})"),
        inner.map(lambda part: f"(?={part})"),
        inner.map(lambda part: f"(?!{part})"),
        inner.map(lambda part: f"(?>{part})"),
    ),
    max_leaves=6,
)  # fmt: skip
subjects = st.text(alphabet="abcA1 .\né", max_size=8)
flags = st.sampled_from([0, re.IGNORECASE, re.MULTILINE, re.DOTALL, re.MULTILINE | re.IGNORECASE])


@seed(7)
@settings(
    max_examples=examples(1000),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(patterns, subjects, flags)
def test_guarded_matcher_agrees(pattern: str, subject: str, flag: int) -> None:
    """The guarded matcher finds what Python's engine finds: place, groups and all matches."""
    compiled = compile_pattern(pattern, flag)
    program = compile_program(pattern, compiled.flags)
    rt = evaluation()
    expected = compiled.search(subject)
    found = run(rt, program, compiled, subject)
    assert (found is None) is (expected is None)
    if expected is None or found is None:
        return
    assert (found.start(), found.end()) == expected.span()
    # Of a group that a repetition goes over several times, both keep the last round's place.
    assume("(?!" not in pattern)
    assert found.group() == expected.group()
    position, must_advance = 0, False
    ours: list[tuple[int, int]] = []
    while position <= len(subject):
        step = run(rt, program, compiled, subject, position, must_advance)
        if step is None:
            break
        ours.append((step.start(), step.end()))
        must_advance = step.start() == step.end()
        position = step.end()
    assert ours == [match.span() for match in compiled.finditer(subject)]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a)(b)?", "ac"), ("(?P<x>a+)(?P<y>b*)", "xaab"), ("(a)|(b)", "b"), ("((a)b)+", "abab"),
        (r"(a)\1", "aab"), (r"(?P<q>['\"]).*?(?P=q)", "x 'a\"b' y"), ("(a)?(?(1)b|c)", "abc"),
        ("(?<=a)b", "ab"), ("(?<!a)b", "ab b"), ("(?i)AB", "xab"), ("(?m)^b$", "a\nb\nc"), ("a{2,3}", "aaaa"),
        ("(?s).+", "a\nb"), ("[^\\W\\d_]+", "1a_b"), ("a*?b", "aab"), ("(?:a|ab)(?:c|bcd)", "abcd"),
    ],
)  # fmt: skip
def test_groups_agree(pattern: str, text: str) -> None:
    """Numbered and named groups of the guarded matcher are those of Python's engine."""
    compiled = compile_pattern(pattern)
    expected = compiled.search(text)
    found = run(evaluation(), compile_program(pattern, compiled.flags), compiled, text)
    assert expected is not None
    assert found is not None
    assert found.groups() == expected.groups()
    assert found.groupdict() == expected.groupdict()
    assert [found.start(n) for n in range(len(found.groups()) + 1)] == [
        expected.start(n) for n in range(len(expected.groups()) + 1)
    ]
    assert found.expand("<\\g<0>>\\n") == expected.expand("<\\g<0>>\\n")


def test_long_patterns_take_shorter_texts() -> None:
    """The length of a pattern counts: each place of the text may cost all of it."""
    assert safe_length(compile_pattern("[ab]c")) == AFFORDABLE
    assert safe_length(compile_pattern("[ab]" * 2000 + "c")) * 2000 < 64 * AFFORDABLE
    assert safe_length(compile_pattern("[ab]" * 2000 + "c+d")) * 2000 < 64 * AFFORDABLE


def test_find_all_is_guarded() -> None:
    """All matches of a risky pattern in a long text, as Python would give them."""
    text = "aaa! " * 200
    pattern = compile_pattern("(?:a|aa)+!")
    assert is_guarded(pattern, len(text))
    assert [match.start() for match in find_all(evaluation(10**7), pattern, text)] == [
        5 * number for number in range(200)
    ]


@pytest.mark.parametrize(
    "pattern", ["(", "[", "a{2,1}", "*", "(?P<1>a)", "\\", "(?<=a*)b", "a" * 10_001]
)
def test_malformed(pattern: str) -> None:
    """A text that is not a regular expression fails as an argument, with the reason."""
    with pytest.raises(ArgumentValueException, match="regular expression"):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    "text",
    [
        "$ =~ '(a+)+$'", "regex('(a+)+$').matches($)", "regex('(a+)+$').search($)",
        "regex('(a+)+$').searchAll($).toList()", "regex('(a+)+$').split($)", "$.matches('(a+)+$')",
        "regex('(a+)+$').replace($, x)", "regex('(a+)+$').replaceBy($, x)", "$.split(regex('(a+)+$'))",
        "$.replace(regex('(a+)+$'), x)", "$ !~ '(a+)+$'", "$.replaceBy(regex('(a+)+$'), x)",
    ],
)  # fmt: skip
def test_every_door_is_guarded(text: str) -> None:
    """Each operator and function that takes a pattern counts its steps."""
    with pytest.raises(TimeLimitExceeded):
        compile(text).evaluate("a" * 3000 + "!", limits=Limits(regex_steps=1000))


@pytest.mark.parametrize(
    ("pattern", "shorter"),
    [
        (".*a.*", "a"),
        (".*?a.*?", "a"),
        (".*.*?a.*.*", "a"),
        ("a.*+", "a"),
        (".*", ""),
        (".*a|b.*", "a|b"),
        (r"a\\.*", r"a\\"),
        (r"a\.*", r"a\.*"),
        (r"a\\\.*", r"a\\\.*"),
        (".*+a", ".*+a"),
        (".*{a", ".*{a"),
        ("(.*)a", "(.*)a"),
        ("[.*", None),
        ("[a.*]b", "[a.*]b"),
        ("a.+", "a.+"),
        ("..*a", "..*a"),
    ],
)
def test_essence(pattern: str, shorter: str | None) -> None:
    """`.*` at the ends is left out where only the existence of a match is asked for."""
    if shorter is None:
        with pytest.raises(ArgumentValueException):
            compile_pattern(pattern)
    else:
        assert essence(compile_pattern(pattern)).pattern == shorter


_PIECES = [
    "a", "b", ".", ".*", ".*?", "\\", "|", "^", "$", "(", ")", "(?=", "(?<=a)", "[^a]", "\\b", "?",
]  # fmt: skip


@seed(20)
@settings(max_examples=examples(1000), deadline=None)
@given(
    st.lists(st.sampled_from(_PIECES), max_size=7).map("".join),
    st.text("ab\n.", max_size=6),
    st.sampled_from([0, re.MULTILINE, re.DOTALL, re.VERBOSE]),
)
def test_essence_is_found_alike(pattern: str, text: str, flags: int) -> None:
    """A pattern and its essence are found in the same texts."""
    try:
        compiled = re.compile(f".*{pattern}.*", flags)
    except re.error:
        return
    found = essence(compiled).search(text) is not None
    assert found is (compiled.search(text) is not None)


@pytest.mark.parametrize("flags", [0, re.ASCII, re.DOTALL, re.IGNORECASE, re.IGNORECASE | re.ASCII])
@pytest.mark.parametrize(
    "pattern",
    ["a", "é", "€", "[^a]", "[^€]", ".", "[a-fx]", "[^a-f]", "[ÿ-€]", "[€-₯]", r"\d", r"\W",
     r"[\s_]", r"[^\w-]", "[a-z]", "[À-ÿ]", "ı", "s", "[^k]", "µ"],
)  # fmt: skip
def test_character_sets(pattern: str, flags: int) -> None:
    """The characters that an item is said to match are those that Python's engine matches."""
    items, _ = parse(pattern, flags)
    found = character_set(items[0], flags)
    compiled = re.compile(pattern, flags)
    test = character_test(items[0], flags)
    for char in [*map(chr, range(256)), "ı", "İ", "ſ", "μ", "Ÿ", "\u212a", "\u212b", "€", "ẞ", "Ω"]:
        matches = compiled.match(char) is not None
        assert test(char) is matches
        if ord(char) < 256:
            assert found >> ord(char) & 1 == matches


@pytest.mark.parametrize(
    "text",
    [
        "regex('(?P<n>[a-z])([0-9])?').search($, [$.value, $n.start, $2.end, $3.value, $3.start])",
        "regex('[a-z]([0-9])?').searchAll($, $2.value)",
        "regex('([0-9])').split($)",
        "regex('([0-9])').split($, 1)",
        "regex('[0-9]').replace($, '#')",
        "regex('[0-9]').replace($, '#', 1)",
        "regex('[0-9]').replace($, '#', -1)",
        "regex('([0-9])').replace($, '<\\\\1>', 1)",
        "regex('[0-9]').replaceBy($, $.value * 3)",
        "regex('[0-9]').replaceBy($, $.value * 3, 1)",
        "regex('x*').replaceBy($, str($.start))",
        "regex('x*').replace($, '-')",
        "regex('.*b.*').matches($)",
        "$ =~ '.*b.*'",
        "$ !~ `b\\.*`",
        "$.matches('^a.*')",
    ],
)
def test_either_matcher(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of patterns gives the same result whichever matcher does the work."""
    subjects = ["", "a1b2c", "xxb.3", "no", "a\nb"]
    expected = [compile(text).evaluate(subject) for subject in subjects]
    monkeypatch.setattr(regex, "safe_length", lambda _pattern: -1)
    monkeypatch.setattr(operators, "safe_length", lambda _pattern: -1)
    guarded = Expression(text, parse_expression(text), standard_library())
    assert [guarded.evaluate(subject) for subject in subjects] == expected


def test_replacements_within_limits() -> None:
    """The size of a result counts, not what it would be if nothing were taken out."""
    limits = Limits(string_length=100)
    for text in ("regex(a).replaceBy($, b)", "regex(a).replace($, `\\g<0>`)"):
        assert len(compile(text).evaluate("a" * 90, limits=limits)) == 90
    with pytest.raises(MemoryQuotaExceededException):
        compile("regex(a).replaceBy($, 'bb')").evaluate("a" * 90, limits=limits)
    with pytest.raises(MemoryQuotaExceededException):
        compile("regex(a).replaceBy($, 'bb', 11)").evaluate("a" * 90, limits=limits)
