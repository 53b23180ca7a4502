"""Methods that call nothing take no lock; all others do, and all count (section 22, decision 0072)."""

import pytest

from vetro.muranopl import LimitExceeded, Limits, MemoryPackage, Runtime

TEXT = """
Namespaces: {=: t, std: io.murano}
Name: Main
Properties:
  n: {Contract: $.int(), Default: 3}
  kid: {Contract: $.class(Main)}
  checked: {Contract: $.check($this.sum($) > 0), Usage: Runtime}
  shared: {Contract: $.int(), Usage: Static, Default: 1}
Methods:
  sum: {Arguments: [{x: {Contract: $.int()}}], Body: [Return: $.n + $x * 2]}
  loop: {Body: [{$s: 0}, {For: i, In: [1, 2], Do: [{$s: $s + $i}]}, {Return: $s}]}
  fail: {Body: [{Throw: bad, Message: 'format({0}, 1)'}]}
  empty: {Arguments: [{o: {Contract: $.class(Main).notNull()}}]}
  other: {Body: [Return: $.sum(1)]}
  foreign: {Body: [Return: $.kid.n]}
  static: {Body: [Return: $.shared]}
  writes: {Body: [{$.checked: 1}]}
  writesInside: {Body: [{$k: $.kid}, {$k.checked: 1}]}
  makes: {Body: [Return: new(Main)]}
  names: {Body: [Return: ':Main']}
  typed: {Body: [Return: !yaql ':Main']}
  branches: {Body: [{Parallel: [{$a: 1}]}]}
  computed: {Arguments: [{x: {Contract: $.int(), Default: $.computed()}}], Body: [Return: $x]}
  judged: {Arguments: [{x: {Contract: $.check($this.judged($))}}], Body: [Return: $x]}
  guarded: {Body: [{Try: [{$a: 1}], Catch: []}]}
"""
LEAVES = {"sum", "loop", "fail", "empty", "names"}


@pytest.fixture
def runtime():
    made = Runtime()
    made.add_package(MemoryPackage("t", {"a": TEXT}, {"t.Main": "a"}))
    made.compile_all()
    return made


def test_which_methods_take_a_lock(runtime):
    """A method is a leaf exactly when nothing in it can run another method or wait."""
    from vetro.muranopl.compiler.passes.leaf_methods import is_leaf
    from vetro.muranopl.syntax.blocks import flatten
    from vetro.muranopl.syntax.statements import parse_body

    type_ = next(p for p in runtime.packages if p.name == "t").find_type("t.Main")
    library = runtime.library("current")
    found = {
        name
        for name, method in type_.methods.items()
        if is_leaf(type_, method, flatten(parse_body(method.body, type_.namespaces)), library)
    }
    assert found == LEAVES


@pytest.mark.parametrize("method", ["computed", "judged"])
def test_recursion_before_the_body_is_counted(runtime, method):
    """Defaults and contracts of arguments that call the method again reach the depth limit."""
    session = runtime.session(limits=Limits(depth=200))
    root = session.load({"Objects": {"?": {"type": "t.Main", "id": "root"}}})
    with pytest.raises(LimitExceeded):
        session.call(root, method, *([1] if method == "judged" else []))
    assert session.call(root, "sum", 2) == 7


def test_a_leaf_is_counted_at_the_limit_of_depth(runtime):
    """A method that calls nothing is a call like any other where the limit is reached."""
    session = runtime.session(limits=Limits(depth=1))
    root = session.load({"Objects": {"?": {"type": "t.Main", "id": "root"}}})
    assert session.call(root, "sum", 1) == 5
    with pytest.raises(LimitExceeded, match="1 levels deep"):
        session.call(root, "other")


def test_a_leaf_costs_a_step(runtime):
    """Calls of methods that call nothing use up the budget of steps."""
    text = TEXT + "  many: {Body: [{For: i, In: range(1000), Do: [$.sum($i)]}]}\n"
    runtime = Runtime()
    runtime.add_package(MemoryPackage("t", {"a": text}, {"t.Main": "a"}))
    session = runtime.session(limits=Limits(steps=1500))
    root = session.load({"Objects": {"?": {"type": "t.Main", "id": "root"}}})
    with pytest.raises(LimitExceeded, match="steps"):
        session.call(root, "many")
