"""Classes to Python code.

After this phase every method, property and contract of a class is compiled. All members, inherited
ones included, are attributes of the class's Python class, so that nothing is looked up by name
while a program runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from vetro.muranopl.classes.lock_policy import NONE, LockPolicy
from vetro.muranopl.classes.objects import DestroyedObject, MuranoObject
from vetro.muranopl.classes.types import Argument, Method, MuranoType, Property
from vetro.muranopl.contracts.arguments import ArgumentFallback, KeywordFallback, RestFallback
from vetro.muranopl.contracts.chains import Chain as ContractChain
from vetro.muranopl.contracts.plan import build_contract
from vetro.muranopl.contracts.tree import MISSING, Contract, Guard
from vetro.muranopl.inplace.properties import settle_properties
from vetro.muranopl.model.initialising import (
    Chain,
    PropertyInitialiser,
    PropertyWriter,
    retry_blocked,
)
from vetro.muranopl.runtime import metadata
from vetro.muranopl.runtime.nativecalls import (
    NativeCall,
    StaticAttribute,
    instance_function,
    static_function,
)
from vetro.muranopl.runtime.traces import CodeUnit
from vetro.muranopl.syntax import blocks, statements
from vetro.muranopl.syntax.findings import Finding
from vetro.muranopl.syntax.names import argument_slot
from vetro.muranopl.values.containers import freeze
from vetro.muranopl.values.errors import AmbiguousMethodName, DslSyntaxError, MuranoError, Position
from vetro.yaql.values import BOOLEAN, INTEGER, STRING, Kind

from . import methodcode, structures
from .classscope import ClassScope
from .functionwriter import FunctionWriter
from .passes.inference import infer_kinds
from .passes.inplace_updates import grown_variables
from .passes.leaf_methods import expressions_of, is_leaf

if TYPE_CHECKING:
    from vetro.muranopl.contracts.running import ContractRun
    from vetro.muranopl.model.loading import Transaction
    from vetro.muranopl.model.running import ModelRun
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
        self.defaults: dict[str, Callable[[Any, ContractRun], Any] | None] = {}
        """Functions that make the defaults of the properties, where these are not constant."""
        self.constant_defaults: dict[str, Any] = {}
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
        runtime.findings.append(Finding.of(error, method.position))
        if not isinstance(error, DslSyntaxError):
            # A package that is added later may supply the missing name.
            runtime.lacks_names = True

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
            lines.untraced = blocks.untraced_variables(flat, expressions_of(method.body))
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
        assigned = blocks.assigned_names(body) - {item.name for item in arguments}
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
        make: Callable[[Any, ContractRun], Any] | None = None
        constant: Any = None
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

    def evaluate(self, node: Node, this: Any, run: ContractRun) -> Any:
        """Evaluate a structure of this class's source now."""
        scope = self.scope.detached()
        function = scope.structure_function(node, "metadata")
        scope.execute()
        return function(this, run)

    def guard(self, contract: Contract, name: str) -> str | None:
        """Source of a condition under which a value passes a contract unchanged."""
        tools = Guard(self.scope.constant, self.scope.fresh, self.type.runtime.final_types)
        return contract.guard(name, tools)


# -- assembling the Python class -----------------------------------------------------------------


Step = Callable[["MuranoObject", "ModelRun", Mapping[str, Any], "Transaction"], None]


@dataclass(slots=True)
class Assembly:
    """A class with everything it inherits, ready to make objects."""

    python_class: type[MuranoObject]
    destroyed_class: type[MuranoObject]
    stored_slots: list[tuple[str, str, Property]]
    """Name, Python attribute and declaration of the properties that models carry."""
    initialisers: dict[str, PropertyInitialiser]
    fill: Step
    construction: ClassScope
    """The module of `fill`."""
    construction_steps: list[Step]
    destruction_methods: list[Method]
    action_headers: dict[str, dict[str, Any]]


