"""Functions in contracts that nothing has (section 28): `$.itn()`.

A contract may use every method of a value, and is read when a value is set: so nothing else finds them before
somebody deploys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from vetro.muranopl.contracts.plan import CONTRACT_FUNCTIONS
from vetro.muranopl.runtime import extensions, inline_caches
from vetro.muranopl.syntax.blocks import scalars
from vetro.muranopl.syntax.findings import Finding, did_you_mean
from vetro.muranopl.syntax.yamltree import Scalar
from vetro.yaql import ast
from vetro.yaql.forms import SPECIAL_METHODS

if TYPE_CHECKING:
    from vetro.muranopl.classes.types import MuranoType

_OBJECTS = frozenset(("class", "template"))


def unknown_functions(type_: MuranoType) -> Iterator[Finding]:
    """Findings of the contracts of a class's properties and arguments."""
    contracts = [item.contract for item in type_.properties.values() if item.native is None]
    for method in type_.methods.values():
        if method.native is None:
            contracts += [item.contract for item in method.arguments or []]
    for scalar in scalars(contracts):
        if scalar.is_expression:
            yield from _in_chain(type_, scalar)


def _in_chain(type_: MuranoType, scalar: Scalar) -> Iterator[Finding]:
    calls: list[ast.MethodCall] = []
    node: ast.Node = scalar.expression
    while isinstance(node, ast.MethodCall):
        calls.append(node)
        node = node.target
    # Objects have methods of their own.
    if not isinstance(node, ast.Variable) or node.name or {one.name for one in calls} & _OBJECTS:
        return
    library = type_.runtime.library_for(type_.package)
    for call in reversed(calls):
        name = call.name
        if (
            name in CONTRACT_FUNCTIONS
            or name in SPECIAL_METHODS
            or name in inline_caches.SCOPED_METHODS
            or library.has(name, True)
            or extensions.has_extension(type_, name)
        ):
            continue
        hint = did_you_mean(name, CONTRACT_FUNCTIONS) or library.suggest(name, True)
        said = f"; {hint}" if hint else ""
        message = f"{scalar.value!r} is not a contract: there is no function {name}{said}"
        yield Finding("W048", message, scalar.position_of(call.start))
        return
