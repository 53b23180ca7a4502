"""Values: random strings, and values that are computed once. They live in the stack's rows only."""

from __future__ import annotations

import secrets
import string
from collections.abc import Mapping

from vetro.digits import is_number
from vetro.stacks.errors import InvalidProperty, ResourceFailure
from vetro.stacks.resources.base import (
    Json,
    Property,
    ResourceContext,
    Shown,
    StackOnly,
    entries,
    items,
    text,
)
from vetro.stacks.template.functions import function_of

_LONGEST = 512
_CLASSES = {
    "lettersdigits": string.ascii_letters + string.digits,
    "letters": string.ascii_letters,
    "lowercase": string.ascii_lowercase,
    "uppercase": string.ascii_uppercase,
    "digits": string.digits,
    "hexdigits": string.digits + "ABCDEF",
    "octdigits": string.octdigits,
}


class RandomString(StackOnly):
    """`OS::Heat::RandomString`: made once; another length or other characters make another one."""

    name = "OS::Heat::RandomString"
    properties = {
        "length": Property("integer"),
        "sequence": Property(allowed=tuple(_CLASSES)),
        "character_classes": Property("list"),
        "character_sequences": Property("list"),
        "salt": Property(),
    }
    attributes = frozenset({"value"})

    def check(self, resource: str, properties: Mapping[str, Json]) -> None:
        super().check(resource, properties)
        length = properties.get("length")
        if length is None or function_of(length) is not None or not is_number(str(length)):
            return
        if not 1 <= int(length) <= _LONGEST:
            raise InvalidProperty(
                f"the property 'length' is from 1 to {_LONGEST}, not {length}", resource=resource
            )

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        if "value" not in context.data:
            await context.save({"value": _random(properties)})

    async def shown(self, context: ResourceContext, properties: Mapping[str, Json]) -> Shown:
        value = context.data.get("value")
        return {"value": value}


def _random(properties: Mapping[str, Json]) -> str:
    """A string with at least as many characters of each kind as it asks for."""
    length = int(text(properties.get("length"), "32"))
    kinds: list[tuple[str, int]] = []
    for one in items(properties.get("character_classes")):
        given = entries(one)
        wanted = text(given.get("class"), "lettersdigits")
        if wanted not in _CLASSES:
            raise ResourceFailure(
                f"There is no class of characters {wanted!r}; there are: {', '.join(_CLASSES)}"
            )
        kinds.append((_CLASSES[wanted], int(text(given.get("min"), "1"))))
    for one in items(properties.get("character_sequences")):
        given = entries(one)
        kinds.append((text(given.get("sequence")), int(text(given.get("min"), "1"))))
    kinds = kinds or [(_CLASSES[text(properties.get("sequence"), "lettersdigits")], 1)]
    if any(not characters for characters, _ in kinds):
        raise ResourceFailure("A sequence of characters of the random string is empty")
    least = sum(number for _, number in kinds)
    if least > length:
        raise ResourceFailure(f"The string of {length} cannot have the {least} characters it needs")
    chosen = [secrets.choice(characters) for characters, number in kinds for _ in range(number)]
    everything = "".join(characters for characters, _ in kinds)
    chosen += [secrets.choice(everything) for _ in range(length - len(chosen))]
    secrets.SystemRandom().shuffle(chosen)
    return "".join(chosen)


class Value(StackOnly):
    """`OS::Heat::Value`: a value under a name of its own."""

    name = "OS::Heat::Value"
    properties = {
        "type": Property(
            update=True,
            allowed=("string", "number", "comma_delimited_list", "json", "boolean"),
        ),
        "value": Property("any", update=True),
    }
    required = (("value",),)
    attributes = frozenset({"value"})

    async def create(self, context: ResourceContext, properties: Mapping[str, Json]) -> None:
        await context.save({})

    async def shown(self, context: ResourceContext, properties: Mapping[str, Json]) -> Shown:
        value = properties.get("value")
        return {"value": value}
