"""Call sites and property sites of class code, for values whose class is unknown at compile time.

A site belongs to one name in the code of one class. It caches the place of the member for each
Python class of its value, so that the look-up by the rules of sections 6.2 and 8.1 happens once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from vetro.muranopl.classes.objects import CastView, DestroyedObject, MuranoObject, read_slot
from vetro.muranopl.classes.types import MuranoType, ScopedSite
from vetro.muranopl.contracts.tree import MISSING
from vetro.muranopl.syntax.findings import did_you_mean
from vetro.muranopl.syntax.names import argument_slot
from vetro.muranopl.values.containers import Value
from vetro.muranopl.values.errors import NoPropertyFound, PropertyReadError
from vetro.yaql.inline_caches import method_site as yaql_method_site
from vetro.yaql.library import Library
from vetro.yaql.runtime import property_site as yaql_property_site
from vetro.yaql.slots import Slot
from vetro.yaql.values import FINAL_TYPES, finalize, preview

from .extensions import Extension, extensions_of

if TYPE_CHECKING:
    from .run import Run


# -- types named in code -------------------------------------------------------------------------


class NamedType:
    """A class named by code: looked up on first use, then cached."""

    __slots__ = ("_scope", "found", "text")

    def __init__(self, scope: MuranoType, text: str) -> None:
        self._scope = scope
        self.text = text
        self.found: MuranoType | None = None
        """The class, once it was looked up."""

    def __call__(self) -> MuranoType:
        if self.found is None:
            self.found = self._scope.find_type(self._scope.namespaces.resolve(self.text))
        return self.found


def named_type(scope: MuranoType, text: str) -> NamedType:
    """A reference to a class by a name, resolved by the namespaces of the class `scope`."""
    known = scope.named_types.get(text)
    if known is None:
        known = scope.named_types[text] = NamedType(scope, text)
    return known


def is_instance(run: Run, scope: MuranoType, value: object, wanted: object) -> bool:
    """`value is T`"""
    type_ = run.as_type(wanted, scope)
    if not isinstance(value, (CastView, MuranoObject)):
        return False
    found = value.type
    return found.is_compatible(type_) or any(
        item.name == type_.name
        and item.package.semantic_version in scope.package.requirement_for(type_.package)
        for item in found.ancestors
    )


# -- properties ----------------------------------------------------------------------------------


def property_site(
    scope: MuranoType, name: str, library: Library, direct: set[type[object]]
) -> Callable[[Run, Value], Value]:
    """`target.name` in the code of a class.

    `direct`: receives the Python classes whose `p_NAME` the code may read directly.
    """
    plain_slot = "p_" + name
    known: dict[type[object], str] = {}
    plain = yaql_property_site(name)
    legacy = library.is_legacy

    def read(run: Run, target: Value) -> Value:
        slot = known.get(target.__class__)
        if slot is not None:
            return getattr(target, slot)
        if target.__class__ is dict and name in target:
            # A newly built mapping (a group of a match): class code reads only final ones in place.
            return target[name]
        if isinstance(target, (MuranoObject, CastView, MuranoType)):
            value = read_member(run, target, name, scope, known)
            if known.get(target.__class__) == plain_slot:
                direct.add(target.__class__)
            return value
        return plain(run.legacy if legacy else run, target)

    return read


def read_member(
    run: Run,
    target: Value,
    name: str,
    scope: MuranoType | None,
    known: dict[type[object], str] | None = None,
) -> object:
    """A property by the access rules of section 6.2; `scope` is the class whose code reads."""
    if isinstance(target, MuranoType):
        return _read_static(run, target, name)
    is_view = isinstance(target, CastView)
    type_ = target.type
    holder = target.target if is_view else target
    seen_from = scope if scope is not None and type_.is_compatible(scope) else None
    found = (seen_from or type_).find_property(name)
    if found is None:
        if seen_from is None:
            raise PropertyReadError(
                f'Property "{name}" in class "{type_.name}" cannot be read',
                hint=did_you_mean(name, type_.property_names()),
            )
        slot = f"q{seen_from.index}_{name}"
    elif found.is_static:
        return run.static_value(found)
    else:
        slot = "p_" + name
    if known is not None and not is_view:
        known[type(target)] = slot
    return read_slot(holder, slot)


def _read_static(run: Run, type_: MuranoType, name: str) -> object:
    found = type_.find_property(name)
    if found is None or not found.is_static:
        raise NoPropertyFound(
            f'Property "{name}" is not found in type "{type_.name}"'
            + (
                "" if found is None else ": it is not Static, so it can be read only from an object"
            ),
            hint=did_you_mean(name, type_.property_names()),
        )
    return run.static_value(found)


# -- operators -----------------------------------------------------------------------------------

_SHORT = 4096
"""Concatenations of up to this many characters are not charged."""
FINAL_OPERATORS = frozenset(("+", "-", "*", "/", "mod"))
"""Operators whose results are settled by their slots."""


def operator_site(operator: Callable[..., object], symbol: str) -> Callable[..., Value]:
    """An operator of class code; concatenated sequences become lists, not lazy sequences."""
    if symbol not in FINAL_OPERATORS:
        return operator

    joins = symbol == "+"

    def settled(run: Run, left: Value, right: Value) -> Value:
        if joins and left.__class__ is str and right.__class__ is str:
            length = len(left) + len(right)
            if length > _SHORT:
                run.check_string(length)
            return left + right
        value = operator(run, left, right)
        return value if type(value) in FINAL_TYPES else finalize(value, run)

    return settled


# -- methods -------------------------------------------------------------------------------------


class CallingScope(Protocol):
    """What a site asks of the class whose code contains it."""

    type: MuranoType
    direct: dict[str, set[type[Any]]]


def direct_classes(scope: CallingScope, name: str) -> set[type[Any]]:
    """Python classes whose `m_NAME` the class's code may call directly; the site adds to it."""
    return scope.direct.setdefault(name, set())


