"""One bad method does not refuse its class: a finding at load, the error when it is called."""

import pytest

from vetro.muranopl import DirectEffects, Limits, MemoryPackage, MuranoError, Runtime, check_package
from vetro.muranopl.tools.describing import describe_class

HEAD = "Namespaces: {=: t, std: io.murano, m: io.murano.metadata}\n"
# What is wrong with a method: its declaration without Usage and Scope, the error, a part of its text.
FAULTS = {
    "break outside a loop": ("{Body: [{Break: }]}", "DslInvalidOperationError", "outside a loop"),
    "continue outside a loop": (
        "{Body: [{If: true, Then: [{Continue: }]}]}",
        "DslInvalidOperationError",
        "outside a loop",
    ),
    "unknown statement": ("{Body: [{Nonsense: 1, Do: []}]}", "DslSyntaxError", "Nonsense"),
    "wrong target": ("{Body: [{$.n.x().y: 1}]}", "InvalidLhsTargetError", "target"),
    "text as a statement": ("{Body: ['some text']}", "DslSyntaxError", "text"),
    "a key twice in the body": ("{Body: {Return: {a: 1, a: 2}}}", "DuplicateKey", "key a appears twice"),
    "Body twice": ("{Body: {Return: 1}, Body: {Return: 2}}", "DuplicateKey", "key Body appears twice"),
    "a list as a key": ("{Body: {Return: {[a]: 1}}}", "YamlSyntaxError", "must be a scalar"),
    "no expression after its tag": ("{Body: {Return: !yaql '1 +'}}", "YamlSyntaxError", "not an expr"),
    "a date that is none": ("{Body: {Return: 2026-99-99}}", "YamlSyntaxError", "not of type"),
    "binary": ("{Body: {Return: !!binary aGVsbG8=}}", "YamlSyntaxError", "binary"),
    "contract with two expression keys": (
        "{Arguments: [{x: {Contract: {$.string(): $.int(), $.int(): $.int()}}}], Body: {Return: 1}}",
        "DslContractSyntaxError",
        "at most one key",
    ),
    "argument without a contract": (
        "{Arguments: [{x: {Default: 1}}], Body: {Return: 1}}",
        "DslSyntaxError",
        "has no Contract",
    ),
    "argument that is no name": (
        "{Arguments: [{a-b: {Contract: $}}], Body: {Return: 1}}",
        "DslSyntaxError",
        "is not the name of an argument",
    ),
    "arguments out of order": (
        "{Arguments: [{x: {Contract: $, Usage: VarArgs}}, {y: {Contract: $}}], Body: {Return: 1}}",
        "DslSyntaxError",
        "out of order",
    ),
    "unknown usage of an argument": (
        "{Arguments: [{x: {Contract: $, Usage: Odd}}], Body: {Return: 1}}",
        "DslSyntaxError",
        "Unknown Usage",
    ),
    "arguments that are no map": ("{Arguments: 5, Body: {Return: 1}}", "DslSyntaxError", "must be a map"),
    "unknown metadata": ("{Meta: {m:Nope: {x: 1}}, Body: {Return: 1}}", "NoClassFound", "Nope"),
    "metadata that is none": ("{Meta: {std:Object: }, Body: {Return: 1}}", "DslSyntaxError", "meta"),
    "metadata in a wrong form": ("{Meta: {m:Title: 5}, Body: {Return: 1}}", "DslSyntaxError", "Meta item"),
    "unknown metadata of an argument": (
        "{Arguments: [{x: {Contract: $, Meta: {m:Nope: }}}], Body: {Return: 1}}",
        "NoClassFound",
        "Nope",
    ),
}  # fmt: skip
BY_FAULT = pytest.mark.parametrize(("bad", "name", "text"), FAULTS.values(), ids=FAULTS)


def declared(bad, more):
    """The declaration of a method with further keys."""
    return "{" + more + bad[1:]


def runtime_of(text, **options):
    runtime = Runtime(**options)
    names = ["t." + line.split()[1] for line in text.splitlines() if line.startswith("Name: ")]
    runtime.add_package(MemoryPackage("t", {"a.yaml": text}, dict.fromkeys(names, "a.yaml")))
    return runtime


def session_of(text, **options):
    runtime = runtime_of(text, **options)
    session = runtime.session(effects=DirectEffects(seed=1), limits=Limits(steps=1_000_000))
    return session, session.load({"Objects": {"?": {"type": "t.Main", "id": "root"}}})


