"""The names of functions and of their parameters, against the `yaql` package.

Packages give arguments by name (`maxSplits => 1`), so each parameter's name is part of the language.
"""

import collections.abc  # noqa: F401  # yaql needs it and does not import it

import pytest
from yaql.language.yaqltypes import HiddenParameterType

import yaql
from vetro.yaql import standard_library
from yaql import legacy

FORMS = {"coalesce", "def", "examine", "selectAllCases", "selectCase", "switch", "switchCase", "as"}
"""Compiled in place: their cases are in the tables of section 6."""
OURS = {"format", "filter", "map"}
"""What the package dropped, and the legacy flavour's newer names."""
OTHERS = {
    ("concat", ("collection",)),
    ("zip", ("collection",)),
    ("zipLongest", ("collection", "default")),
}
"""Receivers with a name, which the package has among the others."""
LEGACY_METHODS = {"dict", "range"}
"""Of the legacy flavour, by the package only: section 8 does not list them."""


def registered(context):
    """Every overload of the package, by name."""
    found = {}
    while context is not None:
        for name, overloads in context._functions.items():
            found.setdefault(name, set()).update(overloads)
        context = context.parent
    return {name: overloads for name, overloads in found.items() if name.isidentifier()}


def camel_case(name):
    head, *tail = name.strip("_").split("_")
    return head + "".join(part.title() for part in tail)


def names_of(overload):
    """What programs call the parameters, in the order of their places; `*rest` is none of them."""
    found = [
        parameter
        for key, parameter in overload.parameters.items()
        if key not in ("*", "**") and not isinstance(parameter.value_type, HiddenParameterType)
    ]
    found.sort(key=lambda p: (p.position is None, p.position or 0))
    return tuple(p.alias or camel_case(p.name) for p in found)


@pytest.fixture(params=["current", "legacy"])
def both(request):
    """The library of a flavour and the package's functions."""
    context = yaql.create_context() if request.param == "current" else legacy.create_context()
    return standard_library(request.param), registered(context)


def test_every_function_and_method_is_there_under_its_name(both):
    """Names and forms of call are those of the field's library."""
    library, theirs = both
    for method in (False, True):
        wanted = {
            name
            for name, overloads in theirs.items()
            if any(o.is_method if method else o.is_function for o in overloads)
        }
        found = set(library.names(method))
        assert wanted - found <= FORMS | (LEGACY_METHODS if method else set())
        assert found - wanted <= OURS


def test_parameters_have_the_names_that_packages_write(both):
    """Each overload's parameters are called what the field's library calls them."""
    library, theirs = both
    wrong = {}
    for name, overloads in theirs.items():
        if name in FORMS | OURS:
            continue
        ours = {
            tuple(parameter.name for parameter in overload.parameters)
            for method in (False, True)
            for layer in library.layers(name, method)
            for overload in layer
        }
        missing = {names_of(overload) for overload in overloads} - ours
        extra = {(name, names) for names in ours - {names_of(o) for o in overloads}} - OTHERS
        if missing and extra:
            wrong[name] = (missing, extra)
    assert not wrong
