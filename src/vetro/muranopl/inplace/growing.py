"""A value under construction, which a variable or a property holds instead of a final one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vetro.muranopl.values.containers import Map, Value, materialise
from vetro.yaql.values import Budget

from .references import ALONE, child_references, root_references

Path = tuple[Value, ...]
UNCHANGED: Value = object()
"""Returned by a growing operation that does not apply; then the plain code runs."""
NOTHING: Value = object()
"""Stands for a value that is missing."""


class Grown:
    """A value under construction. `root` is current except at the paths in `stale`."""

    __slots__ = ("filled", "lists", "root", "stale", "stamp")

    def __init__(self, root: Value) -> None:
        self.root: Value = root
        self.lists: dict[Path, list[Value]] = {}
        """Lists being filled, by their path from the root."""
        self.filled: dict[Path, tuple[Value, ...]] = {}
        """The tuple that each list last settled to."""
        self.stale: set[Path] = set()
        self.stamp = 0
        """Changes with every operation."""

    def settled(self) -> Value:
        """The value, which the reader may keep."""
        if self.stale:
            for path in self.stale:
                self._settle(path)
            self.stale.clear()
        return self.root

    def settled_for(self, name: str) -> object:
        """The value for a reader of its key `name` only: lists under other keys are not settled."""
        for path in [*self.stale] if self.stale else ():
            if not path or path[0] == name:
                self._settle(path)
                self.stale.discard(path)
        return self.root

    def _settle(self, path: Path) -> None:
        made = self.filled[path] = tuple(self.lists[path])
        if not path:
            self.root = made
            return
        node = self.root
        for key in path[:-1]:
            node = node[key]
        dict.__setitem__(node, path[-1], made)

    def _settle_near(self, path: Path) -> None:
        """Settle the lists above and below a place that is about to change."""
        for other in [*self.stale]:
            if other[: len(path)] == path or path[: len(other)] == other:
                self._settle(other)
                self.stale.discard(other)

    def own(self, path: Path) -> Value:
        """The map at a path, which the caller may change; None when there is no map.

        Maps along the path with other references are replaced by copies.
        """
        root: object = self.root
        if root.__class__ is not Map:
            return None
        node: Value = root
        for key in path:
            node = node.get(key)
            if node.__class__ is not Map:
                return None
        del root, node
        if root_references(self) > ALONE.root:
            self.root = Map(self.root)
        node = self.root
        forget_hash(node)
        for key in path:
            if child_references(node, key) > ALONE.child:
                dict.__setitem__(node, key, Map(node[key]))
            node = node[key]
            forget_hash(node)
        return node

    # -- operations: each returns False and changes nothing when it does not apply --------------

    def extend(self, path: Path, items: Sequence[Value], limit: int) -> bool:
        """Add elements to the list at a path."""
        if path in self.stale:
            known = self.lists[path]
            if len(known) + len(items) > limit:
                return False
            known.extend(items)
            self.stamp += 1
            return True
        current = self._at(path)
        if current.__class__ is not tuple or len(current) + len(items) > limit:
            return False
        if path:
            parent = self.own(path[:-1])
            if parent is None:
                return False
            dict.__setitem__(parent, path[-1], ())
        known = self.lists.get(path)
        if known is None or self.filled.get(path) is not current:
            known = self.lists[path] = list(current)
        self.filled.pop(path, None)
        known.extend(items)
        self.stale.add(path)
        if not path:
            self.root = ()
        self.stamp += 1
        return True

    def set(self, path: Path, value: object) -> bool:
        """Assign at a path through maps; a map that is missing on the way is made."""
        if self.stale:
            self._settle_near(path)
        at = self._maps_along(path[:-1])
        if at is None:
            return False
        owned = self.own(path[:at])
        for key in path[at:-1]:
            child = Map()
            dict.__setitem__(owned, key, child)
            owned = child
        dict.__setitem__(owned, path[-1], value)
        self.stamp += 1
        return True

    def update(self, path: Path, other: Value) -> bool:
        """`+ {…}`, `set({…})`: set the keys of another map."""
        if other.__class__ is not Map:
            return False
        if self.stale:
            self._settle_near(path)
        owned = self.own(path)
        if owned is None:
            return False
        dict.update(owned, other)
        self.stamp += 1
        return True

    def put(self, path: Path, key: object, value: object) -> bool:
        """`set(key, value)`"""
        if self.stale:
            self._settle_near(path)
        owned = self.own(path)
        if owned is None:
            return False
        dict.__setitem__(owned, key, value)
        self.stamp += 1
        return True

    def merge(self, path: Path, other: Value, slow: Any, run: Budget) -> bool:
        """`mergeWith(other)`; `slow` is the method itself, for values that are not maps."""
        if other.__class__ is not Map:
            return False
        current = self._at(path)
        if current.__class__ is not Map:
            return False
        # Operations that may fail come before any change.
        merged = _merged_items(current, other, slow, run, set())
        del current
        if merged is None:
            return False
        if self.stale:
            self._settle_near(path)
        owned = self.own(path)
        if owned is None:
            return False
        self.stamp += 1
        _merge(owned, other, merged, run)
        return True

    def _maps_along(self, path: Path) -> int | None:
        """The number of steps of a path along existing maps; None when a step leads to no map."""
        node: Value = self.root
        if node.__class__ is not Map:
            return None
        for at, key in enumerate(path):
            child = node.get(key)
            if child is None:
                return at
            if child.__class__ is not Map:
                return None
            node = child
        return len(path)

    def _at(self, path: Path) -> Value:
        node: Value = self.root
        for key in path:
            if node.__class__ is not Map:
                return NOTHING
            node = node.get(key, NOTHING)
        return node


def _merged_items(
    known: Map, other: Map, slow: Any, run: Budget, met: set[tuple[int, int]]
) -> dict[Value, Value] | None:
    """The merged values of keys that both maps have; nested maps become dicts in the same way.

    None when the same two maps are merged more than once, because one part occurs several times:
    `mergeWith` itself merges them once and shares the result. `met`: pairs merged before.
    """
    run.charge(len(other) + 1)
    found: dict[object, object] = {}
    for key, value in other.items():
        mine = known.get(key, NOTHING)
        if mine is NOTHING:
            continue
        if mine.__class__ is Map and value.__class__ is Map:
            pair = (id(mine), id(value))
            if pair in met and mine and value:
                return None
            met.add(pair)
            inner = _merged_items(mine, value, slow, run, met)
            if inner is None:
                return None
            found[key] = inner
        else:
            made = materialise(slow(run, Map({key: mine}), None, Map({key: value})), run)
            found[key] = made[key]
    return found


def _merge(owned: Map, other: Map, merged: dict[Value, Value], run: Budget) -> None:
    for key, value in other.items():
        made = merged.get(key, NOTHING)
        if made is NOTHING:
            dict.__setitem__(owned, key, value)
        elif made.__class__ is dict:
            if child_references(owned, key) > ALONE.child:
                dict.__setitem__(owned, key, Map(owned[key]))
            inner = owned[key]
            forget_hash(inner)
            _merge(inner, value, made, run)
        else:
            dict.__setitem__(owned, key, made)


def forget_hash(node: Map) -> None:
    """For a map that changes in place: its hash was that of its former state."""
    node._hash = None  # pyright: ignore[reportPrivateUsage]


def grow_variable(
    run: Budget, held: Value, path: Path, operation: str, arguments: tuple[Value, ...], slow: Any
) -> Value:
    """The new content of a variable, or UNCHANGED."""
    grown = held if held.__class__ is Grown else Grown(held)
    done = perform(run, grown, path, operation, arguments, slow)
    return grown if done else UNCHANGED


def perform(
    run: Budget, grown: Grown, path: Path, operation: str, arguments: tuple[Value, ...], slow: Any
) -> bool:
    """Enlarge a value under construction at a path; False: nothing done."""
    if operation == "append":
        return grown.extend(path, arguments, run.max_items)
    value = arguments[-1]
    if operation == "extend":
        if value.__class__ is tuple:
            return grown.extend(path, value, run.max_items)
        return grown.update(path, value)
    if operation == "update":
        return grown.update(path, value)
    if operation == "put":
        return grown.put(path, arguments[0], value)
    if operation == "merge":
        return grown.merge(path, value, slow, run)
    return grown.set(path, value)
