"""Name look-up: layered tables of functions, methods and operators (yaql.md section 3).

A `Library` holds the overloads of one layer and knows its parent. `standard.standard_library(flavour)`
is the root; a host makes a `child()` and registers its own functions there:

    library = standard_library().child()

    @library.function
    def full_name(first: str, last: str) -> str: ...        # fullName(first, last)

    @library.method
    def initials(text: str) -> str: ...                     # text.initials()

    library.operator("+", add_money)                        # Money + Money

The first layer with a match for the arguments wins; within a layer the more specific parameter
types win. A name registered as `exclusive` hides the parents' definitions of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any, TypeVar

from vetro.yaql.values import Value

from .errors import InvalidMethodException
from .kinds import ITERABLE, MAPPING
from .signatures import Lazy, Overload, Parameter, read_signature

F = TypeVar("F", bound=Callable[..., Any])
Define = Callable[[str, str, str], Iterable[Overload]]
"""The overloads that an area of the standard library defines: `define(area, name, flavour)`."""


@dataclass(frozen=True, slots=True)
class ExposedMember:
    """An attribute of a host class that programs may reach."""

    attribute: str
    is_method: bool

    def read(self, instance: object) -> Value:
        return getattr(instance, self.attribute)


class Library:
    """One layer of names; see the module's text."""

    def __init__(
        self,
        flavour: str = "current",
        parent: Library | None = None,
        deferred: dict[str, list[str]] | None = None,
        define: Define | None = None,
    ) -> None:
        self.flavour = flavour
        self.parent = parent
        self._functions: dict[str, list[Overload]] = {}
        self._methods: dict[str, list[Overload]] = {}
        self._exclusive: set[tuple[str, bool]] = set()
        self._exposed: dict[type, dict[str, ExposedMember]] = {}
        self.is_standard = deferred is not None
        """True for the layer that the language itself supplies."""
        self._deferred = deferred if deferred is not None else {}
        """Standard library names that are not loaded yet, and the areas that define them."""
        self._define = define

    @property
    def is_legacy(self) -> bool:
        return self.flavour == "legacy"

    def child(self) -> Library:
        """A layer in front of this one."""
        return Library(self.flavour, self)

    # Registration

    def register(
        self,
        implementation: Callable[..., object],
        name: str | None = None,
        *,
        function: bool = True,
        method: bool = False,
        exclusive: bool = False,
    ) -> None:
        """Register a Python function under `name` (default: its own, in camelCase).

        `method`: callable as `receiver.name(…)`, the receiver being the first argument.
        Raises `TypeError` for an unsupported annotation, `InvalidMethodException` when the
        overloads of a name disagree on which arguments are lazy.
        """
        self.add(read_signature(implementation, name, function=function, method=method), exclusive)

    def add(self, overload: Overload, exclusive: bool = False) -> None:
        """Register a signature that has been read already."""
        for table, is_method in ((self._functions, False), (self._methods, True)):
            if not (overload.is_method if is_method else overload.is_function):
                continue
            known = table.setdefault(overload.name, [])
            for other in known:
                _check_agreement(other, overload)
            known.append(overload)
            if exclusive:
                self._exclusive.add((overload.name, is_method))

    def function(self, implementation: F) -> F:
        """Decorator: register as a function."""
        self.register(implementation)
        return implementation

    def method(self, implementation: F) -> F:
        """Decorator: register as a method."""
        self.register(implementation, function=False, method=True)
        return implementation

    def operator(
        self, symbol: str, implementation: Callable[..., object], *, unary: bool = False
    ) -> None:
        """Register a meaning of an operator for the types of the function's annotations."""
        name = f"#unary_operator_{symbol}" if unary else f"#operator_{symbol}"
        self.register(implementation, name)

    def expose(
        self, cls: type, properties: Iterable[str] = (), methods: Iterable[str] = ()
    ) -> None:
        """Let programs reach the named attributes of instances of `cls`, and nothing else.

        Names beginning with an underscore are refused.
        """
        table = self._exposed.setdefault(cls, {})
        for names, is_method in ((properties, False), (methods, True)):
            for attribute in names:
                if attribute.startswith("_"):
                    raise ValueError(f"{attribute!r} of {cls.__name__} cannot be exposed")
                head, *tail = attribute.split("_")
                public = head + "".join(part.capitalize() for part in tail)
                table[public] = ExposedMember(attribute, is_method)

    # Lookup

    def _bring_in(self, name: str) -> None:
        """Load the definitions of a name from the standard library."""
        with _bringing_in:
            areas = self._deferred.get(name)
            if areas is None:
                return
            assert self._define is not None
            for area in areas:
                for overload in self._define(area, name, self.flavour):
                    self.add(_with_iterable_mappings(overload) if self.is_legacy else overload)
            # Only now: other threads treat a name that is not deferred as complete.
            del self._deferred[name]

    def exposed_member(self, cls: type, name: str) -> ExposedMember | None:
        """The attribute of a host class that programs know as `name`."""
        layer: Library | None = self
        while layer is not None:
            if layer._exposed:
                for base in cls.__mro__:
                    member = layer._exposed.get(base, {}).get(name)
                    if member is not None:
                        return member
            layer = layer.parent
        return None

    def layers(self, name: str, method: bool) -> list[list[Overload]]:
        """The overloads of `name`, innermost layer first."""
        found: list[list[Overload]] = []
        layer: Library | None = self
        while layer is not None:
            if name in layer._deferred:
                layer._bring_in(name)
            overloads = (layer._methods if method else layer._functions).get(name)
            if overloads:
                found.append(overloads)
            if (name, method) in layer._exclusive:
                break
            layer = layer.parent
        return found

    def has(self, name: str, method: bool) -> bool:
        """Whether anything is registered under `name`."""
        return bool(self.layers(name, method))

    def is_overridden(self, name: str, method: bool) -> bool:
        """Whether a host layer defines `name`; then its calls are not inlined."""
        layer: Library | None = self
        while layer is not None and not layer.is_standard:
            if name in (layer._methods if method else layer._functions):
                return True
            layer = layer.parent
        return False

    def laziness(self, name: str, method: bool, index: int, keyword: str = "") -> Lazy | None:
        """How a lazy argument is passed; None for others. `index` counts a method's receiver."""
        for overloads in self.layers(name, method):
            for overload in overloads:
                lazy = overload.lazy_at(index, keyword)
                if lazy is not None:
                    return lazy
        return None

    def suggest(self, name: str, method: bool) -> str | None:
        """A hint for an unknown name."""
        if self.has(name, not method):
            if method:
                return f"{name} is a function: write {name}(…)"
            return f"{name} is a method: write value.{name}(…)"
        if name in _FOREIGN:
            return _FOREIGN[name]
        from difflib import get_close_matches

        close = get_close_matches(name, self.names(method), n=1)
        return f"did you mean {close[0]}?" if close else None

    def names(self, method: bool) -> list[str]:
        """Every registered name that programs can write."""
        found: set[str] = set()
        layer: Library | None = self
        while layer is not None:
            for name in list(layer._deferred):
                layer._bring_in(name)
            found.update(layer._methods if method else layer._functions)
            layer = layer.parent
        return sorted(name for name in found if name.isidentifier())


