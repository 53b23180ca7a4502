"""Package lint: names that nothing has, and methods of values whose class is known (A8)."""

from typing import Any

import pytest

from vetro.packages import check

from .small_packages import archive, manifest

NAMES = """\
Namespaces: {=: p, py: ''}
Name: App
Extends: Base
Properties:
  text: {Contract: $.string()}
  shared: {Contract: $.int(), Usage: Static, Default: 1}
Methods:
  own:
    Arguments: [{a: {Contract: $.int().notNull()}}, {b: {Contract: $}}]
  fixed: {Usage: Static}
  m:
    Body:
      - STATEMENT
---
Name: Base
Methods:
  other: {Arguments: [{rest: {Contract: $, Usage: VarArgs}}]}
---
Name: Derived
Extends: App
Methods:
  later: {}
"""


@pytest.mark.parametrize(
    ("statement", "expected", "words"),
    [
        ("matches($.text, x)", "E311", "matches is a method: write value.matches(…)"),
        ("$.text.toUpper(matches($, x))", "E311", "there is no function matches"),
        ("own(1)", "E311", "write $.own(…) to call a method of the object"),
        ("lenn($.text)", "E311", "did you mean len?"),
        ("{$.text: nothing($)}", "E311", "there is no function nothing"),
        ("{If: nothing($), Then: []}", "E311", "there is no function nothing"),
        ("{Throw: bad, Message: nothing($)}", "E311", "there is no function nothing"),
        (":App.fixd()", "E312", "p.App has no static method fixd; did you mean fixed?"),
        (":App.own(1)", "E312", "own of p.App is not Static: call it"),
        ("type(App).fixd()", "E312", "did you mean fixed?"),
        (":App.shard", "E312", "p.App has no static property shard; did you mean shared?"),
        (":App.text", "E312", "text of p.App is not Static: read it"),
        ("$.nosuch()", "W206", "p.App has no method nosuch"),
        ("$this.onw(1)", "W206", "did you mean own?"),
        ("list(1).select($this.nosuch($))", "W206", "p.App has no method nosuch"),
        ("$.own()", "E313", "own of p.App needs a"),
        ("$.own(1, 2, 3)", "E313", "takes at most 2 arguments, not 3"),
        ("$.own(1, c => 2)", "E313", "has no argument c"),
        ("$.own(1, a => 2)", "E313", "gets the argument a twice"),
        ("$.own(b => 2)", "E313", "needs a"),
        (":App.fixed(1)", "E313", "takes no arguments, not 1"),
        ("$.nosuch.len()", "W208", "the property nosuch is neither declared nor assigned"),
        ("$.txt", "W208", "did you mean text?"),
        ("{Try: [], Catch: {With: ZeroDivisionError}}", "W207", "With: 'py:ZeroDivisionError'"),
        ("{Try: [], Catch: {With: NoMethodFound}}", "W207", "murano.dsl.exceptions.NoMethodFound"),
        # what is as it should be
        ("$.later(1)", "E313", "takes no arguments"),
        ("$.later()", None, ""),
        ("$.other(1, 2, 3, 4)", None, ""),
        ("$.own(1)", None, ""),
        ("$.own(b => 1, a => 2)", None, ""),
        ("list($).select($.nosuch())", None, ""),
        ("$.getAttr(x, 1)", None, ""),
        ("$.super($.nosuch())", None, ""),
        ("$.toList()", None, ""),
        ("[{$.later: 1}, {Return: $.later}]", None, ""),
        ("{Return: !yaql 'def(twice, $ * 2) -> twice(3)'}", None, ""),
        ("{Return: !yaql 'let(x => 1) -> $.nosuch()'}", None, ""),
        ("{Try: [], Catch: {With: 'py:KeyError'}}", None, ""),
        ("{Try: {Throw: KeyError, Message: x}, Catch: {With: KeyError}}", None, ""),
        ("{Try: [], Catch: {With: Mine}}", None, ""),
    ],
)
def test_names_that_nothing_has(statement: str, expected: Any, words: str) -> None:
    """Functions, methods, arguments, properties and exceptions that are not there; no false alarm."""
    text = NAMES.replace("STATEMENT", f"Do: {statement}" if statement[0] == "[" else statement)
    classes = manifest("  p.Base: App.yaml", "  p.Derived: App.yaml")
    listed = check(archive({"manifest.yaml": classes, "Classes/App.yaml": text}))
    assert [item.code for item in listed] == ([] if expected is None else [expected])
    assert words in "".join(item.message for item in listed)
    assert all((item.file, item.line) == ("Classes/App.yaml", 13) for item in listed)


