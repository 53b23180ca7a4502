"""Expressions and data that hypothesis generates for the comparison with the `yaql` package.

There is one strategy for each kind and depth: made anew for each use, they are thousands.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

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


@cache
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


@cache
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


@cache
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


@cache
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


def text_queries(depth: int) -> st.SearchStrategy[str]:
    """Everything that strings offer."""
    text = strings(depth)
    small = st.sampled_from(["0", "1", "2", "(-1)", "5"])
    piece = st.sampled_from(["'a'", "'b'", "' '", "'X'", "'ab'"])
    pattern = st.sampled_from(
        ["'a'", "'[ab]+'", "'(a)(b)?'", "'x*'", "'^a'", "'b$'", "`\\w`", "'A|X'"]
    )
    return st.one_of(
        fill("{}.split({})", text, piece),
        fill("{}.split({}, {})", text, piece, small),
        fill("{}.split()", text),
        fill("{}.rightSplit({}, {})", text, piece, small),
        fill("{}.toLower()", text),
        fill("{}.trim({})", text, piece),
        fill("{}.trimLeft({})", text, piece),
        fill("{}.trimRight()", text),
        fill("norm({})", text),
        fill("{}.norm({})", text, piece),
        fill("{}.isEmpty()", text),
        fill("isEmpty({}, false)", text),
        fill("{}.indexOf({}, {})", text, piece, small),
        fill("{}.indexOf({}, {}, {})", text, piece, small, small),
        fill("{}.lastIndexOf({}, {})", text, piece, st.sampled_from(["0", "1"])),
        fill("{}.lastIndexOf({}, {}, {})", text, piece, st.sampled_from(["0", "1"]), small),
        fill("{}.substring({}, {})", text, small, small),
        fill("{}.replace({}, {}, {})", text, piece, piece, small),
        fill("{}.replace({{a => {}, b => 'q'}})", text, piece),
        fill("{}.toCharArray()", text),
        fill("{}.endsWith({}, {})", text, piece, piece),
        fill("{}.join([{}, {}, null, true])", piece, text, numbers(1)),
        fill("$.w.join({})", piece),
        fill("({} in {})", piece, text),
        fill("({} =~ {})", text, pattern),
        fill("({} !~ {})", text, pattern),
        fill("regex({}).matches({})", pattern, text),
        fill("regex({}).search({})", pattern, text),
        fill("regex({}, ignoreCase => true).search({}, $.start)", pattern, text),
        fill("regex({}).searchAll({})", pattern, text),
        fill("regex({}).searchAll({}, [$.value, $.start, $.end])", pattern, text),
        fill("regex({}).split({})", pattern, text),
        fill("regex({}).split({}, 1)", pattern, text),
        fill("regex({}).replace({}, {})", pattern, text, piece),
        fill("regex({}).replace({}, {}, 1)", pattern, text, piece),
        fill("regex({}).replaceBy({}, $.value + '.')", pattern, text),
        fill("{}.split(regex({}))", text, pattern),
        fill("{}.replace(regex({}), {})", text, pattern, piece),
        fill("regex(escapeRegex({})).matches({})", piece, text),
        fill("hex({})", integers.map(lambda number: str(abs(number)))),
        fill("({} < {})", text, text),
    )


def more_queries(depth: int) -> st.SearchStrategy[str]:
    """Queries that the rest leaves out."""
    items = lists(depth)
    test = conditions(depth, "$")
    small = st.sampled_from(["0", "1", "2", "4"])
    return st.one_of(
        fill("{}.min()", items),
        fill("{}.max({})", items, numbers(1)),
        fill("{}.last({})", items, numbers(1)),
        fill("{}.last()", items),
        fill("{}.single()", items),
        fill("{}.sum()", items),
        fill("{}.aggregate($1 * $2)", items),
        fill("{}.accumulate($1 - $2)", items),
        fill("{}.indexWhere({})", items, test),
        fill("{}.lastIndexWhere({})", items, test),
        fill("{}.lastIndexOf({})", items, numbers(1)),
        fill("{}.splitAt({})", items, small),
        fill("{}.sliceWhere({})", items, test),
        fill("{}.splitWhere({})", items, test),
        fill("{}.slice({})", items, st.sampled_from(["1", "2", "3"])),
        fill("{}.zip({}, {})", items, items, items),
        fill("{}.zipLongest({}, default => {})", items, items, numbers(1)),
        fill("{}.enumerate({})", items, small),
        fill("{}.defaultIfEmpty([{}])", items, numbers(1)),
        fill("{}.cycle().limit({})", items, small),
        fill("{}.repeat({})", numbers(1), small),
        fill("{}.memorize().select($ + 1)", items),
        fill("{}.concat({}, {})", items, items, items),
        fill("concat({}, {})", items, items),
        fill("{}.distinct($ mod 3)", items),
        fill("{}.any()", items),
        fill("{}.all()", items),
        fill("{}.contains({})", items, numbers(1)),
        fill("{}.insertMany({}, {})", items, small, items),
        fill("{}.replaceMany({}, {}, {})", items, small, items, small),
        fill("{}.replace({}, 7, {})", items, small, small),
        fill("{}.delete({}, {})", items, small, small),
        fill("[{}, [{}]].flatten()", items, items),
        fill("({} * {})", items, small),
        fill("{}.toDict($, $ * 2)", items),
        fill("{}.groupBy($ mod 2, $ + 1)", items),
        fill("generate({}, $ < 20, $ + 3)", integers.map(str)),
        fill("generate({}, $ < 20, $ + 5, $ * 2)", small),
        fill("generate(0, true, ($ + {}) mod 5, decycle => true)", st.sampled_from(["1", "2"])),
        fill("generateMany(1, [$ * 2, $ * 2 + 1].where($ < {}))", st.sampled_from(["4", "9"])),
        fill(
            "generateMany(1, [$ * 2, $ * 2 + 1].where($ < {}), depthFirst => true)",
            st.sampled_from(["4", "9"]),
        ),
        fill("sequence({}, {}).limit(3)", integers.map(literal), integers.map(literal)),
        fill("range({}, {}, {})", integers.map(literal), integers.map(literal), st.just("2")),
        fill("{}.orderBy($ mod 3).thenBy(-$)", items),
        fill("{}.orderByDescending($ mod 3).thenByDescending($)", items),
    )


def collections(depth: int) -> st.SearchStrategy[str]:
    """Mappings and sets."""
    key = st.sampled_from(["a", "b", "c", "x"])
    items = lists(depth)
    number = numbers(depth)
    return st.one_of(
        fill("$.d.values().toList()"),
        fill("$.d.items().orderBy($[0])"),
        fill("$.d.containsValue({})", scalars.map(literal)),
        fill("$.d.deleteAll([{}, {}])", key, key),
        fill("$.d.set({{{} => {}, {} => 2}})", key, number, key),
        fill("$.d.get({})", key),
        fill("$.d[{}, {}]", key, number),
        fill("$.d?.{}", key),
        fill(
            "{{l => {}, m => {{a => 1}}}}.mergeWith({{l => {}, m => {{b => {}}}}})",
            items,
            items,
            number,
        ),
        fill("{{l => {}}}.mergeWith({{l => {}}}, $1 + $2)", items, items),
        fill("{{n => {}}}.mergeWith({{n => {}}}, itemMerger => $1 + $2)", number, number),
        fill("{{n => {{q => 1}}}}.mergeWith({{n => {{r => {}}}}}, maxLevels => 1)", number),
        fill("{{n => 1}}.mergeWith({{n => {}}})", st.sampled_from(["[1]", "{}", "2", "null"])),
        fill("dict([[a, {}], [b, {}]])", number, number),
        fill("dict({}.select([$, 1]))", items),
        fill("len($.d)"),
        fill("({} in $.d)", key),
        fill("{}.toSet().len()", items),
        fill("set({}, {}).orderBy($)", number, number),
        fill("{}.toSet().union({}.toSet()).orderBy($)", items, items),
        fill("{}.toSet().intersect({}.toSet()).orderBy($)", items, items),
        fill("({}.toSet() - {}.toSet()).orderBy($)", items, items),
        fill("{}.toSet().symmetricDifference({}.toSet()).orderBy($)", items, items),
        fill("({}.toSet() <= {}.toSet())", items, items),
        fill("{}.toSet().add({}, 1).orderBy($)", items, number),
        fill("{}.toSet().remove({}).orderBy($)", items, number),
        fill("({}.toSet() = {}.toSet())", items, items),
        fill("isDict({})", st.sampled_from(["$.d", "$.l", "$.s", "$"])),
        fill(
            "is{}({})",
            st.sampled_from(["List", "Iterable", "Set"]),
            st.sampled_from(["$.d", "$.l", "$.s"]),
        ),
        fill(
            "is{}({})",
            st.sampled_from(["String", "Integer", "Number", "Boolean"]),
            scalars.map(literal),
        ),
    )


def contexts(depth: int) -> st.SearchStrategy[str]:
    """`let` and its kin, and branching."""
    number = numbers(depth)
    test = conditions(depth)
    return st.one_of(
        fill("with({}, {}) -> $ - $2", number, number),
        fill("[{}, {}].unpack() -> [$2, $1]", number, number),
        fill("[{}, {}].unpack(x, y) -> $x - $y", number, number),
        fill("{}.unpack(x, y) -> $x", lists(depth)),
        fill("{}.assert($ > 0)", number),
        fill("call(max, [{}, {}], {{}})", number, number),
        fill("call(len, [], {{}}, {})", lists(depth)),
        fill("call(substring, [1], {{length => 1}}, {})", strings(depth)),
        fill("{}.switchCase(a, b, c)", number),
        fill("selectCase({}, {})", test, test),
        fill("selectAllCases({}, {}, {})", test, test, test),
        fill("examine({}, {})", test, test),
        fill("switch({} => {})", test, number),
        fill("coalesce(null, $.z, {}, 5)", number),
        fill("def(f, $1 + $2) -> f({}, {})", number, number),
        fill("let(a => {}) -> let(b => $a + 1) -> $a * $b", number),
        fill("let({}) -> $.select($ + 1)", lists(depth)),
        fill("$?.i + {}", number),
        fill("$.z?.foo"),
        fill("bool({})", scalars.map(literal)),
        fill("(bool({}) and {})", scalars.map(literal), number),
        fill("float({})", st.one_of(floats.map(str), integers.map(literal))),
        fill("round({}, {})", floats.map(literal), st.sampled_from(["0", "1"])),
        fill("pow({}, {})", number, st.sampled_from(["0", "1", "2"])),
        fill("bitwise{}({}, {})", st.sampled_from(["And", "Or", "Xor"]), number, number),
        fill("bitwiseNot({})", number),
        fill("shiftBits{}({}, 2)", st.sampled_from(["Left", "Right"]), number),
        fill(
            "({} {} {})", floats.map(literal), st.sampled_from(["+", "-", "*", "/", "mod"]), number
        ),
    )


def times(depth: int) -> st.SearchStrategy[str]:
    """Dates and durations."""
    day = st.integers(1, 28).map(str)
    hours = st.integers(-50, 50).map(literal)
    moment = st.one_of(
        fill("datetime(2020, 2, {})", day),
        fill("datetime(2019, 12, {}, 13, 30, 15, 250)", day),
        fill("datetime(2020, 1, {}, offset => timespan(hours => 2))", day),
        fill("datetime('2020-03-{:0>2}T10:00:00')", day),
    )
    span = st.one_of(
        fill("timespan(hours => {})", hours),
        fill("timespan({}, 1, seconds => 30)", st.integers(0, 9).map(str)),
        fill("timespan(milliseconds => {})", hours),
    )
    return st.one_of(
        fill(
            "{}.{}", moment, st.sampled_from(["year", "month", "day", "hour", "minute", "second"])
        ),
        fill("{}.{}", moment, st.sampled_from(["microsecond", "weekday", "offset"])),
        fill("{}.{}", moment, st.sampled_from(["date", "time"])),
        fill(
            "{}.{}", span, st.sampled_from(["days", "hours", "minutes", "seconds", "milliseconds"])
        ),
        # The reference counts them as an integer: a deliberate difference.
        fill("float({}.microseconds)", span),
        fill("datetime(2020, 5, {}, 23).{}", day, st.sampled_from(["utc", "timestamp"])),
        fill("{}.format('%Y-%m-%d %H:%M')", moment),
        fill("({} + {}).format('%d %H')", moment, span),
        fill("({} - {}).format('%d %H')", moment, span),
        fill("({} - {}).hours", moment, moment),
        fill("({} {} {})", moment, st.sampled_from(["<", "<=", ">", ">=", "=", "!="]), moment),
        fill("({} {} {})", span, st.sampled_from(["<", "<=", ">", ">=", "=", "!="]), span),
        fill("({} {} {}).seconds", span, st.sampled_from(["+", "-"]), span),
        fill("({} * {}).seconds", span, integers.map(literal)),
        fill("(-{}).minutes", span),
        fill("{}.replace(day => {}).day", moment, day),
        fill("bool({})", span),
        fill("isDatetime({})", st.one_of(moment, span)),
        fill("isTimespan({})", st.one_of(moment, span)),
    )


def legacy_forms() -> st.SearchStrategy[str]:
    """What only the legacy flavour has, or has otherwise."""
    items = st.sampled_from(["$.l", "[3, 1, 2]", "[]"])
    position = st.integers(-3, 3).map(literal)
    test = st.sampled_from(["$ > 0", "$ mod 2 = 0", "$ = 1", "$ != 3"])
    key = st.sampled_from(["a", "b", "x"])
    return st.one_of(
        fill("{}[{}]", items, position),
        # Where the test fails on the outer `$` the reference fails, too: not so here.
        fill("{}[{}]", items, st.sampled_from(["$ = 1", "$ != 3", "$ = $.z"])),
        fill("$.r[$.n > 0].select($.t)"),
        fill("$.r[$.t = 'a'].n"),
        fill("{}.select($ + 1)[{}]", items, test),
        fill("$.d.{}", key),
        fill("$.r.{}", st.sampled_from(["n", "t", "q"])),
        fill("({} in $.d)", key),
        fill("$.d.select($ + 'q').orderBy($)"),
        fill("$.d.where($ != {}).orderBy($)", key),
        fill("$.d.len()"),
        fill("get($.d, {})", key),
        fill("$.d.get({}, {})", key, position),
        fill("where({}, {})", items, test),
        fill("select({}, $ + 1)", items),
        fill("sum({}, 0)", items),
        fill("takeWhile({}, {})", items, test),
        fill("join([a, b], '-')"),
        fill("{}.int()", st.sampled_from(["'5'", "1.5", "3"])),
        fill("{}.float()", st.sampled_from(["'5'", "1.5", "3"])),
        fill("{}.bool()", scalars.map(literal)),
        fill("list({}, {})", position, position),
        fill("tuple({}, {})", position, position),
        fill("range({}, 3)", st.integers(0, 4).map(str)),
        fill("range({}).limit(2)", st.integers(0, 4).map(str)),
        fill("dict(tuple(a, {}), tuple(b, 2))", position),
        fill("dict(a => {}, b => 2)", position),
        fill("switch({}, $ > 1 => a, $ < 0 => b, true => c)", position),
        fill("{}.switch($ > 1 => a, $ < 0 => b)", position),
        fill("{}.as($ + 1 => y) -> $y * 2", position),
        fill("{}.as(len($) => n, $ => all).len()", items),
        fill("{}.select($).toList()", items),
        fill("({} = {})", scalars.map(literal), scalars.map(literal)),
        fill("({} < {})", scalars.map(literal), scalars.map(literal)),
        fill("{}.orderBy($).first(0)", items),
        fill("{}.groupBy($ mod 2).select($[0])", items),
        fill("{}.toList()", items),
    )


anything = st.one_of(
    numbers(3),
    conditions(3),
    strings(3),
    lists(3),
    structures(2),
    text_queries(1),
    more_queries(1),
    collections(1),
    contexts(1),
    times(1),
)


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
