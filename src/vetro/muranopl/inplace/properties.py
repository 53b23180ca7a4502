"""Properties of `$this` that are enlarged in place, within what their contracts allow.

Generated code calls the function that `grower` chooses; when it returns False, nothing was done and
the plain assignment runs. While a list is being filled its slot in the object is empty, and reads come
to a descriptor in the Python class.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import TYPE_CHECKING, Any

from vetro.muranopl.contracts.tree import Anything, Contract, Setting, Violation
from vetro.muranopl.values.containers import Map, Value, materialise

from .growing import NOTHING, Grown, Path, forget_hash, perform
from .references import ALONE

if TYPE_CHECKING:
    from vetro.muranopl.classes.objects import MuranoObject
    from vetro.muranopl.classes.types import Property

    from .running import GrowingRun


def add_elements(
    run: GrowingRun,
    this: MuranoObject,
    path: Path,
    operation: str,
    arguments: tuple[Value, ...],
    slow: Any,
    token: Any = None,
) -> bool:
    """`grow_property` for elements of a list: the frequent case, a list being filled, comes first."""
    values = this.__dict__
    growing: dict[str, Grown] | None = values.get("growing")
    if growing is not None and token is None:
        name = path[0]
        grown = growing.get(name)
        if grown is not None and () in grown.stale:
            known = this.type.growing_properties[name]
            added = arguments if operation == "append" else arguments[0]
            if (
                added.__class__ is tuple
                and known.slot not in values
                and (known.is_writable or run.building)
                and (known.tolerates_all or _all_of_class(added, known.element_class))
            ):
                filled = grown.lists[()]
                if len(filled) + len(added) <= run.max_items:
                    filled.extend(added)
                    grown.stamp += 1
                    return True
    return grow_property(run, this, path, operation, arguments, slow, token)


def _all_of_class(items: tuple[Value, ...], only: Any) -> bool:
    if len(items) == 1:
        return items[0].__class__ is only
    return {only}.issuperset(map(type, items))


def set_entry(
    run: GrowingRun,
    this: MuranoObject,
    path: Path,
    operation: str,
    arguments: tuple[Value, ...],
    slow: Any,
    token: Any = None,
) -> bool:
    """`grow_property` for one key of a map: a map that nothing else refers to comes first."""
    values = this.__dict__
    name, key = path
    known = this.type.growing_properties.get(name)
    if known is not None and token is None and (known.is_writable or run.building):
        value = arguments[0]
        entry = known.entry_classes
        growing: dict[str, Grown] | None = values.get("growing")
        if (growing is None or name not in growing) and (
            known.tolerates_all
            or (
                entry is not None
                and key.__class__ is entry[0]
                and (entry[1] is None or value.__class__ is entry[1])
            )
        ):
            slot = known.slot
            held: Value = values.get(slot)
            if held.__class__ is Map:
                if getrefcount(held) > ALONE.held:
                    held = values[slot] = Map(held)
                dict.__setitem__(held, key, value)
                forget_hash(held)
                return True
    return grow_property(run, this, path, operation, arguments, slow, token)


def grow_property(
    run: GrowingRun,
    this: MuranoObject,
    path: Path,
    operation: str,
    arguments: tuple[Value, ...],
    slow: Any,
    token: Any = None,
) -> bool:
    """Enlarge a property of `$this` at a path that begins with its name; False: nothing done.

    `token`: the result of `growth_token` before the arguments were computed. If the property has
    changed since, the plain code must run.
    """
    name = path[0]
    growing_property = this.type.growing_properties.get(name) or run.growing_property(this, name)
    if growing_property is None or growing_property.never:
        return False
    if not growing_property.is_writable and not run.building:
        return False
    values = this.__dict__
    slot = growing_property.slot
    if operation == "delete":
        return _remove(run, this, growing_property, arguments, slow, token)
    inside = path[1:]
    if operation == "assign" and len(inside) == 1:
        operation, arguments, inside = "put", (inside[0], arguments[0]), ()
    growing: dict[str, Grown] | None = values.get("growing")
    grown = None if growing is None else growing.get(name)
    if token is not None:
        if not _is_unchanged(token, values.get(slot, NOTHING), grown):
            return False
        token.held = None
    if not growing_property.tolerates_all:
        if inside:
            return False
        try:
            checked = _checked(run, this, growing_property, grown, operation, arguments)
        except Violation as error:
            declaration = growing_property.declaration
            place = f"{declaration.declaring_type.name}.{name}"
            raise error.located(place, "", declaration.position) from None
        if checked is None:
            return False
        arguments = checked
    if slot in values:
        value = values[slot]
        if grown is None or grown.root is not value or grown.stale:
            grown = Grown(value)
        if growing is None:
            growing = values["growing"] = {}
        growing[name] = grown
        make_growing(this.__class__, name)
        del value, values[slot]
    elif grown is None:
        return False
    try:
        return perform(run, grown, inside, operation, arguments, slow)
    finally:
        if not grown.stale:
            values[slot] = grown.root


def _remove(
    run: GrowingRun,
    this: MuranoObject,
    growing_property: GrowingProperty,
    arguments: tuple[Value, ...],
    slow: Any,
    token: _Token | None,
) -> bool:
    """`delete(…)` of elements or keys; those that stay are not checked again."""
    if not growing_property.tolerates_removal:
        return False
    values = this.__dict__
    slot = growing_property.slot
    held: Value = getattr(this, slot, None)
    if token is not None:
        growing: dict[str, Grown] | None = values.get("growing")
        grown = None if growing is None else growing.get(growing_property.declaration.name)
        if not _is_unchanged(token, held, grown):
            return False
        token.held = token.items = None
    if held.__class__ is not tuple and held.__class__ is not Map:
        return False
    made = slow(run, held, None, *arguments)
    if made.__class__ is not held.__class__:
        made = materialise(made, run)
    values[slot] = made
    return True


class GrowingProperty:
    """How values of a property may grow without being checked as a whole again."""

    __slots__ = (
        "declaration",
        "element",
        "element_class",
        "entry",
        "entry_classes",
        "is_writable",
        "never",
        "slot",
        "tolerates_all",
        "tolerates_removal",
    )

    def __init__(self, declaration: Property, contract: Contract | None) -> None:
        self.declaration = declaration
        self.slot = "p_" + declaration.name
        self.is_writable = declaration.is_writable
        self.tolerates_all = contract is not None and contract.tolerates_growth
        self.tolerates_removal = contract is not None and contract.tolerates_removal
        self.element = None if contract is None else contract.element_contract
        self.entry = None if contract is None else contract.entry_contracts
        self.element_class = None if self.element is None else self.element.plain_class
        self.entry_classes: tuple[object, object] | None = None
        """Classes of key and value that pass unchanged; None for the value: any."""
        if self.entry is not None and self.entry[0].plain_class is not None:
            value = self.entry[1]
            if value.__class__ is Anything or value.plain_class is not None:
                self.entry_classes = (self.entry[0].plain_class, value.plain_class)
        self.never = not self.tolerates_all and self.element is None and self.entry is None


class _Token:
    """A property as it was before the arguments of a growth were computed."""

    __slots__ = ("held", "items", "length", "stamp", "value")

    def __init__(self, value: Value, grown: Grown | None) -> None:
        self.items: Value = None
        self.length = 0
        self.stamp = None if grown is None else grown.stamp
        self.value = id(value)
        self.held: Value = value if value.__class__ is Map else None
        """A map: while the token refers to it, it is not changed in place."""
        if value.__class__ is tuple:
            self.items, self.length = value, len(value)
        elif value is NOTHING and grown is not None:
            self.items = grown.lists.get(())
            self.length = len(self.items or ())


def growth_token(this: MuranoObject, name: str, is_map: bool) -> object:
    """A token that shows later whether the property changed while arguments were computed.

    `is_map`: keys will be added to the property, so the lists being filled in it are settled first.
    """
    values = this.__dict__
    slot = "p_" + name
    if is_map and slot not in values:
        getattr(this, slot)
    growing: dict[str, Grown] | None = values.get("growing")
    grown = None if growing is None else growing.get(name)
    return _Token(values.get(slot, NOTHING), grown)


def value_before(this: MuranoObject, name: str, token: _Token) -> object:
    """The property's list or map when the token was made; for other values the present value."""
    if token.held is not None:
        return token.held
    if token.items is None:
        return getattr(this, "p_" + name)
    return tuple(token.items[: token.length])


