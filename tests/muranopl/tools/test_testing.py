"""Test classes: discovery, fixtures, failures, models (muranopl.md section 26)."""

import textwrap

import pytest

from vetro.muranopl import DirectEffects, Limits, MemoryPackage, MuranoError, Runtime
from vetro.muranopl.tools.testing import (
    MuranoTest,
    discover_tests,
    enable_testing,
    run_test,
    select_tests,
)


def test_tests_are_methods_of_the_class_itself_with_the_right_names(cases_head):
    """`test`, `testIt`, `test_it`, `test1` are tests; `tester`, helpers and inherited ones are not."""
    runtime = Runtime()
    enable_testing(runtime)
    text = (
        cases_head + "Name: Base\nExtends: test:TestFixture\nMethods:\n"
        "  test: {}\n  testIt: {}\n  test_it: {}\n  test1: {}\n  tester: {}\n  helper: {}\n"
        "---\nName: Derived\nExtends: Base\nMethods:\n  testMore: {}\n"
        "---\nName: Other\nMethods:\n  testNothing: {}\n"
    )
    classes = {f"t.{name}": "a.yaml" for name in ("Base", "Derived", "Other")}
    package = runtime.add_package(MemoryPackage("t", {"a.yaml": text}, classes))
    found = [str(item) for item in discover_tests(runtime, package)]
    assert found == [
        "t.Base.test",
        "t.Base.testIt",
        "t.Base.test_it",
        "t.Base.test1",
        "t.Derived.testMore",
    ]


def test_a_broken_class_is_reported_beside_the_tests_of_the_others(cases_head):
    """Discovery raises for a class that cannot be compiled, or collects it on demand."""
    runtime = Runtime()
    enable_testing(runtime)
    package = runtime.add_package(
        MemoryPackage(
            "t",
            {
                "bad.yaml": "Name: t.Bad\nMethods:\n  run:\n    Body: {Nonsense: 1}\n",
                "good.yaml": cases_head
                + "Name: Good\nExtends: test:TestFixture\nMethods:\n  testA: {}\n",
            },
            {"t.Bad": "bad.yaml", "t.Good": "good.yaml"},
        )
    )
    with pytest.raises(MuranoError, match="Nonsense"):
        discover_tests(runtime, package)
    broken = []
    assert [t.method for t in discover_tests(runtime, package, broken=broken)] == ["testA"]
    assert [name for name, _ in broken] == ["t.Bad"]


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        ("testA", ["p.One.testA", "p.Two.testA"]),
        ("p.One", ["p.One.testA", "p.One.testB"]),
        ("p.Two.testA", ["p.Two.testA"]),
        ("*.testB", ["p.One.testB"]),
        ("nothing", []),
    ],
)
def test_selectors_name_methods_classes_or_both(selector, wanted):
    """A selector is a method, a class, or both with a dot; `*` matches anything."""
    tests = [
        MuranoTest("p.One", "testA"),
        MuranoTest("p.One", "testB"),
        MuranoTest("p.Two", "testA"),
    ]
    assert [str(item) for item in select_tests(tests, [selector])] == wanted
    assert select_tests(tests, []) == tests


def test_each_test_has_an_object_and_statics_of_its_own(cases_code, run_cases):
    """What one test leaves behind, another one does not see."""
    results = run_cases(
        """
  setUp:
    Body: {$.seen: 1}
  testA:
    Body:
      - $.assertEqual(1, $.seen)
      - $.seen: 5
      - :Shop.count: coalesce(:Shop.count, 0) + 1
      - $.assertEqual(1, :Shop.count)
  testB:
    Body:
      - $.assertEqual(1, $.seen)
      - :Shop.count: coalesce(:Shop.count, 0) + 1
      - $.assertEqual(1, :Shop.count)
""",
        code=cases_code.replace(
            "Properties:\n  price",
            "Properties:\n  count: {Contract: $.int(), Usage: Static}\n  price",
            1,
        ),
    )
    assert {name: item.outcome for name, item in results.items()} == {
        "testA": "passed",
        "testB": "passed",
    }


