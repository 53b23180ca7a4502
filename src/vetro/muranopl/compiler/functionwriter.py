"""The expressions of one function of class code: a method's body, a default, a predicate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vetro.muranopl.inplace.assigning import assign_into, assign_member
from vetro.muranopl.inplace.properties import grower
from vetro.muranopl.runtime.control_flow import paid_elements
from vetro.muranopl.syntax.names import argument_slot
from vetro.muranopl.syntax.targets import Key, Target, parse_target
from vetro.muranopl.syntax.yamltree import Node, Scalar
from vetro.yaql.kinds import LAZY, Kind

from .expressions import ContractCodegen, MuranoCodegen
from .passes.inplace_updates import write_growth

if TYPE_CHECKING:
    from .classscope import ClassScope


class FunctionWriter:
    """Writes the expressions of one function: a method body, a default, a predicate."""

    def __init__(
        self,
        scope: ClassScope,
        *,
        arguments: Sequence[str] = (),
        dollar: str = "this",
        contract: bool = False,
        scalar: Scalar | None = None,
        static: bool = False,
    ) -> None:
        self.scope = scope
        self.dollar = dollar
        self.static = static
        self.assigned: set[str] = set(arguments)
        self.grown: set[str] = set()
        """Variables that may hold a value which grows in place (`inplace`)."""
        self.kinds: dict[str, Kind] = {}
        """Variables whose kinds are known (`inference`)."""
        self._names: dict[str, str] = {}
        self.scalar = scalar
        kind = ContractCodegen if contract else MuranoCodegen
        self.codegen = kind(scope, self)

    # -- what statements need ------------------------------------------------------------------

    def value(self, node: Scalar) -> str:
        """Source of the settled value of an expression."""
        return self.codegen.final(node.expression).text

    def condition(self, node: Scalar) -> str:
        """Source that is truthy when the expression is."""
        return self.codegen.condition(node.expression)

    def drained(self, node: Scalar) -> str:
        """Source that evaluates the expression and drops its value."""
        code = self.codegen.value(node.expression, None)
        if code.kinds & LAZY:
            return self.codegen.settle(code).text
        return code.text

    def items(self, node: Scalar) -> str:
        """Source of an iterable for `for`."""
        return f"{self.constant(paid_elements)}(S, {self.value(node)})"

    def constant(self, value: object) -> str:
        """The name of the module global that holds the object."""
        return self.scope.constant(value)

    def variable(self, name: str) -> str:
        """The name of the Python local that holds a MuranoPL variable."""
        known = self._names.get(name)
        if known is None:
            known = argument_slot(name)
            self._names[name] = known
        return known

    def growth(self, target: Scalar, value: Node) -> list[str] | None:
        """Lines of an assignment that enlarges its target's value; None for other assignments."""
        return write_growth(self, target, value)

    # -- assignments ---------------------------------------------------------------------------

    def assignment(self, target: Scalar, value: str) -> list[str]:
        """Lines that assign the value's source to a target."""
        parsed = parse_target(target)
        if parsed.is_this and not parsed.path:
            name = f"${parsed.variable}"
            return [f"raise ValueError('Cannot assign to {name}')"]
        if parsed.variable is not None and not parsed.is_this:
            return self._to_variable(parsed, parsed.variable, value)
        if parsed.is_this and len(parsed.path) == 1 and parsed.operation == "set":
            line = self._own_property(parsed.path[0], value)
            if line is not None:
                return [line]
        type_ = self.constant(self.scope.type)
        if parsed.operation in ("append", "set") and self._is_own_container(parsed):
            path, fresh = self.scope.fresh(), self.scope.fresh()
            operation = "append" if parsed.operation == "append" else "assign"
            grow = self.constant(grower(operation, len(parsed.path)))
            return [
                f"{path} = {self.path_source(parsed.path)}",
                f"{fresh} = {value}",
                f"if not {grow}(S, this, {path}, {operation!r}, ({fresh},), "
                f"None, None): {self.constant(assign_member)}(S, {type_}, this, {path}, {fresh}, "
                f"{parsed.operation!r}, None)",
            ]
        holder = "this"
        if parsed.type_root is not None:
            holder = self.codegen.type_source(parsed.type_root)
        return [
            f"{self.constant(assign_member)}(S, {type_}, {holder}, {self.path_source(parsed.path)}, "
            f"{value}{self._operation(parsed)})"
        ]

    def _to_variable(self, target: Target, name: str, value: str) -> list[str]:
        local = self.variable(name)
        if not target.path and target.operation == "set":
            return [f"{local} = {value}"]
        # The value is computed first: it may read the variable.
        fresh = self.scope.fresh()
        path = self.path_source(target.path)
        position = self._operation(target) or ", 'set', None"
        if name in self.grown:
            position = position.replace(", 'append',", ", 'grow',")
        return [
            f"{fresh} = {value}",
            f"{local} = {self.constant(assign_into)}(S, {self.constant(self.scope.type)}, {name!r}, "
            f"{local}, {path}, {fresh}{position})",
        ]

    def _is_own_container(self, target: Target) -> bool:
        """True for a target inside a declared property of `$this`."""
        if (
            self.static
            or self.scope.type.package.legacy
            or not target.is_this
            or not target.path[0].is_name
        ):
            return False
        found = self.scope.type.property_declarations(target.path[0].value)
        return len(found) == 1 and not found[0].is_static and found[0].native is None

    def _own_property(self, key: Key, value: str) -> str | None:
        """Assignment to a property of `$this`."""
        if self.static or not key.is_name:
            return None
        type_, name = self.scope.type, key.value
        found = type_.property_declarations(name)
        if not found:
            if not name.isascii():
                return None
            return f"this.q{type_.index}_{name} = {value}"
        declaration = found[0]
        if len(found) > 1 or declaration.is_static or declaration.native or not name.isascii():
            return None
        return f"this.w_{name}(S, {value})"

    def path_source(self, path: Sequence[Key]) -> str:
        parts = [
            self.codegen.final(key.expression).text if key.expression is not None
            else repr(key.value) if isinstance(key.value, (str, int, type(None)))
            else self.constant(key.value)
            for key in path
        ]  # fmt: skip
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    def _operation(self, target: Target) -> str:
        if target.operation == "set":
            return ""
        position = "None"
        if target.position is not None:
            position = self.codegen.final(target.position).text
        return f", {target.operation!r}, {position}"
