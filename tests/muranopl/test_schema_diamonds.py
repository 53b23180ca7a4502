"""Schemas of classes with many ways to one ancestor."""

import pytest

from vetro.muranopl import MemoryPackage, Runtime
from vetro.muranopl.runtime import metadata

MEMBERS = "Properties: {x: {META Contract: $.int()}}\nMethods: {run: {META Body: {Return: 1}}}\n"


def diamonds(count, meta):
    """Classes, each of which has its parent by two ways; the members are declared in each."""
    members = MEMBERS.replace("META", "Meta: [T: ]," if meta else "")
    head = "Namespaces: {=: t}\nName: T\nUsage: Meta\nInherited: true\nCardinality: Many\n---\nName: B0\n"
    parts = [head + members]
    names = ["T", "B0"]
    for number in range(1, count + 1):
        parts += [f"Name: {side}{number}\nExtends: B{number - 1}\n" for side in "LR"]
        parts.append(
            f"Name: B{number}\nExtends: [L{number}, R{number}]\n" + MEMBERS.replace("META", "")
        )
        names += [f"{side}{number}" for side in "LRB"]
    runtime = Runtime()
    classes = dict.fromkeys([f"t.{name}" for name in names], "a.yaml")
    runtime.add_package(MemoryPackage("t", {"a.yaml": "---\n".join(parts)}, classes))
    return runtime


def visits(monkeypatch, count, meta):
    """How often the schema of the last class asks what a class or member inherits from."""
    runtime = diamonds(count, meta)
    asked = []
    real = metadata._inherits_from
    with monkeypatch.context() as patched:
        patched.setattr(metadata, "_inherits_from", lambda one: asked.append(one) or real(one))
        schema = runtime.schema(f"t.B{count}")
    assert list(schema[""]["properties"]) == ["x"]
    return len(asked)


@pytest.mark.parametrize("meta", [False, True])
def test_a_schema_visits_each_ancestor_a_few_times(monkeypatch, meta):
    """Twice as many diamonds are at most four times the work: ways to an ancestor do not count."""
    assert visits(monkeypatch, 8, meta) <= 4 * visits(monkeypatch, 4, meta)
    assert visits(monkeypatch, 16, meta) <= 4 * visits(monkeypatch, 8, meta)