def _is_unchanged(token: _Token, value: object, grown: Grown | None) -> bool:
    if token.stamp != (None if grown is None else grown.stamp):
        return False
    # A read may have settled it meanwhile, which is not a change.
    return id(value) == token.value or (grown is not None and grown.filled.get(()) is value)


def grower(operation: str, steps: int) -> Callable[..., bool]:
    """The function that grows a property: by its operation and the length of the path."""
    if steps == 1 and operation in ("append", "extend"):
        return add_elements
    return set_entry if steps == 2 and operation == "assign" else grow_property


def _checked(
    run: GrowingRun,
    this: MuranoObject,
    growing: GrowingProperty,
    grown: Grown | None,
    operation: str,
    arguments: tuple[Value, ...],
) -> tuple[object, ...] | None:
    """New elements after the property's contract; None when it must check the whole value."""
    if operation == "append" and arguments[0].__class__ is growing.element_class:
        return arguments if len(arguments) == 1 else None
    if operation == "put":
        parts = growing.entry
        if parts is None:
            return None
        key, value = arguments
        known = growing.entry_classes
        if (
            known is not None
            and key.__class__ is known[0]
            and (known[1] is None or value.__class__ is known[1])
        ):
            return arguments
        setting = Setting(this, run, owner=this)
        return (parts[0].apply(key, setting), _applied(parts[1], value, f"[{key!r}]", setting))
    only = growing.element_class
    if operation == "extend" and only is not None and arguments[0].__class__ is tuple:
        items: tuple[Value, ...] = arguments[0]
        if all(item.__class__ is only for item in items):
            return arguments
    setting = Setting(this, run, owner=this)
    if operation == "update" or arguments[-1].__class__ is Map:
        parts = growing.entry
        if parts is None or arguments[-1].__class__ is not Map:
            return None
        pairs = {
            parts[0].apply(key, setting): _applied(parts[1], value, f"[{key!r}]", setting)
            for key, value in arguments[-1].items()
        }
        return (Map(pairs),)
    element = growing.element
    if element is None:
        return None
    if operation == "extend":
        if arguments[0].__class__ is not tuple:
            return None
        arguments = arguments[0]
    slot = "p_" + growing.declaration.name
    if grown is not None and slot not in this.__dict__:
        at = len(grown.lists.get((), ()))
    else:
        held: Value = this.__dict__.get(slot)
        if held.__class__ is not tuple:
            return None
        at = len(held)
    made = tuple(
        [_applied(element, item, f"[{at + i}]", setting) for i, item in enumerate(arguments)]
    )
    return (made,) if operation == "extend" else made