@pytest.mark.parametrize(
    ("body", "outcome", "step", "expected"),
    [
        ("testIt", "failed", "testIt", ["initialize", "setUp", "testIt", "tearDown"]),
        ("setUp", "error", "setUp", ["initialize", "setUp", "tearDown"]),
        ("initialize", "error", "initialize", ["initialize"]),
        ("tearDown", "error", "tearDown", ["initialize", "setUp", "testIt", "tearDown"]),
        ("", "passed", "", ["initialize", "setUp", "testIt", "tearDown"]),
    ],
)
def test_tear_down_runs_whatever_happened_before(body, outcome, step, expected, cases_head):
    """initialize, setUp, test, tearDown; tearDown also after a failure, once there is an object."""
    order = []
    runtime = Runtime()
    enable_testing(runtime)
    runtime.add_function("note", order.append)
    text = cases_head + "Name: Cases\nExtends: test:TestFixture\nMethods:\n"
    for name in ("initialize", "setUp", "testIt", "tearDown"):
        text += f"  {name}:\n    Body:\n      - note({name})\n"
        if name == body:
            text += (
                "      - $.assertTrue(false)\n"
                if name == "testIt"
                else "      - Throw: Broken\n        Message: it broke\n"
            )
    package = runtime.add_package(MemoryPackage("t", {"a.yaml": text}, {"t.Cases": "a.yaml"}))
    (test,) = discover_tests(runtime, package)
    result = run_test(runtime, test)
    assert order == expected
    assert (result.outcome, result.step) == (outcome, step)


def test_a_second_failure_does_not_hide_the_first(only):
    """When the test and tearDown fail, the test's failure is the result, the other a warning."""
    result = only(
        """
  testIt:
    Body: $.assertEqual(1, 2, 'numbers')
  tearDown:
    Body:
      - Throw: Late
        Message: too late
"""
    )
    assert result.outcome == "failed"
    assert result.message == "numbers: expected 1, observed 2"
    assert result.warnings == ["tearDown failed as well: too late"]


def test_a_failed_assertion_says_where_and_what(only):
    """Position, MuranoPL stack and both values are in the result and in its JSON."""
    result = only(
        """
  helper:
    Body:
      - $.assertEqual([1, {a => 2}], [1, {a => 3}])
  testIt:
    Body:
      - $.helper()
"""
    )
    assert result.outcome == "failed"
    assert (result.position.line, result.position.column) == (8, 9)
    assert "in method testIt of type t.Cases" in result.trace
    assert "in method helper of type t.Cases" in result.trace
    assert '-    "a": 2' in result.message
    assert '+    "a": 3' in result.message
    as_json = result.as_json()
    assert (as_json["file"], as_json["line"]) == ("t/Classes/cases.yaml", 8)
    assert as_json["names"][-1] == "AssertionError"


def test_values_that_look_equal_are_told_apart_by_their_kinds(only):
    """A failure never reads `expected 1, observed 1`."""
    result = only("  testIt:\n    Body: $.assertEqual(new(Shop), new(Shop))\n")
    assert result.outcome == "failed"
    assert "<t.Shop " in result.message


@pytest.mark.parametrize(
    ("statement", "fine"),
    [
        ("$.assertEqual({a => [1]}, {a => [1]})", True),
        ("$.assertEqual(1, 2)", False),
        ("$.assertEqual($, $)", True),
        ("$.assertEqual(new(Shop), new(Shop))", False),
        ("$.assertTrue([1])", True),
        ("$.assertTrue([])", False),
        ("$.assertFalse(null)", True),
        ("$.assertFalse(1)", False),
        ("$.assertIn(1, [1, 2])", True),
        ("$.assertIn(a, {a => 1})", True),
        ("$.assertIn(bc, abcd)", True),
        ("$.assertIn(3, [1, 2])", False),
        ("$.assertNotIn(3, [1, 2])", True),
        ("$.assertNotIn(1, [1, 2])", False),
    ],
)
def test_assertions_hold_or_fail(statement, fine, only):
    """Each assertion passes exactly when its condition holds; names and a message may be given."""
    assert only(f"  testIt:\n    Body: {statement}\n").outcome == ("passed" if fine else "failed")


