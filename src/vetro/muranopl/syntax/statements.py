"""Bodies to statements (muranopl.md sections 9-11).

After this phase every block is one of the constructs below with allowed keys only, `Break` and
`Continue` are inside loops, targets of assignments are valid, and every statement has its place.
Values remain nodes; the compiler checks the expressions.
"""

from __future__ import annotations

from collections.abc import Callable

from vetro.muranopl.values.errors import (
    DslInvalidOperationError,
    InvalidLhsTargetError,
    Position,
)
from vetro.muranopl.values.records import made, record

from .findings import Sink, closest, did_you_mean
from .names import Namespaces
from .targets import parse_target
from .yamltree import Mapping, Node, Scalar, Sequence

MOST_BRANCHES = 1_000
"""Branches that one `Parallel` may have; `Limits.parallel_branches` unless a host says otherwise."""


@record
class Statement:
    position: Position


@record
class Evaluate(Statement):
    """An expression that is evaluated for its effects."""

    expression: Scalar


@record
class Assign(Statement):
    target: Scalar
    value: Node


@record
class Return(Statement):
    value: Node | None


@record
class If(Statement):
    condition: Node
    then: list[Statement]
    otherwise: list[Statement]


@record
class While(Statement):
    condition: Scalar
    body: list[Statement]


@record
class For(Statement):
    variable: str
    collection: Node
    body: list[Statement]


@record
class Repeat(Statement):
    count: Scalar
    body: list[Statement]


@record
class Break(Statement):
    pass


@record
class Continue(Statement):
    pass


@record
class Match(Statement):
    value: Node
    cases: list[tuple[object, list[Statement]]]
    default: list[Statement] | None


@record
class Switch(Statement):
    cases: list[tuple[Node, list[Statement]]]
    default: list[Statement] | None


@record
class Parallel(Statement):
    branches: list[list[Statement]]
    limit: Node | None


@record
class Block(Statement):
    body: list[Statement]


@record
class Handler:
    """One `Catch`. `names` None: any exception."""

    names: list[str] | None
    variable: str | None
    body: list[Statement]
    position: Position


@record
class Try(Statement):
    body: list[Statement]
    handlers: list[Handler]
    otherwise: list[Statement]
    final: list[Statement]


@record
class Throw(Statement):
    names: list[str]
    message: Node | None
    extra: Node | None
    cause: Node | None


@record
class Rethrow(Statement):
    pass


_Make = Callable[["_Parser", Mapping, dict[str, Node]], Statement]


@record
class _Construct:
    make: _Make
    required: frozenset[str]
    optional: frozenset[str] = made(factory=frozenset[str])


def parse_body(
    body: Node | None, namespaces: Namespaces, sink: Sink | None = None
) -> list[Statement]:
    """The statements of a body.

    Raises the first error, a DslSyntaxError, InvalidLhsTargetError or DslInvalidOperationError; if
    the sink collects, it gets all, and the statements that can be read are returned.
    """
    if body is None:
        return []
    sink = sink or Sink()
    found = _Parser(namespaces, sink).block(body)
    sink.end()
    return found


