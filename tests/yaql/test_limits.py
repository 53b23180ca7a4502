"""Bounds: each appetite ends in its exception, and early enough."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from vetro.yaql import (
    CollectionTooLargeException,
    DepthLimitExceeded,
    Evaluation,
    EvaluationCancelled,
    LimitException,
    Limits,
    MemoryQuotaExceededException,
    StepLimitExceeded,
    TimeLimitExceeded,
    YaqlGrammarException,
    YaqlLexicalException,
    compile,
    parse,
    standard_library,
)

Limited = Callable[..., Any]


@pytest.mark.parametrize(
    "text",
    [
        "range(1000)", "range(1000).toList()", "sequence().where($ > 5)", "1.repeat()",
        "1.repeat(1000)", "[1].cycle()", "[1, 2].cycle().select($)", "generate(1, true, 1)",
        "generateMany(1, [$])", "[1] * 1000", "range(90).toList() + range(90).toList()",
        "range(60).selectMany(range(60))", "range(60).join(range(60), true, $1)",
        "('x ' * 200).split()",
        "('x' * 200).toCharArray()", "range(90).toList().insertMany(0, range(90).toList())",
        "sequence().zip(sequence())", "sequence().enumerate()", "sequence().reverse()",
        "sequence().orderBy($)", "sequence().distinct()", "sequence().toSet()",
        "sequence().len()", "sequence().count()", "sequence().sum()", "sequence().max()",
        "sequence().groupBy($)", "sequence().toDict($)", "sequence().memorize()",
        "list(sequence())", "set(sequence())", "dict(sequence().select([$, $]))",
        "sequence().slice(3)", "sequence().slice(1000000)", "sequence().splitAt(5)",
        "sequence().append(1)", "sequence() + [1]", "[1] + sequence()", "sequence().flatten()",
        "sequence().accumulate($1 + $2)", "sequence().join(',')", "sequence().defaultIfEmpty([])",
        "sequence().any($ < 0)", "sequence().where(false).first()", "sequence().last()",
        "sequence().indexWhere($ < 0)", "sequence().skipWhile($ >= 0)", "sequence().single()",
    ],
)  # fmt: skip
def test_collections(limited: Limited, text: str) -> None:
    """A collection, lazy or not, holds at most `collection_items` elements."""
    if text == "sequence().single()":
        # It looks at two elements only.
        with pytest.raises(LookupError):
            limited(text, collection_items=100)
        return
    with pytest.raises(CollectionTooLargeException):
        limited(text, collection_items=100)


@pytest.mark.parametrize(
    "text",
    [
        "sequence().limit(100)", "range(100)", "sequence().first()", "[1].cycle().limit(100)",
        "range(100).select($ * 2)", "1.repeat(100)",
        "sequence().any($ > 50)", "generate(0, $ < 100, $ + 1)", "('x' * 99).toCharArray()",
    ],
)  # fmt: skip
def test_collections_within(limited: Limited, text: str) -> None:
    """Exactly as many elements as the limit allows are allowed."""
    limited(text, collection_items=100)


@pytest.mark.parametrize(
    "text",
    [
        "'x' * 100000", "1000 * 'abc'", "range(30).aggregate($1 + $1, ab)",
        "range(30).aggregate($1.replace(a, aa), a)", "range(30).aggregate(format('{0}{0}', $1), a)",
        "range(9).aggregate($1.join([$1, $1, $1]), ab)", "range(300).select('abcdefgh').sum()",
        "range(300).select('abcdefgh').join('--')", "concat('x' * 600, 'x' * 600)",
        "format('{0:9999}', 1)", "regex('a').replace('a' * 500, 'bbbbb')",
        "regex('').replace('a' * 500, 'bb')", "str(range(400).toList())", "str({a => 'x' * 999})",
        "('a' * 500).replace({a => bb, b => ccc})", "'ab'.replace('', 'x' * 500)",
        "regex('a').replaceBy('a' * 500, 'bbbbb')", "regex('(a)').replace('a' * 500, `\\\\1\\\\1\\\\1`)",
    ],
)  # fmt: skip
def test_strings(limited: Limited, text: str) -> None:
    """A string has at most `string_length` characters, however it is made."""
    with pytest.raises(MemoryQuotaExceededException):
        limited(text.replace("\\\\", "\\"), string_length=1000, collection_items=1000)


@pytest.mark.parametrize(
    "text",
    [
        "pow(2, 100000)", "pow(10, 5000)", "pow(-3, 99999999999)", "shiftBitsLeft(1, 999999999999)",
        "range(50).aggregate($1 * $1, 10)", "generate(1, true, $ * 2).last()",
        "range(100000).accumulate($1 * 2, 1).last()", "pow(pow(7, 900), pow(7, 900))",
        "let(x => pow(2, 3000)) -> $x * $x * $x",
    ],
)  # fmt: skip
def test_integers(limited: Limited, text: str) -> None:
    """An integer has at most `integer_bits` bits; nothing larger is ever computed."""
    with pytest.raises(MemoryQuotaExceededException):
        limited(text, integer_bits=4096)


def test_modular_power_is_free(limited: Limited) -> None:
    """With a modulus the power is small, whatever the exponent."""
    assert limited("pow(3, 1000000007, 1000)", integer_bits=64) == pow(3, 1000000007, 1000)


@pytest.mark.parametrize(
    "text",
    [
        "range(20000).join(range(20000), false, 1).first(0)", "sequence().where(false).first(0)",
        "range(50000).where(range(50000).any($ < 0)).first(0)",
        "range(300).select(range(300).orderBy(-$).first()).last()",
        "range(1000).select('x' * 100000).last()", "range(10000).select(pow(2, 30000)).last()",
        "let(x => 'x' * 1000000) -> range(1000).select($x.toUpper()).last()",
        "generateMany(1, [$, $])", "range(60).aggregate(set([$1, $1]).first(), 1)",
        "range(99).aggregate([$1, $1], 1) = range(99).aggregate([$1, $1], 1)",
    ],
)  # fmt: skip
def test_steps(limited: Limited, text: str) -> None:
    """Work is counted: elements, calls, the parts of compared values, long strings."""
    with pytest.raises(StepLimitExceeded):
        limited(text, steps=100_000, string_length=1 << 20)


@pytest.mark.parametrize(
    "text",
    [
        "def(f, f($)) -> f(1)", "def(f, [1, 2].select(f($))) -> f(1).toList()",
        "range(100000).aggregate([$1], 1)", "range(100000).aggregate({a => $1}, 1)",
        "range(100000).aggregate(set([$1]).first(), 1)", "range(1000).aggregate([$1], 1) in [1, []]",
        *(
            f"range(100000).aggregate({step}, range(1)).first()"
            for step in (
                "$1.where(true)", "$1.select($)", "$1.append(1)", "$1 + $1", "[1] + $1", "$1.skip(0)",
                "$1.limit(9)", "$1.takeWhile(true)", "$1.skipWhile(false)", "$1.distinct()",
                "$1.orderBy($)", "$1.memorize().select($)", "$1.enumerate()", "$1.zip($1)",
                "$1.zipLongest($1)", "$1.concat([1])", "$1.defaultIfEmpty([])", "$1.insert(0, 1)",
                "$1.delete(5)", "$1.slice(2)", "$1.splitWhere(false)", "$1.sliceWhere(true)",
                "$1.selectMany($)", "$1.accumulate($2)", "$1.join([1], true, $1)", "$1.flatten()",
                "$1.replaceMany(0, [1])",
            )
        ),
        "range(100000).aggregate($1.a, [{a => 1}])",
        "range(2000).aggregate({a => $1}, {}).mergeWith(range(2000).aggregate({a => $1}, {}))",
    ],
)  # fmt: skip
def test_depth(limited: Limited, text: str) -> None:
    """Calls, data and sequences inside each other end at a depth, not in Python's or C's stack."""
    with pytest.raises(DepthLimitExceeded):
        limited(text)


def test_python_recursion_is_a_depth_limit() -> None:
    """Where Python itself stops first, the failure is one of the language."""

    def deeper(value: int) -> int:
        return deeper(value + 1)

    library = standard_library().child()
    library.function(deeper)
    with pytest.raises(DepthLimitExceeded, match="deeper than Python allows"):
        compile("deeper(1)", library=library).evaluate()


def test_memory_of_a_result(limited: Limited) -> None:
    """What leaves is counted through all levels, shared parts as often as they occur."""
    for text in ("range(60).aggregate([$1, $1], 1)", "range(1000).select('x' * 1000)"):
        with pytest.raises(MemoryQuotaExceededException, match="larger than 100000 bytes"):
            limited(text, memory_bytes=100_000)
    assert len(limited("range(50).select('x' * 1000)", memory_bytes=100_000)) == 50


def test_time() -> None:
    """Wall time ends an evaluation; here a clock that runs a second at each look."""
    readings = iter(range(10_000))
    rt = Evaluation(standard_library(), Limits(seconds=5), clock=lambda: float(next(readings)))
    with pytest.raises(TimeLimitExceeded, match="more than 5 seconds"):
        compile("sequence().where(false).first()").run(rt)


def test_no_time_limit() -> None:
    """Without a limit nobody looks at the clock."""

    def broken() -> float:
        raise AssertionError("the clock was read")

    rt = Evaluation(standard_library(), Limits(seconds=None), clock=broken)
    assert compile("range(100000).sum()").run(rt) == 4999950000


def test_cancel_from_another_thread() -> None:
    """An evaluation that runs elsewhere ends at its next check, with the reason."""
    rt = Evaluation(standard_library(), Limits(steps=1 << 40, seconds=None))
    running = threading.Event()
    library = standard_library().child()

    def started() -> bool:
        running.set()
        return True

    library.function(started)
    expression = compile(
        "started() and def(f, range(1000000).where(false).first(0)) -> range(1000000).select(f())"
        ".where(false).first()",
        library=library,
    )
    failures: list[BaseException] = []

    def work() -> None:
        try:
            expression.run(rt)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert running.wait(60)
    rt.cancel("the user went away")
    thread.join(60)
    assert [type(error) for error in failures] == [EvaluationCancelled]
    assert "the user went away" in str(failures[0])


def test_limits_are_of_one_evaluation() -> None:
    """Each call of `evaluate` has the whole budget."""
    expression = compile("range(60).toList().len()")
    for _ in range(5):
        assert expression.evaluate(limits=Limits(steps=400)) == 60
    with pytest.raises(StepLimitExceeded):
        expression.evaluate(limits=Limits(steps=50))


def test_every_limit_is_one_kind() -> None:
    """Hosts recognise all of them by their base class."""
    for text, limits in (
        ("range(9)", Limits(collection_items=5)),
        ("'x' * 9", Limits(string_length=5)),
        ("range(9).select($)", Limits(steps=5)),
        ("pow(2, 99)", Limits(integer_bits=5)),
        ("def(f, f(1)) -> f(1)", Limits(depth=5)),
        ("[range(9)]", Limits(memory_bytes=5)),
    ):
        with pytest.raises(LimitException):
            compile(text).evaluate(limits=limits)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000, "[" * 5000, "{a => " * 5000, "f(" * 5000, "not " * 5000, "-" * 5000,
        "$.a(" * 5000, "$[" * 5000, "a.(" * 5000, "1 + (" * 5000, "f(a => " * 5000,
        "[[" * 2000 + "]]" * 2000,
    ],
)  # fmt: skip
def test_nesting_of_texts(text: str) -> None:
    """A text nested too deep is refused by the parser, before anything recurses."""
    with pytest.raises(YaqlGrammarException, match="more than 60 levels of nesting"):
        parse(text)


def test_a_chain_of_arrows_is_not_nesting() -> None:
    """A chain of `->` is limited by the number of parts, before anything recurses."""
    with pytest.raises(YaqlGrammarException, match="more than 20000 parts"):
        parse("let(1) -> " * 5000)


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize(
    "text",
    [
        "+".join(["1"] * 9000), " and ".join(["true"] * 9000), "$" + ".a" * 9000, "$" + "[0]" * 4900,
        "$" + ".where(true)" * 3900, "[" + ",".join(["1"] * 9000) + "]", "$" + "?.a" * 9000,
        "{" + ",".join(f"a{n} => {n}" for n in range(4900)) + "}", "'a' + $ + " * 4000 + "'b'",
        "switch(" + ",".join(f"$ = {n} => {n}" for n in range(3000)) + ")",
        "coalesce(" + ",".join(["$.z"] * 4000) + ")", "coalesce(" + ",".join(["null"] * 9000) + ")",
        "examine(" + ",".join(["$"] * 9000) + ")", "f(" + ",".join(["1"] * 9000) + ")",
        "dict(" + ",".join(f"a{n} => {n}" for n in range(4900)) + ")", " = ".join(["1"] * 9000),
        " < ".join(["1"] * 9000), " * ".join(["$"] * 9000), " or ".join(["$"] * 9000),
        "let(" + ",".join(f"a{n} => {n}" for n in range(4000)) + ") -> $a5",
        " + ".join(["str($)"] * 3000), "$.f(" * 58 + ")" * 58, "[1].any(" * 58 + "$" + ")" * 58,
        "$.select(" * 58 + "$" + ")" * 58, "switch(true => " * 29 + "1" + ")" * 29,
        "coalesce($z, " * 58 + "1" + ")" * 58, "(1 + " * 28 + "1" + ")" * 28,
        "($ * " * 28 + "$" + ")" * 28, "-" * 58 + "1", "not " * 58 + "1", "len(" * 58 + "$" + ")" * 58,
        "$.get(" * 58 + "1" + ")" * 58, "def(f, " * 28 + "1" + ")" * 28, "'a'.replace(a, " * 58 + ")" * 58,
    ],
)  # fmt: skip
def test_largest_texts_compile(text: str) -> None:
    """Whatever the parser lets through, Python's compiler takes."""
    for flavour in ("current", "legacy"):
        try:
            compile(text, flavour=flavour).evaluate(1)
        except (RecursionError, MemoryError, SyntaxError):
            raise
        except Exception as error:
            # The values do not fit; that is not what is looked at.
            assert not isinstance(error, (DepthLimitExceeded, MemoryQuotaExceededException))


def test_length_of_texts() -> None:
    """A text that is too long is refused by the scanner, one with too many parts by the parser."""
    with pytest.raises(YaqlLexicalException, match="longer than"):
        parse("a" * 300_000)
    with pytest.raises(YaqlGrammarException, match="more than 20000 parts"):
        parse("1+" * 20_000 + "1")
    with pytest.raises(YaqlLexicalException, match="4000 digits"):
        parse("9" * 4001)
