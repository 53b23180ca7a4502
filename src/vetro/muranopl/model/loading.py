"""Models to objects (muranopl.md sections 6.1, 13).

A `Transaction` loads one connected piece of model: the environment's tree, or the model given to
one `new`. It runs in phases: create objects and evaluate their properties, owners before owned
objects; evaluate again the properties with forward references; publish the objects; run
constructors, owned objects before their owner. If a constructor fails, all objects of the load are
removed from the session.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from vetro.muranopl.classes.objects import DestroyedObject, MuranoObject, unset_property
from vetro.muranopl.classes.types import MuranoType
from vetro.muranopl.contracts.tree import ForwardReference, object_maps
from vetro.muranopl.values.containers import FINAL_TYPES, Map, Value, freeze
from vetro.muranopl.values.errors import (
    CircularExpressionDependenciesError,
    MuranoError,
    ObjectModelError,
    UninitializedPropertyAccessError,
)

from .removed import refill

if TYPE_CHECKING:
    from vetro.muranopl.contracts.running import Load

    from .running import ModelRun


_HEADER_KEYS = frozenset(
    ("type", "classVersion", "package", "id", "name", "metadata", "dependencies", "destroyed")
)


_NOTHING: Mapping[str, object] = {}


@dataclass(slots=True)
class Header:
    """The content of `?`, in either form of section 13."""

    type_name: str | None
    type: MuranoType | None
    version: str | None
    package: str | None
    object_id: str | None
    name: str | None
    metadata: Any
    dependencies: Mapping[str, object]
    destroyed: bool
    opaque: dict[str, object]
    properties: Mapping[str, Value]


def read_header(model: Mapping[Value, Value], run: ModelRun, scope: MuranoType | None) -> Header:
    """Split a map into header and properties. Raises ObjectModelError."""
    if "?" in model:
        head: Value = model["?"]
        if head.__class__ not in _MAPS and not isinstance(head, Mapping):
            raise ObjectModelError("`?` must be a map with the object's type and id")
        properties = {
            key if key.__class__ is str else str(key): value
            for key, value in model.items()
            if key != "?"
        }
        return _header(cast("Mapping[str, Value]", head), head.get("type"), properties)
    named = [key for key in model if run.is_type_key(key)]
    if len(named) == 1:
        key = named[0]
        properties = model[key]
        if properties is not None and not isinstance(properties, Mapping):
            raise ObjectModelError(f"the properties of {key} must be a map")
        rest = {str(k): v for k, v in model.items() if k is not key}
        written: Value = key
        if isinstance(key, str):
            written = run.resolve_type_key(key, scope)
        return _header(rest, written, cast("Mapping[str, Value]", properties or {}))
    return _header({}, None, cast("Mapping[str, Value]", model))


_MAPS = frozenset((dict, Map))


def type_parts(text: str) -> tuple[str | None, str | None, str | None]:
    """Name, version and package in `NAME/VERSION@PACKAGE`."""
    return _short_parts(text) if len(text) <= 500 else _short_parts.__wrapped__(text)


@functools.lru_cache(1024)
def _short_parts(text: str) -> tuple[str | None, str | None, str | None]:
    rest, _, package = text.partition("@")
    name, _, version = rest.partition("/")
    return name or None, version or None, package or None


def _header(head: Mapping[str, Value], written: Value, properties: Mapping[str, Value]) -> Header:
    type_: MuranoType | None = None
    name = version = package = None
    if isinstance(written, str):
        name, version, package = type_parts(written)
    elif isinstance(written, MuranoType):
        type_ = written
    elif written is not None:
        raise ObjectModelError(f"the type of an object must be text, not {written!r}")
    if len(head) == 1 and name is not None and "type" in head:
        # The frequent case: a header that names only the class.
        return Header(
            name, None, version, package, None, None, None, _NOTHING, False, {}, properties
        )
    object_id = head.get("id")
    dependencies: object = head.get("dependencies") or {}
    return Header(
        name,
        type_,
        version if version is not None else head.get("classVersion"),
        package if package is not None else head.get("package"),
        None if object_id is None else str(object_id),
        head.get("name"),
        head.get("metadata"),
        cast("Mapping[str, object]", dependencies) if isinstance(dependencies, Mapping) else {},
        bool(head.get("destroyed", False)),
        {key: value for key, value in head.items() if key not in _HEADER_KEYS},
        properties,
    )


Made: TypeAlias = tuple[Mapping[Value, Value], "MuranoObject"]
"""A map of the model and the object it became."""


class Transaction:
    """One load. `keep_ids`: a model from outside keeps its ids; `new` makes fresh ones."""

    __slots__ = (
        "constructing",
        "created",
        "depth",
        "dry",
        "excluded",
        "failed",
        "forward",
        "keep_ids",
        "made_before",
        "made_here",
        "objects",
        "open",
        "outer",
        "run",
        "scope",
    )

    def __init__(
        self,
        run: ModelRun,
        *,
        keep_ids: bool,
        scope: MuranoType | None = None,
        objects: dict[str, MuranoObject] | None = None,
        outer: Load | None = None,
        dry: bool = False,
        excluded: frozenset[str] = frozenset(),
    ) -> None:
        self.run = run
        self.keep_ids = keep_ids
        self.scope = scope
        self.outer = outer
        """The enclosing load of a dry load, whose ids are visible."""
        self.dry = dry
        """True for `template()`: nothing is constructed."""
        self.excluded = excluded
        """Properties of the outermost object that a dry load leaves out."""
        self.open = True
        """While true, an unknown id may still be defined later in the model."""
        self.objects: dict[str, MuranoObject] = {} if objects is None else objects
        self.made_here: list[Made] | None = None
        """The objects made of the maps in the value of the property being set, in order."""
        self.made_before: list[Made] = []
        """The same for a property whose contract is applied again: no map makes a second object."""
        self.created: list[tuple[MuranoObject, Mapping[str, Value]]] = []
        """Objects in the order their properties were completed: owned ones before their owner."""
        self.constructing: list[tuple[MuranoObject, Mapping[str, object]]] = []
        self.forward: list[tuple[MuranoObject, str, object, list[Made]]] = []
        """Properties whose values hold forward references: object, property, raw value, and the
        objects that were made of the maps in it."""
        self.depth = 0
        self.failed: tuple[Mapping[Value, Value], str | None] | None = None
        """The innermost map whose object could not be made, and the id it has there."""

    def find(self, object_id: str) -> MuranoObject | None:
        """An object of this transaction, by the id its model gave it."""
        found = self.objects.get(object_id)
        if found is None and self.outer is not None:
            return self.outer.find(object_id)
        return found

    def make(
        self,
        model: Mapping[Value, Value],
        owner: MuranoObject | None,
        default: MuranoType | None,
    ) -> MuranoObject:
        """The object of an inline definition: created, its properties evaluated.

        A map that occurs at two places makes two objects, unless it names an id.
        """
        header = read_header(model, self.run, self.scope)
        if header.object_id is not None:
            existing = self.objects.get(header.object_id)
            if existing is not None:
                if self.made_here is not None:
                    self.made_here.append((model, existing))
                return existing
        try:
            return self._make(model, header, owner, default)
        except MuranoError:
            if self.failed is None:
                self.failed = model, header.object_id
            raise

    def _make(
        self,
        model: Mapping[object, object],
        header: Header,
        owner: MuranoObject | None,
        default: MuranoType | None,
    ) -> MuranoObject:
        type_ = self.type_of(header, default)
        run = self.run
        object_id = header.object_id if self.keep_ids else None
        made = self.create(
            type_,
            run,
            object_id if object_id is not None else run.new_id(),
            owner,
            header.name,
            None if header.metadata is None else freeze(header.metadata),
            header.opaque or None,
        )
        if self.keep_ids and header.destroyed:
            made.__class__ = type_.assembly.destroyed_class
        if self.made_here is not None:
            self.made_here.append((model, made))
        if header.object_id is not None:
            self.objects[header.object_id] = made
        if header.dependencies:
            _subscriptions(made, header.dependencies)
        if isinstance(made, DestroyedObject):
            self.created.append((made, {}))
            return made
        self.fill(made, header.properties)
        return made

    def create(self, type_: MuranoType, *header: Any) -> MuranoObject:
        """The Python object for an object of the model; ``header``: what `MuranoObject` takes."""
        return type_.python_class(*header)

    def fill(self, made: MuranoObject, properties: Mapping[str, object]) -> None:
        """Evaluate the properties of a new object and remember it for construction."""
        self.depth += 1
        if self.depth > 200:
            raise ObjectModelError(
                "objects are nested more than 200 levels deep", names=("ValueError",)
            )
        made.type.assembly.fill(made, self.run, properties, self)
        self.depth -= 1
        self.created.append((made, properties))

    def made_of(self, model: Mapping[object, object]) -> MuranoObject | None:
        """The object made of a map before, when the contract of its property is applied again."""
        for index, (item, made) in enumerate(self.made_before):
            if item is model:
                del self.made_before[index]
                return made
        return None

    def type_of(self, header: Header, default: MuranoType | None) -> MuranoType:
        """The class a header asks for. Raises NoPackageForClassFound, ObjectModelError."""
        if header.type is not None:
            return header.type
        if header.type_name is None:
            if default is None:
                raise ObjectModelError(
                    "a map that stands for an object has no type",
                    hint="give it a header: `?: {type: …}`",
                )
            return default
        if default is not None and header.type_name == default.name and header.version is None:
            return default
        return self.run.type_for_model(header.type_name, header.version, header.package, self.scope)

    def resolve_plain(self, value: object) -> object:
        """A raw value of the model for a native constructor: ids stay text."""
        return freeze(value)

    def argument(self, value: object) -> object:
        """A raw value of the model for an argument of `.init`."""
        return value if type(value) in FINAL_TYPES else freeze(value)

    def resolve(self) -> None:
        """Resolve forward references.

        References out of a dry load stay open while the enclosing load is open: that load evaluates
        the whole template again when all ids are known.
        """
        self.open = False
        if self.dry and self.outer is not None and self.outer.is_open:
            self.forward.clear()
            return
        for target, name, raw, made_of_maps in self.forward:
            refill(self, target, name, raw, made_of_maps)
        self.forward.clear()
        self.made_before = []

    @property
    def is_open(self) -> bool:
        """True while unknown ids may still be defined, by this load or an enclosing one."""
        return self.open or (self.outer is not None and self.outer.is_open)

    def finish(self, *, publish: bool = True) -> None:
        """Resolve forward references, publish the objects, run their constructors."""
        run = self.run
        self.resolve()
        created, self.created = self.created, []
        self.constructing = created
        if publish:
            for made, _ in created:
                run.publish(made)
        before, run.transaction = run.transaction, self
        run.building += 1
        try:
            for made, properties in created:
                if not made.destroyed:
                    construct(made, run, properties, self)
        except BaseException:
            for made, _ in created:
                if run.objects.get(made.id) is made:
                    del run.objects[made.id]
            raise
        finally:
            self.constructing = []
            run.building -= 1
            run.transaction = before

    def constructs(self, made: MuranoObject) -> bool:
        """True for an object of this load while the load's constructors run."""
        return any(item is made for item, _ in self.constructing)


