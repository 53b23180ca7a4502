"""Kinds of variables are inferred only where every path gives them (`compiler.passes.inference`)."""

import pytest

from vetro.muranopl import MemoryPackage, Runtime


def run(body, *args):
    """The value of a method with this body and an argument `n`."""
    lines = "".join(f"      {line}\n" for line in body.splitlines())
    text = (
        "Namespaces: {=: t}\nName: Main\nMethods:\n  run:\n    Arguments: [{n: {Contract: $}}]\n"
        f"    Body:\n{lines}"
    )
    runtime = Runtime()
    runtime.add_package(MemoryPackage("t", {"a": text}, {"t.Main": "a"}))
    session = runtime.session()
    root = session.load({"Objects": {"?": {"type": "t.Main", "id": "root"}}})
    return session.serialize(session.call(root, "run", *args))


CASES = {
    "a loop over whole numbers": (
        "- $s: 0\n- For: i\n  In: range($n)\n  Do: [{$s: $s + $i mod 3}]\n- Return: $s",
        7,
        6,
    ),
    "the variable of a loop that never turned is null": (
        "- For: i\n  In: range($n)\n  Do: [{$x: $i}]\n- Return: [$i, $i = null]",
        0,
        [None, True],
    ),
    "the variable of a loop that is assigned something else in it": (
        "- $s: ''\n- For: i\n  In: range($n)\n  Do:\n    - $i: str($i)\n    - $s: $s + $i + $i\n- Return: $s",
        2,
        "0011",
    ),
    "the variable of a loop over its own last element": (
        "- For: i\n  In: range($n)\n  Do:\n    - For: i\n      In: range($i)\n      Do: [{$t: $i + 1}]\n"
        "- Return: $t",
        3,
        2,
    ),
    "one variable of two loops, of numbers and of texts": (
        "- For: i\n  In: range($n)\n  Do: [{$a: $i + 1}]\n- For: i\n  In: [x, y]\n  Do: [{$b: $i + z}]\n"
        "- Return: [$a, $b]",
        2,
        [2, "yz"],
    ),
    "a variable that a turn assigns before it reads it": (
        "- $t: 0\n- For: i\n  In: range($n)\n  Do:\n    - $j: 1\n    - While: $j < 5\n      "
        "Do: [{$j: $j + $i + 1}]\n    - $t: $t + $j\n- Return: $t",
        3,
        17,
    ),
    "a variable that a turn reads before it assigns it": (
        "- $t: []\n- For: i\n  In: range($n)\n  Do:\n    - $t: $t.append($j = null)\n    - $j: 1\n"
        "- Return: $t",
        2,
        [True, False],
    ),
    "a variable that only one of two cases assigns": (
        "- If: $n > 1\n  Then: [{$j: 1}]\n  Else: [{$k: 1}]\n- Return: [$j, $k]",
        2,
        [1, None],
    ),
    "a variable that a Try assigns and its Catch reads": (
        "- Try:\n    - $x: int($n)\n    - $j: 1\n  Catch: {Do: [{Return: $j = null}]}\n- Return: $j",
        "no",
        True,
    ),
    "a variable of one branch that another branch reads": (
        "- Parallel:\n    - Do: [{$seen: $j = null}]\n    - Do: [{$j: 1}]\n- Return: [$seen, $j]",
        0,
        [True, 1],
    ),
    "a loop over what `range` in a list gives": (
        "- $t: 0\n- For: i\n  In: [a, 2]\n  Do: [{$t: $i}]\n- Return: $t * 2",
        0,
        4,
    ),
}


@pytest.mark.parametrize(("body", "given", "value"), CASES.values(), ids=CASES)
def test_values_are_those_of_the_language(body, given, value):
    """A variable whose kind is known gives what it gives when nothing is known of it."""
    assert run(body, given) == value


def test_whole_numbers_of_a_loop_are_computed_without_tests_of_their_kind():
    """Code for the variable of `range`, and for what a turn assigns first, tests no class."""
    text = (
        "Namespaces: {=: t}\nName: Main\nMethods:\n  run:\n    Body:\n      - For: i\n        In: range(9)\n"
        "        Do:\n          - $j: $i * 2\n          - $k: $j + $i mod 2\n          - $m: $k - $j\n"
    )
    runtime = Runtime()
    runtime.add_package(MemoryPackage("t", {"a": text}, {"t.Main": "a"}))
    unit = runtime.type("t.Main").own_code().unit
    source = "\n".join(unit.lines)
    assert "a_k = (a_j + (a_i % 2))" in source
    assert "a_m = (a_k - a_j)" in source