def test_an_assertion_can_be_caught_by_its_host_name(only):
    """Programs catch a failed assertion as AssertionError."""
    result = only(
        "  testIt:\n    Body:\n      - Try:\n          - $.assertTrue(false)\n        Catch:\n"
        "          With: py:AssertionError\n          As: e\n          Do:\n"
        "            - $caught: $e.message\n      - $.assertEqual('false is not true', $caught)\n",
        head="Namespaces: {=: t, py: '', test: io.murano.test}\n",
    )
    assert result.outcome == "passed", result.trace


# -- models --------------------------------------------------------------------------------------


def test_load_takes_models_and_single_objects_and_keeps_ids(passed):
    """`load` of an inline object, of a `?` object and of a whole model."""
    passed(
        """
- $one: $.load({:Shop => {price => 3}, id => one})
- $.assertEqual(one, id($one))
- $.assertEqual(3, $one.price)
- $two: $.load({'?' => {type => 't.Boutique', id => two}, price => 4})
- $.assertEqual(two, id($two))
- $three: $.load({Objects => {'?' => {type => 't.Shop', id => three}}})
- $.assertEqual([three, 10], [id($three), $three.price])
"""
    )


EDITED = """\
Namespaces: {=: t, test: io.murano.test}
Name: Part
Properties:
  size: {Contract: $.int().notNull().check($ > 0), Default: 1}
  seen: {Contract: $.int(), Usage: InOut}
  made: {Contract: $.int(), Usage: Out}
  kept: {Contract: $.int(), Usage: Const, Default: 5}
  now: {Contract: $.int(), Usage: Runtime, Default: 0}
  loads: {Contract: $.int(), Usage: Out, Default: 0}
  friend: {Contract: $.class(Part)}
Methods:
  .init:
    Body:
      - $.loads: $.loads + 1
      - $.known: $.size
      - If: $.size = 99
        Then: {Throw: TooLarge, Message: 99 is too large}
  deploy: {Body: [{$.made: $.known}, {$.now: $.now + 1}]}
---
Name: Box
Properties:
  part: {Contract: $.class(Part)}
  other: {Contract: $.class(Part)}
"""
EDITS = [
    ("$.edit($.part, {size => 2})", None),
    ("$.edit($.part, {size => 2, seen => 4})", None),
    ("$.edit($.part, {size => 0})", "size"),
    ("$.edit($.part, {sise => 2})", "no property 'sise'"),
    ("$.edit($.part, {1 => 2})", "NoPropertyFound: class t.Part has no property 1"),
    ("$.edit($.part, {size => big})", "ContractViolationException: [t.Part.size] Value 'big'"),
    ("$.edit($.part, {friend => {:Box => {}}})", "Object of class t.Box is not compatible"),
    ("$.edit($.part, {friend => nobody})", 'NoObjectFoundError: Object "nobody" is not found'),
    (
        "$.edit(null, {size => 2})",
        "ContractViolationException: edit() takes an object first, not null",
    ),
    ("$.edit(:Part, {size => 2})", "edit() takes an object first, not <MuranoType>"),
    ("$.edit($.part, null)", "edit() takes a map of properties and values second, not null"),
    ("$.edit($.part, [size])", "edit() takes a map of properties and values second, not ['size']"),
    ("$.edit($.part, {size => 2, made => 7})", "t.Part.made has Usage Out"),
    ("$.edit($.part, {kept => 6})", "Usage Const"),
    ("$.part.size: 2", "immutable"),
]


def edited(body):
    """The result of a test with this body, beside the classes above."""
    runtime = Runtime()
    enable_testing(runtime)
    text = EDITED + (
        "---\nName: Cases\nExtends: test:TestFixture\nMethods:\n  testIt:\n    Body:\n"
        + textwrap.indent(body.strip(), " " * 6)
    )
    names = {f"t.{name}": "a.yaml" for name in ("Part", "Box", "Cases")}
    package = runtime.add_package(MemoryPackage("t", {"a.yaml": text}, names))
    return run_test(runtime, discover_tests(runtime, package)[0])


