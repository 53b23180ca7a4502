"""Trees to Python expressions (the embedding contract for hosts that generate code).

Input: a tree whose names have not been resolved. Output: the text of one Python expression and the
slots that it refers to. A host with its own language (`muranopl`) puts these texts into functions
that it generates; `vetro.yaql.compile` wraps one in a `def`.

    emitter = Emitter()                                  # one for each generated module
    gen = MyCodegen(emitter, library)                    # a subclass with the hooks below
    code = gen.expression(tree)                          # Code: .text, .kinds
    code = gen.final(tree)                               # the same, but the value is final
    text = gen.condition(tree)                           # for `if` and `while`
    ...
    namespace = {**PRELUDE, **bind_slots(emitter.slots, library)}
    exec(compile(module_source, filename, "exec"), namespace)

Inside generated functions a variable named `emitter.runtime` (`rt`) holds the `Evaluation`.

**Hooks.** A host overrides these; each default is the behaviour of a stand-alone expression.
They get `Code` for values that are already compiled and return `Code`:

- `variable(name, node)`: read `$name` where no lambda or `->` binds it; "" is `$`.
- `property_access(target, name, node)`: `target.name`.
- `method_call(target, node, scope)`: `target.name(arguments)`.
- `function_call(node, scope)`: `name(arguments)`, for names that are not special forms.
- `type_literal(node)`: `ns:Name`.
- `binary(node, left, right)`: an infix operator outside the language (`is`, for example).

Useful to them: `self.arguments(node.arguments, name, method, scope)` gives an `Arguments`: codes in
the order written, `shape` (one text an argument: "" positional, "-" omitted, else the keyword) and
which are lambdas; `self.slot(kind, data, node)` names a slot; `self.temporary()` a fresh local
variable, to be bound by `:=`; `self.value(node, scope)` compiles a sub-expression in its scope;
`self.outer_dollar(scope)` is the `$` around a call.

**Codes.** `Code.text` is a self-contained Python expression (it may stand anywhere an operand
may). `kinds` are the possible kinds of its value at compile time (`values.ANY` when unknown).
`simple`: a variable or literal, so the text may be repeated. Values are plain Python values as
`values` describes; an expression of the language never changes one.

**Lambdas.** An argument whose parameter is lazy becomes a Python lambda with positional
parameters, `$`/`$1` first. `Lazy.arity` in the library says how many. A method call whose
receiver is a host object applies such lambdas to the outer `$` to get plain values
(`inline_caches.method_site`).

**Speed.** Arithmetic and comparison on operands of unknown kind becomes
`(a + 1 if type(a) is int else s3(rt, a, 1))`: the frequent case in place, everything else through a
slot. `bool` is not an integer here, since `type(True) is bool`. Members of mappings are read in
place when the target is a mapping of the language.

**Depth.** Chains (`a + b + …`, `a.b.c…`) of any length become flat tuples of assignments, since
Python's own parser allows 200 nested brackets only; real nesting is bounded by the parser.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

from . import ast, containers, inlining
from .arithmetic import compile_arithmetic, is_arithmetic
from .codes import Arguments, Code
from .forms import SPECIAL_FORMS, SPECIAL_METHODS
from .kinds import ANY, BOOLEAN, FLOAT, FUNCTION, INTEGER, LIST, MAPPING, NULL, SCALAR, STRING
from .library import Library
from .scopes import ArrowScope, LambdaScope, RichScope, Scope, context_names
from .signatures import Lazy
from .slots import Emitter

_KIND_OF_LITERAL = {type(None): NULL, bool: BOOLEAN, int: INTEGER, float: FLOAT, str: STRING}
_SPINE = 24
"""Links of a chain that are compiled nested; longer chains are cut."""


class ExpressionCodegen:
    """Compiles trees to Python expressions; see the module's text for the hooks."""

    frozen_data = False
    """True when mappings are nearly always FrozenDicts (a host that finalises values)."""

    def __init__(self, emitter: Emitter, library: Library) -> None:
        self.emitter = emitter
        self.library = library
        self.rt = emitter.runtime
        self._replaced: dict[int, Code] = {}
        self._compilers: dict[type, Callable[[Any, Scope | None], Code]] = {
            ast.Constant: self._constant,
            ast.Keyword: self._keyword,
            ast.Variable: self._variable,
            ast.Property: self._property,
            ast.MethodCall: self._method_call,
            ast.Dot: self._dot,
            ast.Call: self._call,
            ast.Index: partial(containers.index, self),
            ast.ListLiteral: partial(containers.list_literal, self),
            ast.MapLiteral: partial(containers.map_literal, self),
            ast.Unary: self._unary,
            ast.Binary: self._binary,
            ast.Arrow: self._arrow,
            ast.TypeLiteral: self._type_literal,
        }

    # What hosts call

    def expression(self, node: ast.Expression, scope: Scope | None = None) -> Code:
        """The value of `node`, lazy sequences left as they are."""
        return self.value(node, scope)

    def final(self, node: ast.Expression, scope: Scope | None = None) -> Code:
        """The value of `node` in final form, safe to store and to read many times."""
        code = self.value(node, scope)
        if code.is_final:
            return code
        if code.simple:
            name, test = code.text, code.text
        else:
            name = self.temporary()
            test = f"{name} := {code.text}"
        return Code(
            f"({name} if type({test}) in y_FINAL else y_finalize({name}, {self.rt}))", code.kinds
        )

    def condition(self, node: ast.Expression, scope: Scope | None = None) -> str:
        """Python text whose truth is the truth of `node`."""
        return self.value(node, scope).text

    # Hooks

    def variable(self, name: str, node: ast.Node) -> Code:
        """Read a variable that the expression does not bind itself."""
        if name == "":
            return Code("d", simple=True)
        return Code(f"{self.rt}.host_variable({name!r})")

    def property_access(self, target: Code, name: str, node: ast.Property) -> Code:
        """`target.name`."""
        slot = self.slot("property", (name,), node)
        if target.literal or not target.kinds & MAPPING:
            return Code(f"{slot}({self.rt}, {target.text})")
        read, test = self.twice(target)
        guard = "is y_Frozen" if self.frozen_data else "in y_MAPPINGS"
        take = f"{read}.get({name!r})"
        if not self.library.is_legacy:
            take = f"{read}[{name!r}]"
            if not self.frozen_data:
                # A FrozenDict raises the error for a missing key itself; for a dict the site does.
                guard += f" and {name!r} in {read}"
        return Code(f"({take} if type({test}) {guard} else {slot}({self.rt}, {read}))")

    def method_call(self, target: Code, node: ast.MethodCall, scope: Scope | None) -> Code:
        """`target.name(arguments)`."""
        arguments = self.arguments(node.arguments, node.name, True, scope)
        if arguments.invalid is not None:
            return self.refuse_mapping(node.name, arguments.invalid)
        if not self.library.is_overridden(node.name, True):
            inlined = inlining.method(self, target, node, arguments)
            if inlined is not None:
                return inlined
        slot = self.slot("method", (node.name, arguments.shape, arguments.lazy), node)
        outer = self.outer_dollar(scope) if arguments.lazy else "None"
        return Code(f"{slot}({self.rt}, {target.text}, {outer}{arguments.joined()})")

    def function_call(self, node: ast.Call, scope: Scope | None) -> Code:
        """`name(arguments)`."""
        arguments = self.arguments(node.arguments, node.name, False, scope)
        if arguments.invalid is not None:
            return self.refuse_mapping(node.name, arguments.invalid)
        if not self.library.is_overridden(node.name, False):
            inlined = inlining.function(self, node, arguments)
            if inlined is not None:
                return inlined
        slot = self.slot("function", (node.name, arguments.shape), node)
        return Code(f"{slot}({self.looked_up(node, arguments)}{arguments.joined()})")

    def looked_up(self, node: ast.Call, arguments: Arguments, contexts: str = "") -> str:
        """Source of the run; checks that the function exists before its arguments are computed."""
        if self.library.has(node.name, False) or all(
            code.simple or code.literal for code in arguments.codes
        ):
            return self.rt
        return f"{self.slot('existing', (node.name,), node)}({self.rt}{contexts})"

    def type_literal(self, node: ast.TypeLiteral) -> Code:
        """`ns:Name`; the language alone has no types."""
        name = f"{node.prefix or ''}:{node.name}"
        return Code(f"{self.runtime_slot('unresolved_type', node)}({self.rt}, {name!r})")

    def binary(self, node: ast.Binary, left: Code, right: Code) -> Code:
        """An infix operator that the language does not define."""
        slot = self.slot("operator", (node.operator,), node)
        return Code(f"{slot}({self.rt}, {left.text}, {right.text})")

    # For hooks

    def slot(self, kind: str, data: tuple[object, ...], node: ast.Node) -> str:
        """The name of a new slot that comes from `node`."""
        return self.emitter.slot(kind, data, self.position(node))

    def position(self, node: ast.Node) -> int:
        """The offset at which failures of `node` are reported: that of its name or operator."""
        if isinstance(node, (ast.Property, ast.MethodCall, ast.Index)):
            return node.target.end
        return node.at if isinstance(node, ast.Binary) else node.start

    def runtime_slot(self, name: str, node: ast.Node) -> str:
        """A slot for a function of `runtime`."""
        return self.slot("runtime", (name,), node)

    def temporary(self) -> str:
        """A fresh local variable."""
        return self.emitter.temporary()

    def twice(self, code: Code) -> tuple[str, str]:
        """Two texts: one reads a value; the other computes it and must be evaluated first."""
        if code.simple:
            return code.text, code.text
        name = self.temporary()
        return name, f"{name} := {code.text}"

    def outer_dollar(self, scope: Scope | None) -> str:
        """The text of `$` at a place."""
        return self.read_variable("", scope, _ANYWHERE).text

    def lambda_argument(self, node: ast.Expression, lazy: Lazy, scope: Scope | None) -> Code:
        """A lazy argument as a Python lambda; a literal `null` means no lambda."""
        if lazy.nullable and isinstance(node, ast.Constant) and node.value is None:
            return Code("None", NULL, simple=True, literal=True)
        if lazy.arity == 0:
            return Code(f"lambda: {self.value(node, scope).text}", FUNCTION)
        if lazy.arity < 0:
            args, kwargs = self.temporary(), self.temporary()
            body = self.value(node, RichScope(scope, args, kwargs))
            return Code(f"lambda *{args}, **{kwargs}: {body.text}", FUNCTION)
        names = [self.temporary() for _ in range(lazy.arity)]
        body = self.value(node, LambdaScope(scope, names))
        return Code(f"lambda {', '.join(names)}: {body.text}", FUNCTION)

    def arguments(
        self, nodes: tuple[ast.Argument, ...], name: str, method: bool, scope: Scope | None
    ) -> Arguments:
        """Compile the arguments of a call, as lambdas where `name` takes them lazily."""
        codes: list[Code] = []
        shape: list[str] = []
        lazies: list[int] = []
        first = 1 if method else 0
        invalid: ast.Pair | None = None
        for index, item in enumerate(nodes):
            keyword = ""
            if isinstance(item, ast.Omitted):
                shape.append("-")
                continue
            if isinstance(item, ast.Pair):
                if not isinstance(item.key, ast.Keyword):
                    invalid = invalid or item
                    continue
                keyword = item.key.name
                item = item.value
            lazy = self.library.laziness(name, method, index + first, keyword)
            if lazy is not None:
                argument = self.lambda_argument(item, lazy, scope)
                if argument.kinds == FUNCTION:
                    lazies.append(len(codes))
                codes.append(argument)
            else:
                codes.append(self.value(item, scope))
            shape.append(keyword)
        return Arguments(codes, tuple(shape), tuple(lazies), invalid)

    def refuse_mapping(self, name: str, pair: ast.Pair) -> Code:
        """The failure of `f(1 => 2)` where only names are allowed before `=>`."""
        return Code(f"{self.runtime_slot('no_mapping', pair)}({self.rt}, {name!r})")

    @contextmanager
    def replacing(self, codes: dict[int, Code]) -> Generator[None, None, None]:
        """A context in which nodes (by `id`) use the given codes instead of being compiled."""
        added = {key: code for key, code in codes.items() if key not in self._replaced}
        self._replaced.update(added)
        try:
            yield
        finally:
            for key in added:
                del self._replaced[key]

    def compiled(self, node: ast.Node) -> Code | None:
        """The code of a node that was compiled beforehand (see `replacing`)."""
        return self._replaced.get(id(node))

    # The tree

    def value(self, node: ast.Node, scope: Scope | None) -> Code:
        """The code of any node in a scope."""
        replaced = self._replaced.get(id(node))
        if replaced is not None:
            return replaced
        cls = type(node)
        if cls in _CHAINED:
            return self._chain(node, scope)
        return self._compilers[cls](node, scope)

    def _chain(self, node: ast.Node, scope: Scope | None) -> Code:
        """Compile a long chain link by link, so that brackets do not nest."""
        spine: list[ast.Node] = []
        current = node
        while type(current) in _CHAINED and id(current) not in self._replaced:
            spine.append(current)
            current = _below(current)
        if len(spine) <= _SPINE:
            return self._compilers[type(node)](node, scope)
        steps: list[str] = []
        replaced: list[int] = []
        cut = len(spine) - _SPINE
        while cut > 0:
            link = spine[cut]
            code = self._compilers[type(link)](link, scope)
            name = self.temporary()
            steps.append(f"{name} := {code.text}")
            self._replaced[id(link)] = Code(name, code.kinds, simple=True)
            replaced.append(id(link))
            cut -= _SPINE
        last = self._compilers[type(node)](node, scope)
        for key in replaced:
            del self._replaced[key]
        return Code(f"({', '.join(steps)}, {last.text})[-1]", last.kinds)

    def _constant(self, node: ast.Constant, scope: Scope | None) -> Code:
        value = node.value
        kind = _KIND_OF_LITERAL[type(value)]
        if kind == FLOAT and repr(value) in {"inf", "nan"}:
            return Code(self.slot("value", (value,), node), kind, simple=True)
        return Code(repr(value), kind, simple=True, literal=True)

    def _keyword(self, node: ast.Keyword, scope: Scope | None) -> Code:
        return Code(repr(node.name), STRING, simple=True, literal=True)

    def _variable(self, node: ast.Variable, scope: Scope | None) -> Code:
        return self.read_variable(node.name, scope, node)

    def read_variable(self, name: str, scope: Scope | None, node: ast.Node) -> Code:
        """`$name` at a place: bound by a lambda or by `->`, or a variable of the host."""
        if scope is None:
            if self.library.is_overridden("#get_context_data", False):
                slot = self.slot("function", ("#get_context_data", ("",)), node)
                return Code(f"{slot}({self.rt}, {'$' + name!r})")
            return self.variable(name, node)
        text, simple = scope.read(
            name, lambda outer: self.read_variable(name, outer, node), simple=True
        )
        return Code(text, simple=simple)

    def _property(self, node: ast.Property, scope: Scope | None) -> Code:
        target = self.value(node.target, scope)
        if not node.safe:
            return self.property_access(target, node.name, node)
        if target.literal:
            return target if target.kinds == NULL else self.property_access(target, node.name, node)
        read, test = self.twice(target)
        inner = self.property_access(
            Code(read, target.kinds & ~NULL or ANY, simple=True), node.name, node
        )
        return Code(f"(None if ({test}) is None else {inner.text})")

    def _method_call(self, node: ast.MethodCall, scope: Scope | None) -> Code:
        if (
            self.library.is_legacy
            and isinstance(node.target, ast.MethodCall)
            and node.target.name == "as"
        ):
            # `x.as(… => name).f($name)` is `x.f($name)` in the context that `as` makes.
            receiver = ast.Variable(node.target.start, node.target.end, "0")
            place = node.start, node.end
            call = ast.MethodCall(*place, receiver, node.name, node.arguments, node.safe)
            return self._arrow(ast.Arrow(*place, node.target, call), scope)
        target = self.value(node.target, scope)
        safe = node.safe and not target.literal
        if node.safe and target.literal and target.kinds == NULL:
            return target
        read = test = ""
        if safe:
            read, test = self.twice(target)
            target = Code(read, target.kinds & ~NULL or ANY, simple=True)
        form = SPECIAL_METHODS.get(node.name)
        code: Code | None = None
        if form is not None and not self.library.is_overridden(node.name, True):
            code = form(self, target, node, scope)
        if code is None:
            code = self.method_call(target, node, scope)
        if safe:
            return Code(f"(None if ({test}) is None else {code.text})")
        return code

    def _dot(self, node: ast.Dot, scope: Scope | None) -> Code:
        slot = self.runtime_slot("no_evaluation", node.right)
        return Code(f"{slot}({self.rt}, '#operator_.')")

    def _call(self, node: ast.Call, scope: Scope | None) -> Code:
        form = SPECIAL_FORMS.get(node.name)
        if form is not None and not self.library.is_overridden(node.name, False):
            code = form(self, node, scope)
            if code is not None:
                return code
            if not self.library.has(node.name, False):
                slot = self.runtime_slot("no_evaluation", node)
                return Code(f"{slot}({self.rt}, {node.name!r})")
        contexts = scope.defining(node.name) if scope is not None else []
        if not contexts:
            return self.function_call(node, scope)
        arguments = self.arguments(node.arguments, node.name, False, scope)
        if arguments.invalid is not None:
            return self.refuse_mapping(node.name, arguments.invalid)
        site = self.slot("function", (node.name, arguments.shape), node)
        return Code(
            f"y_dynamic({self.looked_up(node, arguments, ', ' + ', '.join(contexts))}, "
            f"({', '.join(reversed(contexts))},), {node.name!r}, {site}, "
            f"{arguments.shape!r}, {arguments.lazy!r}, "
            f"{self.outer_dollar(scope)}{arguments.joined()})"
        )

    def list_of(self, codes: list[Code]) -> Code:
        """A list; a final one where that costs nothing."""
        inner = ", ".join(code.text for code in codes)
        if codes and all(code.is_final for code in codes):
            return Code(f"({inner}{',' if len(codes) == 1 else ''})", LIST, settled=True)
        return Code(f"[{inner}]", LIST)

    def mapping(self, pairs: list[ast.Pair], scope: Scope | None) -> Code:
        """A mapping of pairs, in order; the last of equal keys wins."""
        parts: list[str] = []
        is_final = self.frozen_data
        for pair in pairs:
            key = self.value(pair.key, scope)
            text = key.text if not key.kinds & ~SCALAR else f"y_key({key.text}, {self.rt})"
            value = self.value(pair.value, scope)
            is_final = is_final and value.is_final
            parts.append(f"{text}: {value.text}")
        display = f"{{{', '.join(parts)}}}"
        if is_final:
            return Code(f"y_Frozen({display})", MAPPING, settled=True)
        return Code(display, MAPPING)

    def _unary(self, node: ast.Unary, scope: Scope | None) -> Code:
        if node.operator == "not" and not self.library.is_overridden("#unary_operator_not", False):
            return Code(f"(not {self.value(node.operand, scope).text})", BOOLEAN)
        if is_arithmetic(self, node):
            return compile_arithmetic(self, node, scope)
        operand = self.value(node.operand, scope)
        slot = self.slot("unary", (node.operator,), node)
        return Code(f"{slot}({self.rt}, {operand.text})")

    def _binary(self, node: ast.Binary, scope: Scope | None) -> Code:
        operator = node.operator
        if operator in {"and", "or"} and not self.library.is_overridden(
            f"#operator_{operator}", False
        ):
            left, right = self.value(node.left, scope), self.value(node.right, scope)
            return Code(f"({left.text} {operator} {right.text})", left.kinds | right.kinds)
        if is_arithmetic(self, node):
            return compile_arithmetic(self, node, scope)
        return self.binary(node, self.value(node.left, scope), self.value(node.right, scope))

    def _arrow(self, node: ast.Arrow, scope: Scope | None) -> Code:
        context = self.temporary()
        left = self.value(node.left, scope)
        names, functions = context_names(node.left)
        slot = self.runtime_slot("open_context", node)
        inner = ArrowScope(scope, context, names, functions)
        right = self.value(node.right, inner)
        return Code(f"({context} := {slot}({self.rt}, {left.text}), {right.text})[-1]", right.kinds)

    def _type_literal(self, node: ast.TypeLiteral, scope: Scope | None) -> Code:
        return self.type_literal(node)


_ANYWHERE = ast.Variable(0, 0, "")
_CHAINED = frozenset([ast.Property, ast.MethodCall, ast.Index, ast.Binary])


def _below(node: Any) -> ast.Node:
    return node.left if isinstance(node, ast.Binary) else node.target
