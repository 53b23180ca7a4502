"""Native code that copies a program's values pays for every part of them."""

import pytest

from vetro.muranopl import CallContext, Limits, MemoryPackage, MuranoError, Runtime, native

TEXT = """
Namespaces: {=: t}
Name: Main
Properties:
  p: {Contract: $, Usage: Runtime}
Methods:
  value:
    Body: [{Return: $.p}]
  attribute:
    Body: [{Return: $.getAttr(a)}]
  run:
    Arguments: [{how: {Contract: $.string()}}]
    Body:
      - $l: [1]
      - Repeat: 40
        Do: [{$l: [$l, $l]}]
      - $.p: $l
      - $.setAttr(a, $l)
      - $n: new(Native)
      - $n.setAttr(a, $l)
      - Return: $n.look($this, $how)
---
Namespaces: {=: t}
Name: Native
"""
WAYS = {
    "get": lambda target, context: target.get("p"),
    "index": lambda target, context: target["p"],
    "call": lambda target, context: target.call("value"),
    "attribute": lambda target, context: target.call("attribute"),
    "own attribute": lambda target, context: context.get_attribute("a"),
}


class Native:
    @native()
    def look(self, context: CallContext, target: object, how: str) -> int:
        return len(WAYS[how](target, context))


@pytest.mark.parametrize("how", WAYS)
def test_a_native_method_that_copies_a_value_pays_for_each_occurrence_of_a_part(how):
    """A list doubled forty times is refused by the budget before anything is copied."""
    runtime = Runtime()
    runtime.add_package(MemoryPackage("t", {"a": TEXT}, {"t.Main": "a", "t.Native": "a"}))
    runtime.add_native_class("t.Native", Native)
    session = runtime.session(limits=Limits(steps=100_000))
    root = session.load({"Objects": {"?": {"type": "t.Main", "id": "root"}}})
    with pytest.raises(MuranoError, match="steps"):
        session.call(root, "run", how)