def class_with(bad):
    return f"""{HEAD}Name: Main
Properties:
  n: {{Contract: $.int(), Default: 4}}
Methods:
  good: {{Body: {{Return: $.n}}}}
  bad: {bad}
  shared: {declared(bad, "Usage: Static, ")}
  action: {declared(bad, "Scope: Public, ")}
  staticAction: {declared(bad, "Usage: Static, Scope: Public, ")}
  byName: {{Body: {{Return: $.bad()}}}}
  byStatic: {{Body: {{Return: ':Main.shared()'}}}}
  byReflection: {{Body: {{Return: typeinfo($).methods.where($.name = bad).single().invoke($)}}}}
  names: {{Body: {{Return: typeinfo($).methods.name}}}}
  caught:
    Body:
      - Try: [{{$.bad(): }}]
        Catch: {{As: e, Do: {{Return: $e.message}}}}
---
Name: Child
Extends: Main
Methods:
  bad: {{Body: {{Return: 9}}}}
  above: {{Body: {{Return: $.super($.bad())}}}}
  aside: {{Body: {{Return: $.cast(Main).bad()}}}}
---
Name: Plain
Extends: Main
""".replace("Return: ':Main.shared()'", "Return: !yaql ':Main.shared()'").replace(
        "- Try: [{$.bad(): }]", "- Try: [{$x: $.bad()}]"
    )


def failure(call, *args, **named):
    with pytest.raises(MuranoError) as caught:
        call(*args, **named)
    return caught.value


@BY_FAULT
def test_a_bad_method_is_an_error_where_it_is_called(bad, name, text):
    """Every way of calling it says the same at the same place; the other methods work."""
    session, root = session_of(class_with(bad))
    assert session.call(root, "good") == 4
    first = failure(session.call, root, "bad")
    assert type(first).__name__ == name
    assert text in first.message
    assert first.position.line == 7
    for method in ("byName", "byReflection", "bad"):
        again = failure(session.call, root, method)
        assert (again.message, again.position, again.names) == (
            first.message,
            first.position,
            first.names,
        )
        assert again is not first
    assert session.call(root, "caught") == first.message
    assert failure(session.call, "t.Main", "shared").position.line == 8
    assert failure(session.call, root, "byStatic").position.line == 8
    assert failure(session.act, "root", "action", {"x": 1}).position.line == 9
    assert failure(session.act_static, "t.Main", "staticAction", {"x": 1}).position.line == 10


@BY_FAULT
def test_a_bad_method_is_there_for_who_looks(bad, name, text):
    """Reflection, description and schemas of the class list the method and do not fail."""
    session, root = session_of(class_with(bad))
    assert {"bad", "shared", "action", "good"} <= set(session.call(root, "names"))
    described = describe_class(session.runtime.type("t.Main"))
    assert "bad" in [item.name for item in described.methods]
    assert [item.name for item in described.methods if item.is_action] == ["action", "staticAction"]
    assert "n" in session.runtime.schema("t.Main")[""]["properties"]
    assert session.runtime.action_arguments(session.runtime.type("t.Main")) == {}
    assert "root" in str(session.dump()["Objects"])


@BY_FAULT
def test_what_overrides_a_bad_method_is_good(bad, name, text):
    """Descendants override it and work; `super` and casts reach the bad one and say so."""
    session, _ = session_of(class_with(bad))
    child = session.load({"Objects": {"?": {"type": "t.Child", "id": "c"}}})
    assert session.call(child, "bad") == 9
    assert session.call(child, "byName") == 9
    for method in ("above", "aside"):
        found = failure(session.call, child, method)
        assert (type(found).__name__, found.position.line) == (name, 7)
    plain = session.load({"Objects": {"?": {"type": "t.Plain", "id": "p"}}})
    assert failure(session.call, plain, "bad").position.line == 7


@BY_FAULT
@pytest.mark.parametrize("method", ["initialize", "destroy", ".init", ".destroy"])
def test_bad_constructors_and_destructors_fail_when_they_run(bad, name, text, method):
    """A class is there whose constructor is bad; making an object of it fails."""
    source = (
        f"{HEAD}Name: Main\nMethods:\n  make: {{Body: {{Return: new(Other).two()}}}}\n"
        "  other: {Body: {Return: !yaql ':Other.one()'}}\n"
        f"---\nName: Other\nMethods:\n  {method}: {bad}\n  one: {{Usage: Static, Body: {{Return: 1}}}}\n"
        "  two: {Body: {Return: 2}}\n"
    )
    session, root = session_of(source)
    assert session.call(root, "other") == 1
    if method in ("initialize", ".init"):
        found = failure(session.call, root, "make")
        assert (type(found).__name__, found.position.line) == (name, 9)
    else:
        assert session.call(root, "make") == 2


