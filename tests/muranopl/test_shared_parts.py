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
