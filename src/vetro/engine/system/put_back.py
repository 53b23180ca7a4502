"""Wishes that a failed operation has left in a region's template.

After a failure the template says what was wished, and not what is there. Whoever pushes next would carry the
wishes of all: a machine that is not to be replaced any more would be replaced for its former wish. So what
the template had before is kept in the model. Where the wish would still replace what is there, and the former
values would not, the next session begins with the former ones. Who still has the wish asks for it again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import cast

from vetro.engine.system.leaving import region_of
from vetro.engine.system.template_spelling import is_cfn, section
from vetro.json_values import Json
from vetro.muranopl import CallContext
from vetro.stacks import Loss

UNWISHED = frozenset({"user_data"})
"""What is written once: a change of it replaces nothing, and it may hold secrets."""


class Former:
    """The former values of what was wished of one stack's resources."""

    def __init__(self, stack: str) -> None:
        self._attribute = f"former {stack}"
        self._template: dict[str, Json] | None = None
        """As it was before what is pushed now; ``None`` when it is unknown."""

    def values(self, ctx: CallContext) -> dict[str, Json]:
        """The properties that the failed operations were to change, by resource; empty without any."""
        owner = region_of(ctx)
        return {} if owner is None else ctx.get_attribute(self._attribute, {}, of=owner)

    def begin(self, template: dict[str, Json]) -> None:
        """A session begins with this template, in which a wish that was not fulfilled has been put back."""
        self._template = template

    def pushed(self, ctx: CallContext, template: dict[str, Json], *, well: bool) -> None:
        """The back end was given a template: keep in the model what a failure has left."""
        if well:
            self._template = template
        owner = region_of(ctx)
        if owner is not None:
            changed = {} if well else _changed(self._template or {}, template)
            if changed != self.values(ctx):
                ctx.set_attribute(self._attribute, changed or None, of=owner)


async def put_back(
    template: dict[str, Json],
    values: Mapping[str, Json],
    would_lose: Callable[[dict[str, Json]], Awaitable[Collection[Loss]]],
) -> list[str]:
    """The resources of an unsettled template whose wish was not fulfilled: they have their former values.

    ``would_lose``: what an update to a template would lose.
    """
    if not values or is_cfn(template):
        return []
    wished = {one.resource for one in await would_lose(template)} & values.keys()
    if not wished:
        return []
    return sorted(
        wished - {x.resource for x in await would_lose(with_former(template, values, wished))}
    )


def with_former(
    template: dict[str, Json], values: Mapping[str, Json], names: Collection[str]
) -> dict[str, Json]:
    """A template in which some resources have their former values."""
    bodies = dict(section(template, "resources"))
    for name in bodies.keys() & names:
        if isinstance(bodies[name], dict):
            given = {**_properties(bodies[name]), **cast("dict[str, Json]", values[name])}
            kept = {key: value for key, value in given.items() if value is not None}
            bodies[name] = {**cast("dict[str, Json]", bodies[name]), "properties": kept}
    return {**template, "resources": bodies} if names else template


def _changed(before: dict[str, Json], after: dict[str, Json]) -> dict[str, Json]:
    """The former values of properties that differ, by resource; ``None``: it was not given."""
    former = section(before, "resources")
    found: dict[str, Json] = {}
    for name, body in section(after, "resources").items():
        old, new = _properties(former.get(name)), _properties(body)
        differ = {
            key: old.get(key)
            for key in old.keys() | new.keys()
            if key not in UNWISHED and old.get(key) != new.get(key)
        }
        if name in former and differ:
            found[name] = dict(sorted(differ.items()))
    return found


def _properties(body: Json) -> dict[str, Json]:
    given = cast("dict[str, Json]", body).get("properties") if isinstance(body, dict) else None
    return cast("dict[str, Json]", given) if isinstance(given, dict) else {}
