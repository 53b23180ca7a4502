"""The templates of a stack at Heat, old and new, in a form that can be compared.

Groups and nested templates are written out as the native back end does it (`vetro.stacks.template.nesting`),
and parameters, files and conditions have their values. What uses a resource stays the function that it is:
nothing here knows values of resources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from vetro.stacks.errors import TemplateError
from vetro.stacks.model import Json
from vetro.stacks.template.dependencies import order
from vetro.stacks.template.functions import find_unknown, function_of, resolve, used_by
from vetro.stacks.template.known_values import KnownValues
from vetro.stacks.template.spelling import normalise, without_nulls
from vetro.stacks.template.templates import parse


@dataclass(frozen=True, slots=True)
class Wanted:
    """A template with what belongs to it, as a request has it or as Heat has kept it."""

    template: Mapping[str, Json]
    parameters: Mapping[str, Json] = field(default_factory=dict[str, Json])
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    environment: str | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """One resource of a template."""

    type: str
    properties: Mapping[str, Json]
    retain: bool
    around: Json = None
    """What values of functions depend on that could not be given: all parameters, files and so on."""

    def changed(self, new: Definition) -> frozenset[str]:
        """The properties that differ from those of another definition."""
        return frozenset(
            key
            for key in {*self.properties, *new.properties}
            if plain(self.properties.get(key)) != plain(new.properties.get(key))
            or (self.around != new.around and has_call(new.properties.get(key)))
        )


@dataclass(frozen=True, slots=True)
class WrittenOut:
    """A template's resources, each after those it uses, and what is not among them but counts."""

    resources: Mapping[str, Definition]
    surroundings: Json
    """Files and environment: what a resource with resources of its own may be made of."""


def written_out(wanted: Wanted) -> WrittenOut:
    """A template, written out; as it stands where that is not possible (Heat has more functions)."""
    surroundings: Json = [dict(wanted.files), wanted.environment]
    try:
        parsed = parse(
            wanted.template,
            parameters=wanted.parameters,
            files=wanted.files,
            environment=wanted.environment,
            balancer=None,
        )
        values = _Values(parsed)
        return WrittenOut(
            {
                name: Definition(
                    parsed.resources[name].type,
                    {
                        key: values.settled(one)
                        for key, one in parsed.resources[name].properties.items()
                    },
                    parsed.resources[name].retain,
                )
                for name in parsed.order
            },
            surroundings,
        )
    except TemplateError:
        return WrittenOut(_as_it_stands(wanted, surroundings), surroundings)


def _as_it_stands(wanted: Wanted, surroundings: Json) -> dict[str, Definition]:
    document = normalise(wanted.template)
    bodies = cast("dict[str, dict[str, Json]]", document["resources"])
    around = [
        dict(wanted.parameters),
        surroundings,
        document.get("parameters"),
        document.get("conditions"),
        document.get("mappings"),
    ]
    used = {name: {*used_by(body, False), *used_by(body, True)} for name, body in bodies.items()}
    found: dict[str, Definition] = {}
    for name in order({name: frozenset(one) for name, one in used.items()}):
        given: Json = bodies[name].get("properties")
        properties = cast("dict[str, Json]", given) if isinstance(given, dict) else {}
        retain = str(bodies[name].get("deletion_policy", "")).lower() == "retain"
        found[name] = Definition(str(bodies[name].get("type")), properties, retain, around)
    return found


class _Values(KnownValues):
    """The `Context` of a template whose resources have no values, with arguments settled as well."""

    def settled(self, value: Json) -> Json:
        """A value in which everything has its value that can have one."""
        call = function_of(value)
        if call is not None:
            found = without_nulls(resolve(value, self))
            if find_unknown(found) is None:
                return found
            name, argument = call
            return {name: argument if isinstance(argument, str) else self.settled(argument)}
        if isinstance(value, dict):
            return {k: self.settled(one) for k, one in cast("dict[str, Json]", value).items()}
        if isinstance(value, list):
            return [self.settled(one) for one in cast("list[Json]", value)]
        return value


def has_call(value: Json) -> bool:
    """Whether a value has functions in it."""
    if function_of(value) is not None:
        return True
    if isinstance(value, dict):
        return any(has_call(one) for one in cast("dict[str, Json]", value).values())
    return isinstance(value, list) and any(has_call(one) for one in cast("list[Json]", value))


def plain(value: Json) -> Json:
    """A value as Heat compares it: what a property's type makes of 1 and "1" is the same."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in cast("dict[str, Json]", value).items()}
    if isinstance(value, list):
        return [plain(one) for one in cast("list[Json]", value)]
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)
