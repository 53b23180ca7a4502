"""Classes to Python code.

After this phase every method, property and contract of a class is compiled. All members, inherited
ones included, are attributes of the class's Python class, so that nothing is looked up by name
while a program runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from vetro.muranopl.classes.lock_policy import NONE, LockPolicy
from vetro.muranopl.classes.types import Argument, Method, MuranoType, Property
from vetro.muranopl.contracts.arguments import ArgumentFallback, KeywordFallback, RestFallback
from vetro.muranopl.contracts.chains import Chain as ContractChain
from vetro.muranopl.contracts.plan import build_contract
from vetro.muranopl.contracts.tree import MISSING, Contract, Guard
from vetro.muranopl.model.initialising import (
    PropertyWriter,
)
from vetro.muranopl.runtime import metadata
from vetro.muranopl.runtime.nativecalls import (
    NativeCall,
    instance_function,
    static_function,
)
from vetro.muranopl.runtime.traces import CodeUnit
from vetro.muranopl.syntax import blocks, statements
from vetro.muranopl.syntax.findings import Finding
from vetro.muranopl.syntax.names import python_name
from vetro.muranopl.values.containers import Value
from vetro.muranopl.values.errors import DslSyntaxError, MuranoError, Position
from vetro.yaql.kinds import BOOLEAN, INTEGER, STRING, Kind

from . import methodcode, structures
from .classscope import ClassScope
from .functionwriter import FunctionWriter
from .passes.inference import infer_kinds
from .passes.inplace_updates import grown_variables
from .passes.leaf_methods import is_leaf

if TYPE_CHECKING:
    from vetro.muranopl.contracts.running import ContractRun
    from vetro.muranopl.syntax.yamltree import Node


class Probes(Protocol):
    """What records which statements run (`tools.coverage`)."""

    def probe(self, type_: MuranoType, scope: ClassScope) -> Callable[[Position], str] | None:
        """Source that records that a statement was reached; None for a class not recorded."""
        ...


class ClassCode:
    """The compiled form of one class's own declarations."""

    def __init__(self, type_: MuranoType) -> None:
        self.type = type_
        self.unit = CodeUnit.create(type_, type_.full_name)
        self.scope = ClassScope(type_, self.unit)
        self.contracts: dict[str, Contract] = {}
        """Contracts of the properties."""
        self.defaults: dict[str, Callable[[Value, ContractRun], Value] | None] = {}
        """Functions that make the defaults of the properties, where these are not constant."""
        self.constant_defaults: dict[str, object] = {}
        for item in type_.properties.values():
            if item.native is None:
                self._property(item)
        self.writers: dict[str, Callable[..., None]] = {}
        """`w_NAME` of properties that no other class declares."""
        written = [self._write_writer(item) for item in type_.properties.values()]
        pending: list[tuple[Method, str]] = []
        for method in type_.methods.values():
            if method.native is not None:
                self._native(method)
            else:
                pending.append((method, self._method_or_refusal(method)))
        self.scope.execute()
        for method, name in pending:
            method.function = self.scope.namespace[name]
        for name, function in filter(None, written):
            self.writers[name] = self.scope.namespace[function]
        metadata.check_attached(type_)

    # -- properties ----------------------------------------------------------------------------

    def _property(self, item: Property) -> None:
        self.scope.static = item.is_static
        self.contracts[item.name] = build_contract(item.contract, self.scope)
        default = item.default
        if default is None:
            return
        if structures.is_constant(default):
            self.constant_defaults[item.name] = structures.constant_value(default)
        else:
            self.defaults[item.name] = self.scope.structure_function(
                default, f"default of {item.name}"
            )

    def _write_writer(self, item: Property) -> tuple[str, str] | None:
        """Write `w_NAME` for assignments; None when other declarations of the property exist."""
        if item.native is not None or item.is_static:
            return None
        if len(self.type.all_declarations(item.name)) > 1:
            return None
        contract = self.contracts[item.name]
        writer = PropertyWriter(item.name, [(item, contract)], [item])
        function = self.scope.fresh_function(f"w_{python_name(item.name)}")
        unit = self.unit
        self.scope.begin(function)
        unit.write(f"def {function}(this, S, v):")
        slow = self.scope.constant(writer)
        if writer.read_only:
            unit.write(f"if not S.building: {slow}.refuse(this)", 1)
        condition = self.guard(contract, "v")
        test = "" if condition is None else f"if not ({condition}): "
        unit.write(f"{test}v = {slow}.write(this, S, v)", 1)
        unit.write(f"this.{self.scope.slot('p_' + item.name)} = v", 1)
        return item.name, function

    # -- methods -------------------------------------------------------------------------------

    def _native(self, method: Method) -> None:
        native = method.native
        assert native is not None
        title = f"{self.type.name}.{method.name}"
        call = NativeCall(native, title)
        if native.is_static:
            holder = self.type.native.python_class if self.type.native else None
            method.function = static_function(call, self.type, holder, method.name)
        else:
            method.function = instance_function(call, self.type, native, method.name)

    def _method_or_refusal(self, method: Method) -> str:
        """Write the function of a method; for a faulty method one that raises its error."""
        scope, unit = self.scope, self.unit
        if method.error is None:
            mark = scope.mark()
            scope.refuse = functools.partial(self._refuse, method)
            try:
                metadata.check_method(method)
                return self._method(method)
            except MuranoError as error:
                scope.return_to(mark)
                self._refuse(method, error)
            finally:
                scope.refuse = None
        assert method.error is not None
        unit.method = method.name
        unit.at(method.error.position or method.position, "")
        name = scope.fresh_function(f"m_{python_name(method.name)}")
        scope.begin(name)
        unit.write(f"def {name}(this, S, *given, **named): {scope.refusal(method.error)}()")
        unit.method = ""
        return name

    def _refuse(self, method: Method, error: MuranoError) -> None:
        """Record a method's error: report a finding now, raise the error when it is called."""
        runtime = self.type.runtime
        error.position = error.position or method.position
        method.error = error
        runtime.classes.findings.append(Finding.of(error, method.position))
        if not isinstance(error, DslSyntaxError):
            # A package that is added later may supply the missing name.
            runtime.shelf.lacks_names = True

    def _method(self, method: Method) -> str:
        """Write the function of a method; returns its name in the generated module."""
        body = statements.parse_body(method.body, self.type.namespaces)
        flat = blocks.flatten(body)
        unit = self.unit
        unit.method = method.name
        unit.at(method.position, "")
        arguments = method.arguments or []
        self.scope.static = method.is_static
        names = [item.name for item in arguments]
        contracts = {item.name: build_contract(item.contract, self.scope) for item in arguments}
        writer = FunctionWriter(self.scope, arguments=names, static=method.is_static)
        known = _argument_kinds(arguments, contracts)
        writer.kinds = infer_kinds(body, flat, known, self.scope.library)
        name = self.scope.fresh_function(f"m_{python_name(method.name)}")
        self.scope.begin(name)
        unit.write(f"def {name}({', '.join(['this', 'S', *self._parameters(arguments, writer)])}):")
        leaf = is_leaf(self.type, method, flat, self.scope.library)
        lines = methodcode.BodyWriter(unit, writer, 1 if leaf else 2)
        coverage = self.type.runtime.coverage
        if coverage is not None:
            lines.probe = coverage.probe(self.type, self.scope)
        if any(isinstance(item, statements.Try) for item in flat) and method.body is not None:
            lines.untraced = blocks.untraced_variables(flat, blocks.expressions_of(method.body))
        lock = NONE if leaf else self.type.runtime.lock_of(method)
        if leaf:
            title = self.scope.constant(f"{self.type.name}::{method.name}")
            unit.write("S.fuel = fuel = S.fuel - 1", 1)
            unit.write(f"if fuel < 0 or S.room < 1: enter_unlocked(S, {title})", 1)
        else:
            self._enter(method, lock)
            unit.write("try:", 1)
        self._prologue(method, arguments, contracts, writer, lock, lines)
        if any(isinstance(item, _LOOPS) for item in flat):
            lines.line("turns = 0")
        assigned = blocks.assigned_names(flat) - {item.name for item in arguments}
        variables = [writer.variable(item) for item in sorted(assigned)]
        if variables:
            lines.line(f"{' = '.join(variables)} = None")
        writer.assigned.update(assigned)
        if not self.type.package.legacy:
            writer.grown = grown_variables(flat)
        lines.write(body)
        unit.at(method.position, "")
        if not leaf:
            unit.write("finally:", 1)
            unit.write("S.room = room", 2)
        if lock.kind != "none":
            unit.write("if L is not None: end_call(S, L)", 2)
        unit.method = ""
        self.scope.static = False
        return name

    def _enter(self, method: Method, lock: LockPolicy) -> None:
        """Write a call's guard: one test for budget, depth and the absence of other threads."""
        write, constant = self.unit.write, self.scope.constant
        title = constant(f"{self.type.name}::{method.name}")
        if lock.kind != "none":
            write("L = None", 1)
        write("room = S.room", 1)
        write("S.fuel = fuel = S.fuel - 1", 1)
        if lock.kind == "this":
            enter = f"L = begin_call(S, this, {constant(method)}, {title})"
            write(f"if room < S.floor or fuel < 0: {enter}", 1)
        else:
            write(f"if room < 1 or fuel < 0: enter_unlocked(S, {title})", 1)
        write("S.room = room - 1", 1)

    def _parameters(self, arguments: list[Argument], writer: FunctionWriter) -> list[str]:
        missing = self.scope.constant(MISSING)
        parts: list[str] = []
        for item in arguments:
            name = writer.variable(item.name)
            if item.usage == "VarArgs":
                parts.append(f"*{name}")
            elif item.usage == "KwArgs":
                parts.append(f"**{name}")
            else:
                parts.append(f"{name}={missing}")
        return parts

    def _prologue(
        self,
        method: Method,
        arguments: list[Argument],
        contracts: Mapping[str, Contract],
        writer: FunctionWriter,
        lock: LockPolicy,
        lines: methodcode.BodyWriter,
    ) -> None:
        scope = self.scope
        title = scope.constant(f"{self.type.name}::{method.name}")
        for item in arguments:
            self._argument(method, item, contracts[item.name], writer, lines)
        if lock.kind == "arguments":
            values = [writer.variable(item) for item in lock.arguments]
            receiver = "this" if lock.on_this else "None"
            key = f"({receiver}, {scope.constant(method)}, {', '.join(values)})"
            lines.line(f"if S.floor > 1: L = enter_call(S, {key}, {title})")

    def _argument(
        self,
        method: Method,
        item: Argument,
        contract: Contract,
        writer: FunctionWriter,
        lines: methodcode.BodyWriter,
    ) -> None:
        scope = self.scope
        name = writer.variable(item.name)
        place = f"{self.type.name}::{method.name}({item.name}"
        default = item.default
        if item.usage == "VarArgs":
            fallback = scope.constant(RestFallback(contract, place, item))
            lines.line(f"{name} = {fallback}(this, S, {name})")
            return
        if item.usage == "KwArgs":
            fallback = scope.constant(KeywordFallback(contract, place, item))
            lines.line(f"{name} = {fallback}(this, S, {name})")
            return
        make: Callable[[object, ContractRun], object] | None = None
        constant: object = None
        if default is not None:
            if structures.is_constant(default):
                constant = structures.constant_value(default)
            else:
                make = scope.structure_function(default, f"default of {item.name}")
        owner_is_this = method.name == ".init"
        fallback = scope.constant(
            ArgumentFallback(contract, place, item, constant, make, owner_is_this)
        )
        condition = self.guard(contract, name)
        if condition is None:
            lines.line(f"{name} = {fallback}(this, S, {name})")
        else:
            lines.line(f"if not ({condition}): {name} = {fallback}(this, S, {name})")

    def evaluate(self, node: Node, this: object, run: ContractRun) -> Value:
        """Evaluate a structure of this class's source now."""
        scope = self.scope.detached()
        function = scope.structure_function(node, "metadata")
        scope.execute()
        return function(this, run)

    def guard(self, contract: Contract, name: str) -> str | None:
        """Source of a condition under which a value passes a contract unchanged."""
        tools = Guard(self.scope.constant, self.scope.fresh, self.type.runtime.final_types)
        return contract.guard(name, tools)


_LOOPS = (statements.While,)


def _argument_kinds(
    arguments: list[Argument], contracts: Mapping[str, Contract]
) -> dict[str, Kind]:
    """Kinds of the arguments whose contracts guarantee a non-null scalar."""
    found: dict[str, Kind] = {}
    for item in arguments:
        contract = contracts[item.name]
        if (
            item.usage == "Standard"
            and isinstance(contract, ContractChain)
            and not contract.nullable
        ):
            kind = _SCALAR_KINDS.get(contract.scalar)
            if kind is not None:
                found[item.name] = kind
    return found


_SCALAR_KINDS: dict[type[object] | None, Kind] = {int: INTEGER, str: STRING, bool: BOOLEAN}
