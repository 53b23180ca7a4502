"""Fields of a form that are host names of machines: what another machine has is not offered again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from vetro.packages.forms.definition import Definition
from vetro.packages.forms.source import Marked
from vetro.yaql import ast


def host_fields(definition: Definition) -> frozenset[str]:
    """The paths (``page.field``) of fields that a machine's name is, or that its name is made of by
    ``generateHostname()``.

    A machine is what has a name and a flavor, as in a model. None where a form chooses regions: there one
    name may be two machines.
    """
    parts = [definition.application, *definition.templates.values()]
    found = [path for part in parts for path in _named(part)]
    return frozenset() if _REGION in found else frozenset(found)


_REGION = "regionName"


def _named(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        given = cast("dict[object, object]", node)
        name = given.get("name")
        if _REGION in given:
            yield _REGION
        if "flavor" in given and isinstance(name, Marked):
            yield from _field(name.tree)
        for one in given.values():
            yield from _named(one)
    elif isinstance(node, list):
        for one in cast("list[object]", node):
            yield from _named(one)


def _field(tree: ast.Node) -> Iterator[str]:
    if isinstance(tree, ast.Call) and tree.name == "generateHostname" and tree.arguments:
        tree = tree.arguments[0]
    if isinstance(tree, ast.Property) and isinstance(tree.target, ast.Property):
        root = tree.target.target
        if isinstance(root, ast.Variable) and root.name in ("", "forms"):
            yield ".".join((tree.target.name, tree.name))
