"""Objects to models (muranopl.md section 15).

Two passes over the graph: the first collects the objects of the result, the second writes them. An
object is written inline at the first property of its owner that holds it (at the first reference of
all when its owner is not written) and as its id elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from vetro.muranopl.classes.objects import CastView, MuranoObject
from vetro.muranopl.classes.types import MuranoType
from vetro.muranopl.contracts.tree import ForwardReference
from vetro.muranopl.inplace.properties import settle_properties
from vetro.muranopl.values.containers import Map, Value, is_iterator, thaw
from vetro.muranopl.values.errors import LimitExceeded, MuranoError
from vetro.yaql.comparing import Weights, weight

if TYPE_CHECKING:
    from vetro.muranopl.classes.types import Property

    from .running import ModelRun

FORMS = ("Serializable", "Mixed", "Inline")


class _Dropped:
    pass


_DROPPED = _Dropped()


class Serializer:
    """Writes one piece of the graph.

    `keep_references`: ids of objects outside the result stay (dumps); otherwise they are removed
    (models). `designer_data`: write `_*` header keys. `honour_reference_meta`: properties marked
    `Serialize(as: reference)` hold ids only. `within`: only this object and what it owns is
    written inline (templates), and references that are still open stay as they are. `outside`: objects
    that are ids in the result whoever holds them.
    """

    def __init__(
        self,
        run: ModelRun,
        *,
        keep_references: bool,
        designer_data: bool = True,
        honour_reference_meta: bool = False,
        form: str = "Serializable",
        actions: bool = True,
        within: MuranoObject | None = None,
        outside: Iterable[MuranoObject] = (),
    ) -> None:
        self.run = run
        self._within = within
        self.keep_references = keep_references
        self.designer_data = designer_data
        self.honour_reference_meta = honour_reference_meta
        self.form = form
        self.actions = actions
        self.written: dict[str, MuranoObject] = {}
        """Objects written inline so far, by id."""
        self._planned: set[MuranoObject] = set()
        self._held: dict[MuranoObject, set[MuranoObject]] = {}
        """What owners hold, of those that were asked for: there may be many references to what one holds."""
        self._outside: set[MuranoObject] = set(outside)
        """Objects that are in the result as ids only."""
        self._in_progress: set[MuranoObject] = set()
        self.cast_types: dict[MuranoObject, MuranoType] = {}
        self._parts = 0
        """Parts of all values of the result, counted as often as they are written; where it is more
        than a single value may have, each value is weighed."""

    def model(self, root: MuranoObject | None) -> Value:
        """The model of a root object."""
        if root is None or root.destroyed:
            return None
        self._plan(root)
        return self._settle(self._object(root))

    def value(self, value: Value) -> Value:
        """Any value as plain data. Owners of the objects in it are outside the result: ids."""
        found = _objects_in(value)
        for item in found:
            owner = item.owner
            while owner is not None and owner not in self._outside:
                self._outside.add(owner)
                owner = owner.owner
        self._outside.difference_update(found)
        self._plan(value)
        self._refuse_heavy(value)
        return self._settle(self._value(value, None))

    # -- what is written where -----------------------------------------------------------------

    def _plan(self, root: Value) -> None:
        """Find every object that will be in the result."""
        stack: list[Value] = [root]
        planned = self._planned
        seen: set[int] = set()
        weights: Weights = {}
        while stack:
            item = stack.pop()
            if item.__class__ in _CONTAINERS:
                if id(item) in seen:
                    if self._parts <= PARTS:
                        self._parts += weight(item, weights)
                    continue
                seen.add(id(item))
                self._parts += len(item) + 1
            if isinstance(item, CastView):
                item = item.target
            if isinstance(item, MuranoObject):
                if item in planned or item.destroyed or self._is_outside(item):
                    continue
                planned.add(item)
                values = settle_properties(item)
                for _, attribute, _ in item.type.assembly.stored_slots:
                    held = values.get(attribute)
                    if held is not None and held.__class__ not in _SCALARS:
                        stack.append(held)
            elif isinstance(item, (tuple, list, frozenset, set)):
                for element in cast("Sequence[Value]", item):
                    if element.__class__ not in _SCALARS:
                        stack.append(element)
            elif isinstance(item, Mapping):
                for element in cast("Mapping[Value, Value]", item).values():
                    if element.__class__ not in _SCALARS:
                        stack.append(element)

    def _is_outside(self, item: MuranoObject) -> bool:
        if item in self._outside:
            return True
        within = self._within
        return within is not None and item is not within and not item.is_owned_by(within)

    def _is_inline(self, item: MuranoObject, holder: MuranoObject | None) -> bool:
        if item.id in self.written or item in self._in_progress or self._is_outside(item):
            return False
        owner = item.owner
        if owner is holder or owner is None:
            return True
        # its owner writes it, unless the owner is not in the result or no longer holds it
        if owner not in self._planned:
            return True
        held = self._held.get(owner)
        if held is None:
            held = self._held[owner] = _held_by(owner)
        return item not in held

    # -- writing -------------------------------------------------------------------------------

    def _object(self, item: MuranoObject, type_: MuranoType | None = None) -> dict[object, object]:
        self._in_progress.add(item)
        self.written[item.id] = item
        target = type_ or item.type
        properties: dict[str, object] = {}
        values = settle_properties(item)
        for name, attribute, declaration in target.assembly.stored_slots:
            if attribute not in values:
                continue
            held = values[attribute]
            if held.__class__ in _SCALARS:
                properties[name] = held
            else:
                written = self._property(held, item, declaration)
                if written is not _DROPPED:
                    properties[name] = written
        self._in_progress.discard(item)
        return self._with_header(item, target, properties)

    def _property(self, held: object, item: MuranoObject, declaration: Property) -> object:
        self._refuse_heavy(held)
        if self.honour_reference_meta and self.run.is_reference_property(declaration):
            return self._value(held, item, references=True)
        return self._value(held, item)

    def _refuse_heavy(self, value: object) -> None:
        """Refuse a small value with a part that occurs very often: each occurrence is written."""
        if self._parts > PARTS and value.__class__ in _CONTAINERS and weight(value) > PARTS:
            raise LimitExceeded(f"a value has more than {PARTS} parts", limit="value_parts")

    def _with_header(
        self, item: MuranoObject, type_: MuranoType, properties: dict[str, object]
    ) -> dict[object, object]:
        header: dict[str, object] = {"id": item.id, "name": item.name}
        header["metadata"] = thaw(item.metadata)
        if item.subscriptions:
            header["dependencies"] = {
                "onDestruction": [
                    {"subscriber": subscriber, "handler": handler}
                    for subscriber, handler in item.subscriptions
                ]
            }
        if item.header:
            for key, value in item.header.items():
                if key == "_actions" or (key.startswith("_") and not self.designer_data):
                    continue
                header[key] = thaw(value)
        if self.form == "Inline":
            return {type_: properties, **header}
        if self.form == "Mixed":
            header["type"] = type_
        else:
            header["type"] = type_.full_name
            if self.actions:
                header["_actions"] = self._actions(item)
        return {"?": header, **properties}

    def _actions(self, item: MuranoObject) -> dict[str, object]:
        actions = item.type.assembly.action_headers
        if not actions:
            return {}
        before: object = (item.header or {}).get("_actions")
        known: Mapping[str, object] = {}
        if isinstance(before, Mapping):
            known = cast("Mapping[str, object]", before)
        result: dict[str, object] = {}
        for name, details in actions.items():
            key = f"{item.id}_{name}"
            stored: object = known.get(key)
            enabled = True
            if isinstance(stored, Mapping):
                enabled = bool(cast("Mapping[str, object]", stored).get("enabled", True))
            result[key] = {"enabled": enabled, **details}
        return result

    def _value(
        self, value: Value, holder: MuranoObject | None, *, references: bool = False
    ) -> object:
        if value.__class__ in _SCALARS:
            return value
        view: MuranoType | None = None
        if isinstance(value, CastView):
            view = self.cast_types.get(value.target)
            value = value.target
        if isinstance(value, MuranoObject):
            if value.destroyed:
                return value.id if self.keep_references else _DROPPED
            if not references and self._is_inline(value, holder):
                return self._object(value, view)
            return self._reference(value)
        if is_iterator(value):
            value = tuple(value)
        if isinstance(value, (tuple, list, frozenset, set)):
            made = [
                self._value(item, holder, references=references)
                for item in cast("Sequence[object]", value)
            ]
            return [item for item in made if item is not _DROPPED]
        if isinstance(value, Mapping):
            result: dict[object, object] = {}
            for key, item in cast("Mapping[object, object]", value).items():
                written = self._value(item, holder, references=references)
                if written is not _DROPPED:
                    result[self._key(key)] = written
            return result
        if isinstance(value, MuranoType):
            return value if self.form != "Serializable" else value.full_name
        if isinstance(value, (str, int, float, bool)):
            return value
        if self._within is not None and isinstance(value, ForwardReference):
            return value
        text = plain_text(value)
        if text is not None:
            return text
        raise MuranoError(
            f"a value of type {type(value).__name__} cannot be part of a model",
            names=("ValueError",),
        )

    def _key(self, key: object) -> object:
        if isinstance(key, MuranoType):
            return key if self.form != "Serializable" else key.full_name
        if isinstance(key, (MuranoObject, CastView)):
            target = key.target if isinstance(key, CastView) else key
            return target.id
        return key

    def _reference(self, item: MuranoObject) -> object:
        if self.keep_references:
            return item.id
        return _Reference(item)

    def _settle(self, tree: object) -> object:
        """Turn references into ids; drop references to objects outside the result."""
        return _settle(tree, self.written.__contains__)


def _objects_in(value: object) -> set[MuranoObject]:
    """The objects in a value, without the objects that they hold."""
    found: set[MuranoObject] = set()
    stack = [value]
    seen: set[int] = set()
    while stack:
        item = stack.pop()
        if item.__class__ in _CONTAINERS:
            if id(item) in seen:
                continue
            seen.add(id(item))
        if isinstance(item, CastView):
            item = item.target
        if isinstance(item, MuranoObject):
            found.add(item)
        elif isinstance(item, (tuple, list, frozenset, set)):
            stack.extend(cast("Sequence[object]", item))
        elif isinstance(item, Mapping):
            stack.extend(cast("Mapping[object, object]", item).values())
    return found


_CONTAINERS = frozenset((tuple, Map))
PARTS = 10_000_000
"""The most parts of one value of a model; each part counts as often as it is written."""


class _Reference:
    __slots__ = ("item",)

    def __init__(self, item: MuranoObject) -> None:
        self.item = item


def _settle(tree: object, written: Callable[[str], bool]) -> object:
    """Replace references in place; the serializer owns the tree."""
    if isinstance(tree, _Reference):
        return tree.item.id if written(tree.item.id) else None
    stack: list[object] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            table = cast("dict[Value, Value]", node)
            lost: list[object] = []
            for key, item in table.items():
                kind = item.__class__
                if kind is dict or kind is list:
                    stack.append(item)
                elif kind is _Reference:
                    if written(item.item.id):
                        table[key] = item.item.id
                    else:
                        lost.append(key)
            for key in lost:
                del table[key]
        elif isinstance(node, list):
            row = cast("list[Value]", node)
            dropped = False
            for index, item in enumerate(row):
                kind = item.__class__
                if kind is dict or kind is list:
                    stack.append(item)
                elif kind is _Reference:
                    if written(item.item.id):
                        row[index] = item.item.id
                    else:
                        row[index] = _DROPPED
                        dropped = True
            if dropped:
                row[:] = [item for item in row if item is not _DROPPED]
    return tree


def _held_by(owner: MuranoObject) -> set[MuranoObject]:
    """The objects that stored properties of the owner hold."""
    values = settle_properties(owner)
    stack: list[object] = [values.get(slot) for _, slot, _ in owner.type.assembly.stored_slots]
    seen: set[int] = set()
    found: set[MuranoObject] = set()
    while stack:
        held = stack.pop()
        if held.__class__ in _SCALARS:
            continue
        if held.__class__ in _CONTAINERS:
            if id(held) in seen:
                continue
            seen.add(id(held))
        if isinstance(held, MuranoObject):
            found.add(held)
        elif isinstance(held, CastView):
            found.add(held.target)
        elif isinstance(held, (tuple, list)):
            stack.extend(cast("Sequence[object]", held))
        elif isinstance(held, Mapping):
            stack.extend(cast("Mapping[object, object]", held).values())
    return found


def plain_text(value: object) -> str | None:
    """Dates and times as ISO text; None for values without a plain form."""
    isoformat = getattr(value, "isoformat", None)
    return str(isoformat()) if callable(isoformat) else None


_SCALARS: frozenset[type[object]] = frozenset((type(None), bool, int, float, str))