class _Parser:
    def __init__(self, namespaces: Namespaces, sink: Sink) -> None:
        self.namespaces = namespaces
        self.sink = sink
        self.loops = 0
        """Loops around the statement being read. `Break` in a branch of `Parallel` ends the loop."""

    def block(self, node: Node) -> list[Statement]:
        if isinstance(node, Scalar) and node.value is None and not node.is_expression:
            return []
        if isinstance(node, Sequence):
            return [self.statement(item) for item in node.items]
        return [self.statement(node)]

    def statement(self, node: Node) -> Statement:
        if isinstance(node, Mapping):
            return self._map_statement(node)
        if isinstance(node, Sequence):
            self._no_statement(node, "a list is not a statement", "use Do: to nest a block")
        elif node.is_expression:
            return Evaluate(node.position, node)
        else:
            self.sink.fail(
                "E205",
                f"{node.value!r} is not a statement: it is text, not an expression",
                node.position,
                "check its parentheses and quotes"
                if isinstance(node.value, str) and ("$" in node.value or "(" in node.value)
                else "a statement must be an expression, an assignment or a construct such as If",
            )
        return Block(node.position, [])

    def _no_statement(self, node: Node, message: str, hint: str | None = None) -> None:
        self.sink.fail("E204", message, node.position, hint)

    def _map_statement(self, node: Mapping) -> Statement:
        keys = [key for key, _ in node.pairs]
        if not keys:
            self._no_statement(node, "an empty map is not a statement")
            return Block(node.position, [])
        expressions = [key for key in keys if key.is_expression]
        if expressions and len(keys) == 1:
            try:
                parse_target(keys[0])
            except InvalidLhsTargetError as error:
                self.sink.errors.append(error)
                return Block(node.position, [])
            return Assign(keys[0].position, keys[0], node.pairs[0][1])
        if expressions:
            self._no_statement(
                keys[1],
                "a statement is one assignment or one construct; this map is neither: keys "
                + ", ".join(repr(str(key.value)) for key in keys),
                "start each statement with its own dash",
            )
            return Block(node.position, [])
        parts = {str(key.value): value for key, value in node.pairs}
        places = {str(key.value): key.position for key in keys}
        for name in parts:
            construct = _CONSTRUCTS.get(name)
            if construct is not None:
                return self._construct(node, name, construct, parts, places)
        for name, place in places.items():
            if _looks_like_target(name):
                message = f'Invalid assignment target "{name}"'
                self.sink.fail("E204", message, place, kind=InvalidLhsTargetError)
            elif name not in _PARTS:
                message = f"no statement has the key {name}"
                self.sink.fail("E201", message, place, did_you_mean(name, _PARTS))
        if all(name in _PARTS for name in parts):
            self._no_statement(
                node, f"{', '.join(parts)} without the statement that it is a part of"
            )
        return Block(node.position, [])

    def _construct(
        self,
        node: Mapping,
        name: str,
        construct: _Construct,
        parts: dict[str, Node],
        places: dict[str, Position],
    ) -> Statement:
        allowed = construct.required | construct.optional
        missing = set(construct.required - parts.keys())
        for part in [part for part in parts if part not in allowed]:
            meant = closest(part, allowed)
            hint = (
                f"did you mean {meant}?" if meant else f"its parts are {', '.join(sorted(allowed))}"
            )
            self.sink.fail("E201", f"{name} has no part {part}", places[part], hint)
            if meant in missing:  # a misspelt part is one error
                missing.discard(meant)
                parts[meant] = parts[part]
        for part in sorted(missing):
            self.sink.fail("E204", f"{name} needs {part}", node.position)
            parts[part] = Scalar(None, node.source, 0, 0, node.line, node.column)
        return construct.make(self, node, parts)

    # -- constructs ----------------------------------------------------------------------------

    def _loop_block(self, node: Node) -> list[Statement]:
        self.loops += 1
        try:
            return self.block(node)
        finally:
            self.loops -= 1

    def _optional_block(self, parts: dict[str, Node], key: str) -> list[Statement]:
        node = parts.get(key)
        return [] if node is None else self.block(node)

    def return_(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        value = parts["Return"]
        empty = isinstance(value, Scalar) and value.value is None
        return Return(node.position, None if empty else value)

    def if_(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        return If(
            node.position,
            parts["If"],
            self.block(parts["Then"]),
            self._optional_block(parts, "Else"),
        )

    def while_(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        condition = parts["While"]
        body = self._loop_block(parts["Do"])
        if isinstance(condition, Scalar) and condition.is_expression:
            return While(node.position, condition, body)
        self.sink.fail(
            "E203",
            "the condition of While must be an expression",
            condition.position,
            "write !yaql true to loop until Break",
        )
        return Block(node.position, body)

    def for_(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        variable = parts["For"]
        name = ""
        if (
            not isinstance(variable, Scalar)
            or variable.is_expression
            or not isinstance(variable.value, str)
            or not variable.value.isidentifier()
        ):
            message = "For takes the name of a variable without $"
            self.sink.fail("E203", message, variable.position)
        elif variable.value == "this":
            self.sink.fail("E203", "For cannot assign to $this", variable.position)
        else:
            name = variable.value
        return For(node.position, name, parts["In"], self._loop_block(parts["Do"]))

    def repeat(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        count = parts["Repeat"]
        body = self._loop_block(parts["Do"])
        if isinstance(count, Scalar) and (
            count.is_expression
            or (isinstance(count.value, (int, float)) and not isinstance(count.value, bool))
        ):
            return Repeat(node.position, count, body)
        self.sink.fail("E203", "Repeat takes a number or an expression", count.position)
        return Block(node.position, body)

    def _empty(self, parts: dict[str, Node], name: str) -> None:
        value = parts[name]
        if not (isinstance(value, Scalar) and value.value is None):
            self.sink.fail("E200", f"{name} takes no value", value.position)

    def _leave(self, node: Mapping, parts: dict[str, Node], name: str) -> None:
        self._empty(parts, name)
        if self.loops == 0:
            self.sink.fail(
                "E206",
                f"{name} outside a loop",
                node.position,
                "use it inside While, For or Repeat",
                kind=DslInvalidOperationError,
            )

    def break_(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        self._leave(node, parts, "Break")
        return Break(node.position)

    def continue_(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        self._leave(node, parts, "Continue")
        return Continue(node.position)

    def _cases(self, table: Node, message: str) -> list[tuple[Scalar, list[Statement]]]:
        if not isinstance(table, Mapping):
            self.sink.fail("E203", message, table.position)
            return []
        return [(key, self.block(value)) for key, value in table.pairs]

    def match(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        cases = self._cases(parts["Match"], "Match must be a map from constants to blocks")
        default = parts.get("Default")
        return Match(
            node.position,
            parts["Value"],
            [(key.value, body) for key, body in cases],
            None if default is None else self.block(default),
        )

    def switch(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        cases = self._cases(parts["Switch"], "Switch must be a map from conditions to blocks")
        default = parts.get("Default")
        return Switch(node.position, [*cases], None if default is None else self.block(default))

    def parallel(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        block = parts["Parallel"]
        items: list[Node] = block.items if isinstance(block, Sequence) else [block]
        if isinstance(block, Scalar) and block.value is None:
            items = []
        if len(items) > MOST_BRANCHES:
            self.sink.fail(
                "E305",
                f"Parallel has {len(items)} branches; the limit is {MOST_BRANCHES}",
                node.position,
                "use pselect to run one expression for each element of a list",
                kind=DslInvalidOperationError,
            )
        return Parallel(node.position, [self.block(item) for item in items], parts.get("Limit"))

    def do(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        block = parts["Do"]
        return Block(node.position, self.block(block))

    def try_(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        caught = parts.get("Catch")
        handlers: list[Handler] = []
        body = self.block(parts["Try"])
        if caught is not None:
            items = caught.items if isinstance(caught, Sequence) else [caught]
            handlers = [self._handler(item) for item in items]
        return Try(
            node.position,
            body,
            handlers,
            self._optional_block(parts, "Else"),
            self._optional_block(parts, "Finally"),
        )

    def _handler(self, node: Node) -> Handler:
        handler = Handler(None, None, [], node.position)
        if not isinstance(node, Mapping):
            if not (isinstance(node, Scalar) and node.value is None):
                self.sink.fail(
                    "E203", "Catch must be a map with the keys With, As and Do", node.position
                )
            return handler
        for name, key, value in node.entries():
            if name == "With":
                handler.names = self._exception_names(value)
            elif name == "As":
                handler.variable = self._caught_variable(value)
            elif name == "Do":
                handler.body = self.block(value)
            else:
                hint = did_you_mean(name, _CATCH) or f"its parts are {', '.join(_CATCH)}"
                self.sink.fail("E201", f"Catch has no part {name}", key.position, hint)
        return handler

    def _caught_variable(self, node: Node) -> str | None:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            self.sink.fail("E203", "As takes the name of a variable", node.position)
            return None
        name = node.value.removeprefix("$")
        if not name.isidentifier() or name == "this":
            self.sink.fail("E203", f"{node.value!r} is not the name of a variable", node.position)
        return name

    def throw(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        thrown = parts["Throw"]
        names = self._exception_names(thrown)
        if isinstance(thrown, Sequence) and not thrown.items:
            self.sink.fail("E305", "Throw needs a name", node.position)
        return Throw(
            node.position, names, parts.get("Message"), parts.get("Extra"), parts.get("Cause")
        )

    def rethrow(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        self._empty(parts, "Rethrow")
        return Rethrow(node.position)

    def _exception_names(self, node: Node) -> list[str]:
        items = node.items if isinstance(node, Sequence) else [node]
        names: list[str] = []
        for item in items:
            if not isinstance(item, Scalar) or not isinstance(item.value, str):
                self.sink.fail("E203", "an exception's name must be text", item.position)
                continue
            try:
                names.append(self.namespaces.resolve(item.value))
            except KeyError as error:
                self.sink.fail("E305", str(error.args[0]), item.position)
            except ValueError:
                message = f"{item.value!r} is not the name of an exception"
                self.sink.fail("E305", message, item.position)
        return names


def _looks_like_target(name: str) -> bool:
    return name.startswith("$") or "." in name or "(" in name or "[" in name


def _construct(make: _Make, required: str, optional: str = "") -> _Construct:
    return _Construct(make, frozenset(required.split()), frozenset(optional.split()))


_CONSTRUCTS: dict[str, _Construct] = {
    "Return": _construct(_Parser.return_, "Return"),
    "If": _construct(_Parser.if_, "If Then", "Else"),
    "While": _construct(_Parser.while_, "While Do"),
    "For": _construct(_Parser.for_, "For In Do"),
    "Repeat": _construct(_Parser.repeat, "Repeat Do"),
    "Break": _construct(_Parser.break_, "Break"),
    "Continue": _construct(_Parser.continue_, "Continue"),
    "Match": _construct(_Parser.match, "Match Value", "Default"),
    "Switch": _construct(_Parser.switch, "Switch", "Default"),
    "Parallel": _construct(_Parser.parallel, "Parallel", "Limit"),
    "Try": _construct(_Parser.try_, "Try", "Catch Else Finally"),
    "Throw": _construct(_Parser.throw, "Throw", "Message Extra Cause"),
    "Rethrow": _construct(_Parser.rethrow, "Rethrow"),
    "Do": _construct(_Parser.do, "Do"),
}
_CATCH = ("With", "As", "Do")
_PARTS = sorted({part for item in _CONSTRUCTS.values() for part in item.required | item.optional})
