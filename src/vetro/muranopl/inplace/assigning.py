"""What assignments do when a program runs (muranopl.md section 10).

Containers are values: writing into one makes a new one and assigns that to the root. A container
without other references is changed in place instead, so that filling a map or a list takes linear
time. `targets` parses the left sides of assignments.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from typing import TYPE_CHECKING, cast

from vetro.muranopl.classes.objects import CastView, MuranoObject
from vetro.muranopl.classes.types import MuranoType
from vetro.muranopl.values.containers import Map, Value, preview

from .growing import Grown, forget_hash
from .references import ALONE

if TYPE_CHECKING:
    from .running import AssigningRun

UNSET: object = object()
"""Stands for the value of a property that was never assigned."""


def assign_into(
    run: AssigningRun,
    scope: MuranoType,
    name: str,
    root: Value,
    path: Sequence[Value],
    value: Value,
    operation: str,
    position: Value,
) -> Value:
    """The new value of variable `name` after writing at a path inside it.

    The caller must hold no reference to the value besides its variable: see `_alone`.
    """
    if root.__class__ is Map and operation == "set" and len(path) == 1:
        made = root if getrefcount(root) <= ALONE.variable else Map(root)
        dict.__setitem__(made, path[0], value)
        forget_hash(made)
        return made
    if root.__class__ is Grown:
        if operation == "set" and root.set(path, value):
            return root
        if operation == "grow" and root.extend(path, (value,), run.max_items):
            return root
        root = root.settled()
    if root is None and (path or operation == "set"):
        raise ValueError(f"cannot assign into ${name}: it has no value; first assign ${name}: {{}}")
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
        run, scope, root, path, 0, value, operation, position, getrefcount(root) <= ALONE.variable
    )


def assign_member(
    run: AssigningRun,
    scope: MuranoType,
    holder: object,
    path: Sequence[object],
    value: object,
    operation: str = "set",
    position: object = None,
) -> None:
    """Write at a path that begins with a property of an object or a class."""
    name = path[0]
    if not isinstance(name, str):
        raise TypeError(f"a property's name must be text, not {preview(name)}")
    if len(path) == 1 and operation == "set":
        run.write_property(holder, name, value, scope)
        return
    current = run.read_property_or_unset(holder, name, scope)
    if current is UNSET or (current is None and run.is_unassigned_static(holder, name, scope)):
        current = Map() if len(path) > 1 else ()
    if isinstance(current, (MuranoObject, CastView, MuranoType)) and len(path) > 1:
        assign_member(run, scope, current, path[1:], value, operation, position)
        return
    alone = run.may_grow_in_place(holder, name) and getrefcount(current) <= ALONE.read
    made = _rebuilt(run, scope, current, path, 1, value, operation, position, alone)
    run.write_property(holder, name, made, scope)


def _rebuilt(
    run: AssigningRun,
    scope: MuranoType,
    container: object,
    path: Sequence[object],
    at: int,
    value: object,
    operation: str,
    position: object,
    alone: bool,
) -> object:
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
            alone and getrefcount(child) <= ALONE.entry,
        )  # fmt: skip
        if inner is child and alone and not is_new:
            return container
        made = container if alone else Map(container)
        _put(made, key, inner)
        return made
    if isinstance(container, tuple):
        items = cast("tuple[object, ...]", container)
        if isinstance(key, bool) or not isinstance(key, int):
            raise TypeError(f"a list's index must be an integer, not {preview(key)}")
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
    raise TypeError(
        f"cannot assign {preview(key)} of {preview(container)}: it is not a map or list"
    )


def _put(container: Map, key: object, value: object) -> None:
    """Set a key of a map whose present state has no other readers."""
    dict.__setitem__(container, key, value)
    forget_hash(container)


def _extended(
    container: object, value: object, operation: str, position: object
) -> tuple[object, ...]:
    if container is None:
        container = ()
    if not isinstance(container, tuple):
        raise TypeError(f"cannot {operation} to {preview(container)}: it is not a list")
    items = cast("tuple[object, ...]", container)
    if operation == "append":
        return (*items, value)
    if isinstance(position, bool) or not isinstance(position, int):
        raise TypeError(f"insert() takes an integer index, not {preview(position)}")
    place = position if position >= 0 else max(len(items) + position, 0)
    return (*items[:place], value, *items[place:])
