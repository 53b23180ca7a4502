"""Contracts of one value: `$` and the functions after it (muranopl.md section 7.2).

`$.int().notNull().check($ > 0)` is a `Chain` of steps; any other expression is `Computed`. Lists
and maps of contracts, and the base of all contracts, are in `tree`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from vetro.muranopl.classes.objects import CastView, MuranoObject
from vetro.muranopl.values.containers import Value, freeze, preview
from vetro.muranopl.values.errors import NoObjectFoundError
from vetro.muranopl.values.records import made, record

from .tree import (
    Contract,
    ForwardReference,
    Guard,
    Mode,
    Setting,
    Violation,
    object_maps,
    settled,
)

if TYPE_CHECKING:
    from vetro.muranopl.classes.types import MuranoPackage, MuranoType
    from vetro.muranopl.syntax.versions import VersionSpec

    from .running import ContractRun

_INTEGER = re.compile(r"\s*[-+]?\d+\s*\Z")


class Step:
    """One function of a chain. Not an ABC: `isinstance` with these takes a tenth of the time."""

    def apply(self, value: Value, setting: Setting) -> Value:
        """The value after the step. Raises Violation."""
        raise NotImplementedError

    makes_objects: bool = False


class AsInt(Step):
    """`int()`"""

    def apply(self, value: Value, setting: Setting) -> Value:
        if value is None or (value.__class__ is int):
            return value
        if setting.mode is not Mode.TRANSFORM:
            raise Violation(f"Value {preview(value)} violates int() contract: it is not an integer")
        if isinstance(value, bool):
            return int(value)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            try:
                return int(value)
            except (ValueError, OverflowError):
                raise Violation(f"Value {preview(value)} violates int() contract") from None
        if isinstance(value, str) and _INTEGER.match(value):
            return int(value)
        raise Violation(f"Value {preview(value)} violates int() contract")


class AsString(Step):
    """`string()`"""

    def apply(self, value: Value, setting: Setting) -> Value:
        if value is None or value.__class__ is str:
            return value
        if setting.mode is Mode.TRANSFORM:
            if isinstance(value, str):
                return str(value)
            if isinstance(value, (bool, int, float)):
                return str(value)
            if isinstance(value, CastView):
                return value.target.id
            if isinstance(value, MuranoObject):
                return value.id
            if hasattr(value, "isoformat"):
                return str(value)
        raise Violation(f"Value {preview(value)} violates string() contract")


class AsBool(Step):
    """`bool()`"""

    def apply(self, value: Value, setting: Setting) -> Value:
        if value is None or value.__class__ is bool:
            return value
        if setting.mode is not Mode.TRANSFORM:
            raise Violation(f"Value {preview(value)} violates bool() contract: it is not a boolean")
        return bool(value)


class NotNull(Step):
    """`notNull()`"""

    def apply(self, value: Value, setting: Setting) -> Value:
        if value is None:
            raise Violation("null value violates notNull() contract")
        return value


@record
class Check(Step):
    """`check(predicate[, message])`"""

    predicate: Callable[[object, ContractRun, object], object]
    """`(this, run, value)` → truthy when the value is valid."""
    message: Callable[[Value, ContractRun, Value], Value] | None
    text: str
    """The predicate as written."""
    ast: Any = None
    is_closed: bool = False
    """True when the predicate depends only on the value."""

    def apply(self, value: Value, setting: Setting) -> Value:
        if isinstance(value, ForwardReference) or setting.mode is Mode.CHECK:
            return value
        if self.predicate(setting.this, setting.run, value):
            return value
        if self.message is not None:
            raise Violation(str(self.message(setting.this, setting.run, value)))
        raise Violation(f"Value {preview(value)} doesn't match check({self.text})")


@record
class OfClass(Step):
    """`class(T[, default[, versionSpec]])`"""

    resolve: Callable[[Setting], tuple[MuranoType, MuranoType | None]]
    """The class and the default class; both must exist even for null."""
    spec: VersionSpec | None = None
    has_default: bool = False
    """True for `class(A, B)`: an absent value becomes a new B."""
    package: MuranoPackage | None = None
    """The package of the code: its requirements decide which other versions pass."""
    makes_objects: bool = True
    accepted: set[type[Any]] = made(factory=set[type[Any]])
    """Python classes of objects known to pass; the guard tests membership."""

    def apply(self, value: Value, setting: Setting) -> Value:
        wanted, default = self.resolve(setting)
        if value is None:
            self.accepted.add(type(None))  # the class exists: null passes from now on
            return None
        if isinstance(value, ForwardReference):
            return value
        if isinstance(value, CastView):
            value = value.target
        found: object
        if isinstance(value, MuranoObject):
            found = value
        elif setting.mode is not Mode.TRANSFORM:
            raise Violation(f"Value {preview(value)} is not an object of class {wanted.name}")
        elif isinstance(value, Mapping):
            found = setting.run.object_from_map(
                cast("Mapping[object, object]", value), default or wanted, setting
            )
        elif isinstance(value, str):
            found = _by_id(value, setting)
            if isinstance(found, ForwardReference):
                return found
        else:
            raise Violation(f"Value {preview(value)} cannot be represented as class {wanted.name}")
        if not self._fits(found.type, wanted):
            raise Violation(f"Object of {not_compatible(found.type, wanted, self.spec)}")
        if not found.destroyed:
            self.accepted.add(found.__class__)
        return found

    def _fits(self, type_: MuranoType, wanted: MuranoType) -> bool:
        if self.spec is not None:
            return _is_of(type_, wanted, self.spec)
        if type_.is_compatible(wanted):
            return True
        if self.package is None:
            return False
        return _is_of(type_, wanted, self.package.requirement_for(wanted.package))


def not_compatible(type_: MuranoType, wanted: MuranoType, spec: VersionSpec | None = None) -> str:
    """The message for an unsuitable class; names both versions when only the version differs."""
    wished = wanted.name if spec is None else f"{wanted.name}/{spec}"
    others = [item for item in type_.ancestors if item.name == wanted.name]
    if not others:
        return f"class {type_.name} is not compatible with class {wished}"
    wished = f"{wanted.name}/{wanted.version}" if spec is None else wished
    found = f"class {type_.name}/{type_.version}"
    if type_ not in others:
        found += f", which is a {', '.join(f'{item.name}/{item.version}' for item in others)},"
    return f"{found} is not compatible with class {wished}"


def _class_of_template(value: Value) -> MuranoType | None:
    """The class of an object or of a result of `template()`."""
    from vetro.muranopl.classes.types import MuranoType

    if isinstance(value, MuranoObject):
        return value.type
    header = cast("Mapping[object, object]", value).get("?")
    if isinstance(header, Mapping):
        found = cast("Mapping[object, object]", header).get("type")
        return found if isinstance(found, MuranoType) else None
    return None


def _is_of(type_: MuranoType, wanted: MuranoType, spec: VersionSpec) -> bool:
    """Whether a class of that name, in a version of the range, is among the ancestors."""
    return any(
        item.name == wanted.name and item.package.semantic_version in spec
        for item in type_.ancestors
    )


@record
class AsTemplate(Step):
    """`template(T[, default[, versionSpec[, excludeProperties]]])`"""

    resolve: Callable[[Setting], tuple[MuranoType, MuranoType | None]]
    spec: VersionSpec | None = None
    has_default: bool = False
    excluded: tuple[str, ...] = ()
    makes_objects: bool = True

    def apply(self, value: Value, setting: Setting) -> Value:
        wanted, default = self.resolve(setting)
        if value is None:
            return None
        if isinstance(value, CastView):
            value = value.target
        if setting.mode is not Mode.TRANSFORM and not isinstance(value, (MuranoObject, Mapping)):
            raise Violation(f"Value {preview(value)} is not a template of class {wanted.name}")
        made = None if setting.mode is Mode.TRANSFORM else _class_of_template(value)
        if made is not None:
            # A derived declaration has made the template: this one only checks its class.
            if not (
                made.is_compatible(wanted) if self.spec is None else _is_of(made, wanted, self.spec)
            ):
                raise Violation(f"Template of {not_compatible(made, wanted, self.spec)}")
            return cast(Any, value)
        if isinstance(value, (MuranoObject, Mapping)):
            template = setting.run.template_of(
                cast(Any, value), wanted, default or wanted, self.excluded, setting
            )
            found: MuranoType = template["?"]["type"]
            if self.spec is not None and not _is_of(found, wanted, self.spec):
                raise Violation(f"Template of {not_compatible(found, wanted, self.spec)}")
            return template
        raise Violation(f"Value {preview(value)} cannot be represented as class {wanted.name}")


@record
class Owned(Step):
    """`owned()` and `notOwned()`"""

    wanted: bool

    def apply(self, value: Value, setting: Setting) -> Value:
        if value is None or isinstance(value, ForwardReference) or setting.mode is Mode.CHECK:
            return value
        name = "owned" if self.wanted else "notOwned"
        if isinstance(value, CastView):
            value = value.target
        if isinstance(value, Mapping):  # a result of template(), which will be owned
            return cast(Any, value)
        if not isinstance(value, MuranoObject):
            raise Violation(f"Value {preview(value)} is not an object, as {name}() requires")
        this = setting.this
        owned = isinstance(this, MuranoObject) and value.is_owned_by(this)
        if owned is not self.wanted:
            verb = "does not own" if self.wanted else "owns"
            raise Violation(f"Object {value.id} violates {name}() contract: {this!r} {verb} it")
        return value


@record
class Chain(Contract):
    """`$` followed by contract functions."""

    steps: list[Step]
    text: str

    def apply(self, value: Value, setting: Setting) -> Value:
        value = settled(value, setting)
        for step in self.steps:
            value = step.apply(value, setting)
        if setting.mode is Mode.CHECK and value is not None and not self.steps:
            return value
        return value

    @property
    def nullable(self) -> bool:
        """False when some step refuses null."""
        return not any(isinstance(step, NotNull) for step in self.steps)

    @property
    def is_stable(self) -> bool:
        return all(
            isinstance(step, (AsInt, AsString, AsBool, NotNull, OfClass))
            or (isinstance(step, Check) and step.is_closed)
            for step in self.steps
        )

    def object_maps(self, value: object) -> Iterator[Mapping[str, Value]]:
        if any(isinstance(step, AsTemplate) for step in self.steps):
            return iter(())
        return object_maps(value)

    @property
    def plain_class(self) -> type[object] | None:
        scalars = (AsInt, AsString, AsBool)
        kinds = {type(step) for step in self.steps if isinstance(step, scalars)}
        others = [step for step in self.steps if not isinstance(step, (*scalars, NotNull))]
        return self.scalar if len(kinds) == 1 and not others else None

    @property
    def scalar(self) -> type[Any] | None:
        """The Python type it converts to, when it is a scalar."""
        for step in self.steps:
            for kind, python in ((AsInt, int), (AsString, str), (AsBool, bool)):
                if isinstance(step, kind):
                    return python
        return None

    def guard_of_all(self, name: str, tools: Guard) -> str | None:
        deciding = [step for step in self.steps if not isinstance(step, NotNull)]
        if len(deciding) != 1:
            return None
        (step,) = deciding
        if isinstance(step, OfClass):
            accepted = tools.constant(step.accepted)
            if self.nullable:
                return f"{accepted}.issuperset(map(type, {name}))"
            # The set may contain null's class although another step of the chain refuses null.
            classes = tools.fresh()
            none = tools.constant(type(None))
            return (
                f"{accepted}.issuperset({classes} := set(map(type, {name})))"
                f" and {none} not in {classes}"
            )
        plain = self.plain_class
        if plain is None:
            return None
        allowed = frozenset((plain, type(None)) if self.nullable else (plain,))
        return f"{tools.constant(allowed)}.issuperset(map(type, {name}))"

    def guard(self, name: str, tools: Guard) -> str | None:
        parts: list[str] = []
        kinds: list[str] = []
        for step in self.steps:
            if isinstance(step, (AsInt, AsString, AsBool)):
                kind = {AsInt: "int", AsString: "str", AsBool: "bool"}[type(step)]
                if kind not in kinds:
                    kinds.append(kind)
                    parts.append(f"{name}.__class__ is {kind}")
            elif isinstance(step, OfClass):
                parts.append(f"{name}.__class__ in {tools.constant(step.accepted)}")
                kinds.append("object")
                if not self.nullable:
                    parts.append(f"{name} is not None")
            elif isinstance(step, Owned):
                if not kinds:
                    return None
                function = tools.constant(_owned_by)
                parts.append(f"{function}({name}, this) is {step.wanted}")
            elif isinstance(step, Check):
                inline = _inline_predicate(step.ast, name, kinds[0] if kinds else None, tools)
                parts.append(inline or f"{tools.constant(step.predicate)}(this, S, {name})")
            elif not isinstance(step, NotNull):
                return None
        if len(kinds) > 1:
            return None
        if not kinds:
            parts.insert(0, f"{name}.__class__ in {tools.constant(tools.plain)}")
            if not self.nullable:
                parts.insert(1, f"{name} is not None")
        condition = " and ".join(parts)
        checks = any(isinstance(step, Check) for step in self.steps)
        if kinds and self.nullable and not checks and "object" not in kinds:
            return f"{name} is None or {condition}"
        return condition

    @property
    def makes_objects(self) -> bool:
        return any(step.makes_objects for step in self.steps)


@record
class Computed(Contract):
    """An expression that is not a chain: its value is the result."""

    evaluate: Callable[[Value, ContractRun, Value, Setting], Value]
    text: str

    def apply(self, value: Value, setting: Setting) -> Value:
        return freeze(self.evaluate(setting.this, setting.run, value, setting))

    @property
    def makes_objects(self) -> bool:
        return True


_inline_hook: list[Callable[[object, str, str | None, Guard], str | None]] = []


def set_predicate_inliner(
    function: Callable[[object, str, str | None, Guard], str | None],
) -> None:
    """Set the function that writes a predicate over a value of known type in place."""
    _inline_hook[:] = [function]


def _inline_predicate(ast: object, name: str, kind: str | None, tools: Guard) -> str | None:
    return _inline_hook[0](ast, name, kind, tools) if _inline_hook and ast is not None else None


def _owned_by(value: Value, this: Value) -> bool:
    # Null has no owner: owned() and notOwned() let it pass, notNull() does not.
    if value is None:
        return False
    return isinstance(this, MuranoObject) and value.is_owned_by(this)


def _by_id(object_id: str, setting: Setting) -> MuranoObject | ForwardReference:
    transaction = setting.transaction
    if transaction is not None:
        found = transaction.find(object_id)
        if found is not None:
            return found
        if transaction.open:
            return ForwardReference(object_id)
    found = setting.run.find_object(object_id)
    if found is None:
        error = NoObjectFoundError(f'Object "{object_id}" is not found')
        error.object_id = object_id
        raise error
    return found
