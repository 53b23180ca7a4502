"""Left sides of assignments (muranopl.md section 10).

A target is a root (a variable, the object, a class) and a path of steps. Containers are values:
writing into one makes a new one and assigns that to the root. A container that nothing else
refers to is changed in place instead, so that filling a map or a list costs linear time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from sys import getrefcount
from typing import TYPE_CHECKING, Any, cast

from vetro.yaql import ast

from .errors import InvalidLhsTargetError
from .growth import Grown
from .objects import CastView, MuranoObject
from .types import MuranoType
from .values import Map, preview

if TYPE_CHECKING:
    from .run import Run
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
    """What an assignment with this key assigns to. Raises InvalidLhsTargetError."""
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
    """The variable a target assigns; None for the object, a class, or what is no target."""
    try:
        target = parse_target(scalar)
    except InvalidLhsTargetError:
        return None
    return None if target.is_this else target.variable


# -- what generated code calls -------------------------------------------------------------------

UNSET: Any = object()


def assign_into(
    run: Run,
    scope: MuranoType,
    name: str,
    root: Any,
    path: Sequence[Any],
    value: Any,
    operation: str,
    position: Any,
) -> Any:
    """The new value of variable `name` after writing at a path inside it.

    The caller's variable must hold the only reference that it knows of: see `_alone`.
    """
    if root.__class__ is Map and operation == "set" and len(path) == 1:
        made = root if getrefcount(root) <= _ROOT else Map(root)
        dict.__setitem__(made, path[0], value)
        made._hash = None  # pyright: ignore[reportPrivateUsage]
        return made
    if root.__class__ is Grown:
        if operation == "set" and root.set(path, value):
            return root
        if operation == "grow" and root.extend(path, (value,), run.max_items):
            return root
        root = root.settled()
    if root is None and (path or operation == "set"):
        raise ValueError(f"cannot assign into ${name}: it has no value; begin with ${name}: {{}}")
    if isinstance(root, (MuranoObject, CastView, MuranoType)):
        assign_member(run, scope, root, path, value, operation, position)
        return root
    if operation == "grow":
        if root.__class__ in (Map, tuple):
            grown = Grown(root)
            if grown.extend(tuple(path), (value,), run.max_items):
                return grown
        operation = "append"
    return _rebuilt(
        run, scope, root, path, 0, value, operation, position, getrefcount(root) <= _ROOT
    )


def assign_member(
    run: Run,
    scope: MuranoType,
    holder: Any,
    path: Sequence[Any],
    value: Any,
    operation: str = "set",
    position: Any = None,
) -> None:
    """Write at a path that begins with a property of an object or a class."""
    name = path[0]
    if not isinstance(name, str):
        raise TypeError(f"a property's name is text, not {preview(name)}")
    if len(path) == 1 and operation == "set":
        run.write_property(holder, name, value, scope)
        return
    current = run.read_property_or_unset(holder, name, scope)
    if current is UNSET or (current is None and run.is_unassigned_static(holder, name, scope)):
        current = Map() if len(path) > 1 else ()
    if isinstance(current, (MuranoObject, CastView, MuranoType)) and len(path) > 1:
        assign_member(run, scope, current, path[1:], value, operation, position)
        return
    alone = run.may_grow_in_place(holder, name) and getrefcount(current) <= _PROPERTY
    made = _rebuilt(run, scope, current, path, 1, value, operation, position, alone)
    run.write_property(holder, name, made, scope)


def _rebuilt(
    run: Run,
    scope: MuranoType,
    container: Any,
    path: Sequence[Any],
    at: int,
    value: Any,
    operation: str,
    position: Any,
    alone: bool,
) -> Any:
    """`container` with the value written at `path[at:]`. `alone`: it may be changed in place."""
    if at == len(path):
        return _extended(container, value, operation, position)
    key = path[at]
    last = at == len(path) - 1 and operation == "set"
    if isinstance(container, Map):
        if last:
            made = container if alone else Map(container)
            _put(made, key, value)
            return made
        child = container.get(key)
        if isinstance(child, (MuranoObject, CastView, MuranoType)):
            assign_member(run, scope, child, path[at + 1 :], value, operation, position)
            return container
        is_new = child is None
        if is_new:
            child = Map() if at + 1 < len(path) else ()
        inner = _rebuilt(
            run, scope, child, path, at + 1, value, operation, position,
            alone and getrefcount(child) <= _CHILD,
        )  # fmt: skip
        if inner is child and alone and not is_new:
            return container
        made = container if alone else Map(container)
        _put(made, key, inner)
        return made
    if isinstance(container, tuple):
        items = cast("tuple[Any, ...]", container)
        if isinstance(key, bool) or not isinstance(key, int):
            raise TypeError(f"a list's index is an integer, not {preview(key)}")
        index = key if key >= 0 else len(items) + key
        if index < 0:
            raise IndexError(f"index {key} is before the beginning of a list of {len(items)}")
        inner = value
        if not last:
            child = items[index] if index < len(items) else Map()
            if isinstance(child, (MuranoObject, CastView, MuranoType)):
                assign_member(run, scope, child, path[at + 1 :], value, operation, position)
                return items
            inner = _rebuilt(run, scope, child, path, at + 1, value, operation, position, False)
        if index >= len(items):
            return (*items, inner)
        return (*items[:index], inner, *items[index + 1 :])
    if container is None:
        raise ValueError(
            f"cannot assign {preview(key)} of null: give it a value first, such as {{}}"
        )
    raise TypeError(f"cannot assign {preview(key)} of {preview(container)}: it is no map or list")


def _put(container: Map, key: Any, value: Any) -> None:
    """Set a key of a map that nobody else has seen in its present state."""
    dict.__setitem__(container, key, value)
    container._hash = None  # pyright: ignore[reportPrivateUsage]


def _extended(container: Any, value: Any, operation: str, position: Any) -> tuple[Any, ...]:
    if container is None:
        container = ()
    if not isinstance(container, tuple):
        raise TypeError(f"cannot {operation} to {preview(container)}: it is no list")
    items = cast("tuple[Any, ...]", container)
    if operation == "append":
        return (*items, value)
    if isinstance(position, bool) or not isinstance(position, int):
        raise TypeError(f"insert() takes an index, not {preview(position)}")
    place = position if position >= 0 else max(len(items) + position, 0)
    return (*items[:place], value, *items[place:])


# How many references a value has that only its variable (property, container) holds, counted
# inside the functions above. Measured once, because it differs between versions of CPython.


class _Probe:
    held: Any

    def may_grow_in_place(self, holder: Any, name: str) -> bool:
        return True


def _measure() -> tuple[int, int, int]:
    def root(a: Any, b: Any, c: Any, value: Any, *rest: Any) -> int:
        return getrefcount(value)

    variable = Map()
    of_root = root(None, None, None, variable, None, None)
    variable = Map(k=Map())

    def child(container: Any) -> int:
        inner = container.get("k")
        return getrefcount(inner)

    probe = _Probe()
    probe.held = Map()

    def held() -> int:
        current = getattr(probe, "held")  # noqa: B009 - the shape of the real call
        return getrefcount(current)

    return of_root, held(), child(variable)


_ROOT, _PROPERTY, _CHILD = _measure()