def method_site(scope: CallingScope, library: Library, slot: Slot) -> Callable[..., Value]:
    """`receiver.name(arguments)`, called as `site(run, receiver, outer, *arguments)`."""
    name, shape, lazy = slot.data
    type_ = scope.type
    direct = direct_classes(scope, name)
    cache: dict[Any, Callable[..., Value]] = {}
    of_values = yaql_method_site(library, name, shape, lazy, slot.position, cache)
    plain = yaql_method_site(library, name, shape, lazy, slot.position)
    legacy = library.is_legacy
    extensions: list[Extension] | None = None

    def call(run: Run, receiver: Value, outer: Any, *arguments: Value) -> Value:
        nonlocal extensions
        if extensions is None:
            extensions = extensions_of(type_, name)
        is_host = isinstance(receiver, (MuranoObject, CastView, MuranoType))
        if is_host or extensions:
            values = [
                value(outer) if index in lazy else value for index, value in enumerate(arguments)
            ]
            positional, named = by_shape(shape, values, run)
            if is_host:
                function = find_bound(receiver, name, type_, run)
                if function is not None:
                    kind = type(receiver)
                    if function is not _CAST and kind is not MuranoType:
                        direct.add(kind)
                    return invoke_bound(run, receiver, name, positional, named)
            for extension in extensions:
                if extension.accepts(run, receiver):
                    return extension.call(run, receiver, positional, named)
            if is_host:
                if library.has(name, True):
                    return plain(run, receiver, outer, *arguments)
                return run.missing_method(receiver, receiver_type(receiver), name)
            return plain(run.legacy if legacy else run, receiver, outer, *arguments)
        # Only the library applies to values of this class; the choice is cached.
        return of_values(run.legacy if legacy else run, receiver, outer, *arguments)

    if legacy:
        return call
    known = cache.get

    def call_none(run: Run, receiver: object, outer: object) -> object:
        chosen = known(type(receiver))
        if chosen is not None:
            return chosen(run, receiver)
        return call(run, receiver, outer)

    def call_one(run: Run, receiver: object, outer: object, one: object) -> object:
        chosen = known((type(receiver), type(one)))
        if chosen is not None:
            return chosen(run, receiver, one)
        return call(run, receiver, outer, one)

    def call_two(run: Run, receiver: object, outer: object, one: object, two: object) -> object:
        chosen = known((type(receiver), type(one), type(two)))
        if chosen is not None:
            return chosen(run, receiver, one, two)
        return call(run, receiver, outer, one, two)

    count = len([item for item in shape if item != "-"])
    return (call_none, call_one, call_two)[count] if count < 3 else call


