"""The standard library (yaql.md sections 6 to 8), a module for each area.

The annotations of each function declare its parameters (`signatures`); the decorator gives the
names, the form (`f(x)`, `x.f()`, both) and the flavours under which it is registered.

A program uses few of the 250 names, so an area is imported, and a signature read, when one of its
names is first looked up: `AREAS` lists the names of each area (a test compares it with the areas).
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from vetro.yaql.library import Library
from vetro.yaql.registry import Registry
from vetro.yaql.signatures import Overload

AREAS: dict[str, str] = {
    "system": """
        assert call let unpack with
    """,
    "math": """
        abs bitwiseAnd bitwiseNot bitwiseOr bitwiseXor bool float int isBoolean isInteger isNumber
        max min pow random round shiftBitsLeft shiftBitsRight sign
    """,
    "strings": """
        characters concat endsWith format hex indexOf isEmpty isString join lastIndexOf len norm
        replace rightSplit split startsWith str substring toCharArray toLower toUpper trim
        trimLeft trimRight
    """,
    "regexes": """
        escapeRegex isRegex matches regex replace replaceBy search searchAll split
    """,
    "lists": """
        append concat contains delete flatten insert insertMany isIterable isList len list
        replace replaceMany toList tuple
    """,
    "dicts": """
        containsKey containsValue delete deleteAll dict get isDict items keys mergeWith set
        toDict values
    """,
    "sets": """
        add difference intersect isSet remove set symmetricDifference toSet union
    """,
    "ordering": """
        orderBy orderByDescending thenBy thenByDescending
    """,
    "queries": """
        accumulate aggregate all any count cycle defaultIfEmpty distinct enumerate filter first
        groupBy join last limit map max memorize min reduce repeat reverse select selectMany
        single skip skipWhile sum take takeWhile where zip zipLongest
    """,
    "positions": """
        indexOf indexWhere lastIndexOf lastIndexWhere slice sliceWhere splitAt splitWhere
    """,
    "generators": """
        generate generateMany range sequence
    """,
    "dates": """
        #property#date #property#day #property#days #property#hour #property#hours
        #property#microsecond #property#microseconds #property#milliseconds #property#minute
        #property#minutes #property#month #property#offset #property#second #property#seconds
        #property#time #property#timestamp #property#utc #property#weekday #property#year
        datetime format isDatetime isTimespan localtz now replace timespan utctz
    """,
}
"""The names that each module defines; a name may be defined by several."""


def areas_by_name() -> dict[str, list[str]]:
    """The areas that define each name, in the order in which their overloads are tried."""
    index: dict[str, list[str]] = {}
    for area, names in AREAS.items():
        for name in names.split():
            index.setdefault(name, []).append(area)
    return index


def define(area: str, name: str, flavour: str) -> Iterator[Overload]:
    """The overloads that an area registers under a name in a flavour."""
    registry: Registry = import_module(f"vetro.yaql.standard.{area}").registry
    for definition in registry.definitions:
        if definition.name == name and flavour in definition.flavours:
            yield definition.overload()


_libraries: dict[str, Library] = {}


def standard_library(flavour: str = "current") -> Library:
    """The library of a flavour, `current` or `legacy`; one shared object each. Do not change it:
    register in a `child()`."""
    library = _libraries.get(flavour)
    if library is None:
        if flavour not in {"current", "legacy"}:
            raise ValueError(f"no flavour {flavour!r}; there are current and legacy")
        # Two threads may get here at the same time; both must get the same library.
        made = Library(flavour, deferred=areas_by_name(), define=define)
        library = _libraries.setdefault(flavour, made)
    return library
