"""Expressions inside class code: YAQL with objects, types and methods (yaql.md section 10).

Members of `$this` become plain attributes of Python objects; all other members are reached through
sites that cache the look-up result for each Python class of the receiver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from vetro.muranopl.contracts.plan import CONTRACT_FUNCTIONS, make_step
from vetro.muranopl.contracts.tree import MISSING
from vetro.muranopl.inplace.growing import Grown
from vetro.muranopl.runtime import extensions, inline_caches
from vetro.muranopl.syntax.names import argument_slot
from vetro.yaql import ast
from vetro.yaql.codegen import Arguments, Code, ExpressionCodegen
from vetro.yaql.inlining import method as inlined_method
from vetro.yaql.kinds import (
    ANY,
    BOOLEAN,
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
from vetro.yaql.scopes import Scope
from vetro.yaql.signatures import Lazy

if TYPE_CHECKING:
    from .classscope import ClassScope
    from .functionwriter import FunctionWriter

SETTLED: Kind = ANY & ~LAZY & ~FUNCTION & ~CONTEXT


class FinalCode(Code):
    """Code whose value is final, whatever its kind."""

    @property
    def is_final(self) -> bool:
        return True


class GrownCode(FinalCode):
    """The value of the variable `local`, which may be growing."""

    local = ""


class SiteCode(Code):
    """Code whose value is final unless it uses its site; `settled_text` settles only that case."""

    settled_text = ""


def at_site(known: str, unknown: str) -> SiteCode:
    """A final value if a test holds (`known` is `value if test`), else the result of a site."""
    made = SiteCode(f"({known} else {unknown})")
    made.settled_text = f"({known} else y_finalize({unknown}, S))"
    return made


def final(text: str, kinds: Kind = SETTLED, *, simple: bool = False) -> FinalCode:
    """Code of a value that needs no settling."""
    return FinalCode(text, kinds, simple)


class MuranoCodegen(ExpressionCodegen):
    """YAQL's code generator with the meanings that class code adds."""

    frozen_data = True
    forms: ClassVar[dict[str, Callable[[Any, ast.Call, Scope | None], Code]]] = {}
    """Functions with a compiler of their own, if the library has them (`testing_mocks`)."""

    def __init__(self, scope: ClassScope, writer: FunctionWriter) -> None:
        super().__init__(scope.emitter, scope.library)
        self.class_scope = scope
        self.writer = writer
        self.type = scope.type
        self.dollar_kinds: Kind = SETTLED

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
        """A list or map whose parts are settled one by one, so that the whole is final."""
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
            made.kinds = SETTLED
            made.local = local
            return made
        if name in self.writer.assigned:
            kinds = self.writer.kinds.get(name, SETTLED)
            return final(self.writer.variable(name), kinds, simple=True)
        return final("None", NULL, simple=True)

    def value(self, node: ast.Node, scope: Scope | None) -> Code:
        if type(node) is ast.Binary and node.operator == "in":
            inline = self._membership(node, scope)
            if inline is not None:
                return inline
        code = super().value(node, scope)
        if type(node) is ast.Binary and node.operator in inline_caches.FINAL_OPERATORS:
            # Fast paths return scalars, and the slots of these operators settle their results.
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
        values: list[object] = []
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
        # Read in place: maps, and objects whose class the site has recorded; others use the site.
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
        scoped = inline_caches.SCOPED_METHODS.get(name)
        if scoped is not None:
            return self._scoped_method(target, node, scope)
        arguments = self.arguments(node.arguments, name, True, scope)
        if arguments.invalid is not None:
            return self.refuse_mapping(name, arguments.invalid)
        if not self.library.is_overridden(name, True) and not extensions.has_extension(
            self.type, name
        ):
            inlined = inlined_method(self, target, node, arguments)
            if inlined is not None:
                return inlined
        return self._through_site(target, node, arguments, scope)

    def _through_site(
        self, target: Code, node: ast.MethodCall, arguments: Arguments, scope: Scope | None
    ) -> Code:
        """A call on any receiver: objects known to have the method directly, others by the site."""
        name = node.name
        slot = self.slot("method", (name, arguments.shape, arguments.lazy), node)
        outer = self.outer_dollar(scope) if arguments.lazy else "None"
        unlikely = target.literal or not target.kinds & HOST
        checked = ""
        if not self.library.has(name, True) and any(
            not (code.simple or code.literal) for code in arguments.codes
        ):
            # Only objects can have such a method: look it up before the arguments are computed.
            checked = self.class_scope.constant(inline_caches.existing_method(self.type, name))
        if unlikely or arguments.lazy or "-" in arguments.shape or not name.isascii():
            receiver = f"{checked}(S, {target.text})" if checked else target.text
            return Code(f"{slot}(S, {receiver}, {outer}{arguments.joined()})")
        known = self.class_scope.constant(inline_caches.direct_classes(self.class_scope, name))
        read, test = self.twice(target)
        tests = [f"(type({test}) in {known})"]
        if checked:
            tests = [f"(type({test}) in {known} or {checked}(S, {read}) is None)"]
        passed = given = ""
        for word, code in zip(arguments.shape, arguments.codes, strict=True):
            value = self.settle(code)
            if not (value.simple or value.literal):
                # Computed once, in the condition: otherwise both branches would repeat the text.
                place = self.temporary()
                tests.append(f"(({place} := {value.text}) is {place})")
                value = Code(place, value.kinds, simple=True)
            passed += f", {argument_slot(word)}={value.text}" if word else f", {value.text}"
            given += f", {value.text}"
        return at_site(
            f"{read}.m_{name}(S{passed}) if {' & '.join(tests)}",
            f"{slot}(S, {read}, {outer}{given})",
        )

    def _eager(self, nodes: tuple[ast.Argument, ...], scope: Scope | None) -> str | None:
        """The settled arguments of a MuranoPL method; None when a keyword is not a plain word."""
        parts: list[str] = []
        for item in nodes:
            if isinstance(item, ast.Omitted):
                parts.append(f", {self.class_scope.constant(MISSING)}")
            elif isinstance(item, ast.Pair):
                if not isinstance(item.key, ast.Keyword):
                    return None
                parts.append(f", {argument_slot(item.key.name)}={self.settled(item.value, scope)}")
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
        scoped = inline_caches.SCOPED_FUNCTIONS.get(node.name)
        if node.name == "new":
            made = self._new(node, scope)
            if made is not None:
                return made
        if scoped is not None and not inline_caches.is_replaced(self.library, node.name):
            code = self._scoped(scoped, None, node.arguments, scope)
            if node.name == "id" and len(node.arguments) == 1:
                return self._id_of(code, node.arguments[0], scope)
            return code
        return super().function_call(node, scope)

    def _id_of(self, code: Code, node: ast.Argument, scope: Scope | None) -> Code:
        """`id($x)`: an object in a variable is asked in place."""
        if not isinstance(node, ast.Variable):
            return code
        place = self.settled(node, scope)
        if not place.isidentifier():
            return code
        return final(f"({place}.id if isinstance({place}, y_Object) else {code.text})")

    def _new(self, node: ast.Call, scope: Scope | None) -> Code | None:
        """`new(Type, name => value, …)`, the frequent form, compiled without a call of `new`."""
        if not node.arguments or inline_caches.is_replaced(self.library, "new"):
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
        scoped = inline_caches.SCOPED_METHODS[node.name]
        found = inline_caches.scoped_method_site(self.type, node.name, scoped)
        site = self.class_scope.constant(found.call)
        if target.text.isidentifier():
            # Usually the receiver has no method of that name; the site remembers such classes.
            function = self.class_scope.constant(scoped.function)
            plain = self.class_scope.constant(found.plain)
            site = f"({function} if type({target.text}) in {plain} else {site})"
        return self._scoped_call(site, target, scoped, node.arguments, scope)

    def _scoped(
        self,
        scoped: inline_caches.ScopedFunction,
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
        scoped: inline_caches.ScopedFunction,
        nodes: tuple[ast.Argument, ...],
        scope: Scope | None,
    ) -> Code:
        """`function(S, class, this, [target,] arguments…)`; lambdas where parameters take them."""
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
            return self._named_type(node.name)
        if isinstance(node, ast.Constant):
            return self._named_type(str(node.value))
        return f"S.as_type({self.settled(node, None)}, {self.class_scope.constant(self.type)})"

    def type_literal(self, node: ast.TypeLiteral) -> Code:
        name = f"{node.prefix or '='}:{node.name}" if node.prefix else f":{node.name}"
        return final(self._named_type(name))

    def _named_type(self, name: str) -> str:
        constant = self.class_scope.constant(inline_caches.named_type(self.type, name))
        return f"({constant}.found or {constant}())"

    def binary(self, node: ast.Binary, left: Code, right: Code) -> Code:
        if node.operator != "is":
            return super().binary(node, left, right)
        wanted = right.text
        if self._names_a_type(node.right):
            wanted = self.type_source(node.right)
        check = self.class_scope.constant(inline_caches.is_instance)
        return Code(
            f"{check}(S, {self.class_scope.constant(self.type)}, {left.text}, {wanted})", BOOLEAN
        )


class ContractCodegen(MuranoCodegen):
    """Contract expressions that are not plain chains: contract functions are methods."""

    def method_call(self, target: Code, node: ast.MethodCall, scope: Scope | None) -> Code:
        if node.name not in CONTRACT_FUNCTIONS:
            return super().method_call(target, node, scope)
        scalar = self.writer.scalar
        assert scalar is not None
        step = make_step(node, scalar, self.class_scope)
        return Code(f"{self.class_scope.constant(step)}.apply({target.text}, T)")
