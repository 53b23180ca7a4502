"""Generated expressions and data, against the `yaql` package.

`VETRO_DIFFERENTIAL_EXAMPLES` sets how many; docs/language/yaql.md lists the deliberate
differences, and the generators below stay clear of them.
"""

from __future__ import annotations

import collections.abc  # noqa: F401 - the oracle reads collections.abc without importing it
import os
import re
from functools import lru_cache
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import yaql as oracle_package
from vetro.yaql import compile, legacy_names
from yaql import legacy as oracle_legacy

EXAMPLES = int(os.environ.get("VETRO_DIFFERENTIAL_EXAMPLES", "300"))
OPTIONS = {
    "yaql.limitIterators": 2000,
    "yaql.memoryQuota": 10_000_000,
    "yaql.convertTuplesToLists": True,
    "yaql.convertSetsToLists": True,
}
BOOLEAN = re.compile("true|false")
OF_CURRENT = re.compile(r"range\(|switch|\[|toList")
"""What has another meaning in the legacy flavour."""
common = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="VETRO_DIFFERENTIAL_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

integers = st.integers(-9, 9)
floats = st.sampled_from([0.5, -1.5, 2.0])
texts = st.sampled_from(["", "a", "b", "ab", "aXb", " a ", "1"])
scalars = st.one_of(st.none(), st.booleans(), integers, floats, texts)
rows = st.lists(
    st.fixed_dictionaries({"n": integers, "t": texts, "l": st.lists(integers, max_size=3)}),
    max_size=4,
)
data = st.fixed_dictionaries(
    {
        "i": integers,
        "j": integers,
        "f": floats,
        "s": texts,
        "b": st.booleans(),
        "z": st.none(),
        "l": st.lists(integers, max_size=4),
        "w": st.lists(texts, max_size=4),
        "m": st.lists(scalars, max_size=4),
        "d": st.dictionaries(st.sampled_from(["a", "b", "c"]), scalars, max_size=3),
        "r": rows,
    }
)


