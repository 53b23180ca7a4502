"""How many references a value has when only one place refers to it.

The counts differ between versions of CPython and between the places where they are taken, so each is
measured here by the code that counts later, or by code of the same shape. `self_test` then checks
that no value with a second reader is changed; if one is, `switch_off` makes every value be copied.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from vetro.muranopl.values.containers import Map, Value


class Alone:
    """The largest count of a value that has one reader, for each place; -1: always copy."""

    __slots__ = ("child", "entry", "held", "read", "root", "variable")

    def __init__(self) -> None:
        self.root = root_references(_Holder())
        """The value of a `Grown`."""
        self.child = child_references(Map(k=Map()), "k")
        """A map within it."""
        self.held = _of_slot({"p_": Map()}, "p_")
        """The value of a property, taken from the attributes of its object."""
        self.variable = _of_variable(_of_argument)
        """The value of a variable, given to `assign_into` by the method."""
        self.read = _of_attribute(_Holder())
        """The value of a property, read by `assign_member`."""
        self.entry = _of_entry(Map(k=Map()))
        """A map within such a value."""

    def switch_off(self) -> None:
        """From now on no value counts as having one reader: all are copied before they change."""
        for name in self.__slots__:
            setattr(self, name, -1)

    @property
    def is_on(self) -> bool:
        """False after `switch_off`."""
        return self.root >= 0


def root_references(grown: Any) -> int:
    """The count of the value of a `Grown`."""
    root = grown.root
    grown.root = None
    count = sys.getrefcount(root)
    grown.root = root
    return count


def child_references(node: Value, key: Any) -> int:
    """The count of an entry of a map."""
    child = node[key]
    return sys.getrefcount(child)


class _Holder:
    def __init__(self) -> None:
        self.root: Value = Map()

    def may_grow_in_place(self, holder: object, name: str) -> bool:
        return True


def _of_slot(values: dict[str, object], slot: str) -> int:
    held = values.get(slot)
    return sys.getrefcount(held)


def _of_argument(a: object, b: object, c: object, value: object, *rest: object) -> int:
    return sys.getrefcount(value)


def _of_variable(count: Callable[..., int]) -> int:
    variable = Map()
    return count(None, None, None, variable, None, None)


def _of_attribute(holder: object) -> int:
    current = getattr(holder, "root")  # noqa: B009 - the shape of the real call
    return sys.getrefcount(current)


def _of_entry(container: Value) -> int:
    inner = container.get("k")
    return sys.getrefcount(inner)


ALONE = Alone()
