"""Expressions inside class code: YAQL with objects, types and methods (yaql.md section 10).

A `ClassScope` is one generated Python module: its text, its constants and its YAQL slots. A
`FunctionWriter` writes the expressions of one function in it. Members of `$this` become plain
attributes of Python objects; everything else goes through sites that remember, per Python class of
the receiver, what they found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from vetro.yaql import ast
from vetro.yaql.codegen import Arguments, Code, Emitter, ExpressionCodegen
from vetro.yaql.inlining import method as inlined_method
from vetro.yaql.scopes import Scope
from vetro.yaql.slots import PRELUDE, Slot, bind_slot, bind_slots
from vetro.yaql.values import (
    ANY,
    CONTEXT,
    FUNCTION,
    HOST,
    INTEGER,
    LAZY,
    LIST,
    MAPPING,
    NULL,
    SCALAR,
    STRING,
    Kind,
)

from . import sites
from .contractplan import CONTRACT_FUNCTIONS
from .contracts import MISSING, Guard, Setting, set_predicate_inliner
from .growth import Grown, grow_property
from .objects import MuranoObject
from .support import paid_elements
from .targets import Key, Target, assign_into, assign_member, parse_target
from .traces import UNIT, CodeUnit
from .types import MuranoType
from .yamltree import Node, Scalar

if TYPE_CHECKING:
    from vetro.yaql.library import Library

    from .run import Run

_SETTLED: Kind = ANY & ~LAZY & ~FUNCTION & ~CONTEXT


class FinalCode(Code):
    """Code whose value is final whatever its kind."""

    @property
    def is_final(self) -> bool:
        return True


class GrownCode(FinalCode):
    """The value of the variable `local`, which may be growing."""

    local = ""


class SiteCode(Code):
    """Code that is final unless it comes to its site; `settled_text` settles it there alone."""

    settled_text = ""


def at_site(known: str, unknown: str) -> SiteCode:
    """A final value where a test holds (`known` is `value if test`), else that of a site."""
    made = SiteCode(f"({known} else {unknown})")
    made.settled_text = f"({known} else y_finalize({unknown}, S))"
    return made


def final(text: str, kinds: Kind = _SETTLED, *, simple: bool = False) -> FinalCode:
    """Code of a value that needs no settling."""
    return FinalCode(text, kinds, simple)


class Deferred:
    """A function of a generated module, callable once the module was executed."""

    __slots__ = ("name", "scope")

    def __init__(self, scope: ClassScope, name: str) -> None:
        self.scope = scope
        self.name = name

    def __call__(self, *args: Any) -> Any:
        return self.scope.namespace[self.name](*args)


class ClassScope:
    """One generated module: source, constants, slots."""

    def __init__(self, type_: MuranoType, unit: CodeUnit) -> None:
        self.type = type_
        self.unit = unit
        self.library: Library = type_.runtime.library_for(type_.package)
        self.emitter = Emitter(runtime="S")
        self.namespace: dict[str, Any] = {}
        self.lenient_lists = bool(type_.class_config().get("contracts.lenient_lists", False))
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []
        self._fresh = 0
        self._functions: set[str] = set()
        self.static = False
        """True while something is compiled whose `$this` is the class, not an object."""
        self.direct_properties: dict[str, set[type[Any]]] = {}
        """The same for properties that the class's code may read at once."""
        self.direct: dict[str, set[type[Any]]] = {}
        """By method name: Python classes whose method may be called at once."""

    # -- names ---------------------------------------------------------------------------------

    def constant(self, value: Any) -> str:
        """The global name of an object."""
        if isinstance(value, Deferred) and value.scope is self:
            return value.name
        known = self._names.get(id(value))
        if known is not None:
            return known
        if isinstance(value, Deferred) and value.name in value.scope.namespace:
            value = value.scope.namespace[value.name]
        name = f"k{len(self._names)}"
        self._names[id(value)] = name
        self._kept.append(value)
        self.namespace[name] = value
        return name

    def fresh(self) -> str:
        """A local name that nothing else uses."""
        self._fresh += 1
        return f"e{self._fresh}"

    def fresh_function(self, name: str) -> str:
        """A function's name that nothing else uses."""
        while name in self._functions:
            self._fresh += 1
            name = f"{name}_{self._fresh}"
        self._functions.add(name)
        return name

    def slot(self, attribute: str) -> str:
        """A Python attribute of objects, as it can be written in source after a dot."""
        if attribute.isascii() and attribute.isidentifier():
            return attribute
        return f"__dict__[{attribute!r}]"

    # -- functions -----------------------------------------------------------------------------

    def _define(self, prefix: str, parameters: str, body: Callable[[], str]) -> Deferred:
        name = self.fresh_function(prefix)
        text = body()
        # Written where no other function is open: nested ones would see each other's variables.
        self.pending.append((f"def {name}({parameters}): return {text}", self._place()))
        return Deferred(self, name)

    @property
    def pending(self) -> list[tuple[str, Any]]:
        """Functions to be written before the module is executed."""
        return self.__dict__.setdefault("_pending", [])

    def _place(self) -> Any:
        return self._current

    _current: Any = None

    def function(self, node: ast.Expression, scalar: Scalar) -> Deferred:
        """An expression over `$` = value as `(this, run, value)`."""
        self._current = (scalar.position, str(scalar.value))
        writer = FunctionWriter(self, dollar="v", static=self.static)
        return self._define("p", "this, S, v", lambda: writer.codegen.final(node).text)

    def computed(
        self, node: ast.Expression, scalar: Scalar
    ) -> Callable[[Any, Any, Any, Setting], Any]:
        """An expression in which the contract functions are methods of its values."""
        self._current = (scalar.position, str(scalar.value))
        writer = FunctionWriter(self, dollar="v", contract=True, scalar=scalar, static=self.static)
        return self._define("p", "this, S, v, T", lambda: writer.codegen.final(node).text)

    def structure_function(self, node: Node, title: str) -> Callable[[Any, Run], Any]:
        """A structure as `(this, run)`."""
        from .methodcode import structure_source

        self._current = (node.position, title)
        writer = FunctionWriter(self, static=self.static)
        return self._define("d", "this, S", lambda: structure_source(node, writer))

    def detached(self) -> ClassScope:
        """A scope of its own for something compiled after this module."""
        made = ClassScope(self.type, CodeUnit.create(self.type, self.type.full_name))
        made.static = True
        return made

    def execute(self) -> None:
        """Compile the module's text and run it."""
        unit = self.unit
        unit.method = ""
        for text, place in self.pending:
            unit.method = place[1] if place else ""
            unit.at(place[0] if place else None, place[1] if place else "")
            unit.write(text)
        self.pending.clear()
        unit.method = ""
        namespace = self.namespace
        namespace.update(PRELUDE)
        namespace["y_FINAL"] = self.type.runtime.final_types
        namespace["range"] = range
        namespace["all"] = all
        namespace["isinstance"] = isinstance
        binders = {
            "property": self._bind_property,
            "method": self._bind_method,
            "operator": self._bind_operator,
        }
        namespace.update(bind_slots(self.emitter.slots, self.library, binders=binders))
        if self.type.package.legacy:
            for number, slot in enumerate(self.emitter.slots):
                name = f"s{number}"
                namespace[name] = sites.in_legacy(namespace[name], slot.kind)
        namespace[UNIT] = unit
        cache = self.type.runtime.code_cache
        if cache is None:
            code = compile(unit.text, unit.filename, "exec", dont_inherit=True)
        else:
            code = cache.code(unit.text, unit.filename)
        exec(code, namespace)  # noqa: S102 - the text was generated here from a checked tree

    def _bind_property(self, slot: Slot) -> Any:
        name = slot.data[0]
        direct = self.direct_properties.setdefault(name, set())
        return sites.property_site(self.type, name, self.library, direct)

    def _bind_operator(self, slot: Slot) -> Any:
        return sites.operator_site(bind_slot(slot, self.library), slot.data[0])

    def _bind_method(self, slot: Slot) -> Any:
        return sites.method_site(self, self.library, slot)


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
        """Variables that may hold a value which grows in place (`growth`)."""
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
        """Source that evaluates the expression for its effects."""
        code = self.codegen.value(node.expression, None)
        if code.kinds & LAZY:
            return self.codegen.settle(code).text
        return code.text

    def items(self, node: Scalar) -> str:
        """Source of something `for` can go over."""
        return f"{self.constant(paid_elements)}(S, {self.value(node)})"

    def constant(self, value: Any) -> str:
        """The global name of an object."""
        return self.scope.constant(value)

    def variable(self, name: str) -> str:
        """The Python local of a MuranoPL variable."""
        known = self._names.get(name)
        if known is None:
            known = f"a_{name}" if name.isascii() else f"b_{len(self._names)}"
            self._names[name] = known
        return known

    def growth(self, target: Scalar, value: Node) -> list[str] | None:
        """Lines of an assignment that enlarges what it assigns to; None when it does not."""
        from .growthcode import write_growth

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
            operation = repr("append" if parsed.operation == "append" else "assign")
            return [
                f"{path} = {self.path_source(parsed.path)}",
                f"{fresh} = {value}",
                f"if not {self.constant(grow_property)}(S, this, {path}, {operation}, ({fresh},), "
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
        """True for a place in a declared property of `$this`."""
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


class MuranoCodegen(ExpressionCodegen):
    """YAQL's code generator with the meanings that class code adds."""

    frozen_data = True
    forms: ClassVar[dict[str, Callable[[Any, ast.Call, Scope | None], Code]]] = {}
    """Functions compiled in a way of their own, where the library has them (`testing_mocks`)."""

    def __init__(self, scope: ClassScope, writer: FunctionWriter) -> None:
        super().__init__(scope.emitter, scope.library)
        self.class_scope = scope
        self.writer = writer
        self.type = scope.type
        self.dollar_kinds: Kind = _SETTLED

    # -- settled values ------------------------------------------------------------------------

    def settle(self, code: Code) -> Code:
        """Code of the final form of a value."""
        if code.is_final:
            return code
        if isinstance(code, SiteCode):
            return final(code.settled_text, code.kinds)
        read, test = self.twice(code)
        return Code(f"({read} if type({test}) in y_FINAL else y_finalize({read}, S))", code.kinds)

    def final(self, node: ast.Expression, scope: Scope | None = None) -> Code:
        built = self._built_final(node, scope)
        return built if built is not None else self.settle(self.value(node, scope))

    def _built_final(self, node: ast.Expression, scope: Scope | None) -> Code | None:
        """A list or map whose parts are written settled, so that the whole is final."""
        if isinstance(node, ast.ListLiteral) or (
            isinstance(node, ast.Call)
            and node.name == "list"
            and not self.library.is_overridden("list", False)
        ):
            return self._built_list(node, scope)
        pairs: list[ast.Pair] = []
        if isinstance(node, ast.MapLiteral):
            items = node.items
        elif (
            isinstance(node, ast.Call)
            and node.name == "dict"
            and not self.library.is_overridden("dict", False)
        ):
            items = node.arguments
        else:
            return None
        parts: list[str] = []
        for item in items:
            if not isinstance(item, ast.Pair):
                return None
            key = self.value(item.key, scope)
            if key.kinds & ~SCALAR:
                return None
            pairs.append(item)
            parts.append(f"{key.text}: {self.final(item.value, scope).text}")
        return final(f"y_Frozen({{{', '.join(parts)}}})", MAPPING)

    def _built_list(self, node: ast.ListLiteral | ast.Call, scope: Scope | None) -> Code | None:
        items = node.items if isinstance(node, ast.ListLiteral) else node.arguments
        codes: list[Code] = []
        for item in items:
            if not isinstance(item, ast.Expression):
                return None
            code = self._built_final(item, scope) or self.value(item, scope)
            if isinstance(node, ast.Call) and code.kinds & (LAZY | FUNCTION):
                return None  # list() expands lazy sequences
            codes.append(self.settle(code))
        inner = ", ".join(code.text for code in codes)
        return final(f"({inner}{',' if len(codes) == 1 else ''})", LIST)

    # -- hooks ---------------------------------------------------------------------------------

    def variable(self, name: str, node: ast.Node) -> Code:
        if name == "":
            if self.writer.dollar == "this":
                return final("this", simple=True)
            return Code(self.writer.dollar, self.dollar_kinds, simple=True)
        if name == "this":
            return final("this", simple=True)
        if name in self.writer.grown:
            local = self.writer.variable(name)
            grown = self.class_scope.constant(Grown)
            made = GrownCode(f"({local}.settled() if {local}.__class__ is {grown} else {local})")
            made.kinds = _SETTLED
            made.local = local
            return made
        if name in self.writer.assigned:
            kinds = self.writer.kinds.get(name, _SETTLED)
            return final(self.writer.variable(name), kinds, simple=True)
        return final("None", NULL, simple=True)

    def value(self, node: ast.Node, scope: Scope | None) -> Code:
        if type(node) is ast.Binary and node.operator == "in":
            inline = self._membership(node, scope)
            if inline is not None:
                return inline
        code = super().value(node, scope)
        if type(node) is ast.Binary and node.operator in sites.FINAL_OPERATORS:
            # Fast paths give scalars, and the slots of these operators settle their results.
            return FinalCode(code.text, code.kinds, code.simple, code.literal)
        return code

    def _membership(self, node: ast.Binary, scope: Scope | None) -> Code | None:
        """`x in list(constants)` where the type of x is known."""
        items: tuple[ast.Argument, ...] = ()
        right = node.right
        if isinstance(right, ast.Call) and right.name == "list":
            items = right.arguments
        elif isinstance(right, ast.ListLiteral):
            items = right.items
        values: list[Any] = []
        for item in items:
            if isinstance(item, ast.Keyword):
                values.append(item.name)
            elif isinstance(item, ast.Constant):
                values.append(item.value)
            else:
                return None
        left = self.value(node.left, scope)
        if not values or left.kinds not in (STRING, INTEGER):
            return None
        from vetro.yaql.values import BOOLEAN

        return Code(f"({left.text} in {self.class_scope.constant(frozenset(values))})", BOOLEAN)

    def property_access(self, target: Code, name: str, node: ast.Property) -> Code:
        if target.text == "this" and name.isascii():
            own = self._own_property(name)
            if own is not None:
                return own
        if (
            target.literal
            or not target.kinds & HOST
            or not name.isascii()
            or self.library.is_legacy
        ):
            return super().property_access(target, name, node)
        root = node.target
        if isinstance(root, ast.Variable) and isinstance(target, GrownCode):
            grown = self.class_scope.constant(Grown)
            local = target.local
            target = final(
                f"({local}.settled_for({name!r}) if {local}.__class__ is {grown} else {local})"
            )
        # Maps and objects whose class has shown where the property is; the rest by the site.
        slot = self.slot("property", (name,), node)
        known = self.class_scope.constant(
            self.class_scope.direct_properties.setdefault(name, set())
        )
        read, test = self.twice(target)
        return at_site(
            f"{read}[{name!r}] if type({test}) is y_Frozen else {read}.p_{name} "
            f"if type({read}) in {known}",
            f"{slot}(S, {read})",
        )

    def _own_property(self, name: str) -> Code | None:
        type_ = self.type
        found = type_.property_declarations(name)
        if self.writer.static or type_.package.legacy:
            return None
        if not found:
            return final(f"this.q{type_.index}_{name}")
        if len(found) > 1 or found[0].is_static:
            return None
        return final(f"this.p_{name}")

    def method_call(self, target: Code, node: ast.MethodCall, scope: Scope | None) -> Code:
        name = node.name
        if target.text == "this" and name.isascii() and not self.writer.static:
            found = self.type.method_declarations(name)
            if len(found) == 1 and found[0].usage != "Extension":
                passed = self._eager(node.arguments, scope)
                if passed is not None:
                    return final(f"this.m_{name}(S{passed})")
        scoped = sites.SCOPED_METHODS.get(name)
        if scoped is not None:
            return self._scoped_method(target, node, scope)
        arguments = self.arguments(node.arguments, name, True, scope)
        if arguments.invalid is not None:
            return self.refuse_mapping(name, arguments.invalid)
        if not self.library.is_overridden(name, True) and not sites.has_extension(self.type, name):
            inlined = inlined_method(self, target, node, arguments)
            if inlined is not None:
                return inlined
        return self._through_site(target, node, arguments, scope)

    def _through_site(
        self, target: Code, node: ast.MethodCall, arguments: Arguments, scope: Scope | None
    ) -> Code:
        """A call of anything: objects that have the method at once, the rest by the site."""
        name = node.name
        slot = self.slot("method", (name, arguments.shape, arguments.lazy), node)
        outer = self.outer_dollar(scope) if arguments.lazy else "None"
        unlikely = target.literal or not target.kinds & HOST
        if unlikely or arguments.lazy or "-" in arguments.shape or not name.isascii():
            return Code(f"{slot}(S, {target.text}, {outer}{arguments.joined()})")
        known = self.class_scope.constant(sites.direct_classes(self.class_scope, name))
        read, test = self.twice(target)
        tests = [f"(type({test}) in {known})"]
        passed = given = ""
        for word, code in zip(arguments.shape, arguments.codes, strict=True):
            value = self.settle(code)
            if not (value.simple or value.literal):
                # Computed once, in the condition: the text would stand in both branches.
                place = self.temporary()
                tests.append(f"(({place} := {value.text}) is {place})")
                value = Code(place, value.kinds, simple=True)
            passed += f", a_{word}={value.text}" if word else f", {value.text}"
            given += f", {value.text}"
        return at_site(
            f"{read}.m_{name}(S{passed}) if {' & '.join(tests)}",
            f"{slot}(S, {read}, {outer}{given})",
        )

    def _eager(self, nodes: tuple[ast.Argument, ...], scope: Scope | None) -> str | None:
        """Arguments of a MuranoPL method, settled; None when they are not names and values."""
        parts: list[str] = []
        for item in nodes:
            if isinstance(item, ast.Omitted):
                parts.append(f", {self.class_scope.constant(MISSING)}")
            elif isinstance(item, ast.Pair):
                if not isinstance(item.key, ast.Keyword) or not item.key.name.isascii():
                    return None
                parts.append(f", a_{item.key.name}={self.settled(item.value, scope)}")
            else:
                parts.append(f", {self.settled(item, scope)}")
        return "".join(parts)

    def settled(self, node: ast.Expression, scope: Scope | None) -> str:
        """Source of the final value of a sub-expression in its scope."""
        return self.final(node, scope).text

    def function_call(self, node: ast.Call, scope: Scope | None) -> Code:
        form = self.forms.get(node.name)
        if form is not None and self.library.has(node.name, False):
            return form(self, node, scope)
        scoped = sites.SCOPED_FUNCTIONS.get(node.name)
        if node.name == "new":
            made = self._new(node, scope)
            if made is not None:
                return made
        if scoped is not None and not sites.is_replaced(self.library, node.name):
            return self._scoped(scoped, None, node.arguments, scope)
        return super().function_call(node, scope)

    def _new(self, node: ast.Call, scope: Scope | None) -> Code | None:
        """`new(Type, name => value, …)`, the frequent form, without going through `new`."""
        if not node.arguments or sites.is_replaced(self.library, "new"):
            return None
        what, *rest = node.arguments
        if not isinstance(what, ast.Expression) or not self._names_a_type(what):
            return None
        parts: list[str] = []
        for item in rest:
            if not isinstance(item, ast.Pair) or not isinstance(item.key, ast.Keyword):
                return None
            parts.append(f"{item.key.name!r}: {self.settled(item.value, scope)}")
        scope_name = self.class_scope.constant(self.type)
        return final(
            f"S.create({self.type_source(what)}, {{{', '.join(parts)}}}, None, None, None, "
            f"{scope_name})"
        )

    def _scoped_method(self, target: Code, node: ast.MethodCall, scope: Scope | None) -> Code:
        scoped = sites.SCOPED_METHODS[node.name]
        site = self.class_scope.constant(sites.scoped_method_site(self.type, node.name, scoped))
        return self._scoped_call(site, target, scoped, node.arguments, scope)

    def _scoped(
        self,
        scoped: sites.ScopedFunction,
        target: Code | None,
        nodes: tuple[ast.Argument, ...],
        scope: Scope | None,
    ) -> Code:
        function = self.class_scope.constant(scoped.function)
        return self._scoped_call(function, target, scoped, nodes, scope)

    def _scoped_call(
        self,
        function: str,
        target: Code | None,
        scoped: sites.ScopedFunction,
        nodes: tuple[ast.Argument, ...],
        scope: Scope | None,
    ) -> Code:
        """`function(S, class, this, [target,] arguments…)`; lambdas where it takes them."""
        parts = ["S", self.class_scope.constant(self.type), "this"]
        if target is not None:
            parts.append(target.text)
        first = 0 if target is None else 1
        extra: list[str] = []
        for index, item in enumerate(nodes):
            if isinstance(item, ast.Pair):
                if isinstance(item.key, ast.Keyword):
                    extra.append(f"{item.key.name!r}: {self.settled(item.value, scope)}")
                else:
                    key = self.settled(item.key, scope)
                    extra.append(f"{key}: {self.settled(item.value, scope)}")
            elif isinstance(item, ast.Omitted):
                parts.append(self.class_scope.constant(MISSING))
            elif index + first in scoped.lambdas:
                from vetro.yaql.signatures import Lazy

                parts.append(self.lambda_argument(item, Lazy(1), scope).text)
            elif index + first in scoped.types and self._names_a_type(item):
                parts.append(self.type_source(item))
            else:
                parts.append(self.settled(item, scope))
        if extra:
            parts.append(f"**{{{', '.join(extra)}}}")
        text = f"{function}({', '.join(parts)})"
        return final(text) if scoped.is_final else Code(text)

    @staticmethod
    def _names_a_type(node: ast.Node) -> bool:
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str)
        return isinstance(node, (ast.Keyword, ast.TypeLiteral))

    def type_source(self, node: ast.Expression) -> str:
        """Source of the class that a literal, word or text names here."""
        if isinstance(node, ast.TypeLiteral):
            return self.type_literal(node).text
        if isinstance(node, ast.Keyword):
            return f"{self.class_scope.constant(sites.named_type(self.type, node.name))}()"
        if isinstance(node, ast.Constant):
            return f"{self.class_scope.constant(sites.named_type(self.type, str(node.value)))}()"
        return f"S.as_type({self.settled(node, None)}, {self.class_scope.constant(self.type)})"

    def type_literal(self, node: ast.TypeLiteral) -> Code:
        name = f"{node.prefix or '='}:{node.name}" if node.prefix else f":{node.name}"
        return final(f"{self.class_scope.constant(sites.named_type(self.type, name))}()")

    def binary(self, node: ast.Binary, left: Code, right: Code) -> Code:
        if node.operator != "is":
            return super().binary(node, left, right)
        wanted = right.text
        if self._names_a_type(node.right):
            wanted = self.type_source(node.right)
        check = self.class_scope.constant(sites.is_instance)
        from vetro.yaql.values import BOOLEAN

        return Code(
            f"{check}(S, {self.class_scope.constant(self.type)}, {left.text}, {wanted})", BOOLEAN
        )


