"""Find assignments that enlarge their target's value, and write them as operations in place.

`$l: $l.append($x)`, `$.t.r: $.t.r + {…}`, `$m: $m.set($k, $v)`, `$t: $t.mergeWith($u)` and
`$x.append(): $v` are such assignments. `$.p: $.p.delete($x)` removes elements: those that stay in
the property need not be checked again. `inplace` implements the operations at run
time; when an operation does not apply there, the plain assignment is executed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vetro.muranopl.inplace.growing import UNCHANGED, grow_variable
from vetro.muranopl.inplace.properties import grower, growth_token, value_before
from vetro.muranopl.runtime import extensions
from vetro.muranopl.syntax import statements as st
from vetro.muranopl.syntax.targets import Key, Target
from vetro.muranopl.syntax.yamltree import Node, Scalar
from vetro.yaql import ast
from vetro.yaql.kinds import LAZY, LIST, MAPPING

from .inference import parse_target_quietly

if TYPE_CHECKING:
    from vetro.muranopl.compiler.functionwriter import FunctionWriter

_METHODS = {"append": (1, None), "set": (1, 2), "mergeWith": (1, 1), "delete": (1, None)}


@dataclass(frozen=True, slots=True)
class Growth:
    """`target: target.name(arguments)`, or with the operator `+` (name `+`)."""

    target: Target
    name: str
    receiver: ast.Expression
    arguments: tuple[ast.Expression, ...]
    node: ast.Expression

    @property
    def fills_list(self) -> bool:
        """True when it may lengthen a list."""
        return self.name in ("append", "+")


def find_growth(target: Scalar, value: Node) -> Growth | None:
    """The growth that the form of an assignment expresses; None for other forms."""
    parsed = parse_target_quietly(target)
    if parsed is None or parsed.type_root is not None or parsed.operation != "set":
        return None
    if not isinstance(value, Scalar) or not value.is_expression:
        return None
    if parsed.is_this and not parsed.path:
        return None
    if not all(_is_plain(key) for key in parsed.path):
        return None
    node = value.expression
    place = target.expression
    if isinstance(node, ast.MethodCall) and not node.safe:
        bounds = _METHODS.get(node.name)
        if bounds is None or not _same_place(place, node.target):
            return None
        plain = tuple(item for item in node.arguments if isinstance(item, ast.Expression))
        if len(plain) != len(node.arguments) or len(plain) < bounds[0]:
            return None
        if bounds[1] is not None and len(plain) > bounds[1]:
            return None
        if node.name == "delete" and not (parsed.is_this and len(parsed.path) == 1):
            return None
        return Growth(parsed, node.name, node.target, plain, node)
    if (
        isinstance(node, ast.Binary)
        and node.operator == "+"
        and _same_place(place, node.left)
        and _is_container(node.right)
    ):
        return Growth(parsed, "+", node.left, (node.right,), node)
    return None


def grown_variables(body: Iterable[st.Statement]) -> set[str]:
    """Variables of a method that may hold a `Grown`."""
    found: set[str] = set()
    for statement in body:
        if isinstance(statement, st.Assign):
            target = parse_target_quietly(statement.target)
            if target is None or target.is_this or not target.variable:
                continue
            fills = target.operation == "append"
            if fills or find_growth(statement.target, statement.value) is not None:
                found.add(target.variable)
    return found


def write_growth(writer: FunctionWriter, target: Scalar, value: Node) -> list[str] | None:
    """Lines of an assignment that is a growth; None when a plain assignment must be written."""
    growth = find_growth(target, value)
    codegen = writer.codegen
    if growth is None or writer.scope.type.package.legacy:
        return None
    if growth.name == "+":
        if codegen.library.is_overridden("#operator_+", False):
            return None
        kinds = codegen.value(growth.arguments[0], None).kinds
        if kinds & ~(LIST | LAZY | MAPPING):
            return None
    elif codegen.library.is_overridden(growth.name, True) or extensions.has_extension(
        writer.scope.type, growth.name
    ):
        return None
    if not growth.target.is_this and growth.target.variable not in writer.grown:
        return None
    if growth.target.is_this:
        return _property_lines(writer, growth, target)
    return _variable_lines(writer, growth, target)


def _variable_lines(writer: FunctionWriter, growth: Growth, target: Scalar) -> list[str]:
    assert growth.target.variable is not None
    local = writer.variable(growth.target.variable)
    lines, names = _arguments(writer, growth)
    made = writer.scope.fresh()
    slow, plain = _plain_value(writer, growth, names)
    lines.append(
        f"{made} = {writer.constant(grow_variable)}(S, {local}, {_path(writer, growth.target.path)}"
        f", {_operation(growth)!r}, ({', '.join(names)},), {slow})"
    )
    lines.append(f"if {made} is not {writer.constant(UNCHANGED)}: {local} = {made}")
    lines.append("else:")
    lines.extend("    " + line for line in writer.assignment(target, plain))
    return lines


def _property_lines(writer: FunctionWriter, growth: Growth, target: Scalar) -> list[str] | None:
    name = growth.target.path[0].value
    type_ = writer.scope.type
    found = type_.property_declarations(name) if isinstance(name, str) else []
    if writer.static or not growth.target.path[0].is_name or not str(name).isascii():
        return None
    if len(found) != 1 or found[0].is_static or found[0].native is not None:
        return None
    lines: list[str] = []
    before = "None"
    if any(_may_run_code(item) for item in growth.arguments):
        before = writer.scope.fresh()
        whole = len(growth.target.path) == 1 and not growth.fills_list
        lines.append(f"{before} = {writer.constant(growth_token)}(this, {name!r}, {whole})")
    computed, names = _arguments(writer, growth)
    lines.extend(computed)
    receiver = None
    if before != "None" and len(growth.target.path) == 1:
        # The arguments are added to the list or map as it was before they were computed.
        receiver = f"{writer.constant(value_before)}(this, {name!r}, {before})"
    slow, plain = _plain_value(writer, growth, names, receiver)
    operation = _operation(growth)
    grow = writer.constant(grower(operation, len(growth.target.path)))
    lines.append(
        f"if not {grow}(S, this, "
        f"{_path(writer, growth.target.path)}, {operation!r}, ({', '.join(names)},), "
        f"{slow}, {before}):"
    )
    lines.extend("    " + line for line in writer.assignment(target, plain))
    return lines


def _operation(growth: Growth) -> str:
    if growth.name == "+":
        return "extend"
    if growth.name == "set":
        return "put" if len(growth.arguments) == 2 else "update"
    return {"append": "append", "mergeWith": "merge", "delete": "delete"}[growth.name]


def _arguments(writer: FunctionWriter, growth: Growth) -> tuple[list[str], list[str]]:
    """Lines that compute the arguments, and the locals that hold them."""
    lines: list[str] = []
    names: list[str] = []
    for item in growth.arguments:
        name = writer.scope.fresh()
        lines.append(f"{name} = {writer.codegen.final(item).text}")
        names.append(name)
    return lines, names


def _plain_value(
    writer: FunctionWriter, growth: Growth, names: Sequence[str], receiver: str | None = None
) -> tuple[str, str]:
    """The slot of the call, and source of its value for computed arguments."""
    codegen = writer.codegen
    receiver = receiver or codegen.final(growth.receiver).text
    if growth.name == "+":
        slot = codegen.slot("operator", ("+",), growth.node)
        call = f"{slot}(S, {receiver}, {names[0]})"
    else:
        shape = ("",) * len(names)
        slot = codegen.slot("method", (growth.name, shape, ()), growth.node)
        call = f"{slot}(S, {receiver}, None, {', '.join(names)})"
    return slot, f"y_finalize({call}, S)"


def _path(writer: FunctionWriter, path: Sequence[Key]) -> str:
    return writer.path_source(path)


def _is_plain(key: Key) -> bool:
    """True for a constant or a variable: reading it twice gives the same value."""
    if key.expression is None:
        return isinstance(key.value, str) or type(key.value) is int
    return isinstance(key.expression, ast.Variable) and key.expression.name not in ("",)


def _is_container(node: ast.Expression) -> bool:
    if isinstance(node, (ast.ListLiteral, ast.MapLiteral)):
        return True
    return isinstance(node, ast.Call) and node.name in ("list", "dict")


def _same_place(one: ast.Node, other: ast.Node) -> bool:
    if isinstance(one, ast.Variable):
        return isinstance(other, ast.Variable) and (
            one.name == other.name or {one.name, other.name} == {"", "this"}
        )
    if isinstance(one, ast.Property):
        return (
            isinstance(other, ast.Property)
            and not other.safe
            and one.name == other.name
            and _same_place(one.target, other.target)
        )
    if isinstance(one, ast.Index):
        return (
            isinstance(other, ast.Index)
            and len(one.arguments) == len(other.arguments) == 1
            and _same_key(one.arguments[0], other.arguments[0])
            and _same_place(one.target, other.target)
        )
    return False


def _same_key(one: ast.Node, other: ast.Node) -> bool:
    if isinstance(one, ast.Constant):
        return (
            isinstance(other, ast.Constant)
            and type(one.value) is type(other.value)
            and one.value == other.value
        )
    if isinstance(one, ast.Keyword):
        return isinstance(other, ast.Keyword) and one.name == other.name
    return isinstance(one, ast.Variable) and _same_place(one, other)


def _may_run_code(node: ast.Node) -> bool:
    """True when evaluating may run methods of objects, which may change the property."""
    return any(
        isinstance(item, ast.MethodCall)
        or (
            isinstance(item, ast.Call) and item.name not in ("list", "dict", "str", "len", "format")
        )
        for item in ast.walk(node)
    )