@BY_FAULT
def test_a_bad_method_is_a_finding(bad, name, text):
    """The load notes it, and a check of the package still reports it as an error with its place."""
    source = f"{HEAD}Name: Main\nMethods:\n  bad: {bad}\n  good: {{Body: {{Return: 1}}}}\n"
    session, _root = session_of(source)
    noted = [item for item in session.runtime.classes.findings if item.level == "error"]
    assert [item.position.line for item in noted] == [4]
    assert text in noted[0].message
    runtime = runtime_of(source)
    (package,) = [item for item in runtime.packages if item.name == "t"]
    checked = [item for item in check_package(runtime, package) if item.level == "error"]
    assert [item.position for item in checked] == [noted[0].position]
    assert text in checked[0].message


@BY_FAULT
def test_the_code_cache_works_beside_bad_methods(bad, name, text, tmp_path):
    """The second run takes the class from the cache and says the same of the bad method."""
    said = []
    for _ in range(2):
        session, root = session_of(class_with(bad), code_cache=tmp_path / "cache")
        assert session.call(root, "good") == 4
        found = failure(session.call, root, "bad")
        said.append((found.message, found.position, found.names))
    assert said[0] == said[1]
    assert session.runtime.code_cache.loaded
    if name not in ("DuplicateKey", "YamlSyntaxError"):
        assert session.runtime.code_cache.stored == 0


def test_a_bad_extension_fails_where_its_name_is_called():
    """An extension whose first argument cannot be read is an error for callers of its name."""
    two_keys = "{$.string(): $.int(), $.int(): $.int()}"
    session, root = session_of(
        f"""{HEAD}Name: Main
Methods:
  twice: {{Usage: Extension, Arguments: [{{x: {{Contract: {two_keys}}}}}], Body: {{Return: 1}}}}
  thrice: {{Usage: Extension, Arguments: [{{x: {{Contract: $.string()}}}}], Body: [{{Break: }}]}}
  once: {{Usage: Extension, Arguments: [{{x: {{Contract: $.int()}}}}], Body: {{Return: $x}}}}
  callTwice: {{Body: {{Return: 1.twice()}}}}
  callThrice: {{Body: {{Return: abc.thrice()}}}}
  callOnce: {{Body: {{Return: 7.once()}}}}
"""
    )
    assert session.call(root, "callOnce") == 7
    assert "at most one key" in failure(session.call, root, "callTwice").message
    assert "outside a loop" in failure(session.call, root, "callThrice").message


def test_what_is_missing_may_come_later():
    """A method refused for an unknown class is compiled again for sessions after the class was added."""
    head = HEAD.replace("std:", "o: o, std:")
    text = f"{head}Name: Main\nMethods:\n  run: {{Meta: {{o:Tag: }}, Body: {{Return: 3}}}}\n"
    runtime = Runtime()
    sources = {"a.yaml": text}
    runtime.add_package(MemoryPackage("t", sources, {"t.Main": "a.yaml"}, requirements={"o": "*"}))
    first = MemoryPackage("o", {"b.yaml": "Name: o.Other\n"}, {"o.Other": "b.yaml"})
    runtime.add_package(first)
    model = {"Objects": {"?": {"type": "t.Main", "id": "root"}}}
    session = runtime.session()
    assert "Tag" in failure(session.call, session.load(model), "run").message
    tag = "Name: o.Tag\nUsage: Meta\n"
    runtime.add_package(MemoryPackage("o", {"b.yaml": tag}, {"o.Tag": "b.yaml"}, version="0.1.0"))
    later = runtime.session()
    assert later.call(later.load(model), "run") == 3


def test_a_property_that_is_wrong_refuses_its_class():
    """What every object has cannot be left for later."""
    two_keys = "{$.string(): $.int(), $.int(): $.int()}"
    with pytest.raises(MuranoError, match="at most one key"):
        session_of(f"{HEAD}Name: Main\nProperties:\n  x: {{Contract: {two_keys}}}\n")
