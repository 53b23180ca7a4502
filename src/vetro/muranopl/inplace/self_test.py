"""Checks that no value with a second reader is changed, by the functions that programs use.

The calls have the shapes of generated code: a method's variable, an object's property, a map within
either, each with a second reader that must keep what it had.
"""

from __future__ import annotations

from typing import Any

from vetro.muranopl.values.containers import Map

from .assigning import assign_into, assign_member
from .growing import Grown
from .properties import set_entry

_SCOPE: Any = None


class _Property:
    """A property of maps of any kind."""

    slot = "p_p"
    is_writable = True
    never = False
    tolerates_all = True
    tolerates_removal = True
    entry_classes = None


class _Type:
    def __init__(self) -> None:
        self.growing_properties = {"p": _Property()}


class _Object:
    type = _Type()

    def __init__(self, value: Map) -> None:
        self.p_p = value


class _Run:
    """A run with objects that have one property."""

    max_items = 1_000
    building = 0

    def may_grow_in_place(self, target: object, name: str) -> bool:
        return True

    def is_unassigned_static(self, target: object, name: str, scope: object) -> bool:
        return False

    def read_property_or_unset(self, target: object, name: str, scope: object) -> object:
        return getattr(target, "p_" + name)

    def write_property(self, target: object, name: str, value: object, scope: object) -> None:
        setattr(target, "p_" + name, value)


_RUN: Any = _Run()


def changed_values() -> list[str]:
    """The places where a value with a second reader was changed; none where counting works."""
    return [name for name, check in _CHECKS.items() if not check()]


def _variable() -> bool:
    value = Map(k=1)
    other = value
    value = assign_into(_RUN, _SCOPE, "value", value, ("k",), 2, "set", None)
    return other["k"] == 1 and value["k"] == 2


def _variable_in_a_list() -> bool:
    value = Map(k=1)
    others = (value,)
    value = assign_into(_RUN, _SCOPE, "value", value, ("k",), 2, "set", None)
    return others[0]["k"] == 1 and value["k"] == 2


def _map_in_a_variable() -> bool:
    value = Map(m=Map(k=1))
    inner = value["m"]
    value = assign_into(_RUN, _SCOPE, "value", value, ("m", "k"), 2, "set", None)
    return inner["k"] == 1 and value["m"]["k"] == 2


def _whole_of_a_map_in_a_variable() -> bool:
    value = Map(m=Map(k=1))
    other = value
    value = assign_into(_RUN, _SCOPE, "value", value, ("m", "k"), 2, "set", None)
    return other["m"]["k"] == 1 and value["m"]["k"] == 2


def _property() -> bool:
    holder = _Object(Map(m=Map(k=1)))
    other = holder.p_p
    assign_member(_RUN, _SCOPE, holder, ("p", "m", "k"), 2)
    return other["m"]["k"] == 1 and holder.p_p["m"]["k"] == 2


def _map_in_a_property() -> bool:
    holder = _Object(Map(m=Map(k=1)))
    inner = holder.p_p["m"]
    assign_member(_RUN, _SCOPE, holder, ("p", "m", "k"), 2)
    return inner["k"] == 1 and holder.p_p["m"]["k"] == 2


def _entry_of_a_property() -> bool:
    holder: Any = _Object(Map(k=1))
    other = holder.p_p
    done = set_entry(_RUN, holder, ("p", "k"), "assign", (2,), None)
    return done and other["k"] == 1 and holder.p_p["k"] == 2


def _growing() -> bool:
    grown = Grown(Map(k=1))
    other = grown.root
    done = grown.set(("k",), 2)
    return done and other["k"] == 1 and grown.settled()["k"] == 2


def _map_in_a_growing_value() -> bool:
    grown = Grown(Map(m=Map(k=1)))
    inner = grown.root["m"]
    done = grown.set(("m", "k"), 2)
    return done and inner["k"] == 1 and grown.settled()["m"]["k"] == 2


def _merged_into_a_growing_value() -> bool:
    grown = Grown(Map(m=Map(k=1)))
    inner = grown.root["m"]
    done = grown.update(("m",), Map(k=2))
    return done and inner["k"] == 1 and grown.settled()["m"]["k"] == 2


_CHECKS = {
    "a variable": _variable,
    "a variable in a list": _variable_in_a_list,
    "a map in a variable": _map_in_a_variable,
    "the whole of a map in a variable": _whole_of_a_map_in_a_variable,
    "a property": _property,
    "a map in a property": _map_in_a_property,
    "an entry of a property": _entry_of_a_property,
    "a growing value": _growing,
    "a map in a growing value": _map_in_a_growing_value,
    "a map that is merged into": _merged_into_a_growing_value,
}
