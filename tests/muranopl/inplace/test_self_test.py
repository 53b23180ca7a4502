"""Where Python counts references in another way, nothing is changed in place (decision 0190)."""

import subprocess
import sys
import textwrap

import pytest

from vetro.muranopl import inplace
from vetro.muranopl.inplace import references, self_test

SETTINGS = """
    import sys

    real = sys.getrefcount
    {patch}
    from vetro.muranopl import MemoryPackage, Runtime
    from vetro.muranopl.inplace import references, self_test
"""
PROGRAM = """
    TEXT = '''
    Namespaces: {=: t}
    Name: Main
    Properties:
      p: {Contract: {}, Usage: Runtime, Default: {m: {k: 1}}}
      q: {Contract: {$.string().notNull(): $.int()}, Usage: Runtime, Default: {k: 1}}
      l: {Contract: [$.int()], Usage: Runtime, Default: [1]}
    Methods:
      run:
        Body:
          - $a: {k: 1, m: {k: 1}}
          - $b: $a
          - $c: [$a.m]
          - $a.k: 2
          - $a.m.k: 2
          - $a: $a.set(n, 3)
          - $d: $a
          - $a: $a.mergeWith({m => {k => 4, o => 5}})
          - $p: $.p
          - $m: $.p.m
          - $.p.m.k: 2
          - $.p.n: 3
          - $q: $.q
          - $.q[k]: 2
          - $.q: $.q.set(o, 3)
          - $l: $.l
          - $.l: $.l.append(2)
          - $e: {}
          - For: i
            In: range(4)
            Do:
              - $e[$i]: {n: $i}
              - $e[$i].n: $i + 1
          - Return: [$a, $b, $c, $d, $p, $m, $.p, $q, $.q, $l, $.l, $e]
    '''
    runtime = Runtime()
    runtime.add_package(MemoryPackage("t", {"a": TEXT}, {"t.Main": "a"}))
    session = runtime.session()
    root = session.load({"Objects": {"?": {"type": "t.Main", "id": "root"}}})
    print(session.serialize(session.call(root, "run")))
"""
VALUES = [
    {"k": 2, "m": {"k": 4, "o": 5}, "n": 3},
    {"k": 1, "m": {"k": 1}},
    [{"k": 1}],
    {"k": 2, "m": {"k": 2}, "n": 3},
    {"m": {"k": 1}},
    {"k": 1},
    {"m": {"k": 2}, "n": 3},
    {"k": 1},
    {"k": 2, "o": 3},
    [1],
    [1, 2],
    {0: {"n": 1}, 1: {"n": 2}, 2: {"n": 3}, 3: {"n": 4}},
]
COUNTS = {
    "as_this_python_does": "",
    # Every value seems to have one reader.
    "the_same_for_every_value": "sys.getrefcount = lambda value: 1",
    # A second reader is not counted, as where interpreters borrow references.
    "without_the_second_reader": "sys.getrefcount = lambda value: min(real(value) - 1, 3)",
    # Values have more readers than there are.
    "more_each_time": "calls = []; sys.getrefcount = lambda value: calls.append(1) or len(calls)",
}


@pytest.mark.parametrize("patch", COUNTS.values(), ids=COUNTS)
def test_programs_give_the_same_however_python_counts(patch):
    """Values with a second reader stay as they are, whatever the reference counts say."""
    text = textwrap.dedent(SETTINGS).format(patch=patch) + textwrap.dedent(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == repr(VALUES)


@pytest.mark.parametrize(
    "patch", [COUNTS["the_same_for_every_value"], COUNTS["without_the_second_reader"]]
)
def test_counts_that_would_change_a_value_with_a_second_reader_are_switched_off(patch):
    """The self-test notices at import that the counts mislead; from then on every value is copied."""
    text = textwrap.dedent(SETTINGS).format(patch=patch)
    text += "print(references.ALONE.is_on, self_test.changed_values())\n"
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "False []"


def test_the_counts_of_this_python_are_used():
    """Every Python that Vetro promises counts so that values can be changed in place."""
    assert inplace.ALONE.is_on
    assert self_test.changed_values() == []


@pytest.mark.parametrize("place", references.Alone.__slots__)
def test_each_count_is_checked_by_the_self_test(place, monkeypatch):
    """A single count that is too high is noticed."""
    monkeypatch.setattr(references.ALONE, place, 1_000)
    assert self_test.changed_values()
