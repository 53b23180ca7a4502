"""Find undefined names in code: functions, methods, properties, exceptions (section 28).

Certain mistakes are errors: a function that no library has, an unknown method or property of a
named class, arguments that no definition takes. An object may belong to a class derived from the
checked one, in a package unknown here; so an unknown method of `$` is a warning, and so are
findings about a value whose contract names its class (`known_classes`).
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from vetro.muranopl.classes.types import Method, MuranoType
from vetro.muranopl.contracts.plan import CONTRACT_FUNCTIONS
from vetro.muranopl.runtime import extensions, inline_caches
from vetro.muranopl.syntax import statements as st
from vetro.muranopl.syntax.blocks import flatten
from vetro.muranopl.syntax.findings import Finding, did_you_mean
from vetro.muranopl.syntax.yamltree import Scalar
from vetro.muranopl.tools.accepted_arguments import constructed_with, refusal_of
from vetro.muranopl.tools.known_classes import class_of_property, named_class
from vetro.muranopl.values.errors import MuranoError, Position
from vetro.muranopl.values.records import made, record
from vetro.yaql import ast
from vetro.yaql.errors import YaqlException
from vetro.yaql.forms import SPECIAL_FORMS, SPECIAL_METHODS
from vetro.yaql.scopes import constant_text

if TYPE_CHECKING:
    from vetro.yaql.library import Library

_MOCKS = frozenset(("inject", "withOriginal", "originalMethod"))
_BINDING = frozenset(("let", "with", "as"))
_CALLS = (ast.Call, ast.MethodCall)
_ANYTHING = frozenset(("io.murano.Object", "io.murano.Application"))
"""Contracts that say no more than that it is an object: its methods are unknown."""


@record
class Surroundings:
    """The facts about the package that the check of one class needs."""

    descendants: list[MuranoType]
    """Classes of the package derived from the checked class: `$` may be one of their objects."""
    package: list[MuranoType]
    """All classes of the package."""
    thrown: frozenset[str]
    """Names of exceptions that code of the package throws."""


@record
class Values:
    """Nodes of a class that are evaluated in the same way."""

    nodes: list[Scalar]
    own: bool
    """Whether `$` is the object (in static code the class itself)."""
    static: bool = False
    arguments: Mapping[str, MuranoType] = made(factory=dict[str, MuranoType])
    """Variables that are of a known class."""


# -- exceptions ----------------------------------------------------------------------------------


def thrown_names(body: Iterable[st.Statement]) -> Iterator[str]:
    """Full names of the exceptions that a block throws."""
    for item in flatten(list(body)):
        if isinstance(item, st.Throw):
            yield from item.names


def _host_exceptions() -> dict[str, str]:
    """The last part of every error name of the language and of Python, to the full name."""
    found = {
        name: name
        for name, item in vars(builtins).items()
        if isinstance(item, type) and issubclass(item, Exception)
    }
    stack: list[type[BaseException]] = [MuranoError, YaqlException]
    while stack:
        item = stack.pop()
        stack.extend(item.__subclasses__())
        for name in item.__dict__.get("own_names", item.__dict__.get("murano_names", ())):
            found.setdefault(name.rpartition(".")[2], name)
    return found


def own_exceptions(
    type_: MuranoType, body: Iterable[st.Statement], around: Surroundings
) -> Iterator[Finding]:
    """`With: KeyError` in a class with a namespace: it never catches Python's KeyError."""
    if not type_.namespaces.default:
        return
    known = _host_exceptions()
    for item in flatten(list(body)):
        for handler in item.handlers if isinstance(item, st.Try) else ():
            for name in handler.names or ():
                space, _, bare = name.rpartition(".")
                host = known.get(bare)
                if space != type_.namespaces.default or host is None or name in around.thrown:
                    continue
                yield Finding(
                    "W207",
                    f"With: {bare} means {name}, which nothing here throws; {_way_to(host)}",
                    handler.position,
                )


def _way_to(host: str) -> str:
    if "." in host:
        return f"the error of the language is {host}"
    return f"for Python's exception, write `py: ''` in Namespaces and `With: 'py:{host}'`"