def _CAST() -> None:
    """Marks a method found through a cast or a type: its class must not be cached."""


def find_bound(receiver: object, name: str, scope: MuranoType | None, run: Run) -> Value:
    """The method, or a marker, if the receiver's own type has it for this call; else None."""
    type_ = receiver_type(receiver)
    if isinstance(receiver, MuranoObject) and receiver.destroyed:
        getattr(receiver, "m_" + name)
    method = type_.find_method(name)
    if method is None and name in ("initialize", "destroy"):
        method = type_.find_method({"initialize": ".init", "destroy": ".destroy"}[name])
        if method is None and not isinstance(receiver, MuranoType):
            return _CAST  # every object has these two: those of io.murano.Object are empty
    if method is None:
        return None
    if isinstance(receiver, MuranoType):
        return _CAST if method.is_static else None
    if method.usage == "Extension":
        return None
    return _CAST if isinstance(receiver, CastView) else method


def existing_method(scope: MuranoType, name: str) -> Callable[[Run, object], object]:
    """A check that returns a receiver that has a method outside the library, and raises otherwise.

    Used before arguments are computed: they are not computed when the call must fail.
    """

    def existing(run: Run, receiver: object) -> Value:
        if isinstance(receiver, (MuranoObject, CastView, MuranoType)):
            if find_bound(receiver, name, scope, run) is None and not any(
                extension.accepts(run, receiver) for extension in extensions_of(scope, name)
            ):
                run.missing_method(receiver, receiver_type(receiver), name)
        elif not run.is_host_method_receiver(receiver) and not any(
            extension.accepts(run, receiver) for extension in extensions_of(scope, name)
        ):
            run.host_method(receiver, name, (), {})
        return receiver

    return existing


def hint_for_list(receiver: object, name: str) -> str | None:
    """A hint for a call of an object's method on a list of objects."""
    if not isinstance(receiver, (tuple, list)) or not receiver:
        return None
    items = cast("Sequence[Value]", receiver)
    if not all(isinstance(item, (MuranoObject, CastView)) for item in items):
        return None
    if not any(item.type.find_method(name) for item in items):
        return None
    if all(isinstance(item, CastView) for item in items):
        return (
            "super() returns a list with a view of each parent: "
            f"write super($, $.{name}(…)), or super($).first().{name}(…)"
        )
    return f"each object in the list has that method: write select($.{name}(…))"


def invoke_bound(
    run: Run, receiver: object, name: str, positional: Sequence[object], named: dict[str, object]
) -> Value:
    """Call a method that `find_bound` found."""
    if isinstance(receiver, CastView):
        return run.call_as(receiver.target, receiver.type, name, positional, named)
    if isinstance(receiver, MuranoType):
        return run.call_static(receiver, name, positional, named)
    return getattr(receiver, "m_" + name)(run, *positional, **named)


def plain_method(receiver: object, name: object) -> Callable[..., object] | None:
    """The bound method if the object's class alone determines it; None requires a full look-up."""
    if not isinstance(receiver, MuranoObject) or not isinstance(name, str):
        return None
    if isinstance(receiver, DestroyedObject):
        return None
    known = receiver.type.plain_methods
    attribute = known.get(name)
    if attribute is None:
        found = receiver.type.method_declarations(name)
        is_plain = len(found) == 1 and found[0].usage in ("Runtime", "Static")
        attribute = known[name] = "m_" + name if is_plain else ""
    return getattr(receiver, attribute) if attribute else None


def receiver_type(receiver: Value) -> MuranoType:
    """The type at which method look-up starts."""
    return receiver if isinstance(receiver, MuranoType) else receiver.type


def by_shape(
    shape: Sequence[str], arguments: Sequence[Value], run: Run
) -> tuple[list[Value], dict[str, Value]]:
    """Arguments in the form that MuranoPL methods take: settled, names with their prefix."""
    positional: list[object] = []
    named: dict[str, object] = {}
    values = iter(arguments)
    for item in shape:
        if item == "-":
            positional.append(MISSING)
            continue
        value = next(values)
        if type(value) not in FINAL_TYPES:
            value = finalize(value, run)
        if item:
            named[argument_slot(item)] = value
        else:
            positional.append(value)
    return positional, named


