"""Parents in several versions become one where the requirements allow it (section 5)."""

import pytest

from vetro.muranopl import MuranoError, Runtime

LIB = """
Namespaces: {=: lib}
Name: Base
Properties:
  n: {Contract: $.int().notNull(), Default: 0, Usage: InOut}
  shared: {Contract: $.int(), Usage: Static, Default: 1}
Methods:
  .init:
    Body:
      - $.n: $.n + 1
  version:
    Body:
      - Return: VERSION
"""
MIDDLE = """
Namespaces: {=: NAME, lib: lib}
Name: Middle
Extends: lib:Base
Methods:
  NAMEVersion:
    Body:
      - Return: $.version()
"""
MAIN = """
Namespaces: {=: t, left: left, right: right, lib: lib}
Name: Main
Extends: [left:Middle, right:Middle]
Methods:
  run:
    Body:
      - Return: [$.version(), $.leftVersion(), $.rightVersion(), $.n]
  check:
    Arguments: [{x: {Contract: $.class(left:Middle).notNull()}}]
    Body:
      - Return: $x is left:Middle and $x is right:Middle
---
Name: Other
Extends: left:Middle
Methods:
  run:
    Body:
      - Return: [$.version(), $.leftVersion()]
"""


@pytest.fixture
def build(package):
    def make(left, right, versions=("1.0.0", "1.1.0", "2.0.0")):
        runtime = Runtime()
        for version in versions:
            text = LIB.replace("VERSION", f"'{version}'")
            runtime.add_package(package("lib", text, version=version))
        for name, spec in (("left", left), ("right", right)):
            text = MIDDLE.replace("NAME", name)
            runtime.add_package(package(name, text, requirements={"lib": spec}))
        runtime.add_package(
            package("t", MAIN, requirements={"left": None, "right": None, "lib": "*"})
        )
        session = runtime.session()
        load = lambda name: session.load({"Objects": {"?": {"type": name, "id": "r"}}})  # noqa: E731
        return runtime, session, load

    return make


@pytest.mark.parametrize(
    ("left", "right", "chosen"),
    [
        ("1", "1.0", "1.0.0"),
        ("1.0", "1", "1.0.0"),
        (">=1.0", "1.1", "1.1.0"),
        ("*", "1", "1.1.0"),
        (">=1.0.0", "2", "2.0.0"),
    ],
)
def test_one_version_suits_both(build, left, right, chosen):
    """Both branches of the diamond use the version that satisfies both; the base is built once."""
    _, session, load = build(left, right)
    assert session.call(load("t.Main"), "run") == [chosen, chosen, chosen, 1]


def test_the_original_classes_stay(build):
    """A class that inherits by one branch alone keeps the version it asked for."""
    _, session, load = build("1", "1.0")
    assert session.call(load("t.Main"), "run")[0] == "1.0.0"
    assert session.call(load("t.Other"), "run") == ["1.1.0", "1.1.0"]


def test_virtual_classes_pass_for_their_originals(build):
    """Contracts and `is` take an object of a class with virtual parents for what it inherits."""
    _, session, load = build("1", "1.0")
    root = load("t.Main")
    assert session.call(root, "check", root) is True


def test_irreconcilable_versions_are_ambiguous_at_use(build):
    """Versions that nothing brings together are unrelated: found when the class is built, an error
    when a name is ambiguous."""
    runtime, session, load = build("1", "2")
    root = load("t.Main")
    assert [f.code for f in runtime.classes.findings if f.code == "W-versions"] == ["W-versions"]
    with pytest.raises(MuranoError) as caught:
        session.call(root, "run")
    assert any(name.endswith("AmbiguousMethodName") for name in caught.value.names)


def test_static_values_are_those_of_the_version(build):
    """A virtual class shares the static properties of its original."""
    runtime, session, load = build("1", "1.0")
    load("t.Main")
    main, other = runtime.type("t.Main"), runtime.type("t.Other")
    run = session.run
    virtual = main.find_property("shared")
    assert virtual is runtime.type("lib.Base", "1.0").properties["shared"]
    run.write_static(virtual, 7)
    assert run.static_value(other.find_property("shared")) == 1
