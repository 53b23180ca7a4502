"""What the value of an expression of a class depends on, for `guardcheck`.

The flow within one class is followed through variables, properties that the class assigns, parameters,
and its own methods. The order of statements does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from vetro.muranopl.syntax import statements as st
from vetro.muranopl.syntax.blocks import expressions_of, flatten, values_of
from vetro.muranopl.syntax.declarations import ClassDeclaration
from vetro.muranopl.syntax.findings import Sink
from vetro.muranopl.syntax.statements import Statement, parse_body
from vetro.muranopl.syntax.targets import parse_target
from vetro.yaql import ast

UNKNOWN = "?"
"""The name of an attribute that is computed."""
_GUEST_METHODS = frozenset(["runCommand", "putFile"])
_AGENT_METHODS = frozenset(["call", "callRaw", "send", "sendRaw"])
_READERS = frozenset(["string", "yaml", "json"])
#: Properties that the program writes, and that are there at the next deployment.
_KEPT = frozenset(["Out", "InOut"])


class Source(NamedTuple):
    """Something that a value depends on.

    `right`: the version of the package, its scripts, or an `Installation`. `attribute`, `property`: what
    is kept from one deployment to the next.
    """

    kind: Literal["right", "attribute", "property"]
    name: str = ""


RIGHT = Source("right")
Sources: TypeAlias = frozenset[Source]


class Where(NamedTuple):
    """An expression and the method that it stands in."""

    method: str
    node: ast.Node


class ClassFlow:
    """The assignments and calls of a class."""

    def __init__(self, declaration: ClassDeclaration) -> None:
        sink = Sink(collects=True)
        self.bodies: dict[str, list[Statement]] = {
            name: parse_body(method.body, declaration.namespaces, sink)
            for name, method in declaration.methods.items()
            if method.body is not None
        }
        self.kept = {
            name: one.default for name, one in declaration.properties.items() if one.usage in _KEPT
        }
        """The defaults of properties that the next deployment finds as the program left them."""
        self._arguments = {
            name: [one.name for one in method.arguments]
            for name, method in declaration.methods.items()
        }
        self._variables: dict[tuple[str, str], list[Where]] = {}
        self._properties: dict[str, list[Where]] = {}
        self._answers: dict[str, list[Where]] = {}
        self._calls: dict[str, set[str]] = {}
        self._deciding: dict[tuple[str, str], list[Where]] = {}
        """The conditions on which a variable, or a property of `""`, is assigned."""
        self.writes: dict[Source, list[Where]] = {}
        """What is kept, with the expressions that are written to it."""
        for name, body in self.bodies.items():
            for one in flatten(body):
                self._read(name, one)
        self.installing = self._installing()

    def _read(self, method: str, one: Statement) -> None:
        for node in values_of(one):
            for part in (part for found in expressions_of(node) for part in ast.walk(found)):
                self._read_call(method, part)
        if isinstance(one, st.Assign):
            target = parse_target(one.target)
            values = [Where(method, value) for value in expressions_of(one.value)]
            if target.variable is None:
                return
            if not target.is_this:
                self._variables.setdefault((method, target.variable), []).extend(values)
            elif target.path:
                name = str(target.path[0].value)
                self._properties.setdefault(name, []).extend(values)
                if name in self.kept:
                    self.writes.setdefault(Source("property", name), []).extend(values)
        elif isinstance(one, st.For):
            values = [Where(method, value) for value in expressions_of(one.collection)]
            self._variables.setdefault((method, one.variable), []).extend(values)
        elif isinstance(one, st.Return) and one.value is not None:
            values = [Where(method, value) for value in expressions_of(one.value)]
            self._answers.setdefault(method, []).extend(values)
        elif isinstance(one, (st.If, st.While, st.Switch, st.Match)):
            # Which answer is given, and what is assigned within, depends on it.
            values = [
                Where(method, part) for node in values_of(one) for part in expressions_of(node)
            ]
            self._answers.setdefault(method, []).extend(values)
            for item in flatten([one]):
                if isinstance(item, st.Assign):
                    target = parse_target(item.target)
                    key = method, str(target.variable)
                    if target.is_this and target.path:
                        key = "", str(target.path[0].value)
                    self._deciding.setdefault(key, []).extend(values)

    def _read_call(self, method: str, part: ast.Node) -> None:
        called = own_call(part)
        if called is not None:
            self._calls.setdefault(method, set()).add(called.name)
            names = self._arguments.get(called.name, [])
            for index, given in enumerate(called.arguments):
                if isinstance(given, ast.Pair):
                    if isinstance(given.key, ast.Keyword):
                        where = Where(method, given.value)
                        self._variables.setdefault((called.name, given.key.name), []).append(where)
                elif index < len(names):
                    where = Where(method, given)
                    self._variables.setdefault((called.name, names[index]), []).append(where)
        written = attribute_call(part, "setAttr")
        if written is not None:
            for name in self._names(Where(method, written[0])):
                values = [Where(method, one) for one in written[1:2] or [part]]
                self.writes.setdefault(Source("attribute", name), []).extend(values)

    def _installing(self) -> set[str]:
        """The methods that call a guest, by others of the class as well."""
        self.installing = set[str]()
        while True:
            more = {
                name
                for name, body in self.bodies.items()
                if name not in self.installing and self._calls_guest(name, body)
            }
            if not more:
                return self.installing
            self.installing |= more

    def _calls_guest(self, name: str, body: list[Statement]) -> bool:
        return any(
            self.installs(Where(name, part))
            for one in flatten(body)
            for node in values_of(one)
            for found in expressions_of(node)
            for part in ast.walk(found)
        )

    def installs(self, where: Where) -> bool:
        """Whether an expression itself calls a guest, or a method of the class that does."""
        part = where.node
        if isinstance(part, ast.Call) and part.name == "call" and part.arguments:
            return constant_text(part.arguments[0]) in self.installing | _GUEST_METHODS
        if not isinstance(part, ast.MethodCall):
            return False
        called = own_call(part)
        return (
            part.name in _GUEST_METHODS
            or (called is not None and called.name in self.installing)
            or (
                part.name in _AGENT_METHODS
                and self._reaches(Where(where.method, part.target), _is_agent)
            )
        )

    def sources(self, *wheres: Where) -> Sources:
        """What the values of expressions depend on."""
        found: set[Source] = set()
        for where in self._flow(wheres, skip=self.installs):  # not on what a guest answers
            found |= self._own_sources(where)
        return frozenset(found)

    def _own_sources(self, where: Where) -> set[Source]:
        """What a part of an expression is by itself."""
        method, part = where
        read = attribute_call(part, "getAttr")
        if read is not None:
            return {Source("attribute", name) for name in self._names(Where(method, read[0]))}
        if isinstance(part, ast.Property):
            if part.name == "version" and self._reaches(Where(method, part.target), _is_own_type):
                return {RIGHT}
            if is_this(part.target) and part.name in self.kept:
                return {Source("property", part.name)}
        elif isinstance(part, ast.MethodCall) and (
            part.name == "isDue"
            or (
                part.name in _READERS
                and self._reaches(Where(method, part.target), _makes_resources)
            )
        ):
            return {RIGHT}
        return set()

    def _reaches(self, where: Where, test: Callable[[ast.Node], bool]) -> bool:
        return any(test(one.node) for one in self._flow([where]))

    def _flow(
        self, wheres: Iterable[Where], skip: Callable[[Where], bool] = lambda _: False
    ) -> Iterator[Where]:
        """Every part of expressions, and of what was assigned to what they name."""
        seen: set[int] = set()
        pending = [*wheres]
        while pending:
            where = pending.pop()
            method, part = where
            if id(part) in seen or skip(where):
                continue
            seen.add(id(part))
            yield where
            pending += [Where(method, child) for child in part.children()]
            called = own_call(part)
            if called is not None:
                pending += self._answers.get(called.name, [])
            elif isinstance(part, ast.Variable) and not is_this(part):
                pending += self._variables.get((method, part.name), [])
                pending += self._deciding.get((method, part.name), [])
            elif isinstance(part, ast.Property) and is_this(part.target):
                pending += self._properties.get(part.name, [])
                pending += self._deciding.get(("", part.name), [])

    def single(self, where: Where) -> Where | None:
        """The one expression that a variable or a method of the class stands for."""
        method, part = where
        found: list[Where] = []
        if isinstance(part, ast.Variable) and not is_this(part):
            found = self._variables.get((method, part.name), [])
        else:
            called = own_call(part)
            body = [] if called is None else self.bodies.get(called.name, [])
            if called is not None and len(body) == 1 and isinstance(body[0], st.Return):
                found = self._answers.get(called.name, [])
        return found[0] if len(found) == 1 else None

    def around(self, method: str) -> set[str]:
        """The methods that run in one go with a method: those that lead to it, and what these call."""
        found = {method}
        while True:
            more = {name for name, called in self._calls.items() if called & found} - found
            if not more:
                break
            found |= more
        pending = [*found]
        while pending:
            more = self._calls.get(pending.pop(), set()) - found
            found |= more
            pending += more
        return found

    def attributes(self, where: Where, name: ast.Node) -> set[Source]:
        """The attributes that the name of one may name."""
        return {Source("attribute", one) for one in self._names(Where(where.method, name))}

    def _names(self, where: Where) -> list[str]:
        """The names that the name of an attribute may be."""
        method, part = where
        text = constant_text(part)
        if text is not None:
            return [text]
        names: list[str] = []
        if isinstance(part, ast.Variable):
            given = self._variables.get((method, part.name), [])
            names = [text for one in given if (text := constant_text(one.node)) is not None]
            if given and len(names) == len(given):
                return names
        return [*names, UNKNOWN]

    def writes_to(self, source: Source) -> list[Where] | None:
        """What the class writes to something that is kept; None: it never does."""
        found = self.writes.get(source)
        if source.kind == "attribute":
            others = [one for one in self.writes if one.kind == "attribute"]
            if source.name == UNKNOWN:
                named = others
            else:
                named = [one for one in others if one.name in (source.name, UNKNOWN)]
            if named:
                return [value for one in named for value in self.writes[one]]
        return found


def attribute_call(part: ast.Node, name: str) -> list[ast.Node] | None:
    """The arguments of `getAttr` or `setAttr`, the name first."""
    if isinstance(part, ast.MethodCall) and part.name == name:
        given: Iterable[ast.Node] = part.arguments
    elif isinstance(part, ast.Call) and part.name == name:
        given = part.arguments[1:]
    else:
        return None
    values: list[ast.Node] = [one.value if isinstance(one, ast.Pair) else one for one in given]
    return values or None


def own_call(part: ast.Node) -> ast.MethodCall | None:
    """The call, if it is one of a method of the object itself."""
    if isinstance(part, ast.MethodCall) and is_this(part.target):
        return part
    return None


def is_this(node: ast.Node) -> bool:
    """Whether it is `$` or `$this`."""
    return isinstance(node, ast.Variable) and node.name in ("", "this")


def constant_text(node: ast.Node) -> str | None:
    """The text of a constant or a bare word."""
    match node:
        case ast.Keyword(name=text) | ast.Constant(value=str(text)):
            return text
        case _:
            return None


def _is_agent(part: ast.Node) -> bool:
    named = isinstance(part, (ast.Property, ast.Variable)) and part.name == "agent"
    return named or _makes(part, "Agent")


def _makes_resources(part: ast.Node) -> bool:
    return _makes(part, "Resources")


def _is_own_type(part: ast.Node) -> bool:
    """Of something else it has the version of another package."""
    if isinstance(part, ast.MethodCall):
        return part.name == "typeinfo" and is_this(part.target)
    if not isinstance(part, ast.Call) or part.name != "typeinfo" or not part.arguments:
        return False
    given = part.arguments[0]
    return is_this(given) or not isinstance(given, (ast.Property, ast.Variable))


def _makes(part: ast.Node, name: str) -> bool:
    """Whether it is `new` of a class of this name."""
    if not isinstance(part, ast.Call) or part.name != "new" or not part.arguments:
        return False
    return _class_name(part.arguments[0]) == name


def _class_name(node: ast.Node) -> str:
    """The last part of the name of a class."""
    if isinstance(node, ast.TypeLiteral):
        return node.name.rpartition(".")[2]
    return (constant_text(node) or "").rpartition(".")[2].rpartition(":")[2]
