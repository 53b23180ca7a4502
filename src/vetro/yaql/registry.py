"""Declaration of functions by the modules of the standard library."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from .signatures import Overload, camel_case, read_signature

F = TypeVar("F", bound=Callable[..., Any])
CURRENT = ("current",)
LEGACY = ("legacy",)
BOTH = ("current", "legacy")


class Definition(NamedTuple):
    """A function whose signature has not been read yet."""

    name: str
    implementation: Callable[..., object]
    function: bool
    method: bool
    flavours: Iterable[str]

    def overload(self) -> Overload:
        """The signature."""
        return read_signature(
            self.implementation,
            self.name,
            function=self.function,
            method=self.method,
            flavours=self.flavours,
        )


class Registry:
    """The functions of one module, in the order of the source."""

    def __init__(self) -> None:
        self.definitions: list[Definition] = []

    def _add(
        self, names: tuple[str, ...], function: bool, method: bool, flavours: Iterable[str]
    ) -> Callable[[F], F]:
        def decorate(implementation: F) -> F:
            for name in names or (camel_case(implementation.__name__),):
                self.definitions.append(
                    Definition(name, implementation, function, method, flavours)
                )
            return implementation

        return decorate

    def function(self, *names: str, flavours: Iterable[str] = BOTH) -> Callable[[F], F]:
        """Callable as `f(x)`."""
        return self._add(names, True, False, flavours)

    def method(self, *names: str, flavours: Iterable[str] = BOTH) -> Callable[[F], F]:
        """Callable as `x.f()`."""
        return self._add(names, False, True, flavours)

    def both(self, *names: str, flavours: Iterable[str] = BOTH) -> Callable[[F], F]:
        """Callable as `f(x)` and as `x.f()`."""
        return self._add(names, True, True, flavours)

    def method_legacy_both(self, *names: str) -> Callable[[F], F]:
        """A method; in the legacy flavour a function as well (yaql.md section 8)."""
        return self._legacy_both(names, False, True)

    def function_legacy_both(self, *names: str) -> Callable[[F], F]:
        """A function; in the legacy flavour a method as well."""
        return self._legacy_both(names, True, False)

    def _legacy_both(
        self, names: tuple[str, ...], function: bool, method: bool
    ) -> Callable[[F], F]:
        current = self._add(names, function, method, CURRENT)
        legacy = self._add(names, True, True, LEGACY)
        return lambda implementation: legacy(current(implementation))