# -- calls by name -------------------------------------------------------------------------------


def dynamic_call(
    run: Run,
    scope: MuranoType | None,
    receiver: object,
    name: str,
    args: Sequence[object],
    kwargs: dict[str, object],
) -> Value:
    """A method call whose name is computed at run time, by the rules of section 8.1."""
    positional, named = by_shape((*("" for _ in args), *kwargs), (*args, *kwargs.values()), run)
    own = isinstance(receiver, (MuranoObject, CastView, MuranoType))
    if own and find_bound(receiver, name, scope, run) is not None:
        return invoke_bound(run, receiver, name, positional, named)
    if scope is not None:
        for extension in extensions_of(scope, name):
            if extension.accepts(run, receiver):
                return extension.call(run, receiver, positional, named)
    scoped = SCOPED_METHODS.get(name)
    if scoped is not None and scope is not None:
        return scoped.function(run, scope, None, receiver, *args, **kwargs)
    if isinstance(receiver, (MuranoObject, CastView, MuranoType)):
        return run.missing_method(receiver, receiver_type(receiver), name)
    shape = (*("" for _ in args), *kwargs)
    site = yaql_method_site(run.library, name, shape, (), 0)
    return site(run, receiver, None, *args, *kwargs.values())


# -- functions that depend on the calling class --------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScopedFunction:
    """A function `(run, class, this, *arguments)` of the language."""

    function: Callable[..., Value]
    lambdas: frozenset[int] = field(default_factory=frozenset[int])
    """Positions of arguments that are functions of one value; a method's receiver is 0."""
    types: frozenset[int] = field(default_factory=frozenset[int])
    """Positions of arguments where a word or text names a class."""
    is_final: bool = True


SCOPED_FUNCTIONS: dict[str, ScopedFunction] = {}
SCOPED_METHODS: dict[str, ScopedFunction] = {}


def scoped_method_site(scope: MuranoType, name: str, scoped: ScopedFunction) -> ScopedSite:
    """`receiver.name(…)` for a scoped method; a method of the receiver's own class precedes it."""
    known = scope.scoped_sites.get(name)
    if known is not None:
        return known
    plain: set[type[object]] = set()
    function = scoped.function

    def call(
        run: Run, type_: MuranoType, this: Value, receiver: Value, /, *args: Value, **kwargs: Value
    ) -> Value:
        if type(receiver) in plain:
            return function(run, type_, this, receiver, *args, **kwargs)
        own = isinstance(receiver, (MuranoObject, CastView, MuranoType))
        if own and find_bound(receiver, name, type_, run) is not None:
            values = [
                value(this) if index + 1 in scoped.lambdas else value
                for index, value in enumerate(args)
            ]
            positional, named = by_shape(
                (*("" for _ in values), *kwargs), (*values, *kwargs.values()), run
            )
            return invoke_bound(run, receiver, name, positional, named)
        for extension in extensions_of(type_, name):
            if extension.accepts(run, receiver):
                positional, named = by_shape(
                    (*("" for _ in args), *kwargs), (*args, *kwargs.values()), run
                )
                return extension.call(run, receiver, positional, named)
        if isinstance(receiver, MuranoObject) and not extensions_of(type_, name):
            plain.add(type(receiver))
        return function(run, type_, this, receiver, *args, **kwargs)

    made = scope.scoped_sites[name] = ScopedSite(call, plain)
    return made


def is_replaced(library: Library, name: str) -> bool:
    """True when a host registered a function of its own under the name."""
    return library.is_overridden(name, False)


# -- legacy code ---------------------------------------------------------------------------------


def in_legacy(site: Any, kind: str) -> Any:
    """A slot of code of format 1.0 or 1.1: library operations see the legacy flavour."""
    if kind not in ("operator", "unary", "function", "runtime"):
        return site

    def call(run: Run, /, *args: Value, **kwargs: Value) -> Value:
        return site(run.legacy, *args, **kwargs)

    return call


__all__ = ["ScopedFunction", "method_site", "named_type", "preview", "property_site"]
