"""Programs that would never end are ended, and their clean-up does not draw that out.

Nothing here looks at a clock: what is counted is what makes a program slow.
"""

import sys

import pytest

from vetro.muranopl import LimitExceeded, Limits, MuranoError, Runtime, loose_package
from vetro.muranopl.syntax.statements import MOST_BRANCHES

HEAD = "Namespaces: {=: t, sys: io.murano.system}\nName: Main\nMethods:\n"


def start(methods, limits=None, functions=()):
    runtime = Runtime()
    for function in functions:
        runtime.add_function(function.__name__, function)
    runtime.add_package(loose_package("t", HEAD + methods))
    session = runtime.session(limits=limits or Limits(steps=20_000))
    return session, session.load({"Objects": {"?": {"id": "root", "type": "t.Main"}}})


# -- parallel branches -----------------------------------------------------------------------------


def parallel(branches, statements=1):
    written = "      - Parallel:\n" + "        - $.f()\n" * branches
    return "  f: {Body: []}\n  run:\n    Body:\n" + written * statements


def test_more_branches_than_can_run_are_refused_when_the_class_is_loaded():
    """A Parallel beyond the limit is refused, with the number, before its branches are compiled."""
    session, root = start(parallel(MOST_BRANCHES + 1))
    with pytest.raises(
        MuranoError, match=f"{MOST_BRANCHES + 1} branches; the limit is {MOST_BRANCHES}"
    ):
        session.call(root, "run")


def test_the_most_branches_that_may_be_written_run():
    """A Parallel with as many branches as the limit says runs all of them."""
    assert Limits().parallel_branches == MOST_BRANCHES
    session, root = start(parallel(MOST_BRANCHES))
    assert session.call(root, "run") is None


def test_branches_give_their_method_no_names():
    """Python compiles nested functions in time of their number by the names of the outer one."""
    codes = []
    for branches, statements in ((2, 1), (100, 1), (2, 50)):
        session, root = start(parallel(branches, statements))
        # Classes are compiled when they are first used.
        session.call(root, "run")
        codes.append(type(root).m_run.__code__)
    assert len({len(code.co_varnames) + len(code.co_cellvars) for code in codes}) == 1


# -- clean-up --------------------------------------------------------------------------------------

IN_FINALLY = """
  run:
    Body:
      - Try: [$.run()]
        Finally:
          - look()
          - $.run()
"""
IN_CATCH = """
  run:
    Body:
      - Try:
          - Throw: a
        Catch:
          Do:
            - look()
            - $.run()
"""
IN_BOTH = """
  run:
    Body:
      - Try: [$.run()]
        Catch:
          Do: [$.run()]
        Finally:
          - look()
          - $.run()
"""
ORDINARY = """
  run:
    Arguments: [{n: {Contract: $.int(), Default: 60}}]
    Body:
      - If: $n = 0
        Then: [{Throw: a}]
      - Try: [$.run($n - 1)]
        Finally:
          - look()
          - $.run($n - 1)
"""


@pytest.mark.parametrize("methods", [IN_FINALLY, IN_CATCH, IN_BOTH, ORDINARY])
def test_no_exception_drags_all_earlier_ones_behind_it(methods):
    """Each exception that is raised meanwhile goes over those behind it: there are few."""
    longest = calls = 0

    def look():
        nonlocal longest, calls
        calls += 1
        count, at = 0, sys.exc_info()[1]
        while at is not None:
            count, at = count + 1, at.__context__
        longest = max(longest, count)

    session, root = start(methods, functions=[look])
    with pytest.raises(LimitExceeded):
        session.call(root, "run")
    assert calls > 100
    assert longest < 40


@pytest.mark.parametrize("methods", [IN_FINALLY, IN_BOTH, ORDINARY])
def test_clean_up_takes_a_bounded_number_of_calls(methods):
    """All `Finally` blocks together have the steps of one clean-up, whatever they call."""
    calls = 0

    def look():
        nonlocal calls
        calls += 1

    session, root = start(methods, functions=[look])
    with pytest.raises(LimitExceeded):
        session.call(root, "run")
    assert calls < 20_000 + 100_000


# -- patches ---------------------------------------------------------------------------------------

PATCH = """
  grow:
    Body:
      - $list: range(100000).toList()
      - $patch: range(50000).select({op => add, path => '/0', value => 1}).toList()
      - Return: $list.patch($patch)
  copy:
    Body:
      - $list: range(100000).toList()
      - $patch: range(50000).select({op => copy, path => '/-', from => ''}).toList()
      - Return: $list.patch($patch)
  move:
    Body:
      - $list: range(100000).toList()
      - $patch: range(50000).select({op => move, path => '/0', from => '/99999'}).toList()
      - Return: $list.patch($patch)
  one:
    Body:
      - $copy: {op: copy, path: /b, from: /a}
      - $shift: {op: move, path: /l/-, from: /l/0}
      - Return: !yaql '{a => [1, 2], l => [3, {}]}.patch([$copy, $shift])'
  double:
    Body:
      - $patch: range(60).select({op => copy, path => '/-', from => ''}).toList()
      - Return: $patch.patch($patch).len()
"""


@pytest.mark.parametrize("method", ["grow", "copy", "move"])
def test_patches_pay_for_what_they_copy_and_move(method):
    """Many operations on a long list end by the budget of steps long before they are done."""
    session, root = start(PATCH, limits=Limits(steps=1_000_000))
    with pytest.raises(LimitExceeded, match="steps"):
        session.call(root, method)


def test_a_patch_may_copy_as_many_parts_as_a_collection_may_have():
    """A document that is copied into itself again and again is refused before memory is full."""
    session, root = start(PATCH, limits=Limits(collection_items=10_000))
    with pytest.raises(LimitExceeded, match="10000"):
        session.call(root, "double")


def test_a_small_patch_costs_little():
    """Copying and moving within a small document is done as the RFC says."""
    session, root = start(PATCH)
    assert session.call(root, "one") == {"a": [1, 2], "b": [1, 2], "l": [{}, 3]}