class ContractCodegen(MuranoCodegen):
    """Expressions of contracts that are no plain chains: contract functions are methods."""

    def method_call(self, target: Code, node: ast.MethodCall, scope: Scope | None) -> Code:
        if node.name not in CONTRACT_FUNCTIONS:
            return super().method_call(target, node, scope)
        from .contractplan import make_step

        scalar = self.writer.scalar
        assert scalar is not None
        step = make_step(node, scalar, self.class_scope)
        return Code(f"{self.class_scope.constant(step)}.apply({target.text}, T)")


_KINDS: dict[str, Kind] = {"int": INTEGER, "str": STRING}


def _inline_predicate(node: Any, name: str, kind: str | None, tools: Guard) -> str | None:
    """A predicate over a value of known type, written in place."""
    scope = getattr(tools.constant, "__self__", None)
    if kind not in _KINDS or not isinstance(scope, ClassScope):
        return None
    if any(isinstance(item, (ast.MethodCall, ast.Call, ast.Arrow)) and not _is_list(item)
           for item in ast.walk(node)):  # fmt: skip
        return None
    writer = FunctionWriter(scope, dollar=name)
    writer.codegen.dollar_kinds = _KINDS[kind]
    return writer.codegen.condition(node)


def _is_list(node: ast.Node) -> bool:
    return isinstance(node, ast.Call) and node.name == "list"


set_predicate_inliner(_inline_predicate)
__all__ = ["MAPPING", "ClassScope", "FunctionWriter", "MuranoObject"]