def place_in_model(root: object, wanted: object) -> str | None:
    """The path of a map in a model: `Objects.applications[0].disk`."""
    stack: list[tuple[str, object]] = [("Objects", root)]
    while stack:
        path, item = stack.pop()
        if item is wanted:
            return path
        if isinstance(item, Mapping):
            table = cast("Mapping[object, object]", item)
            stack.extend((f"{path}.{key}", value) for key, value in table.items() if key != "?")
        elif isinstance(item, (list, tuple)):
            items = enumerate(cast("list[object]", item))
            stack.extend((f"{path}[{index}]", value) for index, value in items)
    return None


def load_missing(transaction: Transaction, model: Mapping[str, Value]) -> None:
    """Load the objects of a snapshot that the session lacks; known objects stay as they are."""
    stack: list[tuple[Mapping[str, Value], MuranoObject | None]]
    stack = [(item, None) for item in object_maps(model)]
    while stack:
        table, owner = stack.pop()
        known = transaction.find(str(table["?"].get("id")))
        if known is None:
            transaction.make(table, owner, None)
            continue
        initialisers = known.type.assembly.initialisers
        for name, value in table.items():
            if name in initialisers:
                parts = initialisers[name].chain[0][1].object_maps(value)
            elif name != "?":
                parts = object_maps(value)
            else:
                continue
            stack.extend((item, known) for item in parts)


