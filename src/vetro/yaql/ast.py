"""The syntax tree of an expression: immutable nodes, each with its place in the text.

`start` and `end` are offsets in characters (from 0, end exclusive). `line_and_column` turns an
offset into a place for people. Nodes hold no reference to the text, so a tree may be kept, shared
between threads and compiled any number of times.

    Expression
    ├── Constant      null true false 1 1.5 'text'
    ├── Keyword       a bare word: the string of its own name
    ├── Variable      $  $1  $name            (name "" for `$` and `$1`)
    ├── Property      target.name   target?.name
    ├── MethodCall    target.name(arguments)  target?.name(arguments)
    ├── Dot           target.other            any other right side; never evaluates
    ├── Call          name(arguments)
    ├── Index         target[arguments]
    ├── ListLiteral   [items]
    ├── MapLiteral    {key => value}
    ├── Unary         - + not, and registered prefix operators
    ├── Binary        every other operator, `and` and `or` included
    ├── Arrow         left -> right
    └── TypeLiteral   ns:Name  :Name          (MuranoPL grammar)

An element of `arguments` or `items` is an Expression, a `Pair` (`key => value`) or an `Omitted`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias


class Node:
    """What every node has."""

    __slots__ = ("end", "start")
    start: int
    end: int

    def children(self) -> Iterator[Node]:
        """The nodes directly below, in source order."""
        return iter(())

    def __repr__(self) -> str:
        fields = [
            f"{name}={getattr(self, name)!r}" for name in type(self).__slots__ if name[0] != "_"
        ]
        return f"{type(self).__name__}({', '.join(fields)})"


class Expression(Node):
    """A node that has a value."""

    __slots__ = ()


class Constant(Expression):
    """`null`, a boolean, a number or a quoted string."""

    __slots__ = ("value",)

    def __init__(self, value: bool | int | float | str | None, start: int, end: int) -> None:
        self.value = value
        self.start = start
        self.end = end


class Keyword(Expression):
    """A bare word: its value is its text (yaql.md section 1)."""

    __slots__ = ("name",)

    def __init__(self, name: str, start: int, end: int) -> None:
        self.name = name
        self.start = start
        self.end = end


class Variable(Expression):
    """`$name`; `name` has no dollar and is "" for `$` and `$1`."""

    __slots__ = ("name",)

    def __init__(self, name: str, start: int, end: int) -> None:
        self.name = name
        self.start = start
        self.end = end


class Property(Expression):
    """`target.name`; `safe` for `?.`."""

    __slots__ = ("name", "safe", "target")

    def __init__(self, target: Expression, name: str, safe: bool, start: int, end: int) -> None:
        self.target = target
        self.name = name
        self.safe = safe
        self.start = start
        self.end = end

    def children(self) -> Iterator[Node]:
        yield self.target


class MethodCall(Expression):
    """`target.name(arguments)`; `safe` for `?.`."""

    __slots__ = ("arguments", "name", "safe", "target")

    def __init__(
        self,
        target: Expression,
        name: str,
        arguments: tuple[Argument, ...],
        safe: bool,
        start: int,
        end: int,
    ) -> None:
        self.target = target
        self.name = name
        self.arguments = arguments
        self.safe = safe
        self.start = start
        self.end = end

    def children(self) -> Iterator[Node]:
        yield self.target
        yield from self.arguments


class Dot(Expression):
    """`target.right` where the right side is neither a word nor a call: parsed, but never valid."""

    __slots__ = ("right", "safe", "target")

    def __init__(
        self, target: Expression, right: Expression, safe: bool, start: int, end: int
    ) -> None:
        self.target = target
        self.right = right
        self.safe = safe
        self.start = start
        self.end = end

    def children(self) -> Iterator[Node]:
        yield self.target
        yield self.right


class Call(Expression):
    """`name(arguments)`."""

    __slots__ = ("arguments", "name")

    def __init__(self, name: str, arguments: tuple[Argument, ...], start: int, end: int) -> None:
        self.name = name
        self.arguments = arguments
        self.start = start
        self.end = end

    def children(self) -> Iterator[Node]:
        yield from self.arguments


class Index(Expression):
    """`target[arguments]`."""

    __slots__ = ("arguments", "target")

    def __init__(
        self, target: Expression, arguments: tuple[Argument, ...], start: int, end: int
    ) -> None:
        self.target = target
        self.arguments = arguments
        self.start = start
        self.end = end

    def children(self) -> Iterator[Node]:
        yield self.target
        yield from self.arguments


class ListLiteral(Expression):
    """`[items]`."""

    __slots__ = ("items",)

    def __init__(self, items: tuple[Argument, ...], start: int, end: int) -> None:
        self.items = items
        self.start = start
        self.end = end

    def children(self) -> Iterator[Node]:
        yield from self.items


class MapLiteral(Expression):
    """`{key => value}`; `items` are Pairs in a literal that evaluates."""

    __slots__ = ("items",)

    def __init__(self, items: tuple[Argument, ...], start: int, end: int) -> None:
        self.items = items
        self.start = start
        self.end = end

    def children(self) -> Iterator[Node]:
        yield from self.items


class Unary(Expression):
    """A prefix operator."""

    __slots__ = ("operand", "operator")

    def __init__(self, operator: str, operand: Expression, start: int, end: int) -> None:
        self.operator = operator
        self.operand = operand
        self.start = start
        self.end = end

    def children(self) -> Iterator[Node]:
        yield self.operand


class Binary(Expression):
    """An infix operator; `operator` is its text (`+`, `and`, `=~`, …), `at` where it stands."""

    __slots__ = ("at", "left", "operator", "right")

    def __init__(
        self, operator: str, left: Expression, right: Expression, start: int, end: int, at: int
    ) -> None:
        self.operator = operator
        self.left = left
        self.right = right
        self.start = start
        self.end = end
        self.at = at

    def children(self) -> Iterator[Node]:
        yield self.left
        yield self.right


class Arrow(Expression):
    """`left -> right`: evaluates right in the context that left produces."""

    __slots__ = ("left", "right")

    def __init__(self, left: Expression, right: Expression, start: int, end: int) -> None:
        self.left = left
        self.right = right
        self.start = start
        self.end = end

    def children(self) -> Iterator[Node]:
        yield self.left
        yield self.right


class TypeLiteral(Expression):
    """`prefix:Name` (`prefix` None for `:Name`); only in the MuranoPL grammar."""

    __slots__ = ("name", "prefix")

    def __init__(self, prefix: str | None, name: str, start: int, end: int) -> None:
        self.prefix = prefix
        self.name = name
        self.start = start
        self.end = end


class Pair(Node):
    """`key => value` among arguments or items."""

    __slots__ = ("key", "value")

    def __init__(self, key: Expression, value: Expression, start: int, end: int) -> None:
        self.key = key
        self.value = value
        self.start = start
        self.end = end

    def children(self) -> Iterator[Node]:
        yield self.key
        yield self.value


class Omitted(Node):
    """An argument left out: `f(,1)`."""

    __slots__ = ()

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start


Argument: TypeAlias = Expression | Pair | Omitted


_LEAVES: frozenset[type[Node]] = frozenset((Constant, Keyword, Variable, TypeLiteral, Omitted))
"""Nodes with nothing below them."""


def walk(node: Node) -> Iterator[Node]:
    """`node` and everything below it, depth first, without recursion."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if current.__class__ not in _LEAVES:
            stack.extend(reversed([*current.children()]))


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """The line and column (both from 1) of an offset."""
    line = text.count("\n", 0, offset) + 1
    return line, offset - (text.rfind("\n", 0, offset) + 1) + 1
