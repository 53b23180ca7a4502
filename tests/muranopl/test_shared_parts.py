"""Work over values that hold one part many times is paid for before it is done."""

import pytest

from vetro.muranopl import Limits, MuranoError, Runtime, loose_package

HEAD = """Namespaces: {=: t, sys: io.murano.system}
Name: Main
Properties:
  p: {Contract: $, Usage: InOut}
Methods:
  deep:
    Body:
      - Try: [$.deep()]
        Finally: [$.deep()]
  run:
    Body:
      - $l: [1]
      - $m: {a: 1}
      - Repeat: 60
        Do:
          - $l: [$l, $l]
          - $m: {x: $m, y: $m}
"""


def run(statement, method="run"):
    runtime = Runtime()
    runtime.add_package(loose_package("t", f"{HEAD}      - {statement}\n"))
    session = runtime.session(limits=Limits(steps=100_000))
    root = session.load({"Objects": {"?": {"id": "root", "type": "t.Main"}}})
    return session, session.call(root, method)


@pytest.mark.parametrize(
    "statement",
    [
        "Return: $l",
        "Return: $m",
        "Return: str($l)",
        "Return: !yaql \"format('{0}', $m)\"",
        "Return: $m.mergeWith($m)",
        "$.setAttr(a, $l)",
        "Return: !yaql 'bind($l, {a => 1})'",
        "{Throw: a, Message: $l}",
    ],
)
def test_a_small_value_of_many_parts_ends_the_run(statement):
    """Returning it, its text, merging and storing it cost what all of its parts would."""
    with pytest.raises(MuranoError) as failure:
        run(statement)
    assert "LimitExceeded" in failure.value.names[0]


def test_the_result_of_an_action_is_paid_for_too():
    """Results of actions are weighed before they are copied for the host."""
    text = HEAD.replace("  run:\n", "  run:\n    Scope: Public\n") + "      - Return: $l\n"
    runtime = Runtime()
    runtime.add_package(loose_package("t", text))
    session = runtime.session()
    session.load({"Objects": {"?": {"id": "root", "type": "t.Main"}}})
    with pytest.raises(MuranoError, match="steps"):
        session.act("root", "run")


def test_the_collector_looks_at_a_shared_part_once():
    """A collection goes over what is there, not over what would be written."""
    session, _ = run("sys:GC.collect()")
    assert session.root is not None


def test_a_model_with_too_many_parts_is_refused():
    """A property whose value is small here and endless as JSON is not written."""
    session, _ = run("$.p: $l")
    with pytest.raises(MuranoError, match="parts"):
        session.dump()


def test_recursion_in_finally_has_one_budget_of_clean_up():
    """After calls were nested too deep all that Finally blocks do together is bounded."""
    with pytest.raises(MuranoError) as failure:
        run("$x: 1", "deep")
    assert "LimitExceeded" in failure.value.names[0]


@pytest.mark.parametrize(
    "statement",
    [
        "$n: $m.mergeWith($m)",
        "$m: $m.mergeWith($m)",
        "$m: !yaql '$m.mergeWith({x => $m, y => $m})'",
    ],
)
def test_two_shared_parts_are_merged_once(statement):
    """Merging a mapping of sixty shared levels with itself takes sixty steps, also in place."""
    session, _ = run(statement)
    assert session.root is not None


def test_mergers_of_a_program_are_paid_for_before_they_are_called():
    """With functions of the program every pair is merged: the run ends before all are."""
    with pytest.raises(MuranoError) as failure:
        run("$n: $m.mergeWith($m, $1 + $2, $1)")
    assert "LimitExceeded" in failure.value.names[0]


@pytest.mark.parametrize(
    "statement",
    [
        "$x: {$l: 1}",
        "{Match: {1: []}, Value: $l}",
        "$x: logger($l)",
        "$.setAttr($l, 1)",
        "$x: $.getAttr($l)",
        "$log: logger(a).info('{0}', $l)",
        "$x: logger(a).info($l)",
        "{Throw: a, Message: x, Extra: {a: $l}}",
        "$x: set($l)",
        "$x: !yaql '{$l => 1}'",
        "$x: !yaql '$l.flatten().toList()'",
        "$x: !yaql '[1].patch({op => add, path => \"/0\", value => $l})'",
        "$x: call(str, [$l])",
        "$x: !yaql '[$l].join(\"\")'",
        "$x: !yaql '$l = [$l[0], [$l[1][0], $l[1][1]]]'",
    ],
)
def test_every_way_over_a_value_of_many_parts_ends(statement):
    """Keys, names, log lines, messages and copies go over bounded parts or end the run."""
    with pytest.raises(MuranoError):
        run(statement)


@pytest.mark.parametrize("call", ["id($l)", "name($l)", "metadata($l)", "cast($l, Main)"])
def test_the_message_about_a_value_of_many_parts_is_short(call):
    """A function that takes an object shows the beginning of what it was given."""
    with pytest.raises(MuranoError, match="takes an object") as failure:
        run(f"$x: {call}")
    assert len(str(failure.value)) < 400