_FOREIGN = {
    "if": "write switch(condition => value, true => other)",
    "length": "did you mean len?",
    "size": "did you mean len?",
    "upper": "did you mean toUpper?",
    "lower": "did you mean toLower?",
    "strip": "did you mean trim?",
    "push": "did you mean append?",
    "substr": "did you mean substring?",
    "forEach": "did you mean select?",
    "foldl": "did you mean aggregate?",
    "sort": "did you mean orderBy?",
    "sorted": "did you mean orderBy?",
    "sortBy": "did you mean orderBy?",
    "has": "did you mean containsKey?",
    "toString": "write str(value)",
    "toInt": "write int(value)",
    "print": "an expression only computes a value",
}
"""Names that users know from other languages."""


def _check_agreement(one: Overload, other: Overload) -> None:
    for index in range(min(len(one.parameters), len(other.parameters))):
        first, second = one.lazy_at(index, ""), other.lazy_at(index, "")
        if (first and first.arity) != (second and second.arity):
            raise InvalidMethodException(
                f"the overloads {one} and {other} disagree on whether argument {index + 1} is lazy"
            )


def _with_iterable_mappings(overload: Overload) -> Overload:
    """In the legacy flavour a mapping is accepted as an iterable (yaql.md section 8)."""

    def widen(parameter: Parameter) -> Parameter:
        if parameter.kinds & ITERABLE == ITERABLE and not parameter.kinds & MAPPING:
            return replace(parameter, kinds=parameter.kinds | MAPPING)
        return parameter

    return replace(
        overload,
        parameters=tuple(widen(parameter) for parameter in overload.parameters),
        rest=widen(overload.rest) if overload.rest is not None else None,
    )


_bringing_in = RLock()