# -- handlers ------------------------------------------------------------------------------------

_HANDLER = re.compile(r"on[A-Z]")


def misspelt_handlers(type_: MuranoType, groups: Iterable[Values]) -> Iterator[Finding]:
    """Methods such as `onInstalServer`, which nobody calls: nearly the name of an inherited handler."""
    own = [item for name, item in type_.methods.items() if _HANDLER.match(name)]
    if not own:
        return
    inherited = {
        name
        for holder in type_.ancestors
        if holder is not type_
        for name in holder.methods
        if _HANDLER.match(name)
    }
    used = {
        getattr(node, "name", None)
        for values in groups
        for scalar in values.nodes
        if scalar.is_expression
        for node in ast.walk(scalar.expression)
    }
    for item in own:
        if item.name in inherited or item.name in used:
            continue
        # onUninstallServer and onInstallServer are 0.94 alike: neither is a misspelling of the other.
        for near in get_close_matches(item.name, inherited, 1, 0.95):
            message = (
                f"nothing calls {item.name}; did you mean {near}, which {type_.name} inherits?"
            )
            yield Finding("W210", message, item.position)


# -- names in expressions ------------------------------------------------------------------------


def unknown_names(
    type_: MuranoType, groups: Iterable[Values], assigned: frozenset[str], around: Surroundings
) -> Iterator[Finding]:
    """Findings of all expressions. `assigned`: names of properties that the class's code writes."""
    library = type_.runtime.library_for(type_.package)
    for values in groups:
        for scalar in values.nodes:
            if not scalar.is_expression:
                continue
            walker = _Walker(type_, library, scalar, values, assigned, around)
            walker.visit(scalar.expression, values.own)
            yield from walker.findings


