"""Left sides of assignments as they are written (muranopl.md section 10).

A target is a root (a variable, the object, a class) and a path of steps. `assigning` executes the
assignments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from vetro.muranopl.values.errors import InvalidLhsTargetError
from vetro.yaql import ast

from .yamltree import Scalar


@dataclass(frozen=True, slots=True)
class Key:
    """`.name`, `[expression]`: `expression` None for a constant."""

    value: Any
    expression: ast.Expression | None = None
    is_name: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """`variable` is a name (None when the root is a class); `this` for `$` and `$this`."""

    variable: str | None
    type_root: ast.Expression | None
    path: tuple[Key, ...]
    operation: str = "set"
    """`set`, `append` or `insert`."""
    position: ast.Expression | None = None

    @property
    def is_this(self) -> bool:
        return self.variable in ("", "this")


def parse_target(scalar: Scalar) -> Target:
    """The target of an assignment with this key. Raises InvalidLhsTargetError."""
    if scalar.target is None:
        scalar.target = _parse_target(scalar)
    return scalar.target


def _parse_target(scalar: Scalar) -> Target:
    node = scalar.expression
    operation, position = "set", None
    if isinstance(node, ast.MethodCall) and node.name in ("append", "insert") and not node.safe:
        arguments = node.arguments
        wanted = 0 if node.name == "append" else 1
        if len(arguments) == wanted and all(isinstance(a, ast.Expression) for a in arguments):
            operation = node.name
            position = cast(ast.Expression, arguments[0]) if arguments else None
            node = node.target
    path: list[Key] = []
    while True:
        if isinstance(node, ast.Property) and not node.safe:
            path.append(Key(node.name, is_name=True))
            node = node.target
        elif isinstance(node, ast.Index) and len(node.arguments) == 1:
            argument = node.arguments[0]
            if isinstance(argument, ast.Keyword):
                path.append(Key(argument.name))
            elif isinstance(argument, ast.Constant):
                path.append(Key(argument.value))
            elif isinstance(argument, ast.Expression):
                path.append(Key(None, argument))
            else:
                break
            node = node.target
        else:
            break
    path.reverse()
    if isinstance(node, ast.Variable):
        return Target(node.name, None, tuple(path), operation, position)
    is_class = isinstance(node, ast.TypeLiteral) or (
        isinstance(node, ast.Call) and node.name == "type"
    )
    if is_class and path and path[0].is_name:
        return Target(None, cast(ast.Expression, node), tuple(path), operation, position)
    raise InvalidLhsTargetError(
        f'Invalid assignment target "{scalar.value}"', position=scalar.position
    )


def root_of(scalar: Scalar) -> str | None:
    """The variable that a target assigns; None for the object, a class, or an invalid target."""
    try:
        target = parse_target(scalar)
    except InvalidLhsTargetError:
        return None
    return None if target.is_this else target.variable
