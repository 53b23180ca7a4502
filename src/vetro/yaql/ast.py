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
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """What every node has."""

    start: int
    end: int

    def children(self) -> list[Node]:
        """The nodes directly below, in source order, which is the order of the fields."""
        found: list[Node] = []
        for name in type(self).__slots__:
            value = getattr(self, name)
            if isinstance(value, Node):
                found.append(value)
            elif type(value) is tuple:
                found += value
        return found

    def __repr__(self) -> str:
        fields = [f"{name}={getattr(self, name)!r}" for name in type(self).__slots__]
        return f"{type(self).__name__}({', '.join(fields)})"


class Expression(Node):
    """A node that has a value."""

    __slots__ = ()


@dataclass(slots=True, eq=False, repr=False)
class Constant(Expression):
    """`null`, a boolean, a number or a quoted string."""

    value: bool | int | float | str | None


@dataclass(slots=True, eq=False, repr=False)
class Keyword(Expression):
    """A bare word: its value is its text (yaql.md section 1)."""

    name: str


@dataclass(slots=True, eq=False, repr=False)
class Variable(Expression):
    """`$name`; `name` has no dollar and is "" for `$` and `$1`."""

    name: str


@dataclass(slots=True, eq=False, repr=False)
class Property(Expression):
    """`target.name`; `safe` for `?.`."""

    target: Expression
    name: str
    safe: bool


@dataclass(slots=True, eq=False, repr=False)
class MethodCall(Expression):
    """`target.name(arguments)`; `safe` for `?.`."""

    target: Expression
    name: str
    arguments: tuple[Argument, ...]
    safe: bool


@dataclass(slots=True, eq=False, repr=False)
class Dot(Expression):
    """`target.right` where the right side is neither a word nor a call: parsed, but never valid."""

    target: Expression
    right: Expression
    safe: bool


@dataclass(slots=True, eq=False, repr=False)
class Call(Expression):
    """`name(arguments)`."""

    name: str
    arguments: tuple[Argument, ...]


@dataclass(slots=True, eq=False, repr=False)
class Index(Expression):
    """`target[arguments]`."""

    target: Expression
    arguments: tuple[Argument, ...]


@dataclass(slots=True, eq=False, repr=False)
class ListLiteral(Expression):
    """`[items]`."""

    items: tuple[Argument, ...]


@dataclass(slots=True, eq=False, repr=False)
class MapLiteral(Expression):
    """`{key => value}`; `items` are Pairs in a literal that evaluates."""

    items: tuple[Argument, ...]


@dataclass(slots=True, eq=False, repr=False)
class Unary(Expression):
    """A prefix operator."""

    operator: str
    operand: Expression


@dataclass(slots=True, eq=False, repr=False)
class Binary(Expression):
    """An infix operator; `operator` is its text (`+`, `and`, `=~`, …), `at` where it stands."""

    operator: str
    left: Expression
    right: Expression
    at: int


@dataclass(slots=True, eq=False, repr=False)
class Arrow(Expression):
    """`left -> right`: evaluates right in the context that left produces."""

    left: Expression
    right: Expression


@dataclass(slots=True, eq=False, repr=False)
class TypeLiteral(Expression):
    """`prefix:Name` (`prefix` None for `:Name`); only in the MuranoPL grammar."""

    prefix: str | None
    name: str


@dataclass(slots=True, eq=False, repr=False)
class Pair(Node):
    """`key => value` among arguments or items."""

    key: Expression
    value: Expression


class Omitted(Node):
    """An argument left out: `f(,1)`; where it would start, it ends."""

    __slots__ = ()


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
            stack.extend(reversed(current.children()))


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """The line and column (both from 1) of an offset."""
    line = text.count("\n", 0, offset) + 1
    return line, offset - (text.rfind("\n", 0, offset) + 1) + 1
