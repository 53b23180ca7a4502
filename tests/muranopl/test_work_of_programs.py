"""How much work the benchmark programs do, counted in calls of Python functions, never in time.

Calls are those of functions written in Python and of functions in C that they call. What a program
does once per unit must not grow with the number of units, and no guard may go over whole values
again and again.
"""

import json
import sys
from pathlib import Path

import pytest

from vetro.muranopl import DirectoryPackage, Runtime, loose_package

PROGRAMS = Path(__file__).parents[2] / "benchmarks/programs"
BOUNDS = {
    "d_strings": 125,
    "g_templates": 195,
    "h_control": 16,
    "i_parallel": 250,
    "j_framework": 660,
    "k_shared": 180,
}
"""Calls that one more unit may take: what it takes now and a fifth."""


def calls_of(runtime, main, n):
    session = runtime.session()
    root = session.load({"Objects": {"?": {"id": "root", "type": main}}})
    return counted(lambda: session.call(root, "run", n))


def counted(work):
    count = 0

    def note(_frame, event, _argument):
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("program", sorted(BOUNDS))
def test_a_unit_of_a_program_takes_a_bounded_number_of_calls(program):
    """Each further unit takes as many calls as the first ones, and not more than the bound says."""
    runtime = Runtime()
    runtime.add_package(DirectoryPackage(PROGRAMS / program))
    main = json.loads((PROGRAMS / program / "bench.json").read_text())["class"]
    calls_of(runtime, main, 40)
    small, middle, large = (calls_of(runtime, main, n) for n in (40, 80, 160))
    # Twice as many units; a quadratic part would make it four times. Failures cost a little extra.
    assert large - middle <= 2.6 * (middle - small)
    assert large - middle <= BOUNDS[program] * 80


def test_what_stays_in_a_list_is_not_checked_again():
    """Taking elements out of a property one by one takes calls in proportion to their number."""
    runtime = Runtime()
    runtime.add_package(loose_package("t", LEAVING))
    calls_of(runtime, "t.Main", 100)
    one, two = (calls_of(runtime, "t.Main", n) for n in (100, 200))
    assert two < 2.5 * one


def test_saving_takes_calls_in_proportion_to_the_references():
    """Objects of one owner that refer to each other, each to one that is written after it."""

    def calls(n):
        runtime = Runtime()
        runtime.add_package(loose_package("t", PEERS))
        kids = [{"?": {"id": f"k{i}", "type": "t.Node"}, "peer": f"k{n - 1 - i}"} for i in range(n)]
        session = runtime.session()
        session.load({"Objects": {"?": {"id": "root", "type": "t.Node"}, "kids": kids}})
        return counted(session.dump)

    calls(100)
    one, two = calls(100), calls(200)
    assert two < 2.2 * one


PEERS = """
Namespaces: {=: t}
Name: Node
Properties:
  kids: {Contract: [$.class(Node)], Default: []}
  peer: {Contract: $.class(Node)}
"""
LEAVING = """
Namespaces: {=: t}
Name: Main
Properties:
  numbers:
    Usage: Runtime
    Contract:
      - $.int().notNull().check([$] != [x])
Methods:
  run:
    Arguments: [{n: {Contract: $.int()}}]
    Body:
      - $.numbers: range($n).toList()
      - Repeat: $n
        Do:
          - $.numbers: $.numbers.delete($.numbers.len() - 1)
"""
