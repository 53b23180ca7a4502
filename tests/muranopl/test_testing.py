"""Test classes: discovery, fixtures, mocks, failures, coverage (muranopl.md section 26)."""

import pytest

from vetro.muranopl import DirectEffects, Limits, MemoryPackage, MuranoError, Runtime
from vetro.muranopl.coverage import LineCoverage
from vetro.muranopl.testing import (
    MuranoTest,
    discover_tests,
    enable_testing,
    run_test,
    run_tests,
    select_tests,
)

CODE = """
Namespaces: {=: t, std: io.murano}
Name: Shop
Properties:
  price: {Contract: $.int().notNull(), Default: 10}
Methods:
  cost:
    Arguments:
      - count: {Contract: $.int().notNull().check($ > 0)}
      - discount: {Contract: $.int(), Default: $.price - 8}
    Body:
      - Return: $.price * $count - $discount
  total:
    Arguments:
      - count: {Contract: $.int()}
    Body:
      - $secret: 7
      - Return: $.cost($count)
  sum:
    Arguments:
      - numbers: {Contract: $.int(), Usage: VarArgs}
      - options: {Contract: $.string(), Usage: KwArgs}
    Body:
      - Return: $numbers.sum(0)
  tax:
    Usage: Static
    Arguments:
      - amount: {Contract: $.int().notNull()}
    Body:
      Return: $amount + 1
  taxed:
    Body:
      Return: :Shop.tax(1)
---
Name: Boutique
Extends: Shop
Methods:
  total:
    Arguments:
      - count: {Contract: $.int()}
    Body:
      - Return: $.super($.total($count)).first() + 1000
---
Name: Kiosk
Extends: Shop
"""

HEAD = "Namespaces: {=: t, std: io.murano, test: io.murano.test}\n"


def run_cases(tests, *, code=CODE, coverage=None, natives=(), head=HEAD):
    """Run the methods of a test class; results by name."""
    runtime = Runtime()
    runtime.coverage = coverage
    enable_testing(runtime)
    for name, python_class in dict(natives).items():
        runtime.add_native_class(name, python_class, package="t")
    body = head + "Name: Cases\nExtends: test:TestFixture\nMethods:\n" + tests
    classes = {"t.Cases": "cases.yaml"}
    for name in ("Shop", "Boutique", "Kiosk"):
        classes[f"t.{name}"] = "code.yaml"
    package = runtime.add_package(
        MemoryPackage("t", {"code.yaml": code, "cases.yaml": body}, classes)
    )
    found = discover_tests(runtime, package)
    return {item.test.method: item for item in run_tests(runtime, found)}


def only(tests, **options):
    """The single result of a class with one test."""
    (result,) = run_cases(tests, **options).values()
    return result


def passed(body, **options):
    """Run one test whose body is given as statements; it must pass."""
    lines = "\n".join("      " + line for line in body.strip("\n").splitlines())
    result = only(f"  testIt:\n    Body:\n{lines}\n", **options)
    assert result.outcome == "passed", result.trace or result.message
    return result


