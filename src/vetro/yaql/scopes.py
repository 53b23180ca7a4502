"""Which variables and functions are visible at a place of an expression (the resolver).

Code generation learns from it, for each variable, whether a lambda's parameter, a context made by
`->`, or the host supplies it; for each function name, whether a `def` on the left of a `->` may
have defined it. `None` is the outermost scope, the host's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from . import ast
from .codes import Code

Outer = Callable[["Scope | None"], Code]


class Scope(Protocol):
    """A scope inside an expression."""

    parent: Scope | None

    def read(self, name: str, outer: Outer, *, simple: bool) -> tuple[str, bool]:
        """Python text that reads the variable, and whether it may be repeated.

        `outer(scope)` reads it in another scope.
        """
        ...

    def defining(self, name: str) -> list[str]:
        """Python variables of the contexts, outermost first, that may define a function."""
        ...


def _position(name: str) -> int:
    """0 for `$`, 1 for `$2`, …; -1 for names."""
    if name == "":
        return 0
    if name.isascii() and name.isdigit() and name[0] != "0" and len(name) < 4:
        return int(name) - 1
    return -1


@dataclass(eq=False)
class InnerScope:
    """A scope that sees all that its parent has."""

    parent: Scope | None

    def defining(self, name: str) -> list[str]:
        return self.parent.defining(name) if self.parent is not None else []


@dataclass(eq=False)
class LambdaScope(InnerScope):
    """The body of a lambda with a fixed number of values."""

    names: list[str]

    def read(self, name: str, outer: Outer, *, simple: bool) -> tuple[str, bool]:
        position = _position(name)
        if 0 <= position < len(self.names):
            return self.names[position], True
        code = outer(self.parent)
        return code.text, code.simple


@dataclass(eq=False)
class RichScope(InnerScope):
    """The body of a lambda that takes any number of values, named ones included."""

    args: str
    kwargs: str

    def read(self, name: str, outer: Outer, *, simple: bool) -> tuple[str, bool]:
        code = outer(self.parent)
        position = _position(name)
        if position >= 0:
            return (
                f"({self.args}[{position}] if len({self.args}) > {position} else {code.text})",
                False,
            )
        return (
            f"({self.kwargs}[{name!r}] if {name!r} in {self.kwargs} else {code.text})",
            False,
        )


@dataclass(eq=False)
class ArrowScope(InnerScope):
    """The right side of `->`. `names`, `functions`: what the left side defines; None: unknown."""

    context: str
    names: frozenset[str] | None
    functions: frozenset[str] | None

    def read(self, name: str, outer: Outer, *, simple: bool) -> tuple[str, bool]:
        variables = f"{self.context}.variables"
        if self.names is not None and name in self.names:
            return f"{variables}[{name!r}]", False
        code = outer(self.parent)
        if self.names is not None:
            return code.text, code.simple
        return f"({variables}[{name!r}] if {name!r} in {variables} else {code.text})", False

    def defining(self, name: str) -> list[str]:
        found = super().defining(name)
        if self.functions is None or name in self.functions:
            return [*found, self.context]
        return found


@dataclass(eq=False)
class DefinitionScope(InnerScope):
    """The body of `def(name, body)`: the name is visible in it, so that it can call itself."""

    context: str
    name: str

    def read(self, name: str, outer: Outer, *, simple: bool) -> tuple[str, bool]:
        code = outer(self.parent)
        return code.text, code.simple

    def defining(self, name: str) -> list[str]:
        found = super().defining(name)
        return [*found, self.context] if name == self.name else found


_NOTHING: frozenset[str] = frozenset()


def positional_name(index: int) -> str:
    """The variable of the value number `index` (from 0): "" for the first, then "2", …"""
    return "" if index == 0 else str(index + 1)


def constant_text(node: ast.Node) -> str | None:
    """The text of a word or quoted string, else None."""
    if isinstance(node, ast.Keyword):
        return node.name
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def context_names(node: ast.Expression) -> tuple[frozenset[str] | None, frozenset[str] | None]:
    """The variables and functions that the left side of `->` defines; None when the text does not
    show them."""
    if isinstance(node, ast.Call) and node.name in {"let", "with"}:
        names: set[str] = set()
        for index, item in enumerate(node.arguments):
            if isinstance(item, ast.Pair):
                if not isinstance(item.key, ast.Keyword):
                    return None, None
                names.add(item.key.name)
            elif isinstance(item, ast.Expression):
                names.add(positional_name(index))
        return frozenset(names), _NOTHING
    if isinstance(node, ast.Call) and node.name == "def" and len(node.arguments) == 2:
        name = constant_text(node.arguments[0])
        return _NOTHING, frozenset([name]) if name is not None else None
    if isinstance(node, ast.MethodCall) and node.name == "as":
        bound = [constant_text(item.value) for item in node.arguments if isinstance(item, ast.Pair)]
        if len(bound) == len(node.arguments) and None not in bound:
            return frozenset(["0", *(name for name in bound if name is not None)]), _NOTHING
    if isinstance(node, ast.MethodCall) and node.name == "unpack":
        if not node.arguments:
            return None, _NOTHING
        unpacked = [constant_text(item) for item in node.arguments]
        if all(name is not None for name in unpacked):
            return frozenset(name for name in unpacked if name is not None), _NOTHING
    return None, None
