"""What programs that embed the language ask of a session beside calls."""

import pytest

from vetro.muranopl import (
    CallContext,
    DslSyntaxError,
    MappingNode,
    MuranoError,
    MuranoObject,
    Runtime,
    ScalarNode,
    SequenceNode,
    loose_package,
    read_documents,
)

SHOP = """
Namespaces: {=: t}
Name: Shop
Properties:
  n: {Contract: $.int(), Default: 2}
  branch: {Contract: $.class(Shop)}
Methods:
  times:
    Scope: Public
    Arguments: [{a: {Contract: $.int().notNull()}}, {b: {Contract: $.int(), Default: 1}}]
    Body: {Return: $.n * $a + $b}
  inner: {Body: {Return: $.branch}}
  made:
    Usage: Static
    Scope: Public
    Arguments: [{n: {Contract: $.int()}}]
    Body: [{Return: !yaql "new(Shop, n => $n)"}]
  fails:
    Body:
      - Throw: Bad
        Message: no good
---
Name: Derived
Extends: Shop
"""


@pytest.fixture
def session():
    runtime = Runtime()
    runtime.add_package(loose_package("t", files={"shop.yaml": SHOP}))
    with runtime.session() as made:
        made.load({"Objects": {"?": {"id": "a", "type": "t.Shop"}, "branch": {
            "?": {"id": "b", "type": "t.Shop"}, "branch": "a"}}})  # fmt: skip
        yield made


def test_a_value_is_serialised_with_references_to_outside_or_without(session):
    """An object that is not part of the value is its id, or is left out."""
    inner = session.call(session.find("a"), "inner")
    assert session.serialize(inner)["branch"] == "a"
    assert "branch" not in session.serialize(inner, references=False)


@pytest.mark.parametrize("args", [{"a": 3, "b": 4}, [3, 4], (3, 4)])
def test_an_action_takes_arguments_by_name_or_by_position(session, args):
    """A map or a list."""
    assert session.act("a", "times", args) == 10


def test_a_static_action_gives_its_value(session):
    """An object as an object; by position and by name."""
    made = session.act_static("t.Shop", "made", [7])
    assert isinstance(made, MuranoObject)
    assert session.call(made, "times", 1) == 8
    assert isinstance(session.act_static("t.Derived", "made", {"n": 1}), MuranoObject)
    with pytest.raises(MuranoError, match="not a static action"):
        session.act_static("t.Shop", "times", [1])


def test_loose_classes_have_the_file_names_that_are_given(session):
    """Places in traces and errors name the file."""
    with pytest.raises(MuranoError) as caught:
        session.call(session.find("a"), "fails")
    assert caught.value.stack_trace[-1].position.file == "t/Classes/shop.yaml"
    with pytest.raises(DslSyntaxError) as refused:
        loose_package("t", files={"bad.yaml": "Name: A\nMethods: ["})
    assert refused.value.position.file == "bad.yaml"


def test_a_document_is_read_as_a_tree_with_places():
    """Maps, lists and scalars; expressions carry their syntax tree."""
    (document,) = read_documents("a:\n  - $.x + 1\n  - '$.x'\n", "f.yaml")
    assert isinstance(document, MappingNode)
    ((key, value),) = document.pairs
    assert isinstance(key, ScalarNode)
    assert isinstance(value, SequenceNode)
    first, second = value.items
    assert (first.is_expression, second.is_expression) == (True, False)
    assert str(first.position) == "f.yaml:2:5"


def test_a_native_static_method_knows_the_class_it_was_called_on():
    """The class that is named, also when another one has the method; of an object its class."""

    class Native:
        @staticmethod
        def who(ctx: CallContext) -> str:
            return ctx.called_type.name if ctx.called_type else ""

        def me(self, ctx: CallContext) -> str:
            return ctx.called_type.name if ctx.called_type else ""

    runtime = Runtime()
    runtime.add_native_class("t.Base", Native)
    text = """
Namespaces: {=: t}
Name: Main
Methods:
  run:
    Body:
      - $d: new(Derived)
      - Return: [!yaql ":Base.who()", !yaql ":Derived.who()", $d.who(), $d.me()]
---
Name: Base
---
Name: Derived
Extends: Base
"""
    runtime.add_package(loose_package("t", text))
    with runtime.session() as session:
        root = session.load({"Objects": {"?": {"id": "a", "type": "t.Main"}}})
        assert session.call(root, "run") == ["t.Base", "t.Derived", "t.Derived", "t.Derived"]
        assert session.call("t.Derived", "who") == "t.Derived"