def _applied(contract: Contract, value: object, step: str, setting: Setting) -> object:
    try:
        return contract.apply(value, setting)
    except Violation as error:
        raise error.at(step) from None


# -- properties ----------------------------------------------------------------------------------


class _GrowingProperty:
    """A descriptor in the Python class for a property that is being filled in some objects.

    While an object's list is being filled, its slot is empty and reads come here.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.slot = "p_" + name

    def __get__(self, this: MuranoObject | None, owner: type[object]) -> object:
        if this is None:
            return self
        growing: dict[str, Grown] | None = this.__dict__.get("growing")
        grown = None if growing is None else growing.get(self.name)
        if grown is None:
            raise AttributeError(self.slot, name=self.slot, obj=this)
        value = this.__dict__[self.slot] = grown.settled()
        return value


def make_growing(python_class: type[object], name: str) -> None:
    """Let objects of a class have a growing value in a property."""
    slot = "p_" + name
    if slot not in python_class.__dict__:
        setattr(python_class, slot, _GrowingProperty(name))


def settle_properties(this: MuranoObject) -> dict[str, object]:
    """Settle all growing values of an object; returns its attributes."""
    values = this.__dict__
    growing: dict[str, Grown] | None = values.get("growing")
    if growing:
        for name, grown in growing.items():
            if "p_" + name not in values:
                values["p_" + name] = grown.settled()
        del values["growing"]
    return values