KNOWN = """\
Namespaces: {=: p}
Name: App
Properties:
  part: {Contract: $.class(Part).notNull()}
  parts: {Contract: [$.class(Part)]}
  either: {Contract: $}
  shared: {Contract: $.class(Part), Usage: Static}
  anything: {Contract: $.class('io.murano.Object')}
Methods:
  m:
    Arguments: [{given: {Contract: $.class(Part)}}, {other: {Contract: $.class(Part)}}]
    Body:
      - $other: $.either
      - STATEMENT
---
Name: Part
Properties:
  next: {Contract: $.class(Part)}
Methods:
  .init: {Arguments: [{made: {Contract: $.int()}}]}
  size: {Arguments: [{unit: {Contract: $.string().notNull()}}]}
---
Name: Derived
Extends: Part
Methods:
  later: {}
"""


@pytest.mark.parametrize(
    ("statement", "expected", "words"),
    [
        ("$.part.nosuch()", "W206", "p.Part has no method nosuch"),
        ("$this.part.siz(m)", "W206", "did you mean size?"),
        ("$given.nosuch()", "W206", "p.Part has no method nosuch"),
        ("$.part.next.next.nosuch()", "W206", "p.Part has no method nosuch"),
        ("$given.next.size()", "W209", "size of p.Part needs unit"),
        ("list(1).select($this.part.size())", "W209", "needs unit"),
        ("$.part.size(a, b)", "W209", "takes 1 argument, not 2"),
        ("$.part.size(x => 1)", "W209", "has no argument x"),
        ("new(Part).nosuch()", "W206", "p.Part has no method nosuch"),
        ("new(Part).next.size()", "W209", "needs unit"),
        ("new(:Part).size(a, b)", "E313", "takes 1 argument, not 2"),
        ("new(Part).later()", "W206", "p.Part has no method later"),
        ("{Return: !yaql 'new(Part, nxt => null)'}", "W211", "p.Part has no property nxt, so"),
        ("{Return: !yaql 'new(:Part, $this, nxt => null)'}", "W211", "did you mean next?"),
        ("{Return: !yaql 'new(Part, {nxt => null}, $this)'}", "W211", "did you mean next?"),
        # what is as it should be, or what nobody can tell
        ("$.part.size(m)", None, ""),
        ("{Return: !yaql 'new(Part, next => null, made => 1)'}", None, ""),
        ("{Return: !yaql 'new(Derived, $this, {}, next => null)'}", None, ""),
        ("{Return: !yaql 'new(Part, {next => null, _x => 1}, owner => $this)'}", None, ""),
        ("{Return: !yaql 'new($.either, nxt => null)'}", None, ""),
        ("$.part.later()", None, ""),
        ("$given.later()", None, ""),
        ("$.part.getAttr(x)", None, ""),
        ("$.parts.nosuch()", None, ""),
        ("$.either.nosuch()", None, ""),
        ("$.anything.nosuch()", None, ""),
        ("$other.nosuch()", None, ""),
        ("$.part.find(Part).nosuch()", None, ""),
        ("list($).select($.part.nosuch())", None, ""),
        ("{Return: !yaql 'let(given => 1) -> $given.nosuch()'}", None, ""),
        ("{For: given, In: $.parts, Do: $given.nosuch()}", None, ""),
        ("{Try: [], Catch: {As: given, Do: $given.nosuch()}}", None, ""),
    ],
)
def test_methods_of_values_whose_class_is_known(statement: str, expected: Any, words: str) -> None:
    """By contracts of properties and arguments, by `new`, and along chains; no false alarm."""
    text = KNOWN.replace("STATEMENT", statement)
    classes = manifest("  p.Part: App.yaml", "  p.Derived: App.yaml")
    listed = check(archive({"manifest.yaml": classes, "Classes/App.yaml": text}))
    assert [item.code for item in listed] == ([] if expected is None else [expected])
    assert words in "".join(item.message for item in listed)