def construct(
    made: MuranoObject, run: ModelRun, properties: Mapping[str, object], transaction: Transaction
) -> None:
    """Run native constructors and every `.init`, base before derived (section 6.1)."""
    for step in made.type.assembly.construction_steps:
        step(made, run, properties, transaction)
    made.initialised = True


def fill_in_order(
    made: MuranoObject,
    names: list[str],
    initialise: Callable[[str], None],
) -> None:
    """Set properties one by one; a property whose default needs another is set after it.

    Raises CircularExpressionDependenciesError when a pass sets no property.
    """
    pending = names
    while pending:
        blocked: list[str] = []
        last: Exception | None = None
        for name in pending:
            try:
                initialise(name)
            except (UninitializedPropertyAccessError, AttributeError) as error:
                if isinstance(error, AttributeError) and unset_property(error) is None:
                    raise
                last = error
                blocked.append(name)
        if len(blocked) == len(pending):
            raise CircularExpressionDependenciesError(
                f"the defaults of {made.type.name} depend on each other: {', '.join(blocked)}",
                cause=last,
                hint="give one of them a constant default, or set it in initialize",
            )
        pending = blocked


def holds_forward_reference(value: object) -> bool:
    """True when a value or a part of it is not resolved yet."""
    stack = [value]
    seen: set[int] = set()
    while stack:
        item = stack.pop()
        if isinstance(item, ForwardReference):
            return True
        if item.__class__ is tuple or item.__class__ is Map:
            if id(item) in seen:
                continue
            seen.add(id(item))
        if isinstance(item, tuple):
            stack.extend(cast("tuple[object, ...]", item))
        elif isinstance(item, Mapping):
            stack.extend(cast("Mapping[object, object]", item).values())
    return False


def _subscriptions(made: MuranoObject, dependencies: Mapping[str, Value]) -> None:
    rows = dependencies.get("onDestruction") or ()
    found: list[tuple[str, str | None]] = []
    for row in rows:
        if isinstance(row, Mapping) and "subscriber" in row:
            entry = cast("Mapping[str, Value]", row)
            handler = entry.get("handler")
            found.append((str(entry["subscriber"]), None if handler is None else str(handler)))
    if found:
        made.subscriptions = list(dict.fromkeys(found))