def test_an_edited_model_is_loaded_as_a_deployment_loads_it():
    """Every `.init` of the tree runs, what is not stored is not there, and references stay what they are."""
    result = edited("""
- $box: $.load({:Box => {part => {:Part => {}, id => a}, other => {:Part => {friend => a}}}})
- $part: $box.part
- $part.deploy()
- $.assertEqual([1, 1, 1], [$part.now, $part.made, $part.loads])
- $.edit($part, {size => 3})
- $.assertEqual([0, 1, 2, 2], [$part.now, $part.made, $part.loads, $box.other.loads])
- $part.deploy()
- $.assertEqual(3, $part.made)
- $.assertTrue($box.part = $part and $box.other.friend = $part)
# Owned by the test, or by nothing.
- For: alone
  In:
    - new(Part, $this)
    - new(Part, $box)
    - new(Part)
  Do:
    - $.edit($alone, {size => 4, friend => $part})
    - $.assertEqual([2, true], [$alone.loads, $alone.friend = $part])
- $.edit($box, {other => {:Part => {size => 7}}})
- $.assertEqual([7, true], [$box.other.size, $box.part = $part])
""")
    assert result.outcome == "passed", result.trace


def test_an_edit_that_cannot_be_loaded_changes_nothing():
    """Neither its own properties, nor what `.init` has written, nor what the session knows."""
    result = edited("""
- $box: $.load({:Box => {part => {:Part => {}, id => a}}})
- For: edit
  In: [{size => 2, seen => x}, {seen => 3, size => 99}]
  Do:
    - $caught: false
    - Try:
        - $.edit($box.part, $edit)
      Catch: {As: error, Do: [{$caught: true}]}
    - $.assertTrue($caught)
    - $.assertEqual([1, 1, null], [$box.part.size, $box.part.loads, $box.part.seen])
- $.edit($box, {other => a})
- $.assertTrue($box.other = $box.part)
""")
    assert result.outcome == "passed", result.trace


@pytest.mark.parametrize(("statement", "refusal"), EDITS)
def test_a_test_edits_what_a_user_may_edit(statement, refusal):
    """Between two deployments; what programs write is refused, as is what violates a contract."""
    result = edited(f"""
- $.part: new(Part)
- $.part.deploy()
- {statement}
- $.part.deploy()
- $.assertEqual(2, $.part.made)
""")
    assert result.outcome == ("passed" if refusal is None else "error"), result.trace
    assert refusal is None or refusal in result.trace


def test_start_and_finish_run_the_sessions_hooks(cases_head):
    """`startEnv` and `finishEnv` are the two ends of a deployment."""
    seen = []
    runtime = Runtime()
    enable_testing(runtime)
    runtime.add_function("note", seen.append)
    text = cases_head + (
        "Name: Cases\nExtends: test:TestFixture\nMethods:\n  testIt:\n    Body:\n"
        "      - note(before)\n      - $.startEnv()\n      - note(between)\n      - $.finishEnv()\n"
        "      - note(after)\n"
    )
    package = runtime.add_package(MemoryPackage("t", {"a.yaml": text}, {"t.Cases": "a.yaml"}))

    def make(runtime):
        session = runtime.session()
        session.on_start(lambda: seen.append("start"))
        session.on_finish(lambda: seen.append("finish"))
        return session

    (test,) = discover_tests(runtime, package)
    assert run_test(runtime, test, make_session=make).outcome == "passed"
    assert seen[:5] == ["before", "start", "between", "finish", "after"]


def test_sleeping_takes_no_time(passed):
    """The clock of a test moves by `sleep` alone."""
    passed("- $start: now()\n- sleep(86400)\n- $.assertEqual(timespan(days => 1), now() - $start)")


def test_a_test_that_never_ends_is_stopped(cases_head):
    """A budget of the session ends the test as an error; tearDown still runs."""
    runtime = Runtime()
    enable_testing(runtime)
    order = []
    runtime.add_function("note", order.append)
    text = cases_head + (
        "Name: Cases\nExtends: test:TestFixture\nMethods:\n  testIt:\n    Body:\n"
        "      - While: 1 = 1\n        Do: {$x: 1}\n"
        "  tearDown:\n    Body: note(down)\n"
    )
    package = runtime.add_package(MemoryPackage("t", {"a.yaml": text}, {"t.Cases": "a.yaml"}))
    (test,) = discover_tests(runtime, package)
    result = run_test(
        runtime,
        test,
        make_session=lambda r: r.session(effects=DirectEffects(), limits=Limits(steps=50_000)),
    )
    assert result.outcome == "error"
    assert "steps" in result.message
    assert order == ["down"]