def test_tests_are_methods_of_the_class_itself_with_the_right_names():
    """`test`, `testIt`, `test_it`, `test1` are tests; `tester`, helpers and inherited ones are not."""
    runtime = Runtime()
    enable_testing(runtime)
    text = (
        HEAD + "Name: Base\nExtends: test:TestFixture\nMethods:\n"
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


def test_a_broken_class_is_reported_beside_the_tests_of_the_others():
    """Discovery raises for a class that cannot be compiled, or collects it on demand."""
    runtime = Runtime()
    enable_testing(runtime)
    package = runtime.add_package(
        MemoryPackage(
            "t",
            {
                "bad.yaml": "Name: t.Bad\nMethods:\n  run:\n    Body: {Nonsense: 1}\n",
                "good.yaml": HEAD
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


def test_each_test_has_an_object_and_statics_of_its_own():
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
        code=CODE.replace(
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
def test_tear_down_runs_whatever_happened_before(body, outcome, step, expected):
    """initialize, setUp, test, tearDown; tearDown also after a failure, once there is an object."""
    order = []
    runtime = Runtime()
    enable_testing(runtime)
    runtime.add_function("note", order.append)
    text = HEAD + "Name: Cases\nExtends: test:TestFixture\nMethods:\n"
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


def test_a_second_failure_does_not_hide_the_first():
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


def test_a_failed_assertion_says_where_and_what():
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


def test_values_that_look_equal_are_told_apart_by_their_kinds():
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
def test_assertions_hold_or_fail(statement, fine):
    """Each assertion passes exactly when its condition holds; names and a message may be given."""
    result = only(f"  testIt:\n    Body: {statement}\n")
    assert result.outcome == ("passed" if fine else "failed")


def test_an_assertion_can_be_caught_by_its_host_name():
    """Programs catch a failed assertion as AssertionError."""
    result = only(
        "  testIt:\n    Body:\n      - Try:\n          - $.assertTrue(false)\n        Catch:\n"
        "          With: py:AssertionError\n          As: e\n          Do:\n"
        "            - $caught: $e.message\n      - $.assertEqual('false is not true', $caught)\n",
        head="Namespaces: {=: t, py: '', test: io.murano.test}\n",
    )
    assert result.outcome == "passed", result.trace


# -- models --------------------------------------------------------------------------------------


def test_load_takes_models_and_single_objects_and_keeps_ids():
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


def test_start_and_finish_run_the_sessions_hooks():
    """`startEnv` and `finishEnv` are the two ends of a deployment."""
    seen = []
    runtime = Runtime()
    enable_testing(runtime)
    runtime.add_function("note", seen.append)
    text = HEAD + (
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


def test_sleeping_takes_no_time():
    """The clock of a test moves by `sleep` alone."""
    passed("- $start: now()\n- sleep(86400)\n- $.assertEqual(timespan(days => 1), now() - $start)")


def test_a_test_that_never_ends_is_stopped():
    """A budget of the session ends the test as an error; tearDown still runs."""
    runtime = Runtime()
    enable_testing(runtime)
    order = []
    runtime.add_function("note", order.append)
    text = HEAD + (
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


# -- mocks ---------------------------------------------------------------------------------------


def test_a_constant_stands_in_for_a_method_of_a_class():
    """`inject(type, method, expression)` answers calls from other code, by literal, word or text."""
    passed(
        """
- $shop: new(Shop)
- inject(:Shop, cost, 42)
- $.assertEqual(42, $shop.total(3))
- inject(Shop, cost, 43)
- $.assertEqual(43, $shop.total(3))
- inject('t.Shop', cost, 44)
- $.assertEqual(44, $shop.total(3))
- $.assertEqual(44, $shop.cost(3))
"""
    )


def test_mocks_are_gone_in_the_next_test():
    """What a test injected is put back at its end."""
    results = run_cases(
        "  testA:\n    Body:\n      - inject(Shop, cost, 42)\n"
        "      - $.assertEqual(42, new(Shop).total(1))\n"
        "  testB:\n    Body:\n      - $.assertEqual(8, new(Shop).total(1))\n"
    )
    assert [item.outcome for item in results.values()] == ["passed", "passed"]


def test_an_object_is_mocked_alone():
    """`inject(object, …)` leaves other objects of its class as they are, also through casts."""
    passed(
        """
- $one: new(Boutique)
- $two: new(Boutique)
- inject($one, cost, 1)
- $.assertEqual(1001, $one.total(1))
- $.assertEqual(1008, $two.total(1))
- $.assertEqual(1, $one.cast(Shop).cost(1))
- $.assertEqual(8, $two.cast(Shop).cost(1))
"""
    )


def test_a_class_mock_concerns_derived_classes_that_do_not_override():
    """Inherited methods are mocked with their definition; overrides are not."""
    passed(
        """
- inject(Shop, total, 5)
- $.assertEqual(5, new(Kiosk).total(1))
- $.assertEqual(1005, new(Boutique).total(1))
- inject(Kiosk, cost, 6)
- $.assertEqual(6, new(Kiosk).cost(1))
- $.assertEqual(8, new(Shop).cost(1))
"""
    )


def test_the_newest_mock_wins():
    """A later inject covers an earlier one; one of a single object covers that of its class."""
    passed(
        """
- $one: new(Shop)
- inject(Shop, cost, 1)
- inject(Shop, cost, 2)
- $.assertEqual(2, $one.cost(1))
- inject($one, cost, 3)
- $.assertEqual([3, 2], [$one.cost(1), new(Shop).cost(1)])
"""
    )


def test_an_expression_sees_the_test_and_the_arguments():
    """`$` is the test object; arguments are `$2`, `$3` and their names, defaults included."""
    result = only(
        """
  noted:
    Arguments:
      - a: {Contract: $}
      - b: {Contract: $}
    Body:
      - $.calls: $.calls.append([$a, $b])
      - Return: 1000
  testIt:
    Body:
      - $.calls: []
      - $factor: 100
      - inject(Shop, cost, $.noted($2, $discount) + $factor + $3)
      - $.assertEqual(1105, new(Shop, price => 13).cost(4))
      - $.assertEqual([[4, 5]], $.calls)
"""
    )
    assert result.outcome == "passed", result.trace


def test_the_arguments_are_checked_as_the_original_would():
    """Contracts and the signature hold for mocked calls."""
    passed(
        """
- inject(Shop, cost, 1)
- $failures: []
- Try:
    - new(Shop).cost(0)
  Catch:
    As: e
    Do: {$failures: $failures.append($e.name.split('.').last())}
- Try:
    - new(Shop).cost(1, 2, 3)
  Catch:
    As: e
    Do: {$failures: $failures.append($e.name.split('.').last())}
- Try:
    - new(Shop).cost(1, nonsense => 3)
  Catch:
    As: e
    Do: {$failures: $failures.append($e.name.split('.').last())}
- $.assertEqual([ContractViolationException, NoMatchingMethodException, NoMatchingMethodException], $failures)
"""
    )


def test_a_mock_method_gets_the_arguments_it_declares():
    """`inject(target, method, object, mockMethod)` passes by name what the mock asks for."""
    result = only(
        """
  fakeCost:
    Arguments:
      - discount: {Contract: $.int().notNull()}
    Body:
      - $.seen: $discount
      - Return: 77
  fakeSum:
    Arguments:
      - numbers: {Contract: $.int(), Usage: VarArgs}
      - others: {Contract: $, Usage: KwArgs}
    Body:
      - Return: [$numbers, $others.get(options)]
  testIt:
    Body:
      - inject(Shop, cost, $, fakeCost)
      - $.assertEqual(77, new(Shop).total(3))
      - $.assertEqual(2, $.seen)
      - inject(Shop, sum, $, fakeSum)
      - $.assertEqual([[1, 2], {x => y}], new(Shop).sum(1, 2, x => y))
"""
    )
    assert result.outcome == "passed", result.trace


def test_original_method_calls_through():
    """`originalMethod()` gives what the method would have; with arguments it gets those."""
    passed(
        """
- inject(Shop, cost, originalMethod() * 2)
- $.assertEqual(56, new(Shop).total(3))
- inject(Shop, cost, originalMethod(10, 0))
- $.assertEqual(100, new(Shop).total(3))
- inject(Shop, sum, originalMethod() + 1)
- $.assertEqual(7, new(Shop).sum(1, 2, 3, a => b))
"""
    )


def test_with_original_reads_the_callers_variables():
    """`withOriginal` takes values from where the intercepted call was made."""
    passed(
        """
- $secret: mine
- inject(Shop, cost, withOriginal(s => $secret, o => $.price, c => $count) -> [$s, $o, $c, $secret])
- $.assertEqual([7, 10, 3, mine], new(Shop).total(3))
""",
    )


def test_mock_functions_outside_of_a_mock_say_so():
    """`originalMethod()` where nothing is intercepted is a clear error."""
    result = only("  testIt:\n    Body: originalMethod()\n")
    assert result.outcome == "error"
    assert "no call is intercepted" in result.message


def test_static_methods_are_mocked():
    """A static method called by type, from class code and on objects."""
    passed(
        """
- inject(Shop, tax, $amount * 100)
- $.assertEqual(100, new(Shop).taxed())
- $.assertEqual(200, :Shop.tax(2))
- inject(Shop, tax, originalMethod() + 1)
- $.assertEqual(3, :Shop.tax(1))
"""
    )


class Remote:
    """A native class."""

    def fetch(self, url: str, tries: int = 3) -> str:
        return f"{url} x{tries}"

    @staticmethod
    def ping(host: str) -> str:
        return f"ping {host}"


def test_native_methods_are_mocked():
    """Methods written in Python are intercepted alike, with their defaults."""
    passed(
        """
- $r: new('t.Remote')
- inject('t.Remote', fetch, [$url, $tries, originalMethod()])
- $.assertEqual([a, 3, 'a x3'], $r.fetch(a))
- $.assertEqual([a, 5, 'a x5'], $r.fetch(a, tries => 5))
- inject('t.Remote', ping, originalMethod() + '!')
- $.assertEqual('ping x!', :Remote.ping(x))
""",
        natives={"t.Remote": Remote},
    )


def test_constructors_and_destructors_are_mocked():
    """`initialize` and `destroy` of a class can be replaced."""
    code = CODE.replace(
        "Methods:\n  cost:", "Methods:\n  initialize:\n    Body:\n      - Throw: Never\n  cost:", 1
    )
    passed("- inject(Shop, initialize, null)\n- $.assertEqual(10, new(Shop).price)", code=code)


def test_a_mock_reaches_green_threads():
    """Calls made in parallel branches are intercepted, each with its own arguments."""
    passed(
        """
- inject(Shop, cost, originalMethod() + $count)
- $shop: new(Shop)
- $.assertEqual([9, 20, 31], [1, 2, 3].pselect($shop.total($)))
"""
    )


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("inject(Shop, nonsense, 1)", "no method 'nonsense'"),
        ("inject(Nonsense, cost, 1)", 'Class "t.Nonsense" is not found'),
        ("inject(Shop, cost, $, nonsense)", "no method 'nonsense'"),
        ("inject(Shop, cost, 5, total)", "an object or a class, not 5"),
    ],
)
def test_a_wrong_inject_says_what_is_wrong(statement, message):
    """Unknown methods and classes are named."""
    result = only(f"  testIt:\n    Body: {statement}\n")
    assert result.outcome == "error"
    assert message in result.message


def test_mock_functions_exist_in_tests_only():
    """A runtime without testing does not know `inject`."""
    runtime = Runtime()
    runtime.add_package(
        MemoryPackage(
            "t",
            {"a.yaml": "Name: t.Main\nMethods:\n  run:\n    Body: inject(a, b, c)\n"},
            {"t.Main": "a.yaml"},
        )
    )
    with runtime.session() as session:
        root = session.load({"Objects": {"?": {"type": "t.Main", "id": "a"}}})
        with pytest.raises(MuranoError, match='Unknown function "inject"'):
            session.call(root, "run")


# -- coverage ------------------------------------------------------------------------------------


def test_coverage_counts_the_statements_that_ran():
    """Lines of statements, how often each ran, and which never did."""
    code = """Namespaces: {=: t}
Name: Shop
Methods:
  run:
    Arguments: [{n: {Contract: $.int()}}]
    Body:
      - For: i
        In: range($n)
        Do:
          - $x: $i
      - If: $n > 5
        Then:
          - Return: big
          - Return: never
        Else:
          - Return: small
  unused:
    Body:
      - Return: 1
---
Name: Boutique
---
Name: Kiosk
"""
    coverage = LineCoverage()
    passed("- $.assertEqual(small, new(Shop).run(3))", code=code, coverage=coverage)
    (file,) = [item for item in coverage.files() if item.file == "t/Classes/code.yaml"]
    assert file.statements == (7, 10, 11, 13, 14, 16, 19)
    assert dict(file.hits) == {7: 1, 10: 3, 11: 1, 16: 1}
    assert file.missing == (13, 14, 19)
    assert file.missing_ranges() == "13-14, 19"
    assert round(file.percent, 1) == 57.1
    again = LineCoverage()
    again.merge(coverage.counts())
    again.merge(coverage.counts())
    (merged,) = [item for item in again.files() if item.file == "t/Classes/code.yaml"]
    assert merged.hits[10] == 6


def test_coverage_of_named_packages_leaves_the_others_alone():
    """Only the packages asked for are counted."""
    coverage = LineCoverage(["other"])
    passed("- $.assertTrue(true)", coverage=coverage)
    assert coverage.files() == []
