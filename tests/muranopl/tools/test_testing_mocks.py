"""Mocks of test classes (muranopl.md section 26)."""

import pytest

from vetro.muranopl import MemoryPackage, MuranoError, Runtime


def test_a_constant_stands_in_for_a_method_of_a_class(passed):
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


def test_mocks_are_gone_in_the_next_test(run_cases):
    """What a test injected is put back at its end."""
    results = run_cases(
        "  testA:\n    Body:\n      - inject(Shop, cost, 42)\n"
        "      - $.assertEqual(42, new(Shop).total(1))\n"
        "  testB:\n    Body:\n      - $.assertEqual(8, new(Shop).total(1))\n"
    )
    assert [item.outcome for item in results.values()] == ["passed", "passed"]


def test_an_object_is_mocked_alone(passed):
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


def test_a_class_mock_concerns_derived_classes_that_do_not_override(passed):
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


def test_the_newest_mock_wins(passed):
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


def test_an_expression_sees_the_test_and_the_arguments(only):
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


def test_the_arguments_are_checked_as_the_original_would(passed):
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


def test_a_mock_method_gets_the_arguments_it_declares(only):
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


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        ("a, b", "[$a, $b]=[3, 4]"),
        ("a", "[$a]=[3]"),
        ("discount, other", "[$discount, $other]=[4, 3]"),
        ("count, other", "[$count, $other]=[3, 4]"),
        ("other, discount", "[$other, $discount]=[3, 4]"),
        ("a, b, c", "[$a, $b, $c]=[3, 4, null]"),
        ("rest*", "[$rest]=[[3, 4]]"),
        ("discount, rest*", "[$discount, $rest]=[4, [3]]"),
        ("a, names**", "[$a, $names]=[3, {discount => 4}]"),
        ("count, names**", "[$count, $names]=[3, {discount => 4}]"),
    ],
)
def test_a_mock_method_with_names_of_its_own(only, arguments, seen):
    """Arguments whose names the original has not are bound by position to what is left."""
    usages = {"*": "VarArgs", "**": "KwArgs", "": "Standard"}
    declared = "".join(
        f"      - {item.rstrip('*')}: "
        f"{{Contract: $, Usage: {usages[item[len(item.rstrip('*')) :]]}}}\n"
        for item in arguments.split(", ")
    )
    found, expected = seen.split("=", 1)
    result = only(
        f"  fake:\n    Arguments:\n{declared}    Body:\n      - $.seen: !yaql '{found}'\n"
        "  testIt:\n    Body:\n      - inject(Shop, cost, $, fake)\n"
        "      - new(Shop).cost(3, discount => 4)\n"
        f"      - !yaql '$.assertEqual({expected}, $.seen)'\n"
    )
    assert result.outcome == "passed", result.trace


def test_a_mock_method_takes_further_arguments_by_position(only):
    """VarArgs of the original reach arguments of the mock one by one; what is over is left out."""
    result = only(
        """
  fake:
    Arguments:
      - first: {Contract: $}
      - second: {Contract: $}
    Body:
      - Return: [$first, $second]
  testIt:
    Body:
      - inject(Shop, sum, $, fake)
      - $.assertEqual([1, 2], new(Shop).sum(1, 2, 3))
"""
    )
    assert result.outcome == "passed", result.trace


def test_original_method_calls_through(passed):
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


def test_with_original_reads_the_callers_variables(passed):
    """`withOriginal` takes values from where the intercepted call was made."""
    passed(
        """
- $secret: mine
- inject(Shop, cost, withOriginal(s => $secret, o => $.price, c => $count) -> [$s, $o, $c, $secret])
- $.assertEqual([7, 10, 3, mine], new(Shop).total(3))
""",
    )


def test_mock_functions_outside_of_a_mock_say_so(only):
    """`originalMethod()` where nothing is intercepted is a clear error."""
    result = only("  testIt:\n    Body: originalMethod()\n")
    assert result.outcome == "error"
    assert "there is no intercepted call" in result.message


def test_static_methods_are_mocked(passed):
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


def test_native_methods_are_mocked(passed):
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


def test_constructors_and_destructors_are_mocked(cases_code, passed):
    """`initialize` and `destroy` of a class can be replaced."""
    code = cases_code.replace(
        "Methods:\n  cost:", "Methods:\n  initialize:\n    Body:\n      - Throw: Never\n  cost:", 1
    )
    passed("- inject(Shop, initialize, null)\n- $.assertEqual(10, new(Shop).price)", code=code)


def test_a_mock_reaches_green_threads(passed):
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
        ("inject(Shop, cost, 5, total)", "on an object or a class, not on 5"),
    ],
)
def test_a_wrong_inject_says_what_is_wrong(statement, message, only):
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
