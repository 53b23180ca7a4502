"""Bodies to statements (muranopl.md sections 9-11).

After this phase every block is one of the constructs below with allowed keys only, `Break` and
`Continue` are inside loops, and every statement has its place. Values remain nodes; the compiler
checks the expressions.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from vetro.muranopl.values.errors import (
    DslInvalidOperationError,
    DslSyntaxError,
    InvalidLhsTargetError,
    Position,
)
from vetro.muranopl.values.records import made, record

from .names import Namespaces
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
    cases: list[tuple[Any, list[Statement]]]
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


def parse_body(body: Node | None, namespaces: Namespaces) -> list[Statement]:
    """The statements of a body. Raises DslSyntaxError with a position."""
    return [] if body is None else _Parser(namespaces).block(body)


class _Parser:
    def __init__(self, namespaces: Namespaces) -> None:
        self.namespaces = namespaces
        self.loops = 0
        """Loops around the statement being read; a Parallel branch starts again from none."""

    def block(self, node: Node) -> list[Statement]:
        if isinstance(node, Scalar) and node.value is None and not node.is_expression:
            return []
        if isinstance(node, Sequence):
            return [self.statement(item) for item in node.items]
        return [self.statement(node)]

    def statement(self, node: Node) -> Statement:
        if isinstance(node, Scalar):
            if node.is_expression:
                return Evaluate(node.position, node)
            raise DslSyntaxError(
                f"{node.value!r} is not a statement: it is text, not an expression",
                position=node.position,
                hint="check its parentheses and quotes"
                if isinstance(node.value, str) and ("$" in node.value or "(" in node.value)
                else "a statement is an expression, an assignment or a construct like If",
            )
        if isinstance(node, Sequence):
            raise DslSyntaxError(
                "a list is not a statement",
                position=node.position,
                hint="use Do: to nest a block",
            )
        return self._map_statement(node)

    def _map_statement(self, node: Mapping) -> Statement:
        if not node.pairs:
            raise DslSyntaxError("an empty map is not a statement", position=node.position)
        keys = [key for key, _ in node.pairs if isinstance(key, Scalar)]
        expressions = [key for key in keys if key.is_expression]
        if len(expressions) == 1 and len(keys) == 1:
            return Assign(keys[0].position, keys[0], node.pairs[0][1])
        if expressions:
            raise DslSyntaxError(
                "a statement is one assignment or one construct; this map is neither: keys "
                + ", ".join(repr(str(key.value)) for key in keys),
                position=node.position,
                hint="begin each statement with its own dash",
            )
        parts = {str(key.value): value for key, value in zip(keys, _values(node), strict=True)}
        for name in parts:
            construct = _CONSTRUCTS.get(name)
            if construct is not None:
                return self._construct(node, name, construct, parts)
        if len(parts) == 1:
            name = next(iter(parts))
            if _looks_like_target(name):
                raise InvalidLhsTargetError(
                    f'Invalid assignment target "{name}"', position=node.position
                )
        close = get_close_matches(next(iter(parts)), _CONSTRUCTS, 1, 0.6)
        raise DslSyntaxError(
            f"no statement has the keys {', '.join(parts)}",
            position=node.position,
            hint=f"did you mean {close[0]}?" if close else None,
        )

    def _construct(
        self, node: Mapping, name: str, construct: _Construct, parts: dict[str, Node]
    ) -> Statement:
        allowed = construct.required | construct.optional
        for part in parts:
            if part not in allowed:
                close = get_close_matches(part, allowed, 1, 0.6)
                raise DslSyntaxError(
                    f"{name} has no part {part}; its parts are {', '.join(sorted(allowed))}",
                    position=node.position,
                    hint=f"did you mean {close[0]}?" if close else None,
                )
        for part in construct.required:
            if part not in parts:
                raise DslSyntaxError(f"{name} needs {part}", position=node.position)
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
        if not isinstance(condition, Scalar) or not condition.is_expression:
            raise DslSyntaxError(
                "the condition of While is an expression",
                position=condition.position,
                hint="a constant condition never changes; write !yaql true to loop until Break",
            )
        return While(node.position, condition, self._loop_block(parts["Do"]))

    def for_(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        variable = parts["For"]
        if (
            not isinstance(variable, Scalar)
            or variable.is_expression
            or not isinstance(variable.value, str)
            or not variable.value.isidentifier()
        ):
            raise DslSyntaxError(
                "For takes the plain name of a variable, without $", position=variable.position
            )
        if variable.value == "this":
            raise DslSyntaxError("For cannot assign to $this", position=variable.position)
        return For(node.position, variable.value, parts["In"], self._loop_block(parts["Do"]))

    def repeat(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        count = parts["Repeat"]
        fine = isinstance(count, Scalar) and (
            count.is_expression
            or (isinstance(count.value, (int, float)) and not isinstance(count.value, bool))
        )
        if not fine:
            raise DslSyntaxError("Repeat takes a number or an expression", position=count.position)
        assert isinstance(count, Scalar)
        return Repeat(node.position, count, self._loop_block(parts["Do"]))

    def _leave(self, node: Mapping, parts: dict[str, Node], name: str) -> None:
        value = parts[name]
        if not (isinstance(value, Scalar) and value.value is None):
            raise DslSyntaxError(f"{name} takes no value", position=value.position)
        if self.loops == 0:
            raise DslInvalidOperationError(
                f"{name} outside a loop",
                position=node.position,
                hint="it belongs inside While, For or Repeat",
            )

    def break_(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        self._leave(node, parts, "Break")
        return Break(node.position)

    def continue_(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        self._leave(node, parts, "Continue")
        return Continue(node.position)

    def match(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        table = parts["Match"]
        if not isinstance(table, Mapping):
            raise DslSyntaxError("Match is a map from constants to blocks", position=table.position)
        cases: list[tuple[Any, list[Statement]]] = []
        for key, value in table.pairs:
            assert isinstance(key, Scalar)
            cases.append((key.value, self.block(value)))
        default = parts.get("Default")
        return Match(
            node.position,
            parts["Value"],
            cases,
            None if default is None else self.block(default),
        )

    def switch(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        table = parts["Switch"]
        if not isinstance(table, Mapping):
            raise DslSyntaxError(
                "Switch is a map from conditions to blocks", position=table.position
            )
        default = parts.get("Default")
        return Switch(
            node.position,
            [(key, self.block(value)) for key, value in table.pairs],
            None if default is None else self.block(default),
        )

    def parallel(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        block = parts["Parallel"]
        items: list[Node] = block.items if isinstance(block, Sequence) else [block]
        if isinstance(block, Scalar) and block.value is None:
            items = []
        if len(items) > MOST_BRANCHES:
            raise DslInvalidOperationError(
                f"Parallel has {len(items)} branches; at most {MOST_BRANCHES} can be written out",
                position=node.position,
                hint="pselect runs one expression for each element of a list",
            )
        return Parallel(node.position, [self.block(item) for item in items], parts.get("Limit"))

    def do(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        block = parts["Do"]
        if isinstance(block, Scalar) and not block.is_expression and block.value is not None:
            raise DslSyntaxError("Do takes a block, not text", position=block.position)
        return Block(node.position, self.block(block))

    def try_(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        caught = parts.get("Catch")
        handlers: list[Handler] = []
        if caught is not None:
            items = caught.items if isinstance(caught, Sequence) else [caught]
            handlers = [self._handler(item) for item in items]
        return Try(
            node.position,
            self.block(parts["Try"]),
            handlers,
            self._optional_block(parts, "Else"),
            self._optional_block(parts, "Finally"),
        )

    def _handler(self, node: Node) -> Handler:
        if isinstance(node, Scalar) and node.value is None:
            return Handler(None, None, [], node.position)
        if not isinstance(node, Mapping):
            raise DslSyntaxError("Catch is a map of With, As, Do", position=node.position)
        names: list[str] | None = None
        variable: str | None = None
        body: list[Statement] = []
        for key, _, value in node.entries():
            if key == "With":
                names = self._exception_names(value)
            elif key == "As":
                if not isinstance(value, Scalar) or not isinstance(value.value, str):
                    raise DslSyntaxError("As takes a name", position=value.position)
                variable = value.value.removeprefix("$")
                if not variable.isidentifier() or variable == "this":
                    raise DslSyntaxError(
                        f"{value.value!r} is not a variable's name", position=value.position
                    )
            elif key == "Do":
                body = self.block(value)
            else:
                raise DslSyntaxError(
                    f"Catch has no part {key}; its parts are With, As, Do",
                    position=value.position,
                )
        return Handler(names, variable, body, node.position)

    def throw(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        names = self._exception_names(parts["Throw"])
        if not names:
            raise DslSyntaxError("Throw needs a name", position=node.position)
        return Throw(
            node.position, names, parts.get("Message"), parts.get("Extra"), parts.get("Cause")
        )

    def rethrow(self, node: Mapping, parts: dict[str, Node]) -> Statement:
        value = parts["Rethrow"]
        if not (isinstance(value, Scalar) and value.value is None):
            raise DslSyntaxError("Rethrow takes no value", position=value.position)
        return Rethrow(node.position)

    def _exception_names(self, node: Node) -> list[str]:
        items = node.items if isinstance(node, Sequence) else [node]
        names: list[str] = []
        for item in items:
            if not isinstance(item, Scalar) or item.value is None:
                raise DslSyntaxError("an exception's name is text", position=item.position)
            try:
                names.append(self.namespaces.resolve(str(item.value)))
            except KeyError as error:
                raise DslSyntaxError(str(error.args[0]), position=item.position) from error
            except ValueError as error:
                raise DslSyntaxError(
                    f"{item.value!r} is not an exception's name", position=item.position
                ) from error
        return names


def _values(node: Mapping) -> list[Node]:
    return [value for _, value in node.pairs]


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