class _Walker:
    """Walks one expression; tracks where `$` is still the object."""

    def __init__(
        self,
        type_: MuranoType,
        library: Library,
        scalar: Scalar,
        values: Values,
        assigned: frozenset[str],
        around: Surroundings,
    ) -> None:
        self.type = type_
        self.library = library
        self.scalar = scalar
        self.static = values.static
        self.assigned = assigned
        self.around = around
        self.findings: list[Finding] = []
        parts = list(ast.walk(scalar.expression))
        calls = [part for part in parts if isinstance(part, ast.Call)]
        self.defined = {
            constant_text(item.arguments[0])
            for item in calls
            if item.name == "def" and item.arguments
        }
        # `let` and `with` may give a variable a value of any class.
        binds = any(item.name in _BINDING for item in parts if isinstance(item, _CALLS))
        self.arguments: Mapping[str, MuranoType] = {} if binds else values.arguments
        self.mocks = any(item.name in _MOCKS for item in calls)
        """Whether there are mocks, which run as code of another class."""

    def visit(self, node: ast.Node, own: bool) -> None:
        """Check a node and all nodes below it."""
        if isinstance(node, ast.Call):
            self._function(node)
            self._new(node)
            self._arguments(node, False, own)
        elif isinstance(node, ast.MethodCall):
            self._method(node, own)
            self.visit(node.target, own)
            self._arguments(node, True, own)
        elif isinstance(node, ast.Arrow):
            self.visit(node.left, own)
            self.visit(node.right, False)
        elif isinstance(node, ast.Index):
            self.visit(node.target, own)
            for item in node.arguments:
                self.visit(item, False)
        else:
            if isinstance(node, ast.Property):
                self._property(node, own)
            for child in node.children():
                self.visit(child, own)

    def _arguments(self, node: ast.Call | ast.MethodCall, method: bool, own: bool) -> None:
        first = 1 if method else 0
        scoped = (inline_caches.SCOPED_METHODS if method else inline_caches.SCOPED_FUNCTIONS).get(
            node.name
        )
        for index, item in enumerate(node.arguments):
            keyword = ""
            if isinstance(item, ast.Pair):
                keyword = constant_text(item.key) or ""
            lazy = self.library.laziness(node.name, method, index + first, keyword)
            keeps = (
                (lazy is None or lazy.arity == 0)
                and (scoped is None or index + first not in scoped.lambdas)
                and node.name != "def"
                and not (method and node.name in SPECIAL_METHODS)
            )
            self.visit(item, own and keeps)

    def _add(self, code: str, message: str, node: ast.Node) -> None:
        place: Position = self.scalar.position_of(node.start)
        self.findings.append(Finding(code, message, place))

    # -- functions -----------------------------------------------------------------------------

    def _function(self, node: ast.Call) -> None:
        name = node.name
        if (
            name in inline_caches.SCOPED_FUNCTIONS
            or name in SPECIAL_FORMS
            or name in self.defined
            or name in _MOCKS
            or not name.isidentifier()
            or self.library.has(name, False)
        ):
            return
        hint = None
        if self.type.method_declarations(name):
            hint = f"write $.{name}(…) to call a method of the object"
        hint = hint or self.library.suggest(name, False)
        self._add("E311", f"there is no function {name}{_hint(hint)}", node)

    def _new(self, node: ast.Call) -> None:
        """Names in `new(X, a => 1)` and `new(X, {a => 1})` that X makes nothing of."""
        if node.name != "new" or not node.arguments or self.mocks or self.type.package.legacy:
            return
        type_ = named_class(self.type, node.arguments[0])
        if type_ is None:
            return
        known = {key for key, static in _properties(type_) if not static}
        known |= constructed_with(type_)
        second = node.arguments[1] if len(node.arguments) > 1 else None
        given = node.arguments[1:]
        if isinstance(second, ast.MapLiteral):
            given = second.items
        elif not isinstance(second, ast.Pair):
            known |= {"owner", "objectName", "extra"}  # it may be a map, and these its options
        for item in given:
            if not isinstance(item, ast.Pair) or not isinstance(item.key, ast.Keyword):
                continue
            name = item.key.name
            # What begins with an underscore is kept with the object (`extra`).
            if name not in known and not name.startswith("_"):
                near = _near(name, known)
                what = f"{type_.name} has no property {name}, so new() ignores it{near}"
                self._add("W211", what, item)

    # -- methods -------------------------------------------------------------------------------

    def _method(self, node: ast.MethodCall, own: bool) -> None:
        named = self._named_type(node.target)
        if named is not None:
            self._static_method(named, node)
        elif self._is_this(node.target, own):
            self._own_method(node)
        else:
            exact = isinstance(node.target, ast.Call)
            known = self._known_class(node.target, own)
            if known is not None:
                self._method_of(known, node, exact=exact)

    def _named_type(self, node: ast.Node) -> MuranoType | None:
        """The class of `:Name` or `type(Name)`; None for other nodes and unknown classes."""
        if isinstance(node, ast.TypeLiteral):
            text = f"{node.prefix or '='}:{node.name}" if node.prefix else f":{node.name}"
        elif isinstance(node, ast.Call) and node.name == "type" and len(node.arguments) == 1:
            found = constant_text(node.arguments[0])
            if found is None:
                return None
            text = found
        else:
            return None
        try:
            return inline_caches.named_type(self.type, text)()
        except (MuranoError, KeyError, ValueError):
            return None  # reported for the class's name

    def _known_class(self, node: ast.Node, own: bool) -> MuranoType | None:
        """The class of a value or an ancestor of its class; None when it cannot be determined."""
        if self.mocks:
            return None
        if isinstance(node, ast.Variable) and node.name:
            return self.arguments.get(node.name)
        if isinstance(node, ast.Call) and node.name == "new" and node.arguments:
            return named_class(self.type, node.arguments[0])
        if isinstance(node, ast.Property):
            if self._is_this(node.target, own):
                return class_of_property(self.type, node.name, static=self.static)
            holder = self._known_class(node.target, own)
            return None if holder is None else class_of_property(holder, node.name)
        return None

    def _is_this(self, node: ast.Node, own: bool) -> bool:
        if not isinstance(node, ast.Variable) or self.mocks:
            return False
        return node.name == "this" or (node.name == "" and own)

    def _is_general(self, name: str) -> bool:
        """Whether the name is also a method of other values, so that an object may have it too."""
        return (
            name in inline_caches.SCOPED_METHODS
            or name in SPECIAL_METHODS
            or name in CONTRACT_FUNCTIONS
            or name in ("initialize", "destroy")
            or self.library.has(name, True)
            or extensions.has_extension(self.type, name)
        )

    def _static_method(self, type_: MuranoType, node: ast.MethodCall) -> None:
        found = type_.method_declarations(node.name)
        static = [item for item in found if item.is_static]
        if static:
            self._check_arguments(static, node)
        elif not self._is_general(node.name):
            what = f"{type_.name} has no static method {node.name}"
            if found:
                what = f"{node.name} of {type_.name} is not Static: call it on an object"
            self._add("E312", f"{what}{_near(node.name, _methods(type_, True))}", node)

    def _own_method(self, node: ast.MethodCall) -> None:
        name = node.name
        known = [self.type, *self.around.descendants]
        found = [item for type_ in known for item in type_.method_declarations(name)]
        found = list(dict.fromkeys(found))
        usable = [item for item in found if item.is_static] if self.static else found
        if usable:
            self._check_arguments(usable, node)
        elif self.static and found:
            what = f"{name} of {self.type.name} is a method of objects, and $ is the class here"
            self._add("E312", what, node)
        elif not self._is_general(name):
            near = _near(name, _methods(self.type, self.static))
            code = "E312" if self.static else "W206"
            self._add(code, f"{self.type.name} has no method {name}{near}", node)

    def _method_of(self, type_: MuranoType, node: ast.MethodCall, *, exact: bool) -> None:
        """Check a method call; unless `exact`, the value's class may derive from the known one."""
        known = [type_]
        if not exact:
            known += [item for item in self.around.package if item.is_compatible(type_)]
        found = [item for one in known for item in one.method_declarations(node.name)]
        found = list(dict.fromkeys(found))
        if found:
            self._check_arguments(found, node, "E313" if exact else "W209")
        elif not self._is_general(node.name) and (exact or type_.name not in _ANYTHING):
            near = _near(node.name, _methods(type_, False))
            what = f"{type_.name} has no method {node.name}{near}"
            self._add("W206", what, node)

    def _check_arguments(
        self, found: list[Method], node: ast.MethodCall, code: str = "E313"
    ) -> None:
        refusals = [refusal_of(item, node) for item in found]
        first = refusals[0]
        if first is not None and None not in refusals:
            owner = found[0].declaring_type.name
            self._add(code, f"{node.name} of {owner} {first}", node)

    # -- properties ----------------------------------------------------------------------------

    def _property(self, node: ast.Property, own: bool) -> None:
        named = self._named_type(node.target)
        name = node.name
        this = self._is_this(node.target, own)
        if named is None and this and self.static:
            named = self.type
        if named is not None:
            found = named.property_declarations(name)
            if not any(item.is_static for item in found):
                what = f"{named.name} has no static property {name}"
                if found:
                    what = f"{name} of {named.name} is not Static: read it from an object"
                near = _near(name, [key for key, item in _properties(named) if item])
                self._add("E312", f"{what}{near}", node)
            return
        if not this or self.type.package.legacy:
            return
        if not self.type.property_declarations(name) and name not in self.assigned:
            near = _near(name, {*(key for key, _ in _properties(self.type)), *self.assigned})
            self._add("W208", f"the property {name} is neither declared nor assigned{near}", node)


def _hint(text: str | None) -> str:
    return f"; {text}" if text else ""


def _near(name: str, known: Iterable[str]) -> str:
    return _hint(did_you_mean(name, known))


def _methods(type_: MuranoType, static: bool) -> list[str]:
    found = {
        name: item
        for holder in reversed(type_.ancestors)
        for name, item in holder.methods.items()
        if not item.is_hidden
    }
    return [name for name, item in found.items() if item.is_static or not static]


def _properties(type_: MuranoType) -> list[tuple[str, bool]]:
    return [
        (name, item.is_static)
        for holder in type_.ancestors
        for name, item in holder.properties.items()
    ]