def assemble(type_: MuranoType) -> Assembly:
    """Make the Python class of a type and the data that loading and saving need."""
    for item in reversed(type_.ancestors):
        item.own_code()
    attributes: dict[str, Any] = {"type": type_, "__module__": "vetro.muranopl.classes.objects"}
    for name in type_.method_names():
        attributes["m_" + name] = _method_attribute(type_, name)
    for alias, name in (("initialize", ".init"), ("destroy", ".destroy")):
        if "m_" + alias not in attributes:
            found = bool(type_.method_declarations(name))
            attributes["m_" + alias] = _method_attribute(type_, name) if found else _nothing
    initialisers: list[PropertyInitialiser] = []
    shadowed = _shadowed_by_init(type_)
    names = type_.property_names()
    chosen = {name: type_.property_declarations(name)[0] for name in names}
    for name in sorted(names, key=lambda name: chosen[name].usage != "Config"):
        declaration = chosen[name]
        if declaration.is_static:
            continue
        if declaration.native is not None:
            attributes["p_" + name] = _native_property(declaration)
            continue
        chain = _contract_chain(type_, name)
        attributes["w_" + name] = _writer(type_, name, chain)
        if name not in shadowed:
            initialisers.append(PropertyInitialiser(type_, declaration, chain))
    construction = _construction(type_, initialisers)
    python_class = type(type_.name, (MuranoObject,), attributes)
    type_.runtime.final_types.add(python_class)
    gone = {"type": type_, "__module__": "vetro.muranopl.classes.objects"}
    return Assembly(
        python_class,
        type(type_.name, (DestroyedObject,), gone),
        [(name, "p_" + name, item) for name, item in chosen.items() if item.is_stored],
        {item.name: item for item in initialisers},
        construction.namespace["fill"],
        construction,
        _construction_steps(type_),
        [item.methods[".destroy"] for item in type_.ancestors if ".destroy" in item.methods],
        type_.runtime.action_headers(type_),
    )


def _writer(type_: MuranoType, name: str, chain: Chain) -> Callable[..., None]:
    """`w_NAME`: that of the declaring class, unless other declarations apply here too."""
    declaring = chain[0][0].declaring_type
    ready = declaring.own_code().writers.get(name)
    if ready is not None and len(chain) == 1:
        return ready
    return PropertyWriter(name, chain, type_.all_declarations(name)).function


def _method_attribute(type_: MuranoType, name: str) -> Any:
    found = type_.method_declarations(name)
    if len(found) > 1:
        return staticmethod(functools.partial(_ambiguous, type_, name))
    method = found[0]
    function = method.function
    if function is None:
        raise DslSyntaxError(f"method {name} of {type_.name} was not compiled")
    if method.native is not None and method.is_static:
        return StaticAttribute(function)
    if method.is_static:  # a bare partial becomes a method of the instance from Python 3.14 on
        return staticmethod(functools.partial(function, method.declaring_type))
    return function


def _nothing(_this: MuranoObject, _run: ModelRun) -> None:
    """`initialize` and `destroy` of `io.murano.Object`, which overrides call through `super`."""


def _ambiguous(type_: MuranoType, name: str, *_args: Any, **_named: Any) -> Any:
    try:
        type_.find_method(name)
    except AmbiguousMethodName as error:
        raise error from None
    raise AssertionError("the method was ambiguous when the class was built")


def _native_property(declaration: Property) -> property:
    native = declaration.native
    assert native is not None
    owner = declaration.declaring_type

    def read(this: MuranoObject) -> Any:
        return freeze(native.getter(this.native_part(owner)))

    return property(read)


def _contract_chain(type_: MuranoType, name: str) -> Chain:
    """The contracts that a value must satisfy: the chosen declaration's, then the others'."""
    declarations = type_.property_declarations(name)
    everything = [item for item in type_.all_declarations(name) if item not in declarations]
    chain = [*declarations, *everything]
    return [
        (item, item.declaring_type.own_code().contracts[name])
        for item in chain
        if item.native is None
    ]


def _shadowed_by_init(type_: MuranoType) -> set[str]:
    """Properties whose value is passed to an argument of the same name of their class's `.init`."""
    names: set[str] = set()
    for item in type_.ancestors:
        init = item.methods.get(".init")
        if init is not None and init.arguments:
            names.update(a.name for a in init.arguments if a.name in item.properties)
    return names