def literal(value: Any) -> str:
    """The source of a scalar."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return "'" + value + "'"
    return f"({value})" if value < 0 else str(value)


def fill(template: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """`template` with each `{}` replaced by a drawn part."""
    return st.tuples(*parts).map(lambda drawn: template.format(*drawn))


def numbers(depth: int, dollar: str = "$.i") -> st.SearchStrategy[str]:
    """Expressions that are mostly integers; `dollar` is one at hand."""
    leaves = st.one_of(integers.map(literal), st.sampled_from([dollar, dollar]))
    if depth <= 0:
        return leaves
    inner = numbers(depth - 1, dollar)
    return st.one_of(
        leaves,
        fill("({} {} {})", inner, st.sampled_from(["+", "-", "*", "/", "mod"]), inner),
        fill("(-{})", inner),
        fill("abs({})", inner),
        fill("max({}, {})", inner, inner),
        fill("min({}, {})", inner, inner),
        fill("sign({})", inner),
        fill("int({})", st.one_of(inner, texts.map(literal))),
        fill("{}.len()", lists(depth - 1)),
        fill("{}.sum({})", lists(depth - 1), inner),
        fill("{}.count()", lists(depth - 1)),
        fill("{}.first({})", lists(depth - 1), inner),
        fill("{}.indexOf({})", lists(depth - 1), inner),
        fill("{}.aggregate($1 + $2, {})", lists(depth - 1), inner),
        fill("len({})", strings(depth - 1)),
        fill("switch({} => {}, true => {})", conditions(depth - 1), inner, inner),
        fill("coalesce({}, {})", st.sampled_from(["null", "$.z"]), inner),
    )


def conditions(depth: int, dollar: str = "$.i") -> st.SearchStrategy[str]:
    """Expressions that are mostly booleans."""
    if depth <= 0:
        return st.sampled_from(["true", "false", "$.b"])
    inner = conditions(depth - 1, dollar)
    number = numbers(depth - 1, dollar)
    return st.one_of(
        fill("({} {} {})", number, st.sampled_from(["<", "<=", ">", ">=", "=", "!="]), number),
        fill("({} {} {})", inner, st.sampled_from(["and", "or"]), inner),
        fill("(not {})", inner),
        fill("({} in {})", number, lists(depth - 1)),
        fill("({} = {})", lists(depth - 1), lists(depth - 1)),
        fill("({} < {})", strings(depth - 1), strings(depth - 1)),
        fill("{}.any($ > {})", lists(depth - 1), integers.map(literal)),
        fill("{}.all($ > {})", lists(depth - 1), integers.map(literal)),
        fill("{}.startsWith({})", strings(depth - 1), texts.map(literal)),
        fill("isEmpty({})", strings(depth - 1)),
    )


def strings(depth: int) -> st.SearchStrategy[str]:
    """Expressions that are mostly strings."""
    leaves = st.one_of(texts.map(literal), st.just("$.s"))
    if depth <= 0:
        return leaves
    inner = strings(depth - 1)
    return st.one_of(
        leaves,
        fill("({} + {})", inner, inner),
        fill("str({})", st.one_of(scalars.map(literal), numbers(depth - 1))),
        fill("{}.toUpper()", inner),
        fill("{}.trim()", inner),
        fill(
            "{}.substring({}, {})", inner, integers.map(literal), st.sampled_from(["0", "1", "2"])
        ),
        fill("{}.substring({})", inner, integers.map(literal)),
        fill("{}.replace({}, {})", inner, st.sampled_from(["'a'", "'b'"]), inner),
        fill("{}.join({})", inner, st.sampled_from(["$.w", "$.m", "$.l"])),
        fill("({} * {})", inner, st.sampled_from(["0", "1", "2"])),
        fill("concat({}, {})", inner, inner),
    )


def lists(depth: int) -> st.SearchStrategy[str]:
    """Expressions that are mostly lists of integers."""
    leaves = st.one_of(
        st.just("$.l"),
        st.lists(integers.map(literal), max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
        st.integers(0, 4).map(lambda stop: f"list(range({stop}))"),
    )
    if depth <= 0:
        return leaves
    inner = lists(depth - 1)
    each = numbers(depth - 1, "$")
    plainly = numbers(depth - 1)
    test = conditions(depth - 1, "$")
    # Keys that cannot fail: the reference does not look at the key of a single element.
    order = st.sampled_from(["$", "-$", "$ mod 3", "abs($)", "$ * $ - 5", "str($)"])
    return st.one_of(
        leaves,
        fill("{}.where({}).toList()", inner, test),
        fill("{}.select({}).toList()", inner, each),
        fill("{}.orderBy({}).toList()", inner, order),
        fill("{}.orderByDescending({}).toList()", inner, order),
        fill("{}.takeWhile({}).toList()", inner, test),
        fill("{}.skipWhile({}).toList()", inner, test),
        fill("{}.limit({}).toList()", inner, st.sampled_from(["0", "1", "2"])),
        fill("{}.skip({}).toList()", inner, st.sampled_from(["0", "1", "2"])),
        fill("{}.selectMany([$, {}]).toList()", inner, each),
        fill("{}.distinct().toList()", inner),
        fill("{}.reverse().toList()", inner),
        fill("({} + {}).toList()", inner, inner),
        fill("{}.append({}).toList()", inner, plainly),
        fill("{}.insert({}, {}).toList()", inner, st.sampled_from(["0", "1", "5"]), plainly),
        fill(
            "{}.delete({}, {}).toList()",
            inner,
            st.sampled_from(["0", "1"]),
            st.sampled_from(["1", "2"]),
        ),
        fill("{}.replace({}, {}).toList()", inner, st.sampled_from(["0", "1"]), plainly),
        fill("{}.accumulate($1 + $2, 0).toList()", inner),
        fill("{}.slice(2).select($.sum()).toList()", inner),
        fill("{}.splitWhere({}).select($.len()).toList()", inner, test),
        fill("{}.zip({}).select($[0] + $[1]).toList()", inner, inner),
        fill("{}.enumerate().select($[0] * $[1]).toList()", inner),
        fill("{}.groupBy({}).select($[0]).toList()", inner, each),
        fill("{}.join({}, $1 = $2, $1 + $2).toList()", inner, inner),
        fill("[{}, {}]", numbers(depth - 1), numbers(depth - 1)),
    )


def structures(depth: int) -> st.SearchStrategy[str]:
    """Queries over rows and mappings."""
    test = st.sampled_from(["$.n > 0", "$.t = 'a'", "$.l.any()", "$.n in $.l", "true"])
    key = st.sampled_from(["$.n", "$.t", "$.l.len()", "$.n mod 3"])
    return st.one_of(
        fill("$.r.where({}).select({})", test, key),
        fill("$.r.orderBy({}).select($.n)", key),
        fill("$.r.orderBy({}).thenByDescending({}).select([$.n, $.t])", key, key),
        fill("$.r.groupBy({}, {}).select([$[0], $[1].len()])", key, key),
        fill("$.r.groupBy({}, {}, $.len())", key, key),
        fill("$.r.toDict({}, {})", key, key),
        fill("$.r.selectMany($.l).distinct().orderBy($)"),
        fill("$.r.select({{k => {}, v => {}}})", key, key),
        fill("$.r.select(dict(k => {}, $.t => {}))", key, key),
        fill("$.d.set(a, {})", numbers(depth)),
        fill("$.d.set(q => {})", numbers(depth)),
        fill("$.d.get({}, {})", st.sampled_from(["a", "b", "x"]), numbers(depth)),
        fill("$.d[{}]", st.sampled_from(["a", "b"])),
        fill("$.d.delete({})", st.sampled_from(["a", "b", "x"])),
        fill("$.d.mergeWith({{a => {}, z => {}}})", numbers(depth), numbers(depth)),
        fill("$.d.keys().orderBy($)"),
        fill("$.d.containsKey({})", st.sampled_from(["a", "x"])),
        fill("($.d + {{a => {}}})", numbers(depth)),
        fill("$.m.where($ = {})", scalars.map(literal)),
        fill("$.m.select($ = {})", scalars.map(literal)),
        fill("$.m.indexOf({})", scalars.map(literal)),
        fill("let(x => {}) -> $x + {}", numbers(depth), numbers(depth)),
        fill("let({}, y => {}) -> [$, $y]", numbers(depth), numbers(depth)),
        fill("def(f, $ + {}) -> $.l.select(f($))", numbers(depth, "$")),
        fill("$.l.select($ + {}).where($ > {})", numbers(depth, "$"), integers.map(literal)),
    )


anything = st.one_of(numbers(3), conditions(3), strings(3), lists(3), structures(2))
loose = st.one_of(
    fill(
        "({} {} {})",
        scalars.map(literal),
        st.sampled_from(["+", "-", "*", "/", "mod", "<", ">=", "=", "!=", "in", "and", "or"]),
        scalars.map(literal),
    ),
    fill(
        "{}.{}", scalars.map(literal), st.sampled_from(["len()", "foo", "sum()", "x()", "keys()"])
    ),
    fill(
        "{}({})",
        st.sampled_from(["len", "int", "str", "bool", "float", "foo"]),
        scalars.map(literal),
    ),
    fill("{}[{}]", st.sampled_from(["$.l", "$.d", "$.s", "$.z"]), scalars.map(literal)),
    fill("$.m.{}()", st.sampled_from(["sum", "max", "min", "first", "last", "single", "len"])),
    fill("$.m.orderBy($)"),
)


@lru_cache(maxsize=1)
def _engines() -> dict[str, Any]:
    return {
        "current": (oracle_package.YaqlFactory().create(OPTIONS), oracle_package.create_context),
        "legacy": (
            oracle_legacy.YaqlFactory().create({**OPTIONS, "yaql.iterableDicts": True}),
            oracle_legacy.create_context,
        ),
    }


def plain(value: Any) -> Any:
    """Sequences as lists, so that the two can be compared."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def by_oracle(text: str, value: Any, flavour: str) -> tuple[str, Any]:
    """What the reference makes of an expression."""
    engine, context = _engines()[flavour]
    try:
        return "value", plain(engine(text).evaluate(data=value, context=context()))
    except Exception as error:
        return "error", type(error).__name__


