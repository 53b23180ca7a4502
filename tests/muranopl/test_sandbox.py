"""Ways out of the language that must lead nowhere (issue 3, item 4)."""

import pytest

from vetro.muranopl import Limits, MemoryPackage, MuranoError, MuranoObject, Runtime

HEAD = """
Namespaces: {=: t, std: io.murano, py: null}
Name: Main
Properties:
  x: {Contract: $, Usage: Runtime}
  n: {Contract: $.int(), Usage: Static, Default: 1}
Methods:
  helper:
    Arguments: [{a: {Contract: $}}]
    Body:
      - Return: $a
"""

EXPRESSIONS = [
    *("$.__class__", "$this.__dict__", "$.__init__()", "$.__class__.__mro__", "$.run", "$.session"),
    *("$.header", "$.owner", "$.natives", "$.type", "$.p_x", "$.m_helper", "$.w_x", "$.q1_y"),
    *(
        "$.initialised",
        "$.metadata",
        "$.subscriptions",
        "$.id",
        "$.growing",
        "$.get(x)",
        "$.set(x, 1)",
    ),
    *("$.call(helper, 1)", "$.m_helper(1)", "$.w_x(null, 1)", "$.native()", "$.native_part(null)"),
    *("$.find_owner('t.Main')", "$.is_a('t.Main')", "$.is_owned_by($)", "$.destroyed"),
    *(
        ":Main.__subclasses__()",
        ":Main.package",
        ":Main.runtime",
        ":Main.methods",
        ":Main.python_class",
    ),
    *(":Main.own_code()", ":Main.find_type('t.Main')", ":Main.__init__", "type('t.Main').assembly"),
    *(
        "typeinfo($).__class__",
        "typeinfo($).subject",
        "typeinfo($).package.source",
        "typeinfo($)._type",
    ),
    *("typeinfo($).methods.first().function", "typeinfo($).methods.first().native"),
    *("typeinfo($).methods.first().body", "typeinfo($).properties.first().contract"),
    *(
        "format('{0.__class__}', $)",
        "format('{0[x]}', $)",
        "'{0.run}'.format($)",
        "'{x.y}'.format(x => $)",
    ),
    *("format('{0!r}', $)", "'{:{}}'.format($, x)", "'{0.__class__.__mro__}'.format(1)"),
    *("'abc'.__class__", "5.real", "5.bit_length()", "list(1).append", "dict(a => 1).__class__"),
    *("dict(a => 1).update(dict(b => 1))", "list(1, 2).__iter__()", "list(1).select($).gi_frame"),
    *(
        "list(1).select($).gi_code",
        "range(3).__reduce__()",
        "regex('a').pattern",
        "regex('a').__class__",
    ),
    *(
        "call(m_helper, list(1), dict(), $)",
        "call(__init__, list(), dict(), $)",
        "call('__class__', list(), dict(), $)",
    ),
    *(
        "call(eval, list('1'), dict())",
        "call(getattr, list($, run), dict())",
        "call(exec, list('1'), dict())",
    ),
    *("new('builtins.object')", "new('os')", "type('sys')", "new('vetro.muranopl.Runtime')"),
    *(
        "getattr($, run)",
        "import('os')",
        "eval('1')",
        "open('/etc/passwd')",
        "globals()",
        "locals()",
    ),
    *("lambda($)", "let(a => $).variables", "let(a => 1).__class__", "def(f, $).functions"),
    *("id($).__class__", "name($).x", "dump($).get('?').type.package", "$.getAttr(x).__class__"),
    *("now().__class__", "now().tzinfo", "timespan(1).max", "datetime(0).__reduce__()"),
    *("2.pow(10)", "pow(10, 100000000)", "'a' * 10000000000", "list(1) * 10000000000"),
    *("9 * 10.pow(100000)", "range(10000000000).toList()", "sequence().toList()"),
    *(
        "'x'.replace('x', 'y' * 100000000)",
        "generate(1, true, $ + 1).toList()",
        "list(1).cycle().toList()",
    ),
    *("'a'.join(range(100000000))", "format('{:1000000000}', 1)", "shiftBitsLeft(1, 10000000000)"),
    *(
        "regex('(a+)+$').search('a' * 40 + 'b')",
        "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab' =~ '(a|a)*$'",
    ),
]


def session_of(text, **limits):
    runtime = Runtime()
    runtime.add_package(MemoryPackage("t", {"a": text}, {"t.Main": "a"}))
    session = runtime.session(limits=Limits(**{"steps": 2_000_000, "seconds": 20.0, **limits}))
    return session, session.load({"Objects": {"?": {"type": "t.Main", "id": "root"}}})


HARMLESS = (type(None), bool, int, float, str)


