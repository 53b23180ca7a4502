"""Advice about classes that install something once: the guard has to count more than properties.

Many packages have an `If` about `getAttr(installed)` around a call of a guest, and `setAttr` after
it. Another version of the package runs nothing then, and neither does a machine that was made anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vetro.muranopl.syntax import statements as st
from vetro.muranopl.syntax.blocks import flatten, scalars, values_of
from vetro.muranopl.syntax.declarations import ClassDeclaration
from vetro.muranopl.syntax.findings import Finding, Sink
from vetro.muranopl.syntax.statements import Statement, parse_body
from vetro.muranopl.syntax.targets import parse_target
from vetro.muranopl.syntax.yamltree import Node
from vetro.yaql import ast

_GUEST_METHODS = frozenset(["runCommand", "putFile"])
_AGENT_METHODS = frozenset(["call", "callRaw", "send", "sendRaw"])
#: Properties that the program writes, and that are there at the next deployment.
_KEPT = frozenset(["Out", "InOut"])
MESSAGE = (
    "what this installs is not installed again by another version of the package, nor when the machine was"
    " made anew: guard it with io.murano.system.Installation"
)


def check_guards(declaration: ClassDeclaration) -> list[Finding]:
    """W212 for each guard around calls of a guest that counts neither version nor machine."""
    methods = {
        name: flatten(parse_body(method.body, declaration.namespaces, Sink(collects=True)))
        for name, method in declaration.methods.items()
        if method.body is not None
    }
    parts = {name: _parts_of(body) for name, body in methods.items()}
    every = [part for some in parts.values() for part in some]
    if any(isinstance(part, ast.Property) and part.name == "version" for part in every):
        return []  # as `typeinfo($this).version`
    installing = _installing(parts)
    noted = {name for part in every for name in _attribute(part, "setAttr")}
    kept = {name for name, item in declaration.properties.items() if item.usage in _KEPT}
    found: list[Finding] = []
    for body in methods.values():
        variables = _variables(body)
        for number, one in enumerate(body):
            if not isinstance(one, st.If):
                continue
            inside = [*flatten(one.then), *flatten(one.otherwise)]
            if any(isinstance(item, st.Return) for item in inside):
                inside += body[number + 1 :]
            if not any(_installs(part, installing) for part in _parts_of(inside)):
                continue
            condition = list(_parts([one.condition]))
            guards = {name for part in condition for name in _attribute(part, "getAttr")}
            for part in condition:
                if isinstance(part, ast.Variable):
                    guards |= variables.get(part.name, set())
            own = {name for part in condition for name in _own(part, ast.Property)} & kept
            if guards & noted or own & _assigned(inside):
                found.append(Finding("W212", MESSAGE, one.position))
    return found


def _installing(parts: dict[str, list[ast.Node]]) -> set[str]:
    """The methods of the class that call a guest, by others of its methods as well."""
    found: set[str] = set()
    while True:
        more = {
            name
            for name, some in parts.items()
            if name not in found and any(_installs(part, found) for part in some)
        }
        if not more:
            return found
        found |= more


def _installs(part: ast.Node, methods: set[str]) -> bool:
    """Whether a part of an expression calls a guest, or one of the object's methods that do."""
    if not isinstance(part, ast.MethodCall):
        return False
    target = part.target
    is_agent = isinstance(target, (ast.Property, ast.Variable)) and target.name == "agent"
    return (
        part.name in _GUEST_METHODS
        or (is_agent and part.name in _AGENT_METHODS)
        or not methods.isdisjoint(_own(part, ast.MethodCall))
    )


def _own(part: ast.Node, kind: type[ast.Property | ast.MethodCall]) -> list[str]:
    """The name of a member of the object itself that a part of an expression reads or calls."""
    if not isinstance(part, kind) or not isinstance(part.target, ast.Variable):
        return []
    return [part.name] if part.target.name in ("", "this") else []


def _parts(nodes: Sequence[Node]) -> Iterator[ast.Node]:
    """Every part of every expression in the nodes."""
    for scalar in scalars(nodes):
        if scalar.is_expression:
            yield from ast.walk(scalar.expression)


def _parts_of(body: Iterable[Statement]) -> list[ast.Node]:
    """Every part of every expression in statements."""
    return [part for one in body for part in _parts(values_of(one))]


def _attribute(part: ast.Node, method: str) -> list[str]:
    """The name of the attribute that a call reads or writes, where it is written there."""
    if not isinstance(part, ast.MethodCall) or part.name != method or not part.arguments:
        return []
    match part.arguments[0]:
        case ast.Keyword(name=name):
            return [name]
        case ast.Constant(value=str(name)):
            return [name]
        case _:
            return []


def _variables(body: Sequence[Statement]) -> dict[str, set[str]]:
    """The attributes that the variables of a method were read from."""
    found: dict[str, set[str]] = {}
    for one in body:
        if isinstance(one, st.Assign):
            target = parse_target(one.target)
            names = {name for part in _parts([one.value]) for name in _attribute(part, "getAttr")}
            if names and target.variable is not None and not target.path:
                found.setdefault(target.variable, set()).update(names)
    return found


def _assigned(body: Iterable[Statement]) -> set[str]:
    """The properties of the object that statements assign."""
    targets = [parse_target(one.target) for one in body if isinstance(one, st.Assign)]
    return {str(one.path[0].value) for one in targets if one.is_this and len(one.path) == 1}