def _construction(type_: MuranoType, initialisers: list[PropertyInitialiser]) -> ClassScope:
    """The module of `fill`, straight-line code that gives a new object its properties."""
    unit = CodeUnit.create(type_, f"construction of {type_.full_name}")
    scope = ClassScope(type_, unit)
    scope.shared = type_.runtime.construction_code
    scope.begin("fill")
    unit.write("def fill(this, S, given, X):")
    unit.write("B = None", 1)
    missing = scope.constant(MISSING)
    for item in initialisers:
        slow = scope.constant(item)
        condition = item.guard(Guard(scope.constant, scope.fresh, type_.runtime.final_types))
        if condition is None:
            unit.write(f"B = {slow}(this, S, given, X, B)", 1)
            continue
        unit.write(f"v = given.get({item.name!r}, {item.default_source(scope, missing)})", 1)
        unit.write(f"if {condition}: this.{scope.slot('p_' + item.name)} = v", 1)
        unit.write(f"else: B = {slow}(this, S, given, X, B)", 1)
    unit.write(f"if B: {scope.constant(retry_blocked)}(this, S, given, X, B)", 1)
    scope.execute()
    return scope


def _construction_steps(type_: MuranoType) -> list[Step]:
    steps: list[Step] = []
    visited: set[MuranoType] = set()
    first: dict[str, MuranoType] = {}
    for item in type_.ancestors:
        first.setdefault(item.name, item)

    def visit(part: MuranoType) -> None:
        # If a class occurs in several versions, only the first one found is part of the object.
        if part in visited or first[part.name] is not part:
            return
        visited.add(part)
        if part.native is not None:
            steps.append(_native_constructor(part))
        for parent in part.parents:
            visit(parent)
        init = part.methods.get(".init")
        if init is not None:
            steps.append(_init_step(part, init))

    visit(type_)
    return steps


def _native_constructor(part: MuranoType) -> Step:
    native = part.native
    assert native is not None
    python_class = native.python_class
    call = None if native.constructor is None else NativeCall(native.constructor, part.name)
    names = [] if native.constructor is None else list(native.constructor.parameters)

    def construct(
        made: MuranoObject, run: ModelRun, given: Mapping[str, Any], transaction: Transaction
    ) -> None:
        if made.natives is None:
            made.natives = {}
        for known in made.natives.values():
            if isinstance(known, python_class):
                made.natives[part] = known
                return
        instance: Any = object.__new__(python_class)
        made.natives[part] = instance
        if call is None:
            return
        values: dict[str, Any] = {}
        for name in names:
            slot = "p_" + name
            if slot in settle_properties(made):
                values[name] = made.__dict__[slot]
            elif name in given:
                values[name] = transaction.resolve_plain(given[name])
        call.call_with_values(run, made, instance, values)

    return construct


def _init_step(part: MuranoType, init: Method) -> Step:
    names = [
        (item.name, argument_slot(item.name))
        for item in init.arguments or []
        if item.usage == "Standard"
    ]
    keywords = any(item.usage == "KwArgs" for item in init.arguments or [])

    def initialise(
        made: MuranoObject, run: ModelRun, given: Mapping[str, Any], transaction: Transaction
    ) -> None:
        function = cast("Callable[..., Any]", init.function)
        if not names and not keywords:
            function(made, run)
            return
        values = {
            python: transaction.argument(given[name]) for name, python in names if name in given
        }
        if keywords:
            known = {name for name, _ in names}
            values.update(
                {
                    argument_slot(k): transaction.argument(v)
                    for k, v in given.items()
                    if k not in known
                }
            )
        function(made, run, **values)

    return initialise


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


_SCALAR_KINDS: dict[type[Any] | None, Kind] = {int: INTEGER, str: STRING, bool: BOOLEAN}


def python_name(name: str) -> str:
    """A Python identifier that resembles a MuranoPL name."""
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