def is_data(value, depth=0):
    """True for plain data and objects of the language, all the way down."""
    if isinstance(value, dict):
        return all(is_data(k, depth) and is_data(v, depth) for k, v in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(is_data(item, depth) for item in value)
    return type(value) in HARMLESS or isinstance(value, MuranoObject)


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_no_expression_reaches_the_host(text):
    """Each known trick fails as an error of the language, or gives plain data, in bounded time."""
    quoted = text.replace("'", "''")
    try:
        session, root = session_of(
            HEAD + f"  run:\n    Body:\n      - Return: !yaql '{quoted}'\n",
            collection_items=100_000,
            string_length=10_000_000,
        )
        value = session.call(root, "run")
    except MuranoError as error:
        assert error.message
        assert is_data(error.extra)
        return
    assert is_data(value), type(value)
    assert not (isinstance(value, str) and "0x" in value and " at " in value)


STATEMENTS = {
    "methods cannot be replaced": "- $.m_helper: 1\n- Return: $.helper(2)",
    "the run cannot be replaced": "- $.run: 1\n- $.type: 2\n- $.header: 3\n- Return: $.helper(2)",
    "writers cannot be replaced": "- $.w_x: 1\n- $.x: 2\n- Return: $.x",
    "slots of values cannot be planted": "- $.p_x: 5\n- $.x: 2\n- Return: $.x",
    "ids stay": "- $.id: other\n- $.owner: $this\n- Return: 2",
}


def test_names_with_two_underscores_are_no_targets():
    """What Python keeps for itself cannot be assigned."""
    session, root = session_of(HEAD + "  go:\n    Body:\n      - $.__class__: 1\n")
    with pytest.raises(MuranoError, match="Invalid assignment target"):
        session.call(root, "go")


@pytest.mark.parametrize("body", STATEMENTS.values(), ids=STATEMENTS)
def test_no_assignment_reaches_the_host(body):
    """Assignments to names that Python gives a meaning only make private slots of the class."""
    lines = "\n".join("      " + line for line in body.splitlines())
    session, root = session_of(HEAD + "  go:\n    Body:\n" + lines + "\n")
    assert session.call(root, "go") in (1, 2)
    assert session.call(root, "helper", 7) == 7
    assert session.dump()["Objects"]["?"]["id"] == "root"


@pytest.mark.parametrize("name", ["S", "L", "K", "this", "room", "fuel", "turns", "lambda", "None"])
def test_variables_cannot_meet_generated_names(name):
    """Variables and arguments named as what generated code uses are ordinary ones."""
    if name == "this":
        return
    session, root = session_of(
        HEAD
        + f"  go:\n    Arguments: [{{'{name}': {{Contract: $.int()}}}}]\n    Body:\n"
        + f"      - While: ${name} < 5\n        Do:\n          - ${name}: ${name} + 1\n"
        + f"      - Return: ${name}\n"
    )
    assert session.call(root, "go", 1) == 5
    assert session.call(root, "go", **{name: 3}) == 5


EXCEPTIONS = [
    *("$e.nativeException", "$e.caught_error", "$e.lazy", "$e.__traceback__", "$e.args"),
    *(
        "$e.stackTrace.frames.select($.get(frame))",
        "$e.stackTrace.__class__",
        "$e.cause",
        "$e.extra",
    ),
]


@pytest.mark.parametrize("text", EXCEPTIONS)
def test_exceptions_give_data_only(text):
    """A caught error of the host shows its name, message and MuranoPL frames, nothing behind them."""
    body = (
        "      - Try:\n          - $d: dict(a => 1)\n          - $x: $d[b]\n"
        f"        Catch:\n          As: e\n      - Return: {text}\n"
    )
    try:
        session, root = session_of(HEAD + "  run:\n    Body:\n" + body)
        value = session.call(root, "run")
    except MuranoError:
        return
    assert is_data(value)


SWALLOW = (
    HEAD
    + """  run:
    Body:
      - Try:
          - Try:
              - {STATEMENT}
            Catch:
              As: e
              Do:
                - $.x: swallowed
          - $.x: after
        Catch:
          - With: [py:Exception, 'vetro.muranopl.LimitExceeded', 'vetro.muranopl.RunAborted']
            Do:
              - $.x: swallowed too
        Finally:
          - $.helper(1)
          - finals(seen)
      - Return: $.x
  again:
    Arguments: [{n: {Contract: $.int()}}]
    Body:
      - Return: $.again($n + 1)
  deepList:
    Arguments: [{l: {Contract: $}}]
    Body:
      - Return: $.deepList(list($l))
  forever:
    Body:
      - While: true = true
        Do: []
"""
)


@pytest.mark.parametrize(
    "statement",
    ["$.forever()", "$.again(0)", "$.deepList(list())", "$x: range(100).select($this.again($))"],
)
def test_limits_cannot_be_swallowed(statement):
    """Finally blocks run when a budget ends, and no handler stops it."""
    text = SWALLOW.replace("{STATEMENT}", statement)
    runtime = Runtime()
    seen: list = []
    runtime.add_function("finals", seen.append)
    runtime.add_package(MemoryPackage("t", {"a": text}, {"t.Main": "a"}))
    session = runtime.session(limits=Limits(steps=200_000))
    root = session.load({"Objects": {"?": {"type": "t.Main", "id": "root"}}})
    with pytest.raises(MuranoError) as caught:
        session.call(root, "run")
    assert any(name.endswith("LimitExceeded") for name in caught.value.names)
    assert seen == ["seen"]
    assert root.get("x") is None


def test_data_nested_too_deep_is_refused():
    """A value that nests itself ever deeper ends with an error, not with the process."""
    session, root = session_of(
        HEAD
        + "  run:\n    Body:\n      - $l: []\n      - Repeat: 100000\n        Do:\n"
        + "          - $l: list($l)\n      - Return: $l\n",
        steps=1_000_000,
    )
    with pytest.raises((MuranoError, RecursionError)):
        session.serialize(session.call(root, "run"))
