"""Expressions and statements given at run time, in the context of an object or a class.

They are compiled as code of a class (by default that of the object): with its namespaces, its
package's functions and its private properties. The caller gives variables; statements update them.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from vetro.muranopl.classes.objects import MuranoObject
from vetro.muranopl.classes.types import MuranoType
from vetro.muranopl.compiler.functionwriter import FunctionWriter
from vetro.muranopl.compiler.methodcode import BodyWriter
from vetro.muranopl.syntax.blocks import assigned_names, flatten
from vetro.muranopl.syntax.expressions import parse_expression
from vetro.muranopl.syntax.statements import For, Repeat, While, parse_body
from vetro.muranopl.syntax.yamltree import Scalar, Sequence, Source, load_documents
from vetro.muranopl.values.containers import Value, freeze
from vetro.muranopl.values.errors import DslSyntaxError, Position
from vetro.yaql import YaqlParsingException

if TYPE_CHECKING:
    from vetro.muranopl.runtime.run import Run

    from .runtime import Runtime

_FILE = "<input>"
_KEPT = 512
_Compiled = Callable[..., Any]
_compiled: weakref.WeakKeyDictionary[MuranoType, dict[object, _Compiled]] = (
    weakref.WeakKeyDictionary()
)


def _remembered(scope: MuranoType, key: object, make: Callable[[], _Compiled]) -> _Compiled:
    table = _compiled.setdefault(scope, {})
    known = table.get(key)
    if known is None:
        if len(table) >= _KEPT:
            table.pop(next(iter(table)))
        known = table[key] = make()
    return known


def scope_of(runtime: Runtime, this: MuranoObject | MuranoType | None) -> MuranoType:
    """The class in whose scope a text is compiled."""
    if isinstance(this, MuranoType):
        return this
    return runtime.shelf.core.find_type("io.murano.Object") if this is None else this.type


def _expression(text: str) -> Scalar:
    source = Source(_FILE, text)
    scalar = Scalar(text, source, 0, len(text), 1, 1, plain=True)
    try:
        scalar.expression = parse_expression(text)
    except YaqlParsingException as error:
        place = scalar.position_of(error.position or 0)
        raise DslSyntaxError(
            f"not an expression: {error.message}", position=place, hint=error.hint
        ) from error
    return scalar


def _names(variables: Mapping[str, object]) -> tuple[str, ...]:
    for name in variables:
        if not name.isidentifier() or name == "this":
            raise ValueError(f"{name!r} is not the name of a variable")
    return tuple(sorted(variables))


def evaluate(
    run: Run,
    text: str,
    this: MuranoObject | MuranoType | None,
    variables: Mapping[str, object],
    scope: MuranoType,
) -> Value:
    """The value of an expression. Raises DslSyntaxError for text that is not an expression."""
    names = _names(variables)
    static = not isinstance(this, MuranoObject)

    def make() -> _Compiled:
        scalar = _expression(text)
        module = scope.own_code().scope.detached()
        module.static = static
        writer = FunctionWriter(module, arguments=names, static=static)
        unit = module.unit
        unit.method = "(expression)"
        unit.at(scalar.position, text)
        parameters = "".join(f", {writer.variable(name)}" for name in names)
        value = writer.value(scalar)
        unit.write(f"def m_expression(this, S{parameters}): return {value}")
        module.execute()
        return module.namespace["m_expression"]

    function = _remembered(scope, ("expression", text, names, static), make)
    return function(this, run, *(freeze(variables[name]) for name in names))


def execute(
    run: Run,
    text: str,
    this: MuranoObject | MuranoType | None,
    variables: MutableMapping[str, object],
    scope: MuranoType,
) -> Value:
    """Run statements (YAML, as in a `Body`); returns the value of `Return`.

    Assigned variables are kept. A single expression returns its value. Raises DslSyntaxError.
    """
    static = not isinstance(this, MuranoObject)
    names = _names(variables)

    def make() -> _Compiled:
        return _block(text, scope, names, static)

    function = _remembered(scope, ("block", text, names, static), make)
    return function(this, run, variables)


def _nothing(_this: object, _run: Run, _variables: object) -> None:
    """An empty document."""


def _block(text: str, scope: MuranoType, names: tuple[str, ...], static: bool) -> _Compiled:
    documents = load_documents(text, _FILE, parse_expression=parse_expression)
    if len(documents) > 1:
        raise DslSyntaxError(
            "the statements are several YAML documents; write them as one",
            position=Position(_FILE, 1, 1),
        )
    if not documents:
        return _nothing
    node = documents[0]
    items = node.items if isinstance(node, Sequence) else [node]
    last = items[-1] if items else None
    body = parse_body(node, scope.namespaces)
    module = scope.own_code().scope.detached()
    module.static = static
    writer = FunctionWriter(module, arguments=names, static=static)
    unit = module.unit
    unit.method = "(input)"
    unit.at(node.position, "")
    flat = flatten(body)
    assigned = sorted(assigned_names(flat) | set(names))
    writer.assigned.update(assigned)
    unit.write("def m_input(this, S, V):")
    for name in assigned:
        unit.write(f"{writer.variable(name)} = V.get({name!r})", 1)
    unit.write("try:", 1)
    lines = BodyWriter(unit, writer, 2)
    if any(isinstance(item, (While, For, Repeat)) for item in flat):
        lines.line("turns = 0")
    # A trailing expression is returned: its value is what a user wants to see.
    shown = isinstance(last, Scalar) and last.is_expression
    lines.write(body[:-1] if shown else body)
    if shown and isinstance(last, Scalar):
        lines.at(last.position, str(last.value))
        lines.line(f"return {writer.value(last)}")
    unit.write("finally:", 1)
    for name in assigned:
        unit.write(f"V[{name!r}] = {writer.variable(name)}", 2)
    if not assigned:
        unit.write("pass", 2)
    module.execute()
    return module.namespace["m_input"]