def by_us(text: str, value: Any, flavour: str) -> tuple[str, Any]:
    """What we make of it."""
    try:
        return "value", compile(text, flavour=flavour).evaluate(value)
    except Exception as error:
        names = [name.rpartition(".")[2] for name in legacy_names(error)]
        return "error", "StopIteration" if "StopIteration" in names else names[0]


def compare(text: str, value: Any, flavour: str = "current") -> None:
    """Both agree on value, type of number and failure."""
    expected, ours = by_oracle(text, value, flavour), by_us(text, value, flavour)
    # repr tells 1 from 1.0 and from true, which == does not.
    assert repr(ours) == repr(expected), f"{text} with {value!r}"


@common
@given(anything, data)
def test_expressions_agree(text: str, value: dict[str, Any]) -> None:
    """Generated expressions over generated data have the reference's value."""
    compare(text, value)


@common
@given(loose, data)
def test_failures_agree(text: str, value: dict[str, Any]) -> None:
    """Operands of unfitting kinds fail with the reference's exception."""
    # The reference multiplies by booleans and takes them as indexes: a deliberate difference.
    assume(not (BOOLEAN.search(text) and ("*" in text or "[" in text)))
    compare(text, value)


@common
@given(st.one_of(numbers(2), strings(2), conditions(2)), data)
def test_legacy_agrees(text: str, value: dict[str, Any]) -> None:
    """The legacy flavour agrees, too, where no indexer is involved."""
    assume(not OF_CURRENT.search(text))
    compare(text, value, "legacy")
