"""What running methods hold, as the collector sees it (muranopl.md section 21)."""

import pytest

from vetro.muranopl import Runtime, loose_package

HEAD = "Namespaces: {=: t, sys: io.murano.system}\n"
CLASSES = (
    """
Name: Main
Properties:
  parts: {Contract: [$.class(Part)], Usage: Runtime}
Methods:
  loop:
    Body:
      - For: p
        In: $.make()
        Do:
          - sys:GC.collect()
          - trace($p.n)
          - $p: null
      - trace(ended)
      - sys:GC.collect()
  nested:
    Body:
      - For: p
        In: $.make()
        Do:
          - For: q
            In: $.make().where($.n = y)
            Do:
              - sys:GC.collect()
              - trace($p.n + $q.n)
              - Break:
  left:
    Body:
      - For: p
        In: $.make()
        Do:
          - Break:
      - $p: null
      - sys:GC.collect()
      - trace(ended)
  passed:
    Body:
      - $a: new(Part, n => a)
      - trace($a.pass(new(Part, n => b), $.collected()).n)
  constructed:
    Body:
      - $c: new(Collects, other => {n => inner})
      - trace($c.other.n)
  collected:
    Body: sys:GC.collect()
  make:
    Body:
      - Return: !yaql "[new(Part, n => x), new(Part, n => y)]"
  one:
    Arguments: [{p: {Contract: $}}]
    Body: {Return: [$p]}
""",
    """
Name: Collects
Properties:
  other: {Contract: $.class(Part)}
Methods:
  .init: {Body: sys:GC.collect()}
""",
    """
Name: Part
Properties:
  n: {Contract: $.string()}
Methods:
  pass:
    Arguments: [{p: {Contract: $}}, {other: {Contract: $}}]
    Body: {Return: $p}
  .destroy: {Body: trace($.n)}
""",
)


@pytest.fixture
def world():
    """A session, its root and what its programs traced."""
    trace = []
    runtime = Runtime()
    runtime.add_function("trace", trace.append)
    runtime.add_package(loose_package("t", *[HEAD + text for text in CLASSES]))
    with runtime.session() as session:
        yield session, session.load({"Objects": {"?": {"id": "root", "type": "t.Main"}}}), trace


@pytest.mark.parametrize(
    "statement",
    [
        "$x: $a.pass(new(Part, n => third)).n + $a.pass($a.find(Part)).n",
        "$x: $.one($a.pass($o)).select($.pass($)).first()",
        "$x: '[$a, $o].select($.pass(null))[0] = $a'",
        "$x: $a.pass($a.pass($o)).n",
        "$a.pass($o)",
        "$x: $a.pass($o).n.len() + $a.pass($o, $o.pass($a)).n.len()",
        "$x: {k: $a.pass($a), $a.pass($o).n: 1}",
        "$x: !yaql '{k => $a.pass($a)}.k.n'",
        "$x: !yaql 'let(z => $o.pass($a)) -> $z.n'",
        "$x: $.one($a).toDict($.n, $o).values().len()",
        "$x: $a.pass($o).n.len() > 1 and $a.pass($a)",
        "$x: $a.pass($o) != null and $a.pass($a) = $a",
        "{If: $a.pass($o).n = $a.pass($a).n, Then: [$x: 1]}",
        "{Match: {1: [$x: 2]}, Value: $a.pass($o).pass($a).n}",
        "{Match: {1: [$x: 2]}, Value: $a.pass($o)}",
        "{While: $a.pass($o).n = x, Do: []}",
        "{For: x, In: [$a.pass($o), $o.pass($a)], Do: []}",
        "{For: x, In: $.one($o.pass($a)), Do: [{Break: }]}",
        "{Parallel: [$x: $a.pass($o), $x: $a.pass($a)]}",
        "{Try: [{Throw: e, Extra: {k: $a}}], Catch: {As: x, Do: [$x: $a]}}",
        "{Switch: {$a.pass($o) = $a: [$x: 1]}, Default: [$a.pass($a)]}",
        "$.parts: [$a.pass($a)]\n- $.parts: [$o]\n- $.parts: []",
        "$x: {}\n- $x.k: $a.pass($a)\n- $x[$o.n]: $o.pass($o)",
        "$x: []\n- $x: $x.append($a.pass($a))\n- $x: $x + [$o.pass($o)]",
    ],
)
def test_a_statement_that_is_over_holds_nothing(world, statement):
    """A value that the compiler kept while a statement ran is not a root: its objects and their owners
    go."""
    session, root, trace = world
    session.execute(
        "- $o: new(Part, n => outer)\n- $a: new(Part, $o, n => inner)\n- "
        f"{statement}\n- $a: null\n- $o: null\n- $x: null\n- trace(collecting)\n"
        "- sys:GC.collect()\n- trace(collected)\n",
        root,
    )
    late = trace[trace.index("collecting") + 1 :]
    assert late[-1] == "collected"
    assert [name for name in late if name in ("inner", "outer")] == ["inner", "outer"]
    assert session.objects() == [root]


@pytest.mark.parametrize(
    ("method", "seen"),
    [
        ("loop", ["x", "y", "ended", "x", "y"]),
        ("nested", ["x", "xy", "y", "x", "yy"]),
        ("left", ["x", "y", "ended"]),
        ("passed", ["b"]),
        ("constructed", ["inner"]),
    ],
)
def test_what_is_still_needed_is_held(world, method, seen):
    """Elements a loop has not reached, arguments of a call and parts of a new object stay alive."""
    session, root, trace = world
    session.call(root, method)
    assert trace == seen
